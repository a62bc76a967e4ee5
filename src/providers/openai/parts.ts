// Content that an upstream of the OpenAI shape gives in parts, as clients of OpenAI expect it: a text.
import { isObject } from '../../wire/json.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'

const textOfPart = (part: unknown): string => textOf(objectOf(part).text) ?? ''
const isThought = (type: unknown): boolean => type === 'thinking' || type === 'reasoning'
const isText = (type: unknown): boolean => type === 'text' || type === 'output_text'

/**
 * Content in parts: text and thinking become `content` and `reasoning_content`; other parts (references) have no
 * counterpart.
 */
export const flattened = (parts: readonly unknown[]): Json => {
  let content = ''
  let reasoning = ''
  for (const part of parts) {
    const { type, thinking } = objectOf(part)
    if (isThought(type))
      reasoning +=
        typeof thinking === 'string' ? thinking : arrayOf(thinking).map(textOfPart).join('') || textOfPart(part)
    else if (isText(type)) content += textOfPart(part)
  }
  return {
    content: content === '' && reasoning !== '' ? null : content,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
  }
}

/** Such parts become a text without loss. */
const isTextual = (part: unknown): boolean => isText(objectOf(part).type) || isThought(objectOf(part).type)

/**
 * The choices with their content as text, where it is a list of texts and thoughts only; the same list when there is
 * none.
 */
export const textChoices = (choices: readonly unknown[]): readonly unknown[] => {
  let changed = false
  const converted = choices.map((value) => {
    const choice = objectOf(value)
    const place = isObject(choice.message) ? 'message' : 'delta'
    const message = objectOf(choice[place])
    if (!Array.isArray(message.content) || !message.content.every(isTextual)) return value
    changed = true
    return { ...choice, [place]: { ...message, ...flattened(message.content) } }
  })
  return changed ? converted : choices
}
