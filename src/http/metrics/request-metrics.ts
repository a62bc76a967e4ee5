// Metrics of requests: counted when they end, by labels from closed sets or from the registry, never by a text of a
// client.
import type { Registry } from '@prometheus-io/client'
import type { Observed } from '../../inference/request/deps.ts'
import { distribution } from './distribution.ts'
import { type Add, labels, tally } from './tally.ts'

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
/** Further names share one label. */
const LABELLED_PROVIDERS = 200
const LABELLED_MODELS = 500
/** Labels of limits; a refusal without a limit is one for want of room. */
const LIMITS: ReadonlySet<unknown> = new Set(['rpm', 'tpm', 'max_parallel'])

/** Creates the metrics; the result counts one ended request. */
export const requestMetrics = (registers: Registry[]): ((observed: Observed) => void) => {
  const whole = wholeRequests(registers)
  const routed = routedRequests(registers)
  return (observed) => {
    whole(observed)
    routed(observed)
  }
}

/** Metrics that are not broken down by provider and model. */
const wholeRequests = (registers: Registry[]): ((observed: Observed) => void) => {
  const count = (name: string, help: string, labelNames: string[], scale?: number): Add =>
    tally(registers, name, help, labelNames, scale)
  const requests = count('gateway_requests_total', 'Chat completions that ended, by outcome, error code and mode.', [
    'outcome',
    'code',
    'mode',
  ])
  const responses = count('gateway_responses_total', 'Chat completions that ended, by HTTP status.', ['status'])
  const latency = distribution(registers, {
    name: 'gateway_request_duration_seconds',
    help: 'From arrival to the outcome.',
    label: 'mode',
    buckets: SECONDS,
  })
  const firstToken = distribution(registers, {
    name: 'gateway_first_token_seconds',
    help: 'From arrival to the first content of a stream.',
    buckets: SECONDS,
  })
  const tokens = count('gateway_tokens_total', 'Tokens, measured or estimated.', ['direction'])
  const cost = count('gateway_cost_usd_total', 'Cost booked, in USD.', ['basis'], 1e-9)
  const denied = count(
    'gateway_limits_denied_total',
    'Requests refused for a rate limit (`rpm`, `tpm`, `max_parallel`), or because the gateway was full (`overload`).',
    ['limit'],
  )
  const unrecorded = count(
    'gateway_outcomes_unrecorded_total',
    'Outcomes of requests that were sent to a provider and could not be written; their clients got a failure.',
    [],
  )
  return (observed) => {
    const { outcome, code, stream, ttftMs, promptTokens, completionTokens, costNanoUsd } = observed
    const mode = stream ? 'stream' : 'json'
    requests(1, outcome, code, mode)
    responses(1, String(observed.status))
    latency(observed.latencyMs / 1_000, mode)
    if (ttftMs !== null) firstToken(ttftMs / 1_000)
    if (promptTokens > 0) tokens(promptTokens, 'prompt')
    if (completionTokens > 0) tokens(completionTokens, 'completion')
    if (costNanoUsd > 0) cost(costNanoUsd, observed.costBasis)
    if (outcome === 'denied' && code === 'rate_limited') denied(1, limitOf(observed))
    // A request that is refused before any call has nothing that is lost with its outcome.
    if (!observed.recorded && observed.attempts.some(isCall)) unrecorded(1)
  }
}

const isCall = ({ outcome }: Observed['attempts'][number]): boolean => outcome !== 'skipped'

const limitOf = ({ error }: Observed): string => {
  const limit = error?.details?.limit
  return LIMITS.has(limit) ? (limit as string) : 'overload'
}

/** Metrics by provider and model, for requests that were sent to a provider. */
const routedRequests = (registers: Registry[]): ((observed: Observed) => void) => {
  const requests = tally(registers, 'gateway_model_requests_total', 'Requests by who answered, or was called last.', [
    'provider',
    'model',
    'outcome',
  ])
  const tokens = tally(registers, 'gateway_model_tokens_total', 'Tokens by who answered, or was called last.', [
    'provider',
    'model',
    'direction',
  ])
  const cost = tally(
    registers,
    'gateway_model_cost_usd_total',
    'Cost booked by who answered, or was called last, in USD.',
    ['provider', 'model'],
    1e-9,
  )
  const failovers = tally(
    registers,
    'gateway_failovers_total',
    'Requests for which another than the first candidate was called last, by its provider.',
    ['provider'],
  )
  const attempts = tally(
    registers,
    'gateway_attempts_total',
    'Calls to providers that ended, and candidates that were passed over (`skipped`).',
    ['provider', 'outcome', 'code'],
  )
  const duration = distribution(registers, {
    name: 'gateway_attempt_duration_seconds',
    help: 'What a call to a provider took.',
    label: 'provider',
    buckets: SECONDS,
  })
  const [providerOf, modelOf] = [labels(LABELLED_PROVIDERS), labels(LABELLED_MODELS)]
  return ({ entry, attempts: made, outcome, fallbackUsed, promptTokens, completionTokens, costNanoUsd }) => {
    for (const { provider, outcome, error_code, latency_ms } of made) {
      const label = providerOf(provider)
      attempts(1, label, outcome, error_code ?? 'none')
      if (latency_ms !== null) duration(latency_ms / 1_000, label)
    }
    if (entry === null) return
    const [provider, model] = [providerOf(entry.provider), modelOf(entry.name)]
    requests(1, provider, model, outcome)
    if (promptTokens > 0) tokens(promptTokens, provider, model, 'prompt')
    if (completionTokens > 0) tokens(completionTokens, provider, model, 'completion')
    if (costNanoUsd > 0) cost(costNanoUsd, provider, model)
    if (fallbackUsed) failovers(1, provider)
  }
}
