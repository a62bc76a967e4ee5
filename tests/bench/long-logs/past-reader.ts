// What the bench of the history reads of a state of the past.
import type { ControlState } from '../../../src/domain/control.ts'

export const countRows = (state: ControlState): number => state.table('tenants').size
