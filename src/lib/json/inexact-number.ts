// Finds numbers that `JSON.parse` rounds silently (whole numbers beyond 2^53), for input that must be stored as it was
// sent.
import { skipValue } from './edit.ts'

/** Other texts have none. */
const MAY_HOLD = /\d{16}|[eE]\+?\d{3}/
const NUMBER = /-?\d[\d.eE+-]*/y

/** Whether reading and writing the literal gives another number: a rounded whole number, or one beyond all doubles. */
const isInexact = (literal: string): boolean => {
  const value = Number(literal)
  if (!Number.isFinite(value)) return true
  return /^-?\d+$/.test(literal) && String(value) !== literal && BigInt(literal) !== BigInt(value)
}

/**
 * The dotted path of the first such number, without positions in lists; null when there is none. The text must be valid
 * JSON.
 */
export const inexactNumber = (text: string): string | null => {
  if (!MAY_HOLD.test(text)) return null
  const path: (string | null)[] = []
  let name: string | null = null
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!
    if (character === '"') {
      const end = skipValue(text, at)
      const isName = /^\s*:/.test(text.slice(end, end + 64))
      if (isName) name = JSON.parse(text.slice(at, end)) as string
      at = end - 1
    } else if (character === '{' || character === '[') {
      path.push(name)
      name = null
    } else if (character === '}' || character === ']') {
      path.pop()
      name = null
    } else if (character === '-' || (character >= '0' && character <= '9')) {
      NUMBER.lastIndex = at
      const [literal] = NUMBER.exec(text)!
      if (isInexact(literal)) return [...path, name].filter((part) => part !== null).join('.')
      at += literal.length - 1
    } else if (character === ',') name = null
  }
  return null
}
