// How much a model has generated, in the client's wire: all that a provider bills as output, of every choice.
import { arrayOf, type Json, objectOf, parseJson } from './read-json.ts'

const bytesIn = (value: unknown): number => (typeof value === 'string' ? Buffer.byteLength(value) : 0)

/** Text, or a list of parts that hold some. */
const contentBytes = (content: unknown): number => {
  if (!Array.isArray(content)) return bytesIn(content)
  let bytes = 0
  for (const part of content) bytes += bytesIn(objectOf(part).text)
  return bytes
}

const callBytes = (called: unknown): number => {
  const { name, arguments: args } = objectOf(called)
  return (
    bytesIn(name) +
    (typeof args === 'object' && args !== null ? Buffer.byteLength(JSON.stringify(args)) : bytesIn(args))
  )
}

/**
 * UTF-8 bytes of the content of a message, or of the delta of a chunk: text, reasoning, refusal, calls with their
 * arguments.
 */
export const generatedBytes = (message: Json): number => {
  // The same reasoning under two names is billed once.
  let bytes = contentBytes(message.content) + Math.max(bytesIn(message.reasoning_content), bytesIn(message.reasoning))
  if (message.refusal !== undefined) bytes += bytesIn(message.refusal)
  if (message.audio !== undefined) bytes += bytesIn(objectOf(message.audio).transcript)
  if (message.function_call !== undefined) bytes += callBytes(message.function_call)
  for (const call of arrayOf(message.tool_calls)) {
    const { function: called, custom } = objectOf(call)
    bytes += callBytes(called)
    if (custom !== undefined) bytes += bytesIn(objectOf(custom).name) + bytesIn(objectOf(custom).input)
  }
  return bytes
}

/** UTF-8 bytes that the model generated in all choices of a `chat.completion`. */
export const answeredBytes = (json: string): number => {
  let bytes = 0
  for (const choice of arrayOf(objectOf(parseJson(json)).choices))
    bytes += generatedBytes(objectOf(objectOf(choice).message))
  return bytes
}
