// Messages of the client's wire -> system blocks and messages of Converse. A field without a counterpart is refused by
// name.
import { sha256Hex } from '../../lib/crypto/digest.ts'
import { isObject } from '../../wire/json.ts'
import {
  argumentsOf,
  present,
  quoted,
  refuse,
  SYSTEM_AS_USER,
  spokenContent,
  TRIMMED_END,
  USER_IN_FRONT,
} from '../shared/converting.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'
import type { Note } from '../shared/vendor-fields.ts'
import { audioBlock, documentBlock, imageBlock } from './media.ts'
import type { Family } from './models.ts'

export type Block = Record<string, unknown>
interface Message {
  readonly role: 'user' | 'assistant'
  readonly content: Block[]
}

export interface Conversation {
  readonly system: Block[]
  readonly messages: readonly Message[]
  /** Tools that were called: Converse refuses calls and results of undeclared tools. */
  readonly calledTools: ReadonlySet<string>
}

/** A cache marker of Anthropic's wire becomes a block of its own behind the cached one. */
export const cachePoint = (source: Json): readonly Block[] => {
  if (!isObject(source.cache_control)) return []
  const { ttl } = source.cache_control
  return [{ cachePoint: { type: 'default', ...(typeof ttl === 'string' ? { ttl } : {}) } }]
}

/** A marker on a part of a tool's result goes beside the result too: there is no place for one inside. */
const resultCachePoint = (message: Json): readonly Block[] => {
  const marked = [message, ...arrayOf(message.content).map(objectOf)].find(({ cache_control }) =>
    isObject(cache_control),
  )
  return marked === undefined ? [] : cachePoint(marked)
}

const TOOL_ID = /^[a-zA-Z0-9_.:-]{1,64}$/
const MISTRAL_TOOL_ID = /^[a-zA-Z0-9]{9}$/

/** An id in the form that the model accepts; one that it would refuse becomes another, always the same. */
const toolId = (id: unknown, mistral: boolean, param: string): string => {
  if (typeof id !== 'string' || id === '') throw refuse('the id of a tool call must be a string', param)
  if ((mistral ? MISTRAL_TOOL_ID : TOOL_ID).test(id)) return id
  return mistral ? sha256Hex(id).slice(0, 9) : `tooluse_${sha256Hex(id).slice(0, 32)}`
}

type PartType = 'text' | 'refusal' | 'image_url' | 'file' | 'input_audio'

class Converter {
  readonly system: Block[] = []
  readonly messages: Message[] = []
  readonly calledTools = new Set<string>()
  readonly #documentNames = new Set<string>()

  constructor(readonly mistral: boolean) {}

  add(message: Json, param: string): void {
    const content = `${param}.content`
    switch (message.role) {
      case 'system':
      case 'developer':
        this.system.push(...this.#blocks(message.content, content, ['text']))
        break
      case 'user':
        this.#append('user', this.#blocks(message.content, content, ['text', 'image_url', 'file', 'input_audio']))
        break
      case 'tool':
        this.#append('user', [this.#toolResult(message, param), ...resultCachePoint(message)])
        break
      case 'assistant':
        this.#append('assistant', this.#assistant(message, param))
        break
      default:
        throw refuse(`this provider has no counterpart for the role ${quoted(message.role)}`, `${param}.role`)
    }
  }

  /** Roles must alternate, and tool results must be together: a following message of the same role joins it. */
  #append(role: Message['role'], blocks: readonly Block[]): void {
    if (blocks.length === 0) return
    const last = this.messages.at(-1)
    if (last?.role === role) last.content.push(...blocks)
    else this.messages.push({ role, content: [...blocks] })
  }

  /** Blocks of a `content`. Blank texts are left out: Converse refuses them. */
  #blocks(content: unknown, param: string, allowed: readonly PartType[]): Block[] {
    if (!present(content)) return []
    if (typeof content === 'string') return content.trim() === '' ? [] : [{ text: content }]
    if (!Array.isArray(content)) throw refuse('content must be a string or a list of parts', param)
    return content.flatMap((part: unknown, i): Block[] => {
      const at = `${param}[${i}]`
      if (!isObject(part)) throw refuse('a content part must be an object', at)
      const type = allowed.find((one) => one === part.type)
      if (type === undefined)
        throw refuse(`this provider has no counterpart for the content part ${quoted(part.type)} here`, `${at}.type`)
      const block = this.#block(type, part, at)
      return block === null ? [] : [block, ...cachePoint(part)]
    })
  }

  #block(type: PartType, part: Json, at: string): Block | null {
    if (type === 'image_url') return imageBlock(part, at)
    if (type === 'file') return documentBlock(part, at, this.#documentNames)
    if (type === 'input_audio') return audioBlock(part, at)
    const text = textOf(part[type])
    if (text === null) throw refuse(`${type} must be a string`, `${at}.${type}`)
    return text.trim() === '' ? null : { text }
  }

  #assistant(message: Json, param: string): Block[] {
    if (present(message.function_call))
      throw refuse('function_call is not supported by this provider; use tool_calls', `${param}.function_call`)
    return [
      ...reasoningOf(message),
      ...this.#blocks(spokenContent(message), `${param}.content`, ['text', 'refusal']),
      ...arrayOf(message.tool_calls).map((call, i) => this.#toolUse(call, `${param}.tool_calls[${i}]`)),
    ]
  }

  #toolUse(call: unknown, param: string): Block {
    if (!isObject(call) || !isObject(call.function)) throw refuse('this provider takes calls of functions only', param)
    const { name } = call.function
    if (typeof name !== 'string') throw refuse('the name of a function must be a string', `${param}.function.name`)
    const input = argumentsOf(call.function.arguments, `${param}.function.arguments`)
    this.calledTools.add(name)
    return { toolUse: { toolUseId: toolId(call.id, this.mistral, `${param}.id`), name, input } }
  }

  #toolResult(message: Json, param: string): Block {
    const blocks = this.#blocks(message.content, `${param}.content`, ['text', 'image_url', 'file'])
    const content = blocks.filter(({ cachePoint }) => cachePoint === undefined)
    return {
      toolResult: {
        toolUseId: toolId(message.tool_call_id, this.mistral, `${param}.tool_call_id`),
        content,
        ...(typeof message.is_error === 'boolean' ? { status: message.is_error ? 'error' : 'success' } : {}),
      },
    }
  }
}

/**
 * Reasoning that an answer carried as `reasoning_details` is sent back with its signature, which a tool loop needs.
 * Converse refuses unsigned reasoning.
 */
const reasoningOf = (message: Json): Block[] =>
  arrayOf(message.reasoning_details).flatMap((detail): Block[] => {
    const { type, thinking, signature, data } = objectOf(detail)
    if (type === 'thinking' && typeof thinking === 'string' && typeof signature === 'string')
      return [{ reasoningContent: { reasoningText: { text: thinking, signature } } }]
    return type === 'redacted_thinking' && typeof data === 'string'
      ? [{ reasoningContent: { redactedContent: data } }]
      : []
  })

/** All system and developer messages go to the top. Mistral's models accept ids of one form only. */
export const convertMessages = (list: unknown, family: Family, note: Note): Conversation => {
  const converter = new Converter(family === 'mistral')
  arrayOf(list).forEach((message, i) => {
    if (!isObject(message)) throw refuse('a message must be an object', `messages[${i}]`)
    converter.add(message, `messages[${i}]`)
  })
  const { system, messages, calledTools } = converter
  if (family === 'claude') trimEnd(messages.at(-1), note)
  if (messages[0]?.role === 'assistant') {
    note(USER_IN_FRONT)
    messages.unshift({ role: 'user', content: [{ text: '.' }] })
  }
  if (messages.length > 0) return { system, messages, calledTools }
  if (system.length === 0) throw refuse('this provider needs a message that is not blank', 'messages')
  note(SYSTEM_AS_USER)
  return { system: [], messages: [{ role: 'user', content: system }], calledTools }
}

/** Claude refuses white space at the end of an answer that it continues. */
const trimEnd = (last: Message | undefined, note: Note): void => {
  const block = last?.role === 'assistant' ? last.content.at(-1) : undefined
  if (block === undefined || typeof block.text !== 'string') return
  const text = block.text.trimEnd()
  if (text === block.text) return
  block.text = text
  note(TRIMMED_END)
}

/**
 * The current turn of the assistant begins without a thought: a loop of tools, or an answer that the model continues.
 * Its results do not begin a turn.
 */
export const isUnsigned = ({ messages }: Conversation): boolean => {
  const isResult = ({ toolResult }: Block) => toolResult !== undefined
  const begins = messages.findLastIndex(({ role, content }) => role === 'user' && !content.some(isResult))
  const first = messages[begins + 1]?.content[0]
  return first !== undefined && first.reasoningContent === undefined
}
