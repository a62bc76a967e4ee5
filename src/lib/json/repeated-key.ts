// Finds repeated keys, of which `JSON.parse` silently takes the last, for input in which a slip must not pass.
import { skipValue } from './edit.ts'

interface Open {
  /** Names so far; null for an array and for the root. */
  readonly names: Set<string> | null
  /** The next string is the name of a member. */
  expectsName: boolean
  /** The current member. */
  name: string | null
}

/**
 * The first name that occurs twice in one object, as a dotted path; null when there is none. The text must be valid
 * JSON.
 */
export const repeatedKey = (text: string): string | null => {
  const open: Open[] = []
  let top: Open = { names: null, expectsName: false, name: null }
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (character === '"') {
      const end = skipValue(text, at)
      if (top.names !== null && top.expectsName) {
        const name = JSON.parse(text.slice(at, end)) as string
        if (top.names.has(name)) return pathOf([...open, top], name)
        top.names.add(name)
        top.name = name
        top.expectsName = false
      }
      at = end - 1
    } else if (character === '{' || character === '[') {
      open.push(top)
      top = { names: character === '{' ? new Set() : null, expectsName: true, name: null }
    } else if (character === '}' || character === ']') {
      top = open.pop()!
    } else if (character === ',') {
      top.expectsName = true
    }
  }
  return null
}

const pathOf = (open: readonly Open[], name: string): string =>
  [...open.slice(0, -1).map((each) => each.name), name].filter((part) => part !== null).join('.')
