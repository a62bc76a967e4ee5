// `current_time`: the clock of the gateway in a time zone.
import { ToolFailure, type ToolHandler } from './handler.ts'

const formatOf = (timeZone: string): Intl.DateTimeFormat => {
  try {
    return new Intl.DateTimeFormat('en-GB', {
      timeZone,
      calendar: 'iso8601',
      numberingSystem: 'latn',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      hourCycle: 'h23',
      weekday: 'long',
      timeZoneName: 'longOffset',
    })
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new ToolFailure(
      'bad_arguments',
      `no time zone is called ${JSON.stringify(timeZone)}: give a name such as "Europe/Berlin", or leave it out for UTC`,
    )
  }
}

/** `{"utc", "local", "timezone", "weekday", "unix_seconds"}`; `local` is RFC 3339 with the offset of the zone. */
export const currentTime: ToolHandler = ({ timezone = 'UTC' }, { nowMs }) => {
  const now = new Date(Math.floor(nowMs() / 1_000) * 1_000)
  const parts = new Map(
    formatOf(timezone as string)
      .formatToParts(now)
      .map(({ type, value }) => [type, value]),
  )
  const offset = parts.get('timeZoneName')!.slice('GMT'.length)
  const day = `${parts.get('year')}-${parts.get('month')}-${parts.get('day')}`
  const time = `${parts.get('hour')}:${parts.get('minute')}:${parts.get('second')}`
  return JSON.stringify({
    utc: `${now.toISOString().slice(0, -'.000Z'.length)}Z`,
    local: `${day}T${time}${offset === '' || offset === '+00:00' ? 'Z' : offset}`,
    timezone,
    weekday: parts.get('weekday'),
    unix_seconds: now.getTime() / 1_000,
  })
}
