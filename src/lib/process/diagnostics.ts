// What the gateway reports about itself: one JSON line an event, or a short readable line on a terminal. This is not
// the log (`src/log/`). Callers pass ids, counts and reasons; never bodies, prompts, keys or secrets.

export type DiagnosticLevel = 'debug' | 'info' | 'warn' | 'error'
export type Fields = Readonly<Record<string, unknown>>

/** Each call is one event: a stable `snake_case` name and its fields. A level that is off costs one comparison. */
export type Diagnostics = Readonly<Record<DiagnosticLevel, (event: string, fields?: Fields) => void>>

export interface DiagnosticsDeps {
  readonly level: DiagnosticLevel
  /** True on a terminal: readable lines instead of JSON. */
  readonly readable: boolean
  readonly write: (line: string) => void
  readonly nowMs: () => number
}

const LEVELS: readonly DiagnosticLevel[] = ['debug', 'info', 'warn', 'error']
const MAX_FIELD_CHARS = 1_024
const MAX_FIELDS = 32
/** Lines of one event in one second; those beyond are counted, and the next line reports how many were suppressed. */
const MAX_REPEATS = 20
const MAX_EVENT_NAMES = 1_024

/** Removes a gateway key or a bearer value that an error text quotes. */
const scrub = (text: string): string =>
  text.replace(/gw_live_[A-Za-z0-9]+/g, 'gw_live_[redacted]').replace(/\b(Bearer|Basic) +\S+/gi, '$1 [redacted]')

const cut = (text: string): string => (text.length <= MAX_FIELD_CHARS ? text : `${text.slice(0, MAX_FIELD_CHARS)}...`)

const plain = (value: unknown): unknown => {
  if (value instanceof Error)
    return cut(
      scrub(value.cause instanceof Error ? `${value.message} (${value.cause.message})` : value.message || value.name),
    )
  if (typeof value === 'string') return cut(scrub(value))
  if (typeof value === 'bigint') return value.toString()
  if (value === null || typeof value !== 'object') return value
  return cut(scrub(JSON.stringify(value) ?? 'null'))
}

const readableLine = (at: string, level: DiagnosticLevel, event: string, fields: Record<string, unknown>): string => {
  const shown = (value: unknown) =>
    typeof value === 'string' && /[\s="]/.test(value) ? JSON.stringify(value) : String(value)
  const words = [event, ...Object.entries(fields).map(([key, value]) => `${key}=${shown(value)}`)]
  return `${at.slice(11, 23)} ${level.padEnd(5)} ${words.join(' ')}\n`
}

export const createDiagnostics = ({ level, readable, write, nowMs }: DiagnosticsDeps): Diagnostics => {
  const least = LEVELS.indexOf(level)
  const counts = new Map<string, { second: number; count: number; dropped: number }>()

  /** How many lines of this event were suppressed before this one; null when this one is suppressed too. */
  const admit = (event: string, atMs: number): number | null => {
    const second = Math.floor(atMs / 1_000)
    const entry = counts.get(event)
    if (entry === undefined) {
      if (counts.size >= MAX_EVENT_NAMES) counts.clear()
      counts.set(event, { second, count: 1, dropped: 0 })
      return 0
    }
    if (entry.second !== second) {
      const { dropped } = entry
      Object.assign(entry, { second, count: 1, dropped: 0 })
      return dropped
    }
    if (++entry.count <= MAX_REPEATS) return 0
    entry.dropped++
    return null
  }

  const emit = (name: DiagnosticLevel, event: string, fields: Fields): void => {
    const atMs = nowMs()
    const dropped = admit(event, atMs)
    if (dropped === null) return
    const entries = Object.entries(fields).slice(0, MAX_FIELDS)
    const line: Record<string, unknown> = {}
    for (const [key, value] of entries) if (value !== undefined) line[key] = plain(value)
    if (dropped > 0) line.suppressed = dropped
    const at = new Date(atMs).toISOString()
    write(readable ? readableLine(at, name, event, line) : `${JSON.stringify({ at, level: name, event, ...line })}\n`)
  }

  const off = () => {}
  const at = (name: DiagnosticLevel) =>
    LEVELS.indexOf(name) < least ? off : (event: string, fields: Fields = {}) => emit(name, event, fields)
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
