// One request as it is stored, with its details -> as readers use it.
import { attemptsOf, digitsOf } from '../../src/domain/events/request-reading.ts'
import type { AdmittedDetail, SettledDetail } from './fold.ts'
import type { ChosenView, RequestDetail } from './query.ts'
import { type StoredRequest, viewOf } from './rows.ts'

/** With the members that only a single request shows. */
export interface StoredDetail extends StoredRequest {
  readonly provider_id: string | null
  readonly model_id: string | null
  /** JSON texts. Null: never admitted, or not read yet. */
  readonly admitted: string | null
  readonly settled: string
}

export const detailOf = (row: StoredDetail): RequestDetail => {
  const admitted = row.admitted === null ? null : (JSON.parse(row.admitted) as AdmittedDetail)
  const settled = JSON.parse(row.settled) as SettledDetail
  return {
    ...viewOf(row),
    at_ms: row.at_ms,
    trace_id: settled.trace_id ?? digitsOf(row.id),
    task: settled.task ?? 'chat',
    finish_reason: settled.finish_reason ?? null,
    cached_prompt_tokens: settled.cached_tokens ?? null,
    cache_write_tokens: settled.cache_write_tokens ?? null,
    reasoning_tokens: settled.reasoning_tokens ?? null,
    raw_usage: settled.raw_usage ?? null,
    price_version: settled.price_version ?? null,
    shaping: settled.shaping ?? [],
    attempt_list: attemptsOf(settled.attempts, row.provider, row.routed_model),
    chosen: chosenOf(row),
    plan: admitted?.plan ?? settled.plan ?? null,
    wasAdmitted: settled.admitted === true,
    first:
      admitted === null ? null : { model_id: admitted.model_id, reserved_nano_usd: admitted.reserved_nano_usd ?? null },
    process: settled.process,
  }
}

const chosenOf = ({ provider, provider_id, routed_model, model_id }: StoredDetail): ChosenView | null =>
  provider === null || provider_id === null || routed_model === null || model_id === null
    ? null
    : { provider, provider_id, model: routed_model, model_id }
