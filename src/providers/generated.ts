// How much a model has generated, in the client's wire: all that a provider bills as output, whichever choice it stands in.
import { arrayOf, type Json, objectOf, parseJson } from './read-json.ts'

const length = (value: unknown): number => (typeof value === 'string' ? value.length : 0)

/** Text, or a list of parts that hold some. */
const contentChars = (content: unknown): number => {
  if (!Array.isArray(content)) return length(content)
  let chars = 0
  for (const part of content) chars += length(objectOf(part).text)
  return chars
}

const callChars = (called: unknown): number => {
  const { name, arguments: args } = objectOf(called)
  return length(name) + (typeof args === 'object' && args !== null ? JSON.stringify(args).length : length(args))
}

/** UTF-16 units of what a message, or the delta of a chunk, says: text, reasoning, refusal, calls with their arguments. */
export const generatedChars = (said: Json): number => {
  // The same reasoning under two names is told, and billed, once.
  let chars = contentChars(said.content) + Math.max(length(said.reasoning_content), length(said.reasoning))
  if (said.refusal !== undefined) chars += length(said.refusal)
  if (said.audio !== undefined) chars += length(objectOf(said.audio).transcript)
  if (said.function_call !== undefined) chars += callChars(said.function_call)
  for (const call of arrayOf(said.tool_calls)) {
    const { function: called, custom } = objectOf(call)
    chars += callChars(called)
    if (custom !== undefined) chars += length(objectOf(custom).name) + length(objectOf(custom).input)
  }
  return chars
}

/** Of all choices of a `chat.completion`. */
export const answeredChars = (json: string): number => {
  let chars = 0
  for (const choice of arrayOf(objectOf(parseJson(json)).choices))
    chars += generatedChars(objectOf(objectOf(choice).message))
  return chars
}
