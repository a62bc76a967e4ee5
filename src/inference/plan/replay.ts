// The inputs of a plan from its records: with the state and the frame of that time, the same plan is made again.
import type { Candidate, Decision } from '../../domain/events/request.ts'
import type { Static } from '../../lib/schema/schema.ts'
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
  readonly seed: number
  readonly candidates: readonly Static<typeof Candidate>[]
  readonly decision: Decision
}

/**
 * Inputs that the records name and do not hold: the control state at `revision`, and the frame. For a what-if, another
 * policy.
 */
export type World = Pick<PlanInput, 'policy' | 'catalogue' | 'overrides' | 'frame'>

export const recordedInput = (record: RecordedPlan, world: World): PlanInput => {
  const { decision } = record
  return {
    ...world,
    catalogue: asItWas(world.catalogue, record.candidates),
    intent: intentOf(record),
    keyId: record.key_id ?? '',
    isScopeAlias: decision.scope_alias ?? false,
    seed: record.seed,
    turn: decision.turn ?? 0,
    sticky: decision.sticky ?? 0,
  }
}

/**
 * Which candidates had no adapter then: that follows from the settings of the instance that planned, not from the
 * control state.
 */
const asItWas = (catalogue: CandidateSource, candidates: RecordedPlan['candidates']): CandidateSource => {
  const noted = new Map(candidates.map(([, modelId, reason]) => [modelId, reason]))
  const renewed = new Map<CatalogueEntry, CatalogueEntry>()
  const entryOf = (entry: CatalogueEntry): CatalogueEntry => {
    const reason = noted.get(entry.modelId)
    const unroutable = reason === 'no_adapter' || reason === 'disabled' ? reason : null
    if (reason === undefined || unroutable === entry.unroutable) return entry
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

export const intentOf = ({ requested_model, stream, decision }: RecordedPlan): PlanIntent => ({
  model: requested_model ?? '',
  stream,
  requirements: (decision.needs ?? []).flatMap((capability) => requirementOf(capability) ?? []),
  textBytes: decision.text_bytes,
  messageCount: decision.messages,
  promptBytes: decision.prompt_bytes,
  mediaParts: decision.media_parts ?? 0,
  maxTokens: decision.max_tokens ?? null,
  choices: decision.choices ?? 1,
  vendorFields: decision.own_words ?? null,
  headers: headersOf(decision),
})

const headersOf = (decision: Decision): HeaderIntent => ({
  ...PLAIN,
  policy: decision.policy ?? null,
  maxCostUsd: decision.max_cost_usd ?? null,
  latencyTargetMs: decision.latency_target_ms ?? null,
  region: decision.region ?? null,
  sensitivity: decision.sensitivity ?? [],
  batch: decision.batch ?? false,
  noFallback: decision.no_fallback ?? false,
})
