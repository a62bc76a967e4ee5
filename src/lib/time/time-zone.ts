// Instants and the local times of zones. A local time is a number too: the milliseconds since 1970 that a clock set to
// it would have counted in UTC.

const DAY_MS = 86_400_000
const formats = new Map<string, Intl.DateTimeFormat>()
/** There are about 600 zones; the bound holds also when clients spell names in different cases. */
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

/**
 * Whether this is the IANA name of a time zone (`Europe/Berlin`, `UTC`). Bare offsets are refused: they have no summer
 * time.
 */
export const isTimeZone = (name: string): boolean => {
  if (!/^[A-Za-z]/.test(name)) return false
  try {
    formatOf(name)
    return true
  } catch {
    // Intl throws a RangeError for an unknown name.
    return false
  }
}

/** How far the local time of a zone is ahead of UTC at an instant. Throws RangeError for an unknown name. */
export const offsetMs = (zone: string, atMs: number): number => {
  if (zone === 'UTC') return 0
  const part: Record<string, number> = {}
  for (const { type, value } of formatOf(zone).formatToParts(atMs)) part[type] = Number(value)
  const shown = Date.UTC(part.year!, part.month! - 1, part.day, part.hour, part.minute, part.second)
  return shown - Math.floor(atMs / 1_000) * 1_000
}

/** The local time of a zone at an instant. */
export const localOf = (zone: string, atMs: number): number => atMs + offsetMs(zone, atMs)

/**
 * The first instant with this local time. For a local time that a change skips: the instant that it would be without
 * the change.
 */
export const instantOf = (zone: string, localMs: number): number => {
  const earlier = localMs - offsetMs(zone, localMs - DAY_MS)
  const later = localMs - offsetMs(zone, localMs + DAY_MS)
  if (earlier === later) return earlier
  for (const candidate of [Math.min(earlier, later), Math.max(earlier, later)])
    if (localOf(zone, candidate) === localMs) return candidate
  return earlier
}
