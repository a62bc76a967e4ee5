// Between two attempts: candidates that an operator has switched off since the plan was made are not called any more.
// A kill switch acts at once.

import type { OverridesInForce, Steering } from '../../state/indexes/steering.ts'
import type { CatalogueEntry, KeyEntry } from '../../state/port.ts'
import type { ErrorCode } from '../../wire/errors.ts'
import { outputBound, promptTokensEstimate } from '../money/estimate.ts'
import { priceOf } from '../money/price.ts'
import type { Planned } from '../request/progress.ts'
import { isDisabled, type Plan } from './plan.ts'
import { boundsOf, rejection, subjectsOf } from './rejections.ts'

/**
 * The candidates of the queue that may still be called, in order, by the rules of the plan under the overrides in force
 * now. Others are added to `dropped`; they are listed as skipped when they would have been called. Where failover has
 * been switched off since, only the candidate that was called last is left.
 */
export const stillAllowed = (
  queue: readonly CatalogueEntry[],
  exchange: Planned,
  { tenantId }: Pick<KeyEntry, 'tenantId'>,
  steering: Pick<Steering, 'overrides'>,
  dropped: Map<CatalogueEntry, ErrorCode>,
): readonly CatalogueEntry[] => {
  const { plan } = exchange
  const nowMs = exchange.identity.atMs + exchange.latencyMs()
  const overrides = steering.overrides(tenantId, nowMs)
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
