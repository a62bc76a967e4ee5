// Messages of the client's wire -> system instruction and contents of Gemini's. A field without a counterpart is
// refused by name.
import { isLongNumber, parseInnerExact } from '../../lib/json/exact-json.ts'
import { isObject } from '../../wire/json.ts'
import { present, quoted, refuse, SYSTEM_AS_USER, spokenContent, USER_IN_FRONT } from '../shared/converting.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'
import { isInline, type MediaContext, mediaPartOf, type Part } from './media.ts'
import type { GeminiFamily } from './models.ts'

export interface Content {
  readonly role: 'user' | 'model'
  readonly parts: Part[]
}

interface OwnContent extends Content {
  /** It holds tool results: the next text of the user is a content of its own. */
  readonly results: boolean
}

export interface ContentsContext extends MediaContext {
  readonly family: GeminiFamily
  /** Whether calls and results carry their ids; where not, they are matched by name and order. */
  readonly callIds: boolean
}

/**
 * Google's documented replacement for the signature of a call that another model made, or whose signature the client
 * lost: without one the request is refused.
 */
const NO_SIGNATURE = 'skip_thought_signature_validator'

const MEDIA = ['image_url', 'video_url', 'input_audio', 'file']
const USER_PARTS = ['text', ...MEDIA]

/** Parts of a `content`. Empty texts are left out: Gemini refuses them. */
const partsOf = (content: unknown, param: string, allowed: readonly string[], context: MediaContext): Part[] => {
  if (content === null || content === undefined) return []
  if (typeof content === 'string') return content === '' ? [] : [{ text: content }]
  if (!Array.isArray(content)) throw refuse('content must be a string or a list of parts', param)
  return content.flatMap((part: unknown, i): Part[] => {
    const at = `${param}[${i}]`
    if (!isObject(part)) throw refuse('a content part must be an object', at)
    const type = textOf(part.type)
    if (type === null || !allowed.includes(type))
      throw refuse(`this provider has no counterpart for the content part ${quoted(part.type)} here`, `${at}.type`)
    const media = mediaPartOf(part, at, context)
    if (media !== null) return [media]
    const text = textOf(type === 'refusal' ? part.refusal : part.text)
    if (text === null) throw refuse(`${type} must be a string`, `${at}.${type}`)
    return text === '' ? [] : [{ text }]
  })
}

/** Google's container for it in the OpenAI wire, on a message and on a tool call. */
const signatureOf = (holder: Json): string | null =>
  textOf(objectOf(objectOf(holder.extra_content).google).thought_signature)

/** Undefined when the text is no JSON. */
const parsedOrNot = (text: string): unknown => {
  try {
    return parseInnerExact(text)
  } catch {
    return undefined // the caller says what a text that is no JSON means to it
  }
}

const functionCall = (call: unknown, param: string, { callIds }: ContentsContext): Part => {
  if (!isObject(call) || !isObject(call.function)) throw refuse('this provider takes calls of functions only', param)
  const text = textOf(call.function.arguments) ?? ''
  const args = text.trim() === '' ? {} : parsedOrNot(text)
  if (!isObject(args) || isLongNumber(args))
    throw refuse('arguments must be the JSON text of an object', `${param}.function.arguments`)
  const { name } = call.function
  if (typeof name !== 'string') throw refuse('a call needs the name of its function', `${param}.function.name`)
  const signature = signatureOf(call)
  return {
    functionCall: { ...(callIds && typeof call.id === 'string' ? { id: call.id } : {}), name, args },
    ...(signature === null ? {} : { thoughtSignature: signature }),
  }
}

const modelParts = (message: Json, param: string, context: ContentsContext): Part[] => {
  if (present(message.function_call))
    throw refuse('function_call is not supported by this provider; use tool_calls', `${param}.function_call`)
  const texts = partsOf(spokenContent(message), `${param}.content`, ['text', 'refusal'], context)
  const calls = arrayOf(message.tool_calls).map((call, i) => functionCall(call, `${param}.tool_calls[${i}]`, context))
  const signature = signatureOf(message)
  if (signature !== null) {
    const last = texts.at(-1)
    if (last !== undefined) last.thoughtSignature = signature
    // A signature without text or call goes behind the text, in an empty part.
    else if (calls.length === 0) texts.push({ text: '', thoughtSignature: signature })
  }
  const first = calls[0]
  if (context.family.signatures && first !== undefined && calls.every((part) => part.thoughtSignature === undefined)) {
    first.thoughtSignature = NO_SIGNATURE
    context.shaping.add('added a placeholder for the missing thought_signature of tool_calls')
  }
  return [...texts, ...calls]
}

/**
 * The result of a tool, as the object that the wire requires: JSON objects as they are, anything else under `result`
 * or `error`.
 */
const resultObject = (text: string, failed: boolean): Json => {
  const value = /^\s*\{/.test(text) ? parsedOrNot(text) : undefined
  if (failed) return { error: value ?? text }
  return isObject(value) ? value : { result: text }
}

const toolParts = (
  message: Json,
  param: string,
  names: ReadonlyMap<string, string>,
  context: ContentsContext,
): Part[] => {
  const { tool_call_id: id, content } = message
  if (typeof id !== 'string') throw refuse('a tool message needs a tool_call_id', `${param}.tool_call_id`)
  const name = names.get(id) ?? textOf(message.name)
  if (name === null)
    throw refuse('no call of an earlier message has this id, and this provider needs its name', `${param}.tool_call_id`)
  const parts = partsOf(content, `${param}.content`, USER_PARTS, context)
  const text = parts.flatMap((part) => textOf(part.text) ?? []).join('\n')
  const media = parts.filter((part) => part.text === undefined)
  // Images within the result where the model accepts them there, else behind it.
  const inside = context.family.signatures ? media.filter(isInline) : []
  const beside = context.family.signatures ? media.filter((part) => !isInline(part)) : media
  const functionResponse = {
    ...(context.callIds ? { id } : {}),
    name,
    response: resultObject(text, message.is_error === true),
    ...(inside.length === 0 ? {} : { parts: inside }),
  }
  return [{ functionResponse }, ...beside]
}

// Members of a message without a counterpart.
const DROPPED = ['name', 'reasoning_content', 'reasoning', 'reasoning_details', 'annotations', 'audio', 'images']

class Conversation {
  readonly system: Part[] = []
  readonly contents: OwnContent[] = []
  readonly #names = new Map<string, string>()

  constructor(readonly context: ContentsContext) {}

  add(message: Json, param: string): void {
    const { context } = this
    for (const field of DROPPED)
      if (present(message[field]) && !(field === 'name' && message.role === 'tool'))
        context.shaping.add(`dropped messages[].${field}`)
    switch (message.role) {
      case 'system':
      case 'developer':
        this.system.push(...partsOf(message.content, `${param}.content`, ['text'], context))
        return
      case 'user':
        this.#append('user', partsOf(message.content, `${param}.content`, USER_PARTS, context), false)
        return
      case 'tool':
        this.#append('user', toolParts(message, param, this.#names, context), true)
        return
      case 'assistant':
        for (const call of arrayOf(message.tool_calls)) {
          const { id, function: called } = objectOf(call)
          const { name } = objectOf(called)
          if (typeof id === 'string' && typeof name === 'string') this.#names.set(id, name)
        }
        this.#append('model', modelParts(message, param, context), false)
        return
      default:
        throw refuse(`this provider has no counterpart for the role ${quoted(message.role)}`, `${param}.role`)
    }
  }

  /** Neighbours of one role are one content, so that all results of one message stay together. */
  #append(role: OwnContent['role'], parts: Part[], results: boolean): void {
    if (parts.length === 0) return
    const last = this.contents.at(-1)
    if (last?.role === role && last.results === results) last.parts.push(...parts)
    else this.contents.push({ role, parts, results })
  }
}

/** All system and developer messages become the system instruction. */
export const convertMessages = (
  list: unknown,
  context: ContentsContext,
): { system: readonly Part[]; contents: readonly Content[] } => {
  const conversation = new Conversation(context)
  arrayOf(list).forEach((message, i) => {
    if (!isObject(message)) throw refuse('a message must be an object', `messages[${i}]`)
    conversation.add(message, `messages[${i}]`)
  })
  const { system } = conversation
  const contents: Content[] = conversation.contents.map(({ role, parts }) => ({ role, parts }))
  const first = contents[0]
  if (first?.role === 'model') {
    context.shaping.add(USER_IN_FRONT)
    contents.unshift({ role: 'user', parts: [{ text: '.' }] })
  }
  if (system.length === 0) return { system, contents }
  if (!context.family.systemInstruction) {
    context.shaping.add('system as the first user text: the model takes no system instruction')
    if (contents[0]?.role === 'user') contents[0].parts.unshift(...system)
    else contents.unshift({ role: 'user', parts: system })
    return { system: [], contents }
  }
  if (contents.length > 0) return { system, contents }
  context.shaping.add(SYSTEM_AS_USER)
  return { system: [], contents: [{ role: 'user', parts: system }] }
}
