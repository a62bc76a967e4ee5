// Station 5, before the admission: the limits of the request's key, tenant and policies, all taken at once or none.
import type { LimitRule } from '../state/limit-rules.ts'
import { GatewayError } from '../wire/errors.ts'
import type { InferenceDeps } from './deps.ts'
import { outputBound, promptTokensEstimate } from './estimate.ts'
import type { Exchange } from './exchange.ts'
import type { Intent } from './intent.ts'
import type { Ask, Counted, LimitName, Verdict } from './limits.ts'
import type { Plan } from './plan.ts'

/** Takes the limits, or throws 429 `rate_limited`. What is held is given back by the settlement, on every way out. */
export const takeLimits = async (
  exchange: Exchange,
  rules: readonly LimitRule[],
  intent: Intent,
  plan: Plan,
  { limits }: Pick<InferenceDeps, 'limits'>,
): Promise<void> => {
  const ask: Ask = { id: exchange.identity.id, rules, tokens: reservedTokens(intent, plan) }
  const held = await limits.take(ask)
  const { verdict } = held
  exchange.limitHeaders = limitHeaders(rules, verdict.counted)
  if (!verdict.admitted) throw refusal(ask, verdict)
  exchange.held = held
}

/** The prompt's estimate, and all that the client allows as output; where it names no bound, output counts when it is there. */
const reservedTokens = (intent: Intent, { ordered }: Plan): number => {
  const prompt = promptTokensEstimate(intent)
  if (intent.maxTokens === null) return prompt
  return prompt + Math.min(outputBound(intent, ordered[0]!), outputBound({ ...intent, maxTokens: null }, ordered[0]!))
}

const WORDS: Readonly<Record<LimitName, string>> = {
  rpm: 'requests per minute',
  tpm: 'tokens per minute',
  max_parallel: 'requests at once',
}

const refusal = (
  { rules, tokens }: Ask,
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
  const retryAfterS = Math.max(1, Math.ceil(retryAfterMs / 1_000))
  return new GatewayError('rate_limited', `${which} is reached; try again in ${retryAfterS} s`, {
    retryAfterS,
    details,
  })
}

/** Of the limits that leave least room: one for requests, one for tokens. */
export const limitHeaders = (
  rules: readonly LimitRule[],
  counted: readonly Counted[],
): Readonly<Record<string, string>> => {
  const headers: Record<string, string> = {}
  tightest(headers, 'requests', counted, rules, ({ rpm }) => rpm)
  tightest(headers, 'tokens', counted, rules, ({ tpm }) => tpm)
  return headers
}

const tightest = (
  headers: Record<string, string>,
  what: 'requests' | 'tokens',
  counted: readonly Counted[],
  rules: readonly LimitRule[],
  limitOf: (rule: LimitRule) => number | null,
): void => {
  let least = Number.POSITIVE_INFINITY
  for (let i = 0; i < rules.length; i++) {
    const limit = limitOf(rules[i]!)
    if (limit === null) continue
    const used = counted[i]![what]
    if (limit - used >= least) continue
    least = limit - used
    headers[`x-ratelimit-limit-${what}`] = String(limit)
    headers[`x-ratelimit-remaining-${what}`] = String(Math.max(0, least))
    headers[`x-ratelimit-reset-${what}`] = durationText(used === 0 ? 0 : counted[i]!.resetMs)
  }
}

/** As OpenAI writes durations: `820ms`, `1.25s`, `1m1s`. */
export const durationText = (ms: number): string => {
  if (ms > 0 && ms < 1_000) return `${ms}ms`
  const minutes = Math.floor(ms / 60_000)
  const seconds = `${(ms - minutes * 60_000) / 1_000}s`
  return minutes === 0 ? seconds : `${minutes}m${seconds}`
}
