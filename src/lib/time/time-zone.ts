// Instants and what clocks on the wall show then. Local times are numbers too: the milliseconds that a clock would have counted since 1970 if it were in UTC.

const DAY_MS = 86_400_000
const formats = new Map<string, Intl.DateTimeFormat>()
/** There are about 600 zones; whoever writes names in every spelling does not fill the memory. */
const MOST_FORMATS = 1_024

const formatOf = (zone: string): Intl.DateTimeFormat => {
  const known = formats.get(zone)
  if (known !== undefined) return known
  const made = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    hourCycle: 'h23',
    ...{ year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' },
  })
  if (formats.size >= MOST_FORMATS) formats.clear()
  formats.set(zone, made)
  return made
}

/** Whether this is the IANA name of a time zone (`Europe/Berlin`, `UTC`). Bare offsets are none: they know no summer time. */
export const isTimeZone = (name: string): boolean => {
  if (!/^[A-Za-z]/.test(name)) return false
  try {
    formatOf(name)
    return true
  } catch {
    return false // a RangeError is how Intl says no
  }
}

/** How far the clocks of a zone are ahead of UTC at an instant. Throws RangeError for a name that is no zone. */
export const offsetMs = (zone: string, atMs: number): number => {
  if (zone === 'UTC') return 0
  const part: Record<string, number> = {}
  for (const { type, value } of formatOf(zone).formatToParts(atMs)) part[type] = Number(value)
  const shown = Date.UTC(part.year!, part.month! - 1, part.day, part.hour, part.minute, part.second)
  return shown - Math.floor(atMs / 1_000) * 1_000
}

/** What the clocks of a zone show at an instant. */
export const localOf = (zone: string, atMs: number): number => atMs + offsetMs(zone, atMs)

/** The first instant at which they show this. Of a time that they skip: the instant at which it would have been without the change. */
export const instantOf = (zone: string, localMs: number): number => {
  const earlier = localMs - offsetMs(zone, localMs - DAY_MS)
  const later = localMs - offsetMs(zone, localMs + DAY_MS)
  if (earlier === later) return earlier
  for (const candidate of [Math.min(earlier, later), Math.max(earlier, later)])
    if (localOf(zone, candidate) === localMs) return candidate
  return earlier
}
