// The usage of a provider as the log holds it: numbers and their names. Text that a provider echoes there does not
// reach the log.
import { isObject } from '../../wire/json.ts'

const MAX_CHARS = 4_096
const MAX_DEPTH = 3
const NAME = /^[A-Za-z0-9_.-]{1,64}$/
/** Names that matched, so that those of every answer are not matched again. Bounded; no result depends on it. */
const MATCHED = new Set<string>()
const MAX_MATCHED = 256

/**
 * Numbers, booleans and nulls under short plain names, at most 3 levels, as JSON text; `null` for any other value or
 * more than 4 KiB.
 */
export const rawUsageJson = (raw: unknown): string => {
  if (!isObject(raw)) return 'null'
  const json = isAllPlain(raw, 1) ? JSON.stringify(raw) : numbersJson(raw, 1)
  return json.length > MAX_CHARS ? 'null' : json
}

/** Nothing is left out: the runtime serialises it at once. */
const isAllPlain = (raw: Record<string, unknown>, depth: number): boolean => {
  for (const name in raw) {
    const value = raw[name]
    if (!isPlain(name)) return false
    if (typeof value === 'number' || typeof value === 'boolean' || value === null) continue
    if (depth === MAX_DEPTH || !isObject(value) || !isAllPlain(value, depth + 1)) return false
  }
  return true
}

const numbersJson = (raw: Record<string, unknown>, depth: number): string => {
  let json = '{'
  for (const name in raw) {
    const value = raw[name]
    const text = valueJson(value, depth)
    if (text === null || !isPlain(name)) continue
    json += json.length === 1 ? `"${name}":${text}` : `,"${name}":${text}`
    if (json.length > MAX_CHARS) break
  }
  return `${json}}`
}

/** Null: left out. */
const valueJson = (value: unknown, depth: number): string | null => {
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : 'null'
  if (value === null || typeof value === 'boolean') return String(value)
  return depth < MAX_DEPTH && isObject(value) ? numbersJson(value, depth + 1) : null
}

const isPlain = (name: string): boolean => {
  if (MATCHED.has(name)) return true
  if (!NAME.test(name) || name === '__proto__') return false
  if (MATCHED.size < MAX_MATCHED) MATCHED.add(name)
  return true
}
