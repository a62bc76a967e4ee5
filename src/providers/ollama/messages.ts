// Messages of the client's wire -> messages of Ollama's: text in one string, images beside it. A field without a
// counterpart is refused by name.
import { isLongNumber, parseInnerExact } from '../../lib/json/exact-json.ts'
import { isObject } from '../../wire/json.ts'
import { dataUrl, present, quoted, refuse, spokenContent } from '../shared/converting.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'

interface Content {
  readonly text: string
  /** Base64, without the `data:` in front. */
  readonly images: readonly string[]
}

const imageData = (part: Json, param: string): string => {
  const url = textOf(part.image_url) ?? textOf(objectOf(part.image_url).url)
  if (url === null) throw refuse('image_url needs a url', `${param}.image_url`)
  const at = `${param}.image_url.url`
  if (!/^data:/i.test(url))
    throw refuse('this provider takes images as base64 data URLs only; send the image itself, not its address', at)
  const { mediaType, data } = dataUrl(url, at)
  if (mediaType !== null && !mediaType.startsWith('image/'))
    throw refuse(`this provider takes images only, not ${quoted(mediaType)}`, at)
  return data
}

/** Texts of several parts become separate lines: parts are separate in the client's wire too. */
const contentOf = (content: unknown, param: string, allowed: readonly string[]): Content => {
  if (!present(content)) return { text: '', images: [] }
  if (typeof content === 'string') return { text: content, images: [] }
  if (!Array.isArray(content)) throw refuse('content must be a string or a list of parts', param)
  const texts: string[] = []
  const images: string[] = []
  content.forEach((part: unknown, i) => {
    const at = `${param}[${i}]`
    if (!isObject(part)) throw refuse('a content part must be an object', at)
    const type = textOf(part.type)
    if (type === null || !allowed.includes(type))
      throw refuse(`this provider has no counterpart for the content part ${quoted(part.type)} here`, `${at}.type`)
    if (type === 'image_url') {
      images.push(imageData(part, at))
      return
    }
    const text = textOf(type === 'refusal' ? part.refusal : part.text)
    if (text === null) throw refuse(`${type} must be a string`, `${at}.${type}`)
    texts.push(text)
  })
  return { text: texts.join('\n'), images }
}

/** Arguments are an object there; their numbers keep their spelling. */
const argumentsOf = (args: unknown, param: string): Json => {
  const text = textOf(args) ?? ''
  if (text.trim() === '') return {}
  let value: unknown
  try {
    value = parseInnerExact(text)
  } catch {
    value = null // refused below, like any other text that is no object
  }
  if (!isObject(value) || isLongNumber(value)) throw refuse('arguments must be the JSON text of an object', param)
  return value
}

const toolCall = (call: unknown, param: string, names: Map<string, unknown>): Json => {
  if (!isObject(call) || !isObject(call.function)) throw refuse('this provider takes calls of functions only', param)
  const { name, arguments: args } = call.function
  if (typeof call.id === 'string') names.set(call.id, name)
  return { id: call.id, function: { name, arguments: argumentsOf(args, `${param}.function.arguments`) } }
}

const assistantMessage = (message: Json, param: string, names: Map<string, unknown>): Json => {
  if (present(message.function_call))
    throw refuse('function_call is not supported by this provider; use tool_calls', `${param}.function_call`)
  const { text } = contentOf(spokenContent(message), `${param}.content`, ['text', 'refusal'])
  const thinking = textOf(message.reasoning_content) ?? textOf(message.reasoning) ?? ''
  const calls = arrayOf(message.tool_calls).map((call, i) => toolCall(call, `${param}.tool_calls[${i}]`, names))
  return {
    role: 'assistant',
    content: text,
    ...(thinking === '' ? {} : { thinking }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  }
}

/** Ollama's templates need the tool's name, which is in the call that the result belongs to. */
const toolMessage = (message: Json, param: string, names: ReadonlyMap<string, unknown>): Json => {
  const id = textOf(message.tool_call_id)
  if (id === null) throw refuse('a tool message needs a tool_call_id', `${param}.tool_call_id`)
  const name = textOf(names.get(id)) ?? textOf(message.name)
  const { text, images } = contentOf(message.content, `${param}.content`, ['text', 'image_url'])
  return {
    role: 'tool',
    content: text,
    ...(images.length === 0 ? {} : { images }),
    ...(name === null ? {} : { tool_name: name }),
    tool_call_id: id,
  }
}

/** In the client's order; `developer` becomes `system`. */
export const ollamaMessages = (list: unknown): readonly Json[] => {
  const names = new Map<string, unknown>()
  return arrayOf(list).map((message, i): Json => {
    const param = `messages[${i}]`
    if (!isObject(message)) throw refuse('a message must be an object', param)
    switch (message.role) {
      case 'system':
      case 'developer':
        return { role: 'system', content: contentOf(message.content, `${param}.content`, ['text']).text }
      case 'user': {
        const { text, images } = contentOf(message.content, `${param}.content`, ['text', 'image_url'])
        return { role: 'user', content: text, ...(images.length === 0 ? {} : { images }) }
      }
      case 'assistant':
        return assistantMessage(message, param, names)
      case 'tool':
        return toolMessage(message, param, names)
      default:
        throw refuse(`this provider has no counterpart for the role ${quoted(message.role)}`, `${param}.role`)
    }
  })
}
