// What every run finds in its log: a chain, a tenant with a key, and budgets that the run will exhaust.
import {
  BUDGET_DEFAULTS,
  type BudgetCommand,
  type BudgetFields,
  decideBudget,
} from '../../../src/domain/budgets/budget.ts'
import { decideChain } from '../../../src/domain/chain.ts'
import { ControlState, EVENT_VERSION, foldDecision } from '../../../src/domain/control.ts'
import { type Decision, type EventRecord, GENESIS, writeDecision } from '../../../src/domain/kernel/decision.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { keyIssued, tenantCreated } from '../../domain/world.ts'
import { macKey } from '../../state/support.ts'
import { EPOCH_MS } from '../globals.ts'
import { CHANGING, changingBudget, countedBudget, type Kind, termsOf } from './widening.ts'

export const TENANT = 'ten_1'
export const KEY = 'key_1'
export const PARTITIONS: Readonly<Record<string, number>> = {
  [TOPICS.requests.name]: 2,
  [TOPICS.operations.name]: 1,
  [TOPICS.budgets.name]: 2,
  [TOPICS.audit.name]: 1,
}

const NANO = 1_000_000_000

/** Nano-USD. */
export const LIMITS = { tenant: 900_000, key: 400_000 } as const

const budget = (
  id: string,
  scope: { type: 'tenant' | 'key'; id: string },
  window: string,
  limitNanoUsd: number,
  more: Partial<BudgetFields> = {},
): BudgetCommand => ({
  ...BUDGET_DEFAULTS,
  ...{ do: 'upsert', id, tenant_id: TENANT, scope, window, managed_by: 'api' },
  ...{ limit_usd: limitNanoUsd / NANO, alert_thresholds: [0.5], ...more },
})

const WHOLE = { type: 'tenant', id: TENANT } as const

/** What sets the limit of a budget of this beginning. */
export const tenantBudget = (limitNanoUsd: number) => budget('bud_tenant', WHOLE, 'lifetime', limitNanoUsd)

const written = new Map<Kind | null, readonly Uint8Array[]>()

/** The decisions, as they stand in the log. `kind`: of a run in which a further budget changes. */
export const beginning = (kind: Kind | null): readonly Uint8Array[] => {
  const known = written.get(kind)
  if (known !== undefined) return known
  const state = new ControlState()
  const records: Uint8Array[] = []
  let parent = GENESIS
  const decide = (events: readonly EventRecord[]) => {
    const at = new Date(EPOCH_MS).toISOString()
    const actor = { type: 'system', id: 'beginning' } as const
    const decision: Decision = { parent, at, actor, by: 'beginning', cause: null, v: 1, events }
    const { bytes, id } = writeDecision(decision, macKey)
    foldDecision(state, decision, id, EPOCH_MS)
    records.push(bytes)
    parent = id
  }
  decide(
    decideChain(state, { do: 'start', chain_id: 'chain_simulated', partitions: PARTITIONS, version: EVENT_VERSION }),
  )
  decide([tenantCreated(TENANT, 'tenant')])
  decide([keyIssued(KEY, TENANT)])
  decide(decideBudget(state, tenantBudget(LIMITS.tenant)))
  decide(decideBudget(state, budget('bud_key', { type: 'key', id: KEY }, 'hour', LIMITS.key)))
  decide(decideBudget(state, budget('bud_soft', WHOLE, 'day', 300_000, { enforcement: 'soft' })))
  if (kind !== null) {
    decide([tenantCreated(CHANGING.tenant, 'changing')])
    decide([keyIssued(CHANGING.key, CHANGING.tenant)])
    decide(decideBudget(state, countedBudget()))
    decide(decideBudget(state, changingBudget(CHANGING.budget, termsOf(kind))))
  }
  written.set(kind, records)
  return records
}
