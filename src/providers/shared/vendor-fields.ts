// The vendor fields of a client's request: those beside the client's wire. They are passed on as they are, and counted
// where they add to the answer; only one that would name another model, other tools or other messages than those that
// were checked is kept back (`vendor-fields-table.ts`, docs/decisions/0026).

import { editMembers, memberText } from '../../lib/json/edit.ts'
import { isLongNumber } from '../../lib/json/exact-json.ts'
import { GatewayError } from '../../wire/errors.ts'
import { isObject } from '../../wire/json.ts'
import { arrayOf, type Json, objectOf } from './read-json.ts'
import { type Counted, EXACT_KINDS, VENDOR_FIELDS, type VendorField, type Withheld } from './vendor-fields-table.ts'

/** Depth to which nested objects are examined. */
const MOST_DEPTH = 6
/** Counted numbers are clamped to it. */
const MOST = 1_000_000_000

/** The client's own fields, under these names. */
// biome-ignore format: one list
export const CLIENT_FIELDS: ReadonlySet<string> = new Set([
  'model', 'messages', 'stream', 'stream_options', 'max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'n',
  'stop', 'seed', 'tools', 'tool_choice', 'functions', 'function_call', 'parallel_tool_calls', 'response_format',
  'user', 'metadata', 'reasoning_effort', 'frequency_penalty', 'presence_penalty', 'prompt', 'system', 'tool_execution',
])
/** Other fields of OpenAI's that are not part of a prompt. */
// biome-ignore format: one list
const NO_PROMPT: ReadonlySet<string> = new Set([
  'audio', 'logit_bias', 'logprobs', 'top_logprobs', 'modalities', 'moderation', 'prediction', 'prompt_cache_key',
  'prompt_cache_options', 'prompt_cache_retention', 'safety_identifier', 'service_tier', 'store', 'verbosity',
  'web_search_options', 'top_k', 'min_p', 'repetition_penalty',
])

const INSTEAD: Readonly<Record<Withheld, string>> = {
  model: 'the gateway chooses the model',
  tools: 'use tools',
  tool_choice: 'use tool_choice',
  messages: 'use messages',
}

/** As a reader compares it that ignores case: Go's JSON also takes `ſ` for `s`. */
const folded = (name: string): string => name.toUpperCase().toLowerCase()
/** The form for look-ups: case and underscores do not count. */
export const plainName = (name: string): string => folded(name).replaceAll('_', '')

/** Containers in which clients put fields that their libraries lack; `google` occurs in the first. */
const CONTAINERS: ReadonlySet<string> = new Set(
  ['extra_body', 'additionalModelRequestFields', 'google', 'options'].map(plainName),
)
export const isContainer = (name: string): boolean => CONTAINERS.has(plainName(name))

interface Pattern {
  readonly row: VendorField
  /** As the table has it: amounts are recorded under it. */
  readonly name: string
  /** Plain; `*` matches any number of names. */
  readonly path: readonly string[]
}
type Patterns = ReadonlyMap<string, readonly Pattern[]>

const patternsOf = (rows: readonly VendorField[]): Patterns => {
  const byLast = new Map<string, Pattern[]>()
  for (const row of rows)
    for (const name of row.names) {
      const path = name.split('.').map((part) => (part === '*' ? part : plainName(part)))
      const last = path.at(-1)!
      const existing = byLast.get(last)
      if (existing === undefined) byLast.set(last, [{ row, name, path }])
      else existing.push({ row, name, path })
    }
  return byLast
}
const NO_PATTERNS: Patterns = new Map()
const COUNTED = patternsOf(
  Object.values(VENDOR_FIELDS).flatMap((rows) => rows.filter((row) => row.counts !== undefined)),
)
const WITHHELD: ReadonlyMap<string, Patterns> = new Map(
  Object.entries(VENDOR_FIELDS).map(([kind, rows]) => [
    kind,
    patternsOf(rows.filter((row) => row.withholds !== undefined)),
  ]),
)

const matches = (path: readonly string[], pattern: readonly string[]): boolean => {
  const star = pattern.indexOf('*')
  if (star === -1) return path.length === pattern.length && pattern.every((part, i) => part === path[i])
  const after = pattern.length - star - 1
  if (path.length < star + after) return false
  return (
    pattern.slice(0, star).every((part, i) => part === path[i]) &&
    pattern.slice(star + 1).every((part, i) => part === path[path.length - after + i])
  )
}

const found = (patterns: Patterns, path: readonly string[]): readonly Pattern[] =>
  patterns.get(path.at(-1)!)?.filter((pattern) => matches(path, pattern.path)) ?? []

/** Name in the table -> the largest amount that was sent under it; 0: as much as the model allows. */
export type VendorAmounts = Readonly<Record<string, number>>

/** The vendor fields of a body, before the upstream is known. */
export interface VendorFieldsOfBody {
  /** Null: no field that any kind counts. */
  readonly amounts: VendorAmounts | null
  /** UTF-8 bytes of text that a model may read. */
  readonly textBytes: number
}
const NOTHING: VendorFieldsOfBody = { amounts: null, textBytes: 0 }
const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))

/** Servers read `"4"` as 4; any other text is no number for them either. */
const amountOf = (as: Counted, value: unknown): number | null => {
  if (as === 'text') return value === null ? null : Math.min(jsonBytes(value), MOST)
  const numeric = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  if (typeof numeric !== 'number' || Number.isNaN(numeric)) return null
  if (numeric > 0) return Math.min(Math.ceil(numeric), MOST)
  return as === 'answers' || (as === 'thinking' && numeric === 0) ? null : 0
}

const larger = (one: number | undefined, other: number): number =>
  one === undefined ? other : one === 0 || other === 0 ? 0 : Math.max(one, other)

const collect = (value: Json, path: readonly string[], into: Record<string, number>): void => {
  for (const [name, member] of Object.entries(value)) {
    if (path.length === 0 && CLIENT_FIELDS.has(name)) continue
    const at = [...path, plainName(name)]
    for (const { row, name: key } of found(COUNTED, at)) {
      const amount = amountOf(row.counts!, member)
      if (amount !== null) into[key] = larger(into[key], amount)
    }
    if (at.length < MOST_DEPTH && isObject(member)) collect(member, at, into)
  }
}

/** Reads the vendor fields of a body. */
export const readVendorFields = (body: Json): VendorFieldsOfBody => {
  let textBytes = 0
  let plain = true
  for (const name in body) {
    if (CLIENT_FIELDS.has(name)) continue
    plain = false
    const value = body[name]
    const isRead = typeof value === 'string' || (typeof value === 'object' && value !== null)
    if (isRead && !NO_PROMPT.has(name)) textBytes += jsonBytes(value)
  }
  if (plain) return NOTHING
  const amounts: Record<string, number> = {}
  collect(body, [], amounts)
  return { amounts: Object.keys(amounts).length === 0 ? null : amounts, textBytes }
}

/** The bound for an upstream of a kind. 0: as much as the model allows. */
export interface VendorBound {
  /** Null: none was sent. */
  limit: number | null
  thinking: number | null
  answers: number
  textBytes: number
}

/** `isLimited`: the client set a limit in its own wire. */
export const vendorBound = (kind: string, amounts: VendorAmounts, isLimited: boolean): VendorBound => {
  const bound: VendorBound = { limit: null, thinking: null, answers: 1, textBytes: 0 }
  for (const { names, counts, yields } of VENDOR_FIELDS[kind] ?? []) {
    if (counts === undefined || (yields === true && counts === 'limit' && isLimited)) continue
    for (const name of names) {
      const amount = amounts[name]
      if (amount === undefined) continue
      if (counts === 'limit') bound.limit = larger(bound.limit ?? undefined, amount)
      else if (counts === 'thinking') bound.thinking = larger(bound.thinking ?? undefined, amount)
      else if (counts === 'answers') bound.answers = Math.max(bound.answers, amount)
      else bound.textBytes = amount
    }
  }
  return bound
}

/** Receives notes: kinds collect them in a list or in a set. */
export type Note = (text: string) => void

/**
 * The reason why this top-level field does not go to an upstream of this kind; null when it does. `fields`: the names
 * that the kind converts.
 */
export const whyWithheld = (kind: string, name: string, fields: ReadonlySet<string> = CLIENT_FIELDS): string | null => {
  if (!EXACT_KINDS.has(kind)) {
    const read = folded(name)
    if (read !== name && (fields.has(read) || CLIENT_FIELDS.has(read))) return `use ${read}`
  }
  return whyWithheldAt(kind, [plainName(name)])
}

const whyWithheldAt = (kind: string, path: readonly string[]): string | null => {
  const [pattern] = found(WITHHELD.get(kind) ?? NO_PATTERNS, path)
  return pattern === undefined ? null : INSTEAD[pattern.row.withholds!]
}

/** Fields of neither wire, as the client sent them, without those that are kept back from this kind. */
export const vendorFields = (
  kind: string,
  body: Json,
  handled: ReadonlySet<string>,
  note: Note,
): Record<string, unknown> => {
  const out: [string, unknown][] = []
  for (const [name, value] of Object.entries(body)) {
    if (handled.has(name)) continue
    const why = whyWithheld(kind, name, handled)
    if (why === null) out.push([name, withoutWithheld(kind, value, [name], note)])
    else note(`dropped ${name.slice(0, 40)}: ${why}`)
  }
  return Object.fromEntries(out)
}

/**
 * The members of such a field that is an object; empty when it was not sent. `path`: its place in the client's body.
 */
export const vendorMembers = (kind: string, value: unknown, path: string, note: Note): Record<string, unknown> => {
  if (value !== undefined && value !== null && (!isObject(value) || isLongNumber(value)))
    throw new GatewayError('invalid_request', `${path} must be an object`, { param: path })
  return { ...objectOf(withoutWithheld(kind, objectOf(value), path.split('.'), note)) }
}

/** A value without the withheld members; the same object when nothing is withheld. */
const withoutWithheld = (kind: string, value: unknown, path: readonly string[], note: Note): unknown => {
  if (path.length >= MOST_DEPTH || !isObject(value) || isLongNumber(value)) return value
  let changed = false
  const out: [string, unknown][] = []
  for (const [name, member] of Object.entries(value)) {
    const at = [...path, name]
    const why = whyWithheldAt(kind, at.map(plainName))
    const left = why === null ? withoutWithheld(kind, member, at, note) : undefined
    if (why === null) out.push([name, left])
    else note(`dropped ${shown(at)}: ${why}`)
    changed ||= left !== member
  }
  return changed ? Object.fromEntries(out) : value
}

const shown = (path: readonly string[]): string => path.map((name) => name.slice(0, 40)).join('.')

/** The JSON text of a field without what is kept back from this kind: every other byte is the client's. */
export const textWithoutWithheld = (kind: string, text: string, value: unknown, name: string, note: Note): string =>
  editedText(kind, text, value, [name], note)

const editedText = (kind: string, text: string, value: unknown, path: readonly string[], note: Note): string => {
  if (path.length >= MOST_DEPTH || !isObject(value)) return text
  const edits = new Map<string, { do: 'remove' } | { do: 'set'; json: string }>()
  for (const [name, member] of Object.entries(value)) {
    const at = [...path, name]
    const why = whyWithheldAt(kind, at.map(plainName))
    if (why !== null) {
      edits.set(name, { do: 'remove' })
      note(`dropped ${shown(at)}: ${why}`)
    } else if (isObject(member)) {
      const own = memberText(text, name)!
      const edited = editedText(kind, own, member, at, note)
      if (edited !== own) edits.set(name, { do: 'set', json: edited })
    }
  }
  return edits.size === 0 ? text : editMembers(text, edits)
}

/** Whether anything inside a field may be kept from an upstream of this kind. */
export const withholdsInside = (kind: string): boolean =>
  [...(WITHHELD.get(kind)?.values() ?? [])].some((patterns) => patterns.some(({ path }) => path.length > 1))

/** Notes that the client's own field replaces this member. */
export const noteReplaced = (own: Json, name: string, path: string, field: string, note: Note): void => {
  if (own[name] !== undefined && own[name] !== null)
    note(`dropped ${path === '' ? name : `${path}.${name}`}: ${field} wins`)
}

/**
 * The stop sequences of both wires together, each once; null without any. `own`: those in the vendor field, named
 * `name` there. Some upstreams take no blank ones.
 */
export const stopsOf = (
  stop: unknown,
  own: unknown,
  name: string,
  note: Note,
  takesBlank = true,
): readonly unknown[] | null => {
  const isTaken = (text: unknown) => typeof text !== 'string' || (takesBlank ? text : text.trim()) !== ''
  const sent = [...listOf(stop), ...arrayOf(own)]
  const taken = sent.filter(isTaken)
  if (taken.length < sent.length) note('dropped blank stop sequences')
  if (listOf(stop).some(isTaken) && arrayOf(own).length > 0) note(`merged stop into ${name}`)
  else if (listOf(stop).some(isTaken) && !name.endsWith('.stop')) note(`renamed stop to ${name}`)
  return taken.length === 0 ? null : [...new Set(taken)]
}

/** `stop` is one text or a list of them. */
const listOf = (stop: unknown): readonly unknown[] => {
  if (stop === undefined || stop === null) return []
  return Array.isArray(stop) ? stop : [stop]
}
