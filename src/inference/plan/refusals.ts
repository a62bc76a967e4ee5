// The error when no candidate is left: that of the nearest one (docs/behaviour.md: "Rejected candidates").
import type { CatalogueEntry } from '../../state/port.ts'
import { type ErrorCode, GatewayError } from '../../wire/errors.ts'
import { missing, type PlanIntent, REJECTED_REASONS, type RejectedReason } from './rejections.ts'

interface Refusal {
  readonly code: ErrorCode
  readonly param: string | null
  readonly message: string
}

const REFUSALS: Readonly<Record<RejectedReason, Refusal>> = {
  disabled: { code: 'provider_unavailable', param: null, message: 'every candidate for this model is disabled' },
  no_adapter: {
    code: 'provider_unavailable',
    param: null,
    message: 'no provider of this model can be used: it has no credential or an unknown kind',
  },
  not_in_policy: {
    code: 'invalid_request',
    param: 'model',
    message: 'the policy does not allow this model or its providers',
  },
  ignored: { code: 'invalid_request', param: 'model', message: 'the policy ignores every provider of this model' },
  region: {
    code: 'invalid_request',
    param: 'X-Gateway-Region',
    message: 'no provider of this model is in an allowed region',
  },
  sensitivity: {
    code: 'invalid_request',
    param: 'X-Gateway-Sensitivity',
    message: 'no provider of this model may receive payloads of this sensitivity',
  },
  killed: {
    code: 'provider_unavailable',
    param: null,
    message: 'every provider of this model is switched off by an operator',
  },
  blocked: { code: 'permission_error', param: 'model', message: 'an operator has blocked this model, or tools on it' },
  missing_capability: { code: 'invalid_request', param: null, message: 'the model cannot do what the request asks' },
  context_too_small: {
    code: 'context_length_exceeded',
    param: 'messages',
    message: "the prompt exceeds the model's context window",
  },
  no_price: {
    code: 'quota_exceeded',
    param: 'X-Gateway-Max-Cost-USD',
    message: 'a cost cap applies and the model has no price',
  },
  cost_cap: {
    code: 'quota_exceeded',
    param: 'X-Gateway-Max-Cost-USD',
    message: 'the projected cost exceeds the cap; a lower `max_completion_tokens` lowers it',
  },
  budget: {
    code: 'quota_exceeded',
    param: null,
    message:
      'the projected cost exceeds what a budget allows for one request; a lower `max_completion_tokens` lowers it',
  },
  latency_target: {
    code: 'invalid_request',
    param: 'X-Gateway-Latency-Target-Ms',
    message: 'no provider of this model is as fast as the latency target demands',
  },
  rate_limited: { code: 'rate_limited', param: null, message: 'every provider of this model is being throttled' },
  breaker_open: {
    code: 'provider_unavailable',
    param: null,
    message: 'every provider of this model fails at the moment and is given time to recover',
  },
}

/** How near a candidate with that rejection came: higher is nearer. */
export const nearness = (reason: RejectedReason): number => REJECTED_REASONS.indexOf(reason)

/** The place of the nearest of the candidates, all rejected. */
export const nearestOf = (reasons: readonly (RejectedReason | null)[]): number => {
  let nearest = 0
  for (let i = 1; i < reasons.length; i++) if (nearness(reasons[i]!) > nearness(reasons[nearest]!)) nearest = i
  return nearest
}

/** The error for a request whose candidates were all rejected. There is at least one. */
export const noCandidateLeft = (
  candidates: readonly CatalogueEntry[],
  reasons: readonly (RejectedReason | null)[],
  intent: PlanIntent,
): GatewayError => {
  const at = nearestOf(reasons)
  const reason = reasons[at]!
  const { code, param, message } = REFUSALS[reason]
  const details = { rejected_reason: reason }
  const { name } = candidates[at]!
  // A scope, an override or an alias may lead to another name than the client's: that name is refused.
  const model = name.toLowerCase() === intent.model.toLowerCase() ? `"${name}"` : `"${name}" for "${intent.model}"`
  if (reason === 'missing_capability') {
    const { capability, param } = missing(candidates[at]!, intent)!
    const text = `the model ${model} does not have the capability "${capability}" that \`${param}\` needs`
    return new GatewayError(code, text, {
      param,
      details: { ...details, capability },
    })
  }
  // A header is named as the cause only if it was sent; else the rule is the policy's, and the client can change the
  // model.
  const { headers } = intent
  const unsent =
    (reason === 'latency_target' && headers.latencyTargetMs === null) ||
    (reason === 'region' && headers.region === null) ||
    ((reason === 'cost_cap' || reason === 'no_price') && headers.maxCostUsd === null)
  return new GatewayError(code, `${message} (model ${model})`, { param: unsent ? 'model' : param, details })
}

/** Only the primary may be called, and its health excludes it. */
export const primarySkipped = (
  { provider, name }: CatalogueEntry,
  reason: 'breaker_open' | 'rate_limited',
): GatewayError =>
  new GatewayError(
    'provider_unavailable',
    `${provider}/${name} is left out at the moment (${reason}) and this request may not fail over; ` +
      'try again later or allow fallback',
    { details: { rejected_reason: reason } },
  )

/** The name is neither a model nor an alias, nor the alias of an endpoint scope; or the forced name does not exist. */
export const unknownModel = (requested: string, name: string): GatewayError =>
  new GatewayError(
    'not_found',
    name === requested
      ? `the model "${requested}" does not exist`
      : `the model "${requested}" is replaced by "${name}", which does not exist`,
    { param: 'model' },
  )

export const regionForbidden = (): GatewayError =>
  new GatewayError('permission_error', 'the policy does not let a request choose its region', {
    param: 'X-Gateway-Region',
  })
