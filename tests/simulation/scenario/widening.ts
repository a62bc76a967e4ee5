// Runs in which budgets change while they are spent from: a separate tenant, with a key whose budget operators change.
// Drawn separately from the rest of the scenario, so that a run without it is what its seed always was (`--plain`).
import { BUDGET_DEFAULTS, type BudgetCommand, type BudgetFields } from '../../../src/domain/budgets/budget.ts'
import { QUIET_NETWORK } from '../broker.ts'
import { Random } from './random.ts'
import type { Scenario } from './scenario.ts'

/**
 * What changes of the budget. `retired`: nothing; an operator gives up an instance that holds a lease, and it comes
 * back.
 */
export type Kind = 'modes' | 'zones' | 'tokens' | 'limits' | 'remade' | 'retired'

export interface Widening {
  readonly kind: Kind
  /** A run without faults: late records have no excuse. */
  readonly calm: boolean
  readonly changeEveryMs: number
  readonly retires: Retires | null
}

export interface Retires {
  readonly machine: number
  /** It stood still, or its process was killed. */
  readonly comesBack: 'goes_on' | 'starts_again'
}

/** What a changing budget is at the moment. */
export interface Terms {
  readonly window: 'day' | 'lifetime'
  readonly limitNanoUsd: number | null
  readonly limitTokens: number | null
  readonly enforcement: 'hard' | 'soft' | 'shadow'
  readonly timezone: string
  readonly enabled: boolean
}

export const CHANGING = { tenant: 'ten_2', key: 'key_2', budget: 'bud_c1', counted: 'bud_all' } as const

const KINDS: readonly Kind[] = ['modes', 'modes', 'zones', 'tokens', 'limits', 'remade', 'retired']
/** No day ends in any of them while a run lasts, however far its clocks are off. */
export const ZONES = ['UTC', 'Asia/Tokyo', 'America/New_York', 'Asia/Kolkata'] as const
/** A decision is known and answered within the time that an instance waits for it: half a second. */
const CALM_DELAY_MS = 8
const NANO = 1_000_000_000

const FIRST: Terms = {
  ...{ window: 'lifetime', limitNanoUsd: 400_000, limitTokens: null, enforcement: 'hard', timezone: 'UTC' },
  enabled: true,
}

/** Whether its limit holds. */
export const holds = ({ enabled, enforcement }: Terms): boolean => enabled && enforcement === 'hard'

/** What it is at first. */
export const termsOf = (kind: Kind): Terms => {
  if (kind === 'modes') return { ...FIRST, enforcement: 'soft' }
  if (kind === 'tokens') return { ...FIRST, window: 'day', limitNanoUsd: null, limitTokens: 3_000 }
  return kind === 'zones' || kind === 'remade' ? { ...FIRST, window: 'day' } : FIRST
}

const fields = (terms: Terms): BudgetFields => ({
  ...BUDGET_DEFAULTS,
  limit_usd: terms.limitNanoUsd === null ? null : terms.limitNanoUsd / NANO,
  limit_tokens: terms.limitTokens,
  enforcement: terms.enforcement,
  timezone: terms.timezone,
  enabled: terms.enabled,
})

/** What makes the budget this one. */
export const changingBudget = (id: string, terms: Terms): BudgetCommand => ({
  ...{ do: 'upsert', id, tenant_id: CHANGING.tenant, scope: { type: 'key', id: CHANGING.key }, managed_by: 'api' },
  ...{ ...fields(terms), window: terms.window },
})

/** Everything that its tenant spends, counted. */
export const countedBudget = (): BudgetCommand => ({
  ...{ do: 'upsert', id: CHANGING.counted, tenant_id: CHANGING.tenant, managed_by: 'api', window: 'month' },
  scope: { type: 'tenant', id: CHANGING.tenant },
  ...{ ...fields({ ...FIRST, enforcement: 'shadow' }), window: 'month' },
})

/** Null: budgets do not change in this run. */
export const wideningOf = (seed: number, { activeMs }: Scenario): Widening | null => {
  const random = new Random(seed ^ 0x0c4a_63e5)
  if (random.chance(0.5)) return null
  const kind = random.pick(KINDS)
  const retires: Retires = {
    machine: random.int(0, 2),
    comesBack: random.pick(['goes_on', 'goes_on', 'starts_again'] as const),
  }
  return {
    ...{ kind, calm: random.chance(0.4), changeEveryMs: activeMs / (kind === 'tokens' ? 2 : random.int(2, 8)) },
    retires: kind === 'retired' ? retires : null,
  }
}

/** The scenario as it is then. */
export const widened = (scenario: Scenario, { calm, retires }: Widening): Scenario => {
  const requestEveryMs = scenario.requestEveryMs * 0.6
  if (calm) {
    const quiet = {
      network: { ...QUIET_NETWORK, delayMs: CALM_DELAY_MS },
      faults: [],
      retires: null,
      shortWrites: 0,
      syncMs: 0.5,
    }
    return { ...scenario, ...quiet, requestEveryMs }
  }
  return { ...scenario, requestEveryMs, retires: retires === null ? scenario.retires : null }
}
