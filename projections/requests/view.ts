// One request as it is stored, with its details -> as it is shown.
import { shownAttempt } from '../../src/domain/events/request.ts'
import type { SettledDetail } from './fold.ts'
import type { RecordedRequest, RequestDetail } from './query.ts'
import { type StoredRequest, usdOrNull, viewOf } from './rows.ts'
import type { AdmittedDetail } from './stored.ts'

/** With the members that only a single request shows. */
export interface StoredDetail extends StoredRequest {
  readonly provider_id: string | null
  readonly model_id: string | null
  /** JSON texts. Null: never admitted, or not read yet. */
  readonly admitted: string | null
  readonly settled: string
}

export const recordedOf = (row: StoredDetail): RecordedRequest => ({
  ...viewOf(row),
  at_ms: row.at_ms,
  chosen: chosenOf(row),
  admitted: row.admitted === null ? null : (JSON.parse(row.admitted) as AdmittedDetail),
  settled: JSON.parse(row.settled) as SettledDetail,
})

export const detailOf = (row: StoredDetail): RequestDetail => {
  const { admitted, settled, chosen, at_ms: _, ...view } = recordedOf(row)
  return {
    ...view,
    trace_id: settled.trace_id,
    task: settled.task,
    finish_reason: settled.finish_reason,
    cached_prompt_tokens: settled.cached_prompt_tokens,
    reasoning_tokens: settled.reasoning_tokens,
    raw_usage: settled.raw_usage ?? null,
    price_version: settled.price_version,
    routing: {
      revision: settled.revision,
      frame: settled.frame,
      seed: settled.seed,
      strategy: settled.strategy,
      policy_id: row.policy_id,
      chosen,
      candidates: (admitted?.candidates ?? settled.candidates ?? []).map(([providerId, modelId, reason]) => ({
        provider_id: providerId,
        model_id: modelId,
        eligible: reason === '',
        rejected_reason: reason === '' ? null : reason,
      })),
      attempts: settled.attempts.map(shownAttempt),
      prompt_tokens_estimate: admitted?.prompt_tokens_estimate ?? null,
      reserved_usd: usdOrNull(admitted?.reserved_nano_usd ?? null),
    },
  }
}

const chosenOf = ({
  provider,
  provider_id,
  routed_model,
  model_id,
}: StoredDetail): RequestDetail['routing']['chosen'] =>
  provider === null || provider_id === null || routed_model === null || model_id === null
    ? null
    : { provider, provider_id, model: routed_model, model_id }
