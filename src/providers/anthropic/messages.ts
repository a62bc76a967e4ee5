// Messages of the client's wire -> system blocks and messages of Anthropic's. A field without a counterpart is refused
// by name.
import { sha256Hex } from '../../lib/crypto/digest.ts'
import { isObject } from '../../wire/json.ts'
import {
  argumentsOf,
  dataUrl,
  quoted,
  refuse,
  SYSTEM_AS_USER,
  spokenContent,
  TRIMMED_END,
  USER_IN_FRONT,
} from '../shared/converting.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'
import type { Note } from '../shared/vendor-fields.ts'

type Block = Record<string, unknown>
interface Message {
  role: 'user' | 'assistant'
  content: Block[]
  /** It begins with tool results, so the next text of the user joins it. */
  results: boolean
}

/** `cache_control` is Anthropic's own and travels with the part that carries it. */
const withCache = (block: Block, source: Json): Block =>
  isObject(source.cache_control) ? { ...block, cache_control: source.cache_control } : block

const imageBlock = (part: Json, param: string): Block => {
  const url = textOf(part.image_url) ?? textOf(objectOf(part.image_url).url)
  if (url === null) throw refuse('image_url needs a url', `${param}.image_url`)
  if (/^https?:\/\//i.test(url)) return { type: 'image', source: { type: 'url', url } }
  if (!/^data:/i.test(url)) throw refuse('image_url takes an http, https or data URL', `${param}.image_url.url`)
  const { mediaType, data } = dataUrl(url, `${param}.image_url.url`)
  return {
    type: 'image',
    source: {
      type: 'base64',
      media_type: mediaType === 'image/jpg' ? 'image/jpeg' : (mediaType ?? 'text/plain'),
      data,
    },
  }
}

const fileBlock = (part: Json, param: string): Block => {
  const file = objectOf(part.file)
  const url = textOf(file.file_data)
  if (url === null) throw refuse('this provider takes files as file_data only', `${param}.file`)
  const { mediaType: named, data } = dataUrl(url, `${param}.file.file_data`)
  const mediaType = named ?? 'text/plain'
  const source =
    mediaType === 'text/plain'
      ? { type: 'text', media_type: mediaType, data: Buffer.from(data, 'base64').toString('utf8') }
      : { type: 'base64', media_type: mediaType, data }
  return { type: 'document', source, ...(typeof file.filename === 'string' ? { title: file.filename } : {}) }
}

/** Blocks of a `content`. Blank texts are left out: Anthropic refuses them. */
const blocksOf = (content: unknown, param: string, allowed: readonly string[]): Block[] => {
  if (content === null || content === undefined) return []
  if (typeof content === 'string') return isBlank(content) ? [] : [{ type: 'text', text: content }]
  if (!Array.isArray(content)) throw refuse('content must be a string or a list of parts', param)
  return content.flatMap((part: unknown, i): Block[] => {
    const at = `${param}[${i}]`
    if (!isObject(part)) throw refuse('a content part must be an object', at)
    const type = textOf(part.type)
    if (type === null || !allowed.includes(type))
      throw refuse(`this provider has no counterpart for the content part ${quoted(part.type)} here`, `${at}.type`)
    if (type === 'image_url') return [withCache(imageBlock(part, at), part)]
    if (type === 'file') return [withCache(fileBlock(part, at), part)]
    const text = textOf(type === 'refusal' ? part.refusal : part.text)
    if (text === null) throw refuse(`${type} must be a string`, `${at}.${type}`)
    return isBlank(text) ? [] : [withCache({ type: 'text', text }, part)]
  })
}

const isBlank = (text: string): boolean => text.trim() === ''

const TOOL_ID = /^[\w-]+$/

/**
 * Ids of other vendors (`functions.search:0`) are refused upstream: such an id becomes another, the same for the call
 * and its result.
 */
const toolId = (id: unknown): unknown =>
  typeof id !== 'string' || TOOL_ID.test(id) ? id : `toolu_${sha256Hex(id).slice(0, 24)}`

const toolUse = (call: unknown, param: string): Block => {
  if (!isObject(call) || !isObject(call.function)) throw refuse('this provider takes calls of functions only', param)
  const input = argumentsOf(call.function.arguments, `${param}.function.arguments`)
  return { type: 'tool_use', id: toolId(call.id), name: call.function.name, input }
}

/** Thinking that an answer carried as `reasoning_details` is sent back with its signature, which a tool loop needs. */
const thinkingOf = (message: Json): Block[] =>
  arrayOf(message.reasoning_details).flatMap((detail): Block[] => {
    const { type, thinking, signature, data } = objectOf(detail)
    if (type === 'thinking' && typeof thinking === 'string' && typeof signature === 'string')
      return [{ type, thinking, signature }]
    return type === 'redacted_thinking' && typeof data === 'string' ? [{ type, data }] : []
  })

const assistantBlocks = (message: Json, param: string): Block[] => {
  if (message.function_call !== undefined && message.function_call !== null)
    throw refuse('function_call is not supported by this provider; use tool_calls', `${param}.function_call`)
  return [
    ...thinkingOf(message),
    ...blocksOf(spokenContent(message), `${param}.content`, ['text', 'refusal']),
    ...arrayOf(message.tool_calls).map((call, i) => toolUse(call, `${param}.tool_calls[${i}]`)),
  ]
}

const toolResult = (message: Json, param: string): Block => {
  if (typeof message.tool_call_id !== 'string')
    throw refuse('a tool message needs a tool_call_id', `${param}.tool_call_id`)
  const { content } = message
  return withCache(
    {
      type: 'tool_result',
      tool_use_id: toolId(message.tool_call_id),
      content: typeof content === 'string' ? content : blocksOf(content, `${param}.content`, ['text', 'image_url']),
      ...(typeof message.is_error === 'boolean' ? { is_error: message.is_error } : {}),
    },
    message,
  )
}

interface Conversation {
  readonly system: readonly Block[]
  readonly messages: readonly { readonly role: string; readonly content: readonly Block[] }[]
}

/**
 * All system and developer messages go to the top; tool results become one user message, which the next text of the
 * user joins.
 */
export const convertMessages = (list: unknown, note: Note): Conversation => {
  const system: Block[] = []
  const messages: Message[] = []
  const user = (blocks: Block[], results: boolean) => {
    const last = messages.at(-1)
    if (last?.role === 'user' && last.results) last.content.push(...blocks)
    else if (blocks.length > 0) messages.push({ role: 'user', content: blocks, results })
  }
  arrayOf(list).forEach((message, i) => {
    const param = `messages[${i}]`
    if (!isObject(message)) throw refuse('a message must be an object', param)
    switch (message.role) {
      case 'system':
      case 'developer':
        system.push(...blocksOf(message.content, `${param}.content`, ['text']))
        break
      case 'user':
        user(blocksOf(message.content, `${param}.content`, ['text', 'image_url', 'file']), false)
        break
      case 'tool':
        user([toolResult(message, param)], true)
        break
      case 'assistant': {
        const content = assistantBlocks(message, param)
        if (content.length > 0) messages.push({ role: 'assistant', content, results: false })
        break
      }
      default:
        throw refuse(`this provider has no counterpart for the role ${quoted(message.role)}`, `${param}.role`)
    }
  })
  trimEnd(messages.at(-1), note)
  const plain = messages.map(({ role, content }) => ({ role, content }))
  if (plain[0]?.role === 'assistant') {
    note(USER_IN_FRONT)
    plain.unshift({ role: 'user', content: [{ type: 'text', text: '.' }] })
  }
  if (plain.length > 0) return { system, messages: plain }
  if (system.length === 0) throw refuse('this provider needs a message that is not blank', 'messages')
  note(SYSTEM_AS_USER)
  return { system: [], messages: [{ role: 'user', content: system }] }
}

/** White space at the end of an answer that the model continues is refused. */
const trimEnd = (last: Message | undefined, note: Note): void => {
  const block = last?.role === 'assistant' ? last.content.at(-1) : undefined
  if (block === undefined || block.type !== 'text') return
  const text = String(block.text).trimEnd()
  if (text === block.text) return
  block.text = text
  note(TRIMMED_END)
}

/**
 * The current turn of the assistant begins without a thought: a loop of tools, or an answer that the model continues.
 * Its results do not begin a turn.
 */
export const isUnsigned = ({ messages }: Conversation): boolean => {
  const isResult = ({ type }: Block) => type === 'tool_result'
  const begins = messages.findLastIndex(({ role, content }) => role === 'user' && !content.some(isResult))
  const first = messages[begins + 1]?.content[0]
  return first !== undefined && first.type !== 'thinking' && first.type !== 'redacted_thinking'
}
