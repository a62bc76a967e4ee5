// The wait that an upstream requests, from any of the headers that carry it.

/** A year. A longer wait is of no use to a client. */
const MOST_S = 31_536_000
const UNIT_S: Readonly<Record<string, number>> = { h: 3_600, m: 60, s: 1, ms: 0.001, us: 0.000_001, ns: 0.000_000_001 }

/** Go's durations: `6m0s`, `120ms`, `1h2m`. Null for anything else. */
const goDurationS = (text: string): number | null => {
  if (!/^(?:\d+(?:\.\d+)?(?:h|ms|m|us|ns|s))+$/.test(text)) return null
  let sum = 0
  for (const [, value, unit] of text.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|us|ns|s)/g)) sum += Number(value) * UNIT_S[unit!]!
  return sum
}

const resetS = (text: string, nowMs: number): number | null => {
  if (/^\d+(?:\.\d+)?$/.test(text)) {
    const value = Number(text)
    // A time rather than a duration: Unix milliseconds or seconds.
    if (value > 1e12) return (value - nowMs) / 1_000
    return value > 1e9 ? value - nowMs / 1_000 : value
  }
  if (/^\d{4}-\d\d-\d\dT/.test(text)) return (Date.parse(text) - nowMs) / 1_000
  return goDurationS(text)
}

// Read only without a Retry-After: when the exhausted limit resets.
const LIMITS: readonly (readonly [reset: string, remaining: string])[] = [
  ['x-ratelimit-reset-requests', 'x-ratelimit-remaining-requests'],
  ['x-ratelimit-reset-tokens', 'x-ratelimit-remaining-tokens'],
  ['x-ratelimit-reset-requests-day', 'x-ratelimit-remaining-requests-day'],
  ['x-ratelimit-reset-tokens-minute', 'x-ratelimit-remaining-tokens-minute'],
  ['anthropic-ratelimit-requests-reset', 'anthropic-ratelimit-requests-remaining'],
  ['anthropic-ratelimit-tokens-reset', 'anthropic-ratelimit-tokens-remaining'],
  ['anthropic-ratelimit-input-tokens-reset', 'anthropic-ratelimit-input-tokens-remaining'],
  ['anthropic-ratelimit-output-tokens-reset', 'anthropic-ratelimit-output-tokens-remaining'],
  ['x-ratelimit-reset', 'x-ratelimit-remaining'],
]

const usable = (seconds: number | null): number | undefined =>
  seconds === null || !Number.isFinite(seconds) || seconds < 0 ? undefined : Math.min(MOST_S, Math.ceil(seconds))

/**
 * Whole seconds as the upstream sent them, at most a year (the cool-down of a candidate has its own bound); undefined
 * without a usable value. Dates count from the upstream's own `Date`, else from `createdS`.
 */
export const retryAfterS = (headers: Headers, createdS: number | undefined): number | undefined => {
  const ms = headers.get('retry-after-ms')
  if (ms !== null && /^\d+(?:\.\d+)?$/.test(ms)) return usable(Number(ms) / 1_000)
  const date = Date.parse(headers.get('date') ?? '')
  const nowMs = Number.isNaN(date) ? (createdS === undefined ? null : createdS * 1_000) : date
  const header = headers.get('retry-after')?.trim()
  if (header !== undefined && /^\d+(?:\.\d+)?$/.test(header)) return usable(Number(header))
  // Only an HTTP-date begins with a weekday; `Date.parse` alone would take "-1" for a year.
  if (header !== undefined && nowMs !== null && /^[A-Za-z]{3,9},? /.test(header))
    return usable((Date.parse(header) - nowMs) / 1_000)
  let longest: number | undefined
  for (const [reset, remaining] of LIMITS) {
    const text = headers.get(reset)
    if (text === null || nowMs === null || (headers.get(remaining) ?? '0') !== '0') continue
    const seconds = usable(resetS(text, nowMs))
    if (seconds !== undefined && seconds > (longest ?? -1)) longest = seconds
  }
  return longest
}
