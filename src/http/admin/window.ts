// `from` and `to` of windowed reads: RFC 3339, `YYYY-MM-DD` (UTC), or a duration back from now. `to` is exclusive.

import { t } from '../../lib/schema/schema.ts'
import { durationMs } from '../../lib/time/duration.ts'
import { isDay } from '../../lib/time/iso-time.ts'
import { GatewayError } from '../../wire/errors.ts'

/** Parameters of every windowed read, as they stand in the query. */
export const Window = { from: t.Optional(t.String()), to: t.Optional(t.String()) }

export const DAY_MS = 86_400_000
/** A duration does not lead beyond what RFC 3339 can express. */
const FIRST_MS = Date.parse('0001-01-01T00:00:00Z')
/** The range of RFC 3339. */
const EARLIEST_MS = Date.parse('0000-01-01T00:00:00Z')
const LATEST_MS = Date.parse('9999-12-31T23:59:59.999Z')
const RFC_3339 = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d{1,9})?([Zz]|[+ -]\d\d:\d\d)$/
const DATE = /^\d{4}-\d\d-\d\d$/

/** Unix milliseconds of an RFC 3339 time or of a date (UTC); null for any other text. */
export const timestampMs = (text: string): number | null => {
  if (DATE.test(text)) return isDay(text) ? Date.parse(`${text}T00:00:00Z`) : null
  const match = RFC_3339.exec(text)
  if (match === null || !isDay(match[1]!)) return null
  const [, date, time, fraction = '', zone] = match
  // A plus sign that was not percent-encoded arrives as a blank.
  const ms = Date.parse(`${date}T${time}${fraction.slice(0, 4)}${zone!.toUpperCase().replace(' ', '+')}`)
  return Number.isNaN(ms) ? null : ms
}

const withinRange = (ms: number): number => Math.min(LATEST_MS, Math.max(EARLIEST_MS, ms))

/** A time as responses show it; one beyond the years of RFC 3339 becomes their first or last moment. */
export const shownTime = (ms: number): string => new Date(withinRange(ms)).toISOString()

const momentMs = (text: string, name: 'from' | 'to', nowMs: number): number => {
  const back = durationMs(text)
  if (back !== null) return Math.max(FIRST_MS, nowMs - back)
  const ms = timestampMs(text)
  if (ms !== null) return withinRange(ms) // its zone may lead beyond
  const days = /^(\d+)d$/.exec(text)
  throw new GatewayError(
    'invalid_request',
    days === null
      ? `"${name}" must be RFC 3339 (2026-01-31T12:00:00Z), a date (2026-01-31) or a duration back from now (24h, 90m)`
      : `"${name}": durations have no day unit; write ${Number(days[1]) * 24}h`,
    { param: name },
  )
}

export interface TimeWindow {
  /** Unix milliseconds. */
  readonly fromMs: number
  /** Exclusive. */
  readonly toMs: number
}

/** The window of a query: by default up to now, and 24 h long. Throws 400 naming the parameter. */
export const windowOf = (query: { from?: string; to?: string }, nowMs: number): TimeWindow => {
  const { fromMs, toMs } = openWindowOf(query, nowMs)
  // Records of this millisecond belong to the window.
  const to = toMs ?? nowMs + 1
  requireForward(fromMs, to)
  return { fromMs: fromMs ?? to - DAY_MS, toMs: to }
}

const requireForward = (fromMs: number | null, toMs: number | null): void => {
  if (fromMs !== null && toMs !== null && fromMs > toMs)
    throw new GatewayError('invalid_request', '"from" must not be later than "to"', { param: 'from' })
}

/** The window like `windowOf`, but null where the query sets no bound. */
export const openWindowOf = (
  query: { from?: string; to?: string },
  nowMs: number,
): { readonly fromMs: number | null; readonly toMs: number | null } => {
  const fromMs = query.from === undefined ? null : momentMs(query.from, 'from', nowMs)
  const toMs = query.to === undefined ? null : momentMs(query.to, 'to', nowMs)
  requireForward(fromMs, toMs)
  return { fromMs, toMs }
}
