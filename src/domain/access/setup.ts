// The latch of the first set-up: closed by the first operator, and never opened again. One row, id 'setup'.
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import { Id } from '../kernel/fields.ts'

export const SETUP_ROW = 'setup'

export const SetupCompleted = t.Object({ operator_id: Id })

/** Stays when the operator is erased: an id is no personal data. */
export interface SetupRow extends Stamps {
  readonly operator_id: string
}

const rows = changesOf<SetupRow>('setup')

export const setup: Aggregate<SetupRow, ControlReader> = {
  table: 'setup',
  indexes: {},
  events: {
    'setup.completed': eventType({
      schema: SetupCompleted,
      since: 3,
      action: 'setup',
      resource: 'setup',
      subject: () => SETUP_ROW,
    }),
  },
  evolve(state, { data }, meta) {
    const { operator_id } = data as Static<typeof SetupCompleted>
    return state.table('setup').get(SETUP_ROW) === undefined ? rows.created(SETUP_ROW, { operator_id }, meta) : []
  },
}

/** Whether an unauthenticated caller may still create the first operator. */
export const setupIsOpen = (state: ControlReader): boolean => state.table('setup').get(SETUP_ROW) === undefined
