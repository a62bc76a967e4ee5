// Station 5, before the admission: the limits of the request's key, tenant and policies, all taken at once or none.
import type { LimitRule } from '../../state/indexes/limit-rules.ts'
import { GatewayError } from '../../wire/errors.ts'
import { outputBound, promptTokensEstimate } from '../money/estimate.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Exchange } from '../request/exchange.ts'
import type { Planned } from '../request/progress.ts'
import type { Counted, Held, LimitName, LimitRequest, Verdict } from './port.ts'

/**
 * Takes the limits, or throws 429 `rate_limited`. The settlement gives them back, on every way out. Null: they are
 * taken; a promise only where Redis counts them.
 */
export const takeLimits = (
  exchange: Planned,
  rules: readonly LimitRule[],
  { limits }: Pick<InferenceDeps, 'limits'>,
): Promise<void> | null => {
  const request: LimitRequest = { id: exchange.identity.id, rules, tokens: reservedTokens(exchange) }
  const held = limits.take(request)
  if (held instanceof Promise) return takenLater(exchange, request, held)
  taken(exchange, request, held)
  return null
}

const takenLater = async (exchange: Exchange, request: LimitRequest, held: Promise<Held>): Promise<void> =>
  taken(exchange, request, await held)

const taken = (exchange: Exchange, request: LimitRequest, held: Held): void => {
  const { verdict } = held
  exchange.limitLines = limitLines(request.rules, verdict.counted)
  if (!verdict.admitted) throw refusal(request, verdict)
  exchange.held = held
}

/**
 * The estimate of the prompt, and all output that the client allows. Without such a bound output counts once it has
 * come.
 */
const reservedTokens = ({ intent, plan: { ordered } }: Planned): number => {
  const prompt = promptTokensEstimate(intent)
  if (intent.maxTokens === null) return prompt
  return prompt + Math.min(outputBound(intent, ordered[0]!), outputBound({ ...intent, maxTokens: null }, ordered[0]!))
}

const WORDS: Readonly<Record<LimitName, string>> = {
  rpm: 'requests per minute',
  tpm: 'tokens per minute',
  max_parallel: 'requests at once',
}

/** SDKs give up, instead of waiting, when they are asked to wait for more than a minute. */
const LONGEST_WAIT_S = 59

const refusal = (
  { rules, tokens }: LimitRequest,
  { rule, limit, retryAfterMs }: Verdict & { admitted: false },
): GatewayError => {
  const { scope, rpm, tpm, maxParallel } = rules[rule]!
  const value = limit === 'rpm' ? rpm : limit === 'tpm' ? tpm : maxParallel
  const details = { scope, limit, value }
  const which = `the limit of ${value} ${WORDS[limit]} of this ${scope}`
  if (retryAfterMs === null) {
    const mend = 'shorten the prompt or lower `max_tokens`'
    return new GatewayError('rate_limited', `the request may take ${tokens} tokens, above ${which}: ${mend}`, {
      retryable: false,
      details: { ...details, requested: tokens },
    })
  }
  const retryAfterS = Math.min(LONGEST_WAIT_S, Math.max(1, Math.ceil(retryAfterMs / 1_000)))
  return new GatewayError('rate_limited', `${which} is reached; try again in ${retryAfterS} s`, {
    retryAfterS,
    details,
  })
}

/**
 * The limits that leave the least room, one of requests and one of tokens, as lines of a head; empty without limits.
 */
export const limitLines = (rules: readonly LimitRule[], counted: readonly Counted[]): string =>
  linesOf('requests', 'rpm', counted, rules) + linesOf('tokens', 'tpm', counted, rules)

const linesOf = (
  what: 'requests' | 'tokens',
  limitName: 'rpm' | 'tpm',
  counted: readonly Counted[],
  rules: readonly LimitRule[],
): string => {
  const place = tightest(what, limitName, counted, rules)
  if (place < 0) return ''
  const limit = rules[place]![limitName]!
  const { [what]: used, resetMs } = counted[place]!
  const left = Math.max(0, limit - used)
  const reset = durationText(used === 0 ? 0 : resetMs)
  return (
    `x-ratelimit-limit-${what}: ${limit}\r\nx-ratelimit-remaining-${what}: ${left}\r\n` +
    `x-ratelimit-reset-${what}: ${reset}\r\n`
  )
}

/** The rule that leaves the least room; -1: none has such a limit. */
const tightest = (
  what: 'requests' | 'tokens',
  limitName: 'rpm' | 'tpm',
  counted: readonly Counted[],
  rules: readonly LimitRule[],
): number => {
  let found = -1
  let least = Number.POSITIVE_INFINITY
  for (let i = 0; i < rules.length; i++) {
    const limit = rules[i]![limitName]
    if (limit === null) continue
    const room = limit - counted[i]![what]
    if (room >= least) continue
    least = room
    found = i
  }
  return found
}

/** As OpenAI writes durations: `820ms`, `1.25s`, `1m1s`. */
export const durationText = (ms: number): string => {
  if (ms > 0 && ms < 1_000) return `${ms}ms`
  const minutes = Math.floor(ms / 60_000)
  const seconds = `${(ms - minutes * 60_000) / 1_000}s`
  return minutes === 0 ? seconds : `${minutes}m${seconds}`
}
