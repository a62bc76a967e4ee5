// Edits the elements of a JSON array in its text, so that every byte that is not edited survives.
import { skipSpace, skipValue } from './edit.ts'

const broken = (at: number) => new SyntaxError(`not the JSON text of an array (position ${at})`)

/**
 * Replaces elements: `change` receives the JSON text and index of each, and returns its new text, or null to leave it.
 * Returns the text itself when nothing changed. The text must be valid JSON with an array at the top; other text is a
 * SyntaxError.
 */
export const editElements = (text: string, change: (json: string, index: number) => string | null): string => {
  const open = skipSpace(text, 0)
  if (text.charCodeAt(open) !== 91) throw broken(open)
  let out = ''
  let copied = 0
  let at = skipSpace(text, open + 1)
  for (let index = 0; text.charCodeAt(at) !== 93; index++) {
    const end = skipValue(text, at)
    const changed = change(text.slice(at, end), index)
    if (changed !== null) {
      out += text.slice(copied, at) + changed
      copied = end
    }
    at = skipSpace(text, end)
    const code = text.charCodeAt(at)
    if (code === 44) at = skipSpace(text, at + 1)
    else if (code !== 93) throw broken(at)
  }
  return copied === 0 ? text : out + text.slice(copied)
}
