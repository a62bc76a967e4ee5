// Messages of the client's wire -> messages of Cohere's. A field without a counterpart is refused by name.
import { isObject } from '../../wire/json.ts'
import { present, quoted, refuse, spokenContent } from '../shared/converting.ts'
import { arrayOf, type Json, textOf } from '../shared/read-json.ts'

type Part = Record<string, unknown>
type Content = string | readonly Part[]

const imagePart = (part: Json, param: string): Part => {
  const image = isObject(part.image_url) ? part.image_url : { url: part.image_url }
  if (typeof image.url !== 'string') throw refuse('image_url needs a url', `${param}.image_url`)
  if (!/^(?:https?:\/\/|data:)/i.test(image.url))
    throw refuse('image_url takes an http, https or data URL', `${param}.image_url.url`)
  return { type: 'image_url', image_url: image }
}

const partOf = (part: unknown, param: string, allowed: readonly string[]): Part => {
  if (!isObject(part)) throw refuse('a content part must be an object', param)
  const type = textOf(part.type)
  if (type === null || !allowed.includes(type))
    throw refuse(`this provider has no counterpart for the content part ${quoted(part.type)} here`, `${param}.type`)
  if (type === 'image_url') return imagePart(part, param)
  if (type === 'document') {
    if (!isObject(part.document)) throw refuse('document must be an object', `${param}.document`)
    return part
  }
  const text = textOf(type === 'refusal' ? part.refusal : part.text)
  if (text === null) throw refuse(`${type} must be a string`, `${param}.${type}`)
  return { type: 'text', text }
}

/** Null: the client sent none. */
const contentOf = (content: unknown, param: string, allowed: readonly string[]): Content | null => {
  if (!present(content)) return null
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) throw refuse('content must be a string or a list of parts', param)
  return content.map((part: unknown, i) => partOf(part, `${param}[${i}]`, allowed))
}

const textIn = (content: Content): string =>
  typeof content === 'string' ? content : content.map(({ text }) => textOf(text) ?? '').join('')

const toolCall = (call: unknown, param: string): Json => {
  if (!isObject(call) || !isObject(call.function)) throw refuse('this provider takes calls of functions only', param)
  const { name, arguments: args } = call.function
  return { id: call.id, type: 'function', function: { name, arguments: args } }
}

/** A message that calls tools has its text in `tool_plan`; reasoning is sent back as the part that it was. */
const assistantMessage = (message: Json, param: string): Json => {
  if (present(message.function_call))
    throw refuse('function_call is not supported by this provider; use tool_calls', `${param}.function_call`)
  const content = contentOf(spokenContent(message), `${param}.content`, ['text', 'refusal'])
  const calls = arrayOf(message.tool_calls).map((call, i) => toolCall(call, `${param}.tool_calls[${i}]`))
  const thought = textOf(message.reasoning_content) ?? ''
  const thinking: Part[] = thought === '' ? [] : [{ type: 'thinking', thinking: thought }]
  const out: Record<string, unknown> = { role: 'assistant' }
  if (Array.isArray(message.citations)) out.citations = message.citations
  if (calls.length > 0) {
    const plan = textOf(message.tool_plan) ?? (content === null ? '' : textIn(content))
    return {
      ...out,
      ...(thinking.length === 0 ? {} : { content: thinking }),
      ...(plan === '' ? {} : { tool_plan: plan }),
      tool_calls: calls,
    }
  }
  if (content === null) return thinking.length === 0 ? out : { ...out, content: thinking }
  if (thinking.length === 0) return { ...out, content }
  const text = typeof content === 'string' ? [{ type: 'text', text: content }] : content
  return { ...out, content: [...thinking, ...text] }
}

const toolMessage = (message: Json, param: string): Json => {
  if (typeof message.tool_call_id !== 'string')
    throw refuse('a tool message needs a tool_call_id', `${param}.tool_call_id`)
  const content = contentOf(message.content, `${param}.content`, ['text', 'document'])
  return { role: 'tool', tool_call_id: message.tool_call_id, content: content ?? '' }
}

const convertMessage = (message: unknown, param: string): Json => {
  if (!isObject(message)) throw refuse('a message must be an object', param)
  switch (message.role) {
    case 'system':
    case 'developer':
      return { role: 'system', content: contentOf(message.content, `${param}.content`, ['text']) ?? '' }
    case 'user':
      return { role: 'user', content: contentOf(message.content, `${param}.content`, ['text', 'image_url']) ?? '' }
    case 'assistant':
      return assistantMessage(message, param)
    case 'tool':
      return toolMessage(message, param)
    default:
      throw refuse(`this provider has no counterpart for the role ${quoted(message.role)}`, `${param}.role`)
  }
}

/** In the client's order; `developer` becomes `system`. */
export const cohereMessages = (list: unknown): readonly Json[] =>
  arrayOf(list).map((message, i) => convertMessage(message, `messages[${i}]`))
