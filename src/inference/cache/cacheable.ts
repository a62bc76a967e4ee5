// Which requests and which answers may be cached at all. Pure.
import { repeatedKey } from '../../lib/json/repeated-key.ts'
import { isObject } from '../../wire/json.ts'

type Body = Readonly<Record<string, unknown>>

/** More choices are not worth their memory. */
const MOST_CHOICES = 8

/** Members that declare tools or let them run. */
const TOOL_FIELDS = ['tools', 'functions', 'tool_choice', 'function_call', 'parallel_tool_calls'] as const

export interface RequestFacts {
  /** The forwarded body. */
  readonly raw: string
  readonly body: Body
  readonly choices: number
  readonly usesToolExecution: boolean
  /** A field of the body refers to content that is not in it. */
  readonly refersOutside: boolean
}

const isPresent = (value: unknown): boolean => value !== undefined && value !== null

/** Why the body rules out caching; null: it does not. `maxBytes`: bound of an entry. */
export const bodyBypass = (facts: RequestFacts, maxBytes: number): 'tools' | 'not_cacheable' | null => {
  const { raw, body, choices, usesToolExecution, refersOutside } = facts
  if (usesToolExecution || TOOL_FIELDS.some((name) => isPresent(body[name]))) return 'tools'
  const messages: readonly unknown[] = Array.isArray(body.messages) ? body.messages : []
  if (messages.some(usesTools)) return 'tools'
  if (choices > MOST_CHOICES || body.store === true || refersOutside) return 'not_cacheable'
  if (raw.length > maxBytes || Buffer.byteLength(raw) > maxBytes) return 'not_cacheable'
  if (messages.some(refersByAddress)) return 'not_cacheable'
  // Providers differ in which of two equal names counts: the answer may belong to another text than the key.
  return repeatedKey(raw) === null ? null : 'not_cacheable'
}

const usesTools = (message: unknown): boolean =>
  isObject(message) &&
  (message.role === 'tool' ||
    message.role === 'function' ||
    isPresent(message.tool_calls) ||
    isPresent(message.tool_call_id) ||
    isPresent(message.function_call))

/** Content behind an address or an id may change, or belong to an account: only what is in the body is in the key. */
const refersByAddress = (message: unknown): boolean => {
  if (!isObject(message)) return false
  if (isObject(message.audio)) return true // an earlier answer, by its id
  const { content } = message
  return Array.isArray(content) && content.some((part) => !isText(part) && holdsAddress(part))
}

const isText = (part: unknown): boolean => isObject(part) && (part.type === 'text' || part.type === 'refusal')

const ADDRESS = /^\s*(?!data:)[a-z][a-z0-9+.-]*:(?:\/\/|[^\s,;]{0,512}$)/i
const REFERENCE = /(?:^|_)(?:id|ids|uri|uris)$/i

const holdsAddress = (value: unknown): boolean => {
  if (typeof value === 'string') return ADDRESS.test(value.slice(0, 1_024))
  if (Array.isArray(value)) return value.some(holdsAddress)
  if (!isObject(value)) return false
  return Object.entries(value).some(
    ([name, member]) => (REFERENCE.test(name) && isPresent(member)) || holdsAddress(member),
  )
}

/** What is known of a whole answer. */
export interface AnswerFacts {
  /** Of every choice. */
  readonly finishReasons: readonly (string | null)[]
  readonly hasToolCalls: boolean
  /** Null: no `response_format` was checked. */
  readonly isConforming: boolean | null
  /** A guardrail masked or flagged a part of it, or of its request. */
  readonly isGuarded: boolean
  /** Its entry, in bytes. */
  readonly bytes: number
  /** It has no content, reasoning or refusal. */
  readonly isEmpty: boolean
}

export const NOT_STORED = ['tools', 'finish_reason', 'structured', 'guardrail', 'empty', 'too_large'] as const
export type NotStored = (typeof NOT_STORED)[number]

/** Why a whole answer is not stored; null: it is. */
export const notStored = (answer: AnswerFacts, maxBytes: number): NotStored | null => {
  if (answer.hasToolCalls) return 'tools'
  if (answer.finishReasons.length === 0 || answer.finishReasons.some((reason) => reason !== 'stop'))
    return 'finish_reason'
  if (answer.isConforming === false) return 'structured'
  if (answer.isGuarded) return 'guardrail'
  if (answer.isEmpty) return 'empty'
  return answer.bytes > maxBytes ? 'too_large' : null
}
