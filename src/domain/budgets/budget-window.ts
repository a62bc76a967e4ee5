// The window of a budget that contains an instant. Windows of one budget follow each other without gap or overlap,
// whatever clocks do.
import { instantOf, localOf, offsetMs } from '../../lib/time/time-zone.ts'

export interface WindowRule {
  /** `hour`, `day`, `week`, `month`, `lifetime`, or `<n>h`: that many hours. */
  readonly window: string
  /**
   * True: windows begin with the calendar's hours, days, weeks (Monday) and months, and `<n>h` with multiples of n
   * hours since 1970 in UTC. False: the first window begins when the budget was created.
   */
  readonly calendarAligned: boolean
  readonly timezone: string
  /** When the budget was created. Unix milliseconds. */
  readonly anchorMs: number
}

export interface WindowBounds {
  readonly startMs: number
  /** Exclusive. Null: it never ends. */
  readonly endMs: number | null
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** 1970-01-05, a Monday. */
const FIRST_MONDAY_MS = 4 * DAY_MS
const HOURS = /^([1-9]\d{0,3})h$/
/** A year. */
const MOST_HOURS = 8_784

/** Whether a text names a window. */
export const isWindow = (text: string): boolean => {
  if (text === 'lifetime' || text === 'hour' || isCalendarUnit(text)) return true
  const hours = HOURS.exec(text)
  return hours !== null && Number(hours[1]) <= MOST_HOURS
}

type CalendarUnit = 'day' | 'week' | 'month'
const isCalendarUnit = (text: string): text is CalendarUnit => text === 'day' || text === 'week' || text === 'month'

/** The window that contains an instant. Pure, but for the time zone rules of this build. */
export const windowAt = (rule: WindowRule, nowMs: number): WindowBounds => {
  const { window, calendarAligned, timezone, anchorMs } = rule
  if (window === 'lifetime') return { startMs: anchorMs, endMs: null }
  if (isCalendarUnit(window)) return calendarWindow(window, rule, nowMs)
  const lengthMs = window === 'hour' ? HOUR_MS : Number(HOURS.exec(window)![1]) * HOUR_MS
  const origin = calendarAligned ? hourOrigin(window, timezone, anchorMs) : anchorMs
  const startMs = origin + Math.floor((nowMs - origin) / lengthMs) * lengthMs
  return { startMs, endMs: startMs + lengthMs }
}

/**
 * Some zones have offsets of half an hour. The offset is taken once, from when the budget was created: where a clock
 * change moves it, windows must not overlap.
 */
const hourOrigin = (window: string, timezone: string, anchorMs: number): number =>
  window === 'hour' ? -offsetMs(timezone, anchorMs) % HOUR_MS : 0

const calendarWindow = (unit: CalendarUnit, rule: WindowRule, nowMs: number): WindowBounds => {
  const { calendarAligned, timezone, anchorMs } = rule
  const origin = !calendarAligned ? localOf(timezone, anchorMs) : unit === 'week' ? FIRST_MONDAY_MS : 0
  const boundary = (count: number): number => instantOf(timezone, unitsAfter(origin, unit, count))
  let count = unitsBetween(origin, localOf(timezone, nowMs), unit)
  while (boundary(count) > nowMs) count--
  while (boundary(count + 1) <= nowMs) count++
  return { startMs: boundary(count), endMs: boundary(count + 1) }
}

/** The number of units between two local times: off by one at the most. */
const unitsBetween = (from: number, to: number, unit: CalendarUnit): number => {
  if (unit !== 'month') return Math.floor((to - from) / (unit === 'week' ? 7 * DAY_MS : DAY_MS))
  const [first, last] = [new Date(from), new Date(to)]
  return (last.getUTCFullYear() - first.getUTCFullYear()) * 12 + last.getUTCMonth() - first.getUTCMonth()
}

/**
 * The local time that is `count` units later. The 31st is the last day of shorter months, and the 31st again in the
 * next long one.
 */
const unitsAfter = (from: number, unit: CalendarUnit, count: number): number => {
  if (unit !== 'month') return from + count * (unit === 'week' ? 7 * DAY_MS : DAY_MS)
  const first = new Date(from)
  const [year, month] = [first.getUTCFullYear(), first.getUTCMonth() + count]
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate()
  const day = Math.min(first.getUTCDate(), lastDay)
  return Date.UTC(year, month, day) + (((from % DAY_MS) + DAY_MS) % DAY_MS)
}
