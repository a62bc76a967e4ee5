// Which numbers a provider's usage consists of: the numbers of the next usage of that shape fill the same gaps
// (`outcome-text.ts`).
import { type GapValue, gap } from '../../lib/text/text-template.ts'
import { isObject } from '../../wire/json.ts'
import { rawUsageJson } from './raw-usage.ts'

export interface UsageShape {
  /** Names in their order. The members of an object stand between `OPEN` and `CLOSE`, which no name equals. */
  readonly names: readonly Name[]
  /** For each of `names` how many numbers come before it. */
  readonly places: readonly number[]
  /** How many numbers there are. */
  readonly numbers: number
}

type Name = string | typeof OPEN | typeof CLOSE
const OPEN = 1
const CLOSE = 0

/** Null: records do not hold all of this usage, or it consists of more than numbers. */
export const usageShape = (raw: unknown): UsageShape | null => {
  if (!isObject(raw) || rawUsageJson(raw) !== JSON.stringify(raw)) return null
  const shape: GrowingShape = { names: [], places: [], numbers: 0 }
  return addShape(raw, shape) ? shape : null
}

interface GrowingShape extends UsageShape {
  readonly names: Name[]
  readonly places: number[]
  numbers: number
}

const addName = ({ names, places, numbers }: GrowingShape, name: Name): void => {
  names.push(name)
  places.push(numbers)
}

/** False: it has something else than numbers. */
const addShape = (raw: Record<string, unknown>, shape: GrowingShape): boolean => {
  for (const name in raw) {
    const value = raw[name]
    addName(shape, name)
    if (typeof value === 'number' || value === null) {
      shape.numbers++
      continue
    }
    if (!isObject(value)) return false
    addName(shape, OPEN)
    if (!addShape(value, shape)) return false
    addName(shape, CLOSE)
  }
  return true
}

export const isSameShape = (one: UsageShape, other: UsageShape): boolean =>
  one.names.length === other.names.length && one.names.every((name, i) => name === other.names[i])

/** Whether a usage has that shape. If so, `values` holds its numbers from index `first` on. */
export const readUsage = (shape: UsageShape, raw: unknown, values: GapValue[], first: number): boolean =>
  isObject(raw) && readWithin(shape, 0, raw, values, first) === shape.names.length

/** Returns the index of the name that comes next; -1: the usage has another shape. */
const readWithin = (
  shape: UsageShape,
  from: number,
  raw: Record<string, unknown>,
  values: GapValue[],
  first: number,
): number => {
  const { names, places } = shape
  let at = from
  for (const name in raw) {
    if (names[at] !== name) return -1
    const value = raw[name]
    if (typeof value === 'number' || value === null) {
      values[first + places[at]!] = value
      at++
      continue
    }
    if (names[at + 1] !== OPEN || !isObject(value)) return -1
    at = readWithin(shape, at + 2, value, values, first)
    if (at < 0 || names[at++] !== CLOSE) return -1
  }
  return at
}

/** A copy of the usage with gaps, numbered from `from` on, in place of its numbers. */
export const usageGaps = (raw: unknown, from: number): unknown => {
  let next = from
  const within = (value: unknown): unknown =>
    isObject(value) ? Object.fromEntries(Object.keys(value).map((name) => [name, within(value[name])])) : gap(next++)
  return within(raw)
}
