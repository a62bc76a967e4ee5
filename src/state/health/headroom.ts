// How much of its rate limit a provider says is left, from whichever headers it says it in.

const PAIRS: readonly (readonly [remaining: string, limit: string])[] = [
  ['x-ratelimit-remaining-requests', 'x-ratelimit-limit-requests'],
  ['x-ratelimit-remaining-tokens', 'x-ratelimit-limit-tokens'],
  ['anthropic-ratelimit-requests-remaining', 'anthropic-ratelimit-requests-limit'],
  ['anthropic-ratelimit-tokens-remaining', 'anthropic-ratelimit-tokens-limit'],
  ['anthropic-ratelimit-input-tokens-remaining', 'anthropic-ratelimit-input-tokens-limit'],
  ['anthropic-ratelimit-output-tokens-remaining', 'anthropic-ratelimit-output-tokens-limit'],
  ['x-ratelimit-remaining', 'x-ratelimit-limit'],
]

const numberOf = (text: string | null): number | null =>
  text !== null && text.length < 20 && /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : null

/** The smallest share that is left of any of its limits, 0 to 1; null when the answer does not say. A remainder without its limit says something only when it is 0. */
export const headroomOf = (headers: Headers): number | null => {
  let least: number | null = null
  for (const [remainingName, limitName] of PAIRS) {
    const remaining = numberOf(headers.get(remainingName))
    if (remaining === null) continue
    const limit = numberOf(headers.get(limitName))
    const share = remaining === 0 ? 0 : limit === null || limit === 0 ? null : Math.min(1, remaining / limit)
    if (share !== null && (least === null || share < least)) least = share
  }
  return least
}
