// Bounds of JSON text, checked before it is parsed: what takes little room in a text can take seconds to parse, to walk
// through or to print.

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
/** `"":0,` is the shortest member. */
const LEAST_MEMBER_CHARS = 5

export interface JsonBounds {
  readonly depth: number
  /** Members and items of the whole text. */
  readonly values: number
  /** Different names of members, in all objects together. */
  readonly names: number
}

/** What exceeds a bound, and the index where it does. */
export interface JsonExcess {
  readonly of: keyof JsonBounds
  readonly at: number
}

/** The first bound that the text exceeds, or null. The text need not be JSON. */
export const jsonExcess = (text: string, bounds: JsonBounds): JsonExcess | null => {
  const deep = text.length > bounds.depth ? tooDeepAt(text, bounds.depth) : null
  if (deep !== null) return { of: 'depth', at: deep }
  // Each value takes two characters at least.
  const many = text.length > 2 * bounds.values ? tooManyAt(text, COMMA, bounds.values) : null
  if (many !== null) return { of: 'values', at: many }
  const named = text.length > LEAST_MEMBER_CHARS * bounds.names ? tooManyNamesAt(text, bounds.names) : null
  return named === null ? null : { of: 'names', at: named }
}

/**
 * The index where JSON text becomes nested deeper than the limit, or null. Counts brackets outside strings only;
 * strings are skipped by `indexOf`.
 */
export const tooDeepAt = (text: string, limit: number): number | null => {
  if (!hasMore(text, limit)) return null
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) {
      i = endOfString(text, i)
    } else if (code === 0x7b || code === 0x5b) {
      if (++depth > limit) return i
    } else if (code === 0x7d || code === 0x5d) depth--
  }
  return null
}

/** Whether the text has more opening brackets than the limit, in strings too: nearly all texts have fewer. */
const hasMore = (text: string, limit: number): boolean => {
  let left = limit
  for (const bracket of BRACKETS)
    for (let at = text.indexOf(bracket); at !== -1; at = text.indexOf(bracket, at + 1)) if (--left < 0) return true
  return false
}
const BRACKETS = ['{', '['] as const

/** The index where the text has more of this character outside strings than the limit, or null. */
const tooManyAt = (text: string, character: number, limit: number): number | null => {
  let count = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) i = endOfString(text, i)
    else if (code === character && ++count > limit) return i
  }
  return null
}

/** The index of the name that is one too many of the different ones, or null. */
const tooManyNamesAt = (text: string, limit: number): number | null => {
  // The same names again and again, as in a list of objects, cost little: they are compared only where there are many.
  if (tooManyAt(text, COLON, limit) === null) return null
  const names = new Set<string>()
  let start = 0
  let end = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) {
      start = i
      i = endOfString(text, i)
      end = i
    } else if (code === COLON) {
      names.add(text.slice(start + 1, end))
      if (names.size > limit) return start
    }
  }
  return null
}

/** Index of the quote that ends the string starting at `start`; the end of the text when there is none. */
export const endOfString = (text: string, start: number): number => {
  let end = start
  for (;;) {
    end = text.indexOf('"', end + 1)
    if (end < 0) return text.length
    let slashes = 0
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes++
    if (slashes % 2 === 0) return end
  }
}
