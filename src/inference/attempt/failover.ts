// Whose turn it is after a failure: the same candidate once more, the next one, or one for long prompts.
import type { CatalogueEntry } from '../../state/port.ts'
import type { ErrorCode, GatewayError } from '../../wire/errors.ts'
import type { Plan } from '../plan/plan.ts'
import { drawing } from '../plan/strategies.ts'
import type { Exchange } from '../request/exchange.ts'

/** A provider that asks for a longer wait is not asked again for this request. */
const PATIENCE_S = 1

export interface Route {
  /** The candidate under way, then those after it. */
  queue: readonly CatalogueEntry[]
  /** All that the queue was made of, and who of them an operator has switched off since and is not listed yet. Null: nobody was. */
  sequence: readonly CatalogueEntry[]
  dropped: Map<CatalogueEntry, ErrorCode> | null
  /** Taken instead, once, when the prompt turns out too long. */
  longContext: readonly CatalogueEntry[]
}

/** Lists those that were dropped and whose turn comes before this candidate's; null: nobody's turn comes any more. */
export const listDropped = ({ sequence, dropped }: Route, before: CatalogueEntry | null, exchange: Exchange): void => {
  if (dropped === null) return
  for (const entry of sequence) {
    if (entry === before) return
    const code = dropped.get(entry)
    if (code === undefined) continue
    dropped.delete(entry)
    exchange.skip(entry, code)
  }
}

/** Moves on to the next candidate when the failure allows it. */
export const nextCandidate = (route: Route, error: GatewayError, plan: Plan, exchange: Exchange): boolean => {
  if (error.code === 'context_length_exceeded' && route.longContext.length > 0) {
    const [failed] = route.queue
    route.queue = route.longContext.filter((entry) => entry !== failed)
    route.sequence = route.longContext
    route.dropped = null
    route.longContext = []
    return true
  }
  return plan.policy.fallbackOn.has(error.code) && goOn(route, exchange)
}

/** The turn of the candidate behind the one under way. False: there is none. */
export const goOn = (route: Route, exchange: Exchange): boolean => {
  if (route.queue.length === 1) {
    listDropped(route, null, exchange)
    return false
  }
  route.queue = route.queue.slice(1)
  return true
}

/** Where all who may be called cannot be asked this, the turn of those who were left out for their health: the last one left is always tried. False: there are none. */
export const wake = (route: Route, { ordered, order, candidates, reasons }: Plan): boolean => {
  if (route.sequence !== ordered) return false
  const asleep = order.filter((place) => reasons[place] === 'breaker_open' || reasons[place] === 'rate_limited')
  if (asleep.length === 0) return false
  route.sequence = asleep.map((place) => candidates[place]!)
  route.queue = route.sequence
  return true
}

/** A timeout is not repeated (it would double the wait), and a throttled or exhausted provider only when there is no other. */
export const worthRepeating = (error: GatewayError, hasOther: boolean): boolean => {
  if (!error.retryable || error.code === 'timeout' || (error.retryAfterS ?? 0) > PATIENCE_S) return false
  return error.code !== 'rate_limited' || !hasOther
}

/**
 * How long to wait before the same candidate is called again. What the provider asks for; else doubling, of which half is drawn from the
 * plan's seed: those that failed together do not come back together, and a replay waits as long.
 */
export const backoffMs = (error: GatewayError, retries: number, { policy, input }: Plan): number => {
  if (error.retryAfterS !== undefined) return error.retryAfterS * 1_000
  const ms = Math.min(policy.backoffMaxMs, policy.backoffInitialMs * 2 ** retries)
  return (ms / 2) * (1 + drawing(input.seed + retries)())
}

/**
 * How long one call may take until it has answered (a stream: until its first token), of the time that is left. Half of it while another
 * candidate could still be called: one that hangs must not use up the time in which the others would answer.
 */
export const shareMs = (leftMs: number, candidates: number, made: number, { policy, maxAttempts }: Plan): number => {
  const another = candidates > 1 && made < maxAttempts && policy.fallbackOn.has('timeout')
  return Math.max(1, another ? leftMs / 2 : leftMs)
}
