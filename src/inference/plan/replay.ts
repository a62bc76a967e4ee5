// The inputs of a plan from its records: with the state and the frame of that time, the same plan is made again.
import type { PlanRecord } from '../../domain/events/request.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { type HeaderIntent, PLAIN } from '../intent/headers.ts'
import { requirementOf } from '../intent/intent.ts'
import type { CandidateSource } from './candidates.ts'
import type { PlanInput } from './plan.ts'
import type { PlanIntent } from './rejections.ts'

/** From `request.admitted`, or from the settlement of a request that was planned and not admitted. */
export interface RecordedPlan {
  readonly requested_model: string | null
  readonly key_id: string | null
  readonly stream: boolean
  readonly plan: PlanRecord
}

/**
 * Inputs that the records name and do not hold: the control state at `revision`, and the frame. For a what-if, another
 * policy.
 */
export type World = Pick<PlanInput, 'policy' | 'catalogue' | 'overrides' | 'frame'>

export const recordedInput = (record: RecordedPlan, world: World): PlanInput => {
  const { plan } = record
  return {
    ...world,
    catalogue: asItWas(world.catalogue, new Set(plan.without_adapter)),
    intent: intentOf(record),
    keyId: record.key_id ?? '',
    isScopeAlias: plan.scope_alias ?? false,
    seed: plan.seed,
    turn: plan.turn ?? 0,
    sticky: plan.sticky ?? 0,
  }
}

/**
 * A registry in which the rows of these providers had no adapter, and all others had one: that follows from the
 * settings of the instance that planned, not from the control state.
 */
export const asItWas = (catalogue: CandidateSource, withoutAdapter: ReadonlySet<string>): CandidateSource => {
  const renewed = new Map<CatalogueEntry, CatalogueEntry>()
  const entryOf = (entry: CatalogueEntry): CatalogueEntry => {
    const unroutable =
      entry.unroutable === 'disabled' ? 'disabled' : withoutAdapter.has(entry.providerId) ? 'no_adapter' : null
    if (unroutable === entry.unroutable) return entry
    const cached = renewed.get(entry)
    if (cached !== undefined) return cached
    const adapted = { ...entry, unroutable } as const
    renewed.set(entry, adapted)
    return adapted
  }
  return {
    version: catalogue.version,
    resolve: (name) => catalogue.resolve(name).map(entryOf),
    all: () => catalogue.all().map(entryOf),
  }
}

export const intentOf = ({ requested_model, stream, plan }: RecordedPlan): PlanIntent => ({
  model: requested_model ?? '',
  stream,
  requirements: (plan.needs ?? []).flatMap((capability) => requirementOf(capability) ?? []),
  textBytes: plan.text_bytes,
  messageCount: plan.messages,
  promptBytes: plan.prompt_bytes,
  mediaParts: plan.media_parts ?? 0,
  maxTokens: plan.max_tokens ?? null,
  choices: plan.choices ?? 1,
  vendorFields: plan.own_words ?? null,
  headers: headersOf(plan),
})

const headersOf = (plan: PlanRecord): HeaderIntent => ({
  ...PLAIN,
  policy: plan.policy ?? null,
  maxCostUsd: plan.max_cost_usd ?? null,
  latencyTargetMs: plan.latency_target_ms ?? null,
  region: plan.region ?? null,
  sensitivity: plan.sensitivity ?? [],
  batch: plan.batch ?? false,
  noFallback: plan.no_fallback ?? false,
})
