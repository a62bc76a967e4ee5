// Which numbers a provider's usage consists of, so that those of the next answer go where those of the last one went (`outcome-text.ts`).
import { type GapValue, gap } from '../../lib/text/text-template.ts'
import { isObject } from '../../wire/json.ts'
import { rawUsageJson } from './raw-usage.ts'

export interface UsageShape {
  /** In their order; what is within one stands between `OPEN` and `CLOSE`, which no name equals. */
  readonly names: readonly Name[]
  /** How many there are. */
  readonly numbers: number
}

type Name = string | typeof OPEN | typeof CLOSE
const OPEN = 1
const CLOSE = 0

/** Null: records do not keep all of it, or it is not of numbers alone. */
export const usageShape = (raw: unknown): UsageShape | null => {
  if (!isObject(raw) || rawUsageJson(raw) !== JSON.stringify(raw)) return null
  const names: Name[] = []
  const numbers = addShape(raw, names)
  return numbers < 0 ? null : { names, numbers }
}

/** Answers how many numbers it has; -1: it has something else. */
const addShape = (raw: Record<string, unknown>, names: Name[]): number => {
  let numbers = 0
  for (const name in raw) {
    const value = raw[name]
    names.push(name)
    if (typeof value === 'number' || value === null) {
      numbers++
      continue
    }
    if (!isObject(value)) return -1
    names.push(OPEN)
    const within = addShape(value, names)
    if (within < 0) return -1
    numbers += within
    names.push(CLOSE)
  }
  return numbers
}

export const isSameShape = (one: UsageShape, other: UsageShape): boolean =>
  one.names.length === other.names.length && one.names.every((name, i) => name === other.names[i])

/** Whether it has that shape; then its numbers are among the values from that place on. */
export const readUsage = ({ names }: UsageShape, raw: unknown, values: GapValue[], from: number): boolean => {
  if (!isObject(raw)) return false
  place = from
  return readWithin(names, 0, raw, values) === names.length
}

/** Where the next number goes. */
let place = 0

/** Answers where the names go on; -1: it has another shape. */
const readWithin = (names: readonly Name[], from: number, raw: Record<string, unknown>, values: GapValue[]): number => {
  let at = from
  for (const name in raw) {
    if (names[at++] !== name) return -1
    const value = raw[name]
    if (typeof value === 'number' || value === null) {
      values[place++] = value
      continue
    }
    if (names[at++] !== OPEN || !isObject(value)) return -1
    at = readWithin(names, at, value, values)
    if (at < 0 || names[at++] !== CLOSE) return -1
  }
  return at
}

/** The same with the gaps from that place on in place of its numbers. */
export const usageGaps = (raw: unknown, from: number): unknown => {
  let next = from
  const within = (value: unknown): unknown =>
    isObject(value) ? Object.fromEntries(Object.keys(value).map((name) => [name, within(value[name])])) : gap(next++)
  return within(raw)
}
