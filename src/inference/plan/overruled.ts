// Between two attempts: what an operator has switched off since the plan was made is not called any more. A kill acts at once.

import type { OverridesInForce, Steering } from '../../state/indexes/steering.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import type { ErrorCode } from '../../wire/errors.ts'
import { outputBound, priceOf, promptTokensEstimate } from '../money/estimate.ts'
import type { Exchange } from '../request/exchange.ts'
import { isDisabled, type Plan } from './plan.ts'
import { boundsOf, rejection, subjectsOf } from './rejections.ts'

/**
 * Those of the queue that may still be called, in order: the plan's own rules under the overrides of now. Who is dropped goes into `dropped`, to be listed
 * among the attempts as skipped when its turn would have come. Where falling back has been switched off meanwhile, only the candidate that was called last
 * is left.
 */
export const stillAllowed = (
  queue: readonly CatalogueEntry[],
  exchange: Exchange,
  plan: Plan,
  steering: Pick<Steering, 'overrides'>,
  dropped: Map<CatalogueEntry, ErrorCode>,
): readonly CatalogueEntry[] => {
  const nowMs = exchange.identity.atMs + exchange.latencyMs()
  const overrides = steering.overrides(exchange.key!.tenantId, nowMs)
  if (overrides === plan.input.overrides) return queue
  const { intent, policy, keyId, frame } = plan.input
  const bounds = boundsOf(intent, policy, overrides, keyId)
  const promptTokens = promptTokensEstimate(intent)
  const mayFallBack = fallsBack(plan, overrides)
  return queue.filter((entry) => {
    if (!mayFallBack && entry !== exchange.entry) return false
    const projected = priceOf(entry, promptTokens, outputBound(intent, entry))
    const reason = rejection(entry, projected, frame, bounds)
    if (reason === null) return true
    dropped.set(
      entry,
      reason === 'killed' ? 'provider_unavailable' : reason === 'blocked' ? 'permission_error' : 'quota_exceeded',
    )
    return false
  })
}

const fallsBack = ({ input: { intent, policy, keyId }, primary }: Plan, overrides: OverridesInForce): boolean => {
  const subjects = subjectsOf(intent, policy, keyId)
  if (primary !== null) subjects.push(`provider:${primary.providerId}`, `model:${primary.name.toLowerCase()}`)
  return !isDisabled('fallback', overrides, subjects)
}
