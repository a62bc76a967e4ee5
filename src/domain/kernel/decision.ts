// The counting rule: a decision counts if and only if its parent is the tip and its MAC is valid. Used alike by the
// live fold, the projection worker, verify and the simulation. Everything that it depends on is frozen for ever.
import { isUtf8 } from 'node:buffer'
import { deriveKey, hmacHex, sha256Hex } from '../../lib/crypto/digest.ts'
import { Hmac256 } from '../../lib/crypto/hmac.ts'
import { isoMs } from '../../lib/time/iso-time.ts'

/** Who decided, by id only: names and addresses must stay erasable. */
export interface Actor {
  readonly type: 'key' | 'operator' | 'system'
  readonly id: string
}

/** One event inside a decision. */
export interface EventRecord {
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
}

/** Why it was decided: digest of (actor, method, route, Idempotency-Key) and one of the body. */
export interface Cause {
  readonly id: string
  readonly body: string
}

export interface Decision {
  /** Id of the decision on which this one was decided; `GENESIS` for the first. */
  readonly parent: string
  /** The writer's clock, RFC 3339 UTC with milliseconds. */
  readonly at: string
  readonly actor: Actor
  /**
   * The process that wrote it. Without it two instances that decide the same in the same millisecond would write the
   * same bytes, hence the same id, and both would take the one record for their own. It also ends the turn of that
   * process.
   */
  readonly by?: string
  readonly cause: Cause | null
  /** Format version. */
  readonly v: 1
  readonly events: readonly EventRecord[]
}

/** The key of every decision's MAC, derived from the master key. */
export const decisionMacKey = (masterKey: Uint8Array): Uint8Array => deriveKey(masterKey, 'decision-mac')

/** The parent of the first decision. */
export const GENESIS = '0'.repeat(64)

/** Frozen: changing any of these would change which records count. */
export const DECISION_LIMITS = { bytes: 65_536, depth: 32, events: 1_024 } as const

const MAC_PREFIX = ',"mac":"'
const TAIL_BYTES = MAC_PREFIX.length + 64 + 2
const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * A decision as bytes for the log, and its id. Throws a RangeError when it is beyond the limits, or would be unreadable
 * for another reason.
 */
export const writeDecision = (decision: Decision, macKey: Uint8Array): { bytes: Uint8Array; id: string } => {
  const { parent, at, actor, by, cause, v, events } = decision
  const body = JSON.stringify({ parent, at, actor, by, cause, v, events }).slice(0, -1)
  const bytes = Buffer.from(`${body}${MAC_PREFIX}${hmacHex(macKey, body)}"}`)
  if (bytes.length > DECISION_LIMITS.bytes)
    throw new RangeError(`a decision of ${bytes.length} bytes is larger than ${DECISION_LIMITS.bytes}`)
  if (events.length > DECISION_LIMITS.events)
    throw new RangeError(`a decision holds at most ${DECISION_LIMITS.events} events`)
  const error = formOrDepthErrorOf(decision, body)
  if (error !== null) throw new RangeError(`a decision that no reader would count: ${error}`)
  return { bytes, id: sha256Hex(bytes) }
}

/**
 * The verdict of the counting rule on one record at one tip. `lost`: another decision came first. If the caller never
 * saw its parent, the reader skipped a record or the log lost its tail. `unreadable`, `forged`: poison, counted and
 * shown.
 */
export type Verdict =
  | { readonly kind: 'counts' | 'lost'; readonly id: string; readonly decision: Decision }
  | { readonly kind: 'unreadable' | 'forged'; readonly id: string; readonly reason: string }

/** A record whose MAC is valid, before its parent is compared with the tip. */
export interface ReadDecision {
  readonly id: string
  readonly decision: Decision
}

/** A record whose MAC is valid, before it is parsed. `text`: the JSON of the decision, without the MAC. */
export interface AuthenticText {
  readonly id: string
  readonly text: string
}
export type Poisoned = Verdict & { readonly kind: 'unreadable' | 'forged' }

/** Applies the rule to the bytes as the log holds them. Pure and total: every byte sequence has a verdict. */
export const judge = (tip: string, bytes: Uint8Array, macKey: Uint8Array): Verdict => {
  const read = readDecision(bytes, macKey)
  if (!('decision' in read)) return read
  const { id, decision } = read
  return { kind: standingOf(tip, decision), id, decision }
}

/** The part of the rule that depends on the tip. */
export const standingOf = (tip: string, { parent }: Decision): 'counts' | 'lost' => (parent === tip ? 'counts' : 'lost')

/** The part of the rule that depends on the bytes alone. */
export const readDecision = (bytes: Uint8Array, macKey: Uint8Array): ReadDecision | Poisoned => {
  const read = readText(bytes, macKey)
  if (!('text' in read)) return read
  const { id, text } = read
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    return { kind: 'unreadable', id, reason: 'not JSON' }
  }
  const error = formOrDepthErrorOf(parsed, text)
  return error === null ? { id, decision: parsed as Decision } : { kind: 'unreadable', id, reason: error }
}

/** The part of `readDecision` that does not parse the text: another thread may run it first. */
export const readText = (bytes: Uint8Array, macKey: Uint8Array): AuthenticText | Poisoned => {
  const id = sha256Hex(bytes)
  const unreadable = (reason: string): Poisoned => ({ kind: 'unreadable', id, reason })
  if (bytes.length > DECISION_LIMITS.bytes) return unreadable('too large')
  if (bytes.length <= TAIL_BYTES) return unreadable('too short')
  const end = bytes.length - TAIL_BYTES
  const macAt = end + MAC_PREFIX.length
  if (!holds(bytes, end, MAC_PREFIX) || !holds(bytes, bytes.length - 2, '"}')) return unreadable('no MAC')
  if (!holdsHex(bytes, macAt, macsOf(macKey).of(bytes, end)))
    return { kind: 'forged', id, reason: 'the MAC is not valid' }
  try {
    return { id, text: closedText(bytes, end) }
  } catch {
    return unreadable('not JSON')
  }
}

/** Module state: a cache of one entry, since a process has one key. No verdict depends on the record before. */
let last: { readonly key: Uint8Array; readonly macs: Hmac256 } | null = null

const macsOf = (key: Uint8Array): Hmac256 => {
  if (last?.key !== key) last = { key, macs: new Hmac256(key, DECISION_LIMITS.bytes) }
  return last.macs
}

const scratch = Buffer.allocUnsafeSlow(DECISION_LIMITS.bytes)
const CLOSE = 0x7d
/**
 * The first byte of every object that `JSON.stringify` writes; a byte order mark, which the decoder removes, begins
 * with another one.
 */
const OPEN = 0x7b

/**
 * The text before `end`, where the MAC begins, with the closing brace: the same text as the decoder returns, but
 * faster. Throws when it is not UTF-8.
 */
const closedText = (bytes: Uint8Array, end: number): string => {
  // The MAC is ASCII: the whole record is UTF-8 when the text before it is.
  if (bytes[0] !== OPEN || !isUtf8(bytes)) return `${decoder.decode(bytes.subarray(0, end))}}`
  scratch.set(bytes)
  scratch[end] = CLOSE
  return scratch.toString('utf8', 0, end + 1)
}

const ID = /^[0-9a-f]{64}$/
/** Only this spelling: the further spellings of `Date.parse` differ between engines, and the rule must not. */
const TIME = /^\d{4}-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})Z$/
const MONTHS = 12
const MOST_DAYS = 31

/**
 * Whether it is a time in this spelling. `isoMs` covers nearly all. The rest is what the engine of the first releases
 * accepted, for ever: years before 1970, days up to the 31st of any month, and midnight as the end of a day.
 */
const isTime = (text: string): boolean => {
  if (!Number.isNaN(isoMs(text))) return true
  const [month, day, hour, minute, second, thousandths] = (TIME.exec(text) ?? []).slice(1).map(Number)
  if (month === undefined || day === undefined || hour === undefined) return false
  if (month < 1 || month > MONTHS || day < 1 || day > MOST_DAYS || minute! > 59 || second! > 59) return false
  return hour < 24 || (hour === 24 && minute === 0 && second === 0 && thousandths === 0)
}

/** `text`: the JSON of the value. */
const formOrDepthErrorOf = (value: unknown, text: string): string | null =>
  formErrorOf(value) ?? (mayBeDeep(text) && depthOf(value, 0) > DECISION_LIMITS.depth ? 'too deep' : null)

/** Why the form of a value is no decision, apart from its depth; null: it is one. */
export const formErrorOf = (value: unknown): string | null => {
  if (!isRecord(value)) return 'not an object'
  if (value.v !== 1) return 'unknown version'
  if (typeof value.parent !== 'string' || !ID.test(value.parent)) return 'no parent'
  if (typeof value.at !== 'string' || !isTime(value.at)) return 'no time'
  if (!isRecord(value.actor) || typeof value.actor.type !== 'string' || typeof value.actor.id !== 'string')
    return 'no actor'
  if (value.by !== undefined && typeof value.by !== 'string') return 'bad writer'
  if (
    value.cause !== null &&
    (!isRecord(value.cause) || typeof value.cause.id !== 'string' || typeof value.cause.body !== 'string')
  )
    return 'bad cause'
  if (!Array.isArray(value.events) || value.events.length === 0 || value.events.length > DECISION_LIMITS.events)
    return 'no events or too many'
  for (const event of value.events)
    if (!isRecord(event) || typeof event.type !== 'string' || !isRecord(event.data)) return 'bad event'
  return null
}

/** Whether the bytes hold this ASCII text at that place; the time taken does not depend on where they differ. */
const holds = (bytes: Uint8Array, at: number, text: string): boolean => {
  let difference = 0
  for (let index = 0; index < text.length; index++) difference |= bytes[at + index]! ^ text.charCodeAt(index)
  return difference === 0
}

const HEX_CODES = Buffer.from('0123456789abcdef')

/** Whether the bytes hold `expected` as lower-case hex digits at that place; constant in time like `holds`. */
const holdsHex = (bytes: Uint8Array, at: number, expected: Uint8Array): boolean => {
  let difference = 0
  for (let index = 0; index < expected.length; index++) {
    const byte = expected[index]!
    difference |= bytes[at + 2 * index]! ^ HEX_CODES[byte >> 4]!
    difference |= bytes[at + 2 * index + 1]! ^ HEX_CODES[byte & 15]!
  }
  return difference === 0
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === 'object' && !Array.isArray(value)

/** No value is nested deeper than its number of brackets: hardly any text has so many that it must be walked. */
export const mayBeDeep = (text: string): boolean => {
  let brackets = 0
  for (const bracket of ['{', '[']) {
    for (let at = text.indexOf(bracket); at !== -1; at = text.indexOf(bracket, at + 1)) {
      if (++brackets > DECISION_LIMITS.depth) return true
    }
  }
  return false
}

const depthOf = (value: unknown, depth: number): number => {
  if (value === null || typeof value !== 'object' || depth > DECISION_LIMITS.depth) return depth
  let deepest = depth
  for (const member of Object.values(value)) deepest = Math.max(deepest, depthOf(member, depth + 1))
  return deepest
}
