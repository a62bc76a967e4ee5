// What a provider reports as usage, as the log may keep it: numbers and their names. A provider that echoes text there tells the log nothing.
import { isObject } from '../wire/json.ts'

const MAX_CHARS = 4_096
const MAX_DEPTH = 3
const NAME = /^[A-Za-z0-9_.-]{1,64}$/

/** Numbers, booleans and nulls under short plain names, at most 3 levels; null when that is no object or more than 4 KiB. */
export const rawUsage = (raw: unknown): Record<string, unknown> | null => {
  if (!isObject(raw)) return null
  const kept = numbersOf(raw, 1)
  return JSON.stringify(kept).length > MAX_CHARS ? null : kept
}

const numbersOf = (raw: Record<string, unknown>, depth: number): Record<string, unknown> => {
  const kept: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(raw)) {
    if (!NAME.test(name) || name === '__proto__') continue
    if (typeof value === 'number' || typeof value === 'boolean' || value === null) kept[name] = value
    else if (depth < MAX_DEPTH && isObject(value)) kept[name] = numbersOf(value, depth + 1)
  }
  return kept
}
