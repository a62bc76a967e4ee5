// Makes recorded answers independent of when and where they were recorded: ids, digests, times, addresses and folders
// become fixed ones, equal ones stay equal, and their forms stay.
import { createHash } from 'node:crypto'

/** The moment of the first answer. */
const FIRST_MS = Date.UTC(2026, 10, 20, 13)
const UUID_START = '0199a0c4-7a10-7cc1-9d2e-'
const UUID_FIRST = 0x3f5b8a6c1d20

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g
const HEX = /(?<![0-9a-f-])(?:[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{16})(?![0-9a-f-])/g
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g
const KEY = /gw_live_[0-9A-Za-z]{43}/g
/** Intervals of usage begin at whole ones of these. */
const INTERVAL_MS = 300_000
const DAY_MS = 86_400_000
/** A list shows its first entries. */
const SHOWN = 3

export interface StableOptions {
  /** When the recording began. */
  readonly startedMs: number
  /** What is replaced as text, before everything else: addresses, folders. */
  readonly texts: readonly (readonly [found: string, shown: string])[]
}

const isObject = (value: unknown): boolean => value !== null && typeof value === 'object'

export const stableAnswers = <Value>(value: Value, { startedMs, texts }: StableOptions): Value => {
  const ids = new Map<string, string>()
  const digests = new Map<string, string>()
  const once = (known: Map<string, string>, text: string, make: (n: number) => string): string => {
    const made = known.get(text) ?? make(known.size)
    known.set(text, made)
    return made
  }
  const uuid = (n: number) => UUID_START + (UUID_FIRST + n).toString(16)
  /** Times that the recording made, not those of the examples that were sent. */
  const isMade = (atMs: number) => atMs > startedMs - 2 * DAY_MS && atMs < startedMs + 32 * DAY_MS
  const movedMs = (atMs: number): number => {
    if (!isMade(atMs)) return atMs
    const step = atMs % INTERVAL_MS === 0 ? INTERVAL_MS : 1_000
    return FIRST_MS + Math.floor((atMs - startedMs) / step) * step
  }
  const numberOf = (value: number): number => {
    if (isMade(value * 1_000)) return movedMs(value * 1_000) / 1_000
    return isMade(value) ? movedMs(value) : value
  }
  const textOf = (text: string): string => {
    let shown = text
    for (const [found, other] of texts) shown = shown.replaceAll(found, other)
    return shown
      .replace(KEY, `gw_live_${'x'.repeat(43)}`)
      .replace(UUID, (id) => once(ids, id, uuid))
      .replace(HEX, (hex) =>
        /^0+$/.test(hex)
          ? hex
          : once(digests, hex, (n) => createHash('sha256').update(`${n}`).digest('hex')).slice(0, hex.length),
      )
      .replace(TIME, (time) => (isMade(Date.parse(time)) ? new Date(movedMs(Date.parse(time))).toISOString() : time))
  }
  const stable = (node: unknown): unknown => {
    if (typeof node === 'string') return textOf(node)
    if (typeof node === 'number') return numberOf(node)
    if (Array.isArray(node)) return (node.some(isObject) ? node.slice(0, SHOWN) : node).map(stable)
    if (node === null || typeof node !== 'object') return node
    return Object.fromEntries(Object.entries(node).map(([name, member]) => [textOf(name), stable(member)]))
  }
  return stable(value) as Value
}
