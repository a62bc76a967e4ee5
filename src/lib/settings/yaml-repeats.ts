// Keys that stand twice in a mapping of YAML. The format forbids it, but the parser keeps the last one and says nothing: a section would be dropped.

export interface RepeatedKey {
  /** Dotted, elements of lists by number: `bootstrap.keys[1].name`. */
  readonly path: string
  /** Of the second one and of the first, from 1. */
  readonly line: number
  readonly firstLine: number
}

/** Private characters that YAML takes like letters, around the number of a mark. */
const [OPEN, CLOSE] = ['\uE000', '\uE001']
/** Read at most, in all looks at the text together: a second or two of a slow machine. What is not marked by then is not looked at. */
const MOST_CHARS = 4_000_000
/** As long as what it stands for. */
const NO_MERGE = '\uE002\uE002'
const MARKED = /^(.*)\uE000(\d+)\uE001$/s

/**
 * The first key that stands twice in one mapping; null when there is none. The text must be valid YAML.
 *
 * What is a key only the parser knows: `a: b` may stand in a comment, a text of several lines or a list in braces. So all that may end a key is given a
 * number, and the parser tells where keys with different numbers would have been the same. Not seen are keys after `? `, those whose colon stands on
 * another line, and those that end with a backslash in single quotes.
 */
export const repeatedYamlKey = (written: string): RepeatedKey | null => {
  // What a `<<` brings is not written there.
  const text = written.replace(/<<(?=["']?[ \t]*:)/g, NO_MERGE)
  const places = harmless(text, keyEnds(text))
  const lineOf = (number: number): number => text.slice(0, places[number]).split('\n').length
  return findIn(Bun.YAML.parse(marked(text, places)), '', new Set(), lineOf)
}

/** Where the keys may end: before the colon and the blanks before it, and inside of quotes. A quote that is escaped ends nothing. */
const keyEnds = (text: string): number[] =>
  [...text.matchAll(/["'](?=[ \t]*:)(?<=(?<!\\)(?:\\\\)*.)|[^\s"'](?=[ \t]*:(?:[\s,[\]{}]|$))/g)].map(
    ({ 0: last, index }) => (last === '"' || last === "'" ? index : index + 1),
  )

/** The text with a number at each of the places, which ascend. */
const marked = (text: string, places: readonly number[]): string =>
  places.map((place, i) => `${text.slice(places[i - 1] ?? 0, place)}${OPEN}${i}${CLOSE}`).join('') +
  text.slice(places.at(-1) ?? 0)

/** A value as it was read with marks in its text, without them: of keys that are the same then the last stays, as ever. `seen`: what aliases share. */
const unmarked = (value: unknown, seen = new Map<object, unknown>()): unknown => {
  if (typeof value === 'string') return value.replace(/\uE000\d+\uE001/g, '')
  if (value === null || typeof value !== 'object') return value
  if (seen.has(value)) return seen.get(value)
  seen.set(value, null) // an alias within what it stands for
  const entries = Object.entries(value).map(([key, child]) => [MARKED.exec(key)?.[1] ?? key, unmarked(child, seen)])
  const copy = Array.isArray(value) ? entries.map(([, child]) => child) : Object.fromEntries(entries)
  seen.set(value, copy)
  return copy
}

/** The places whose marks leave the meaning of the text as it is: not those in the names of aliases, in escapes. */
const harmless = (text: string, places: readonly number[]): readonly number[] => {
  const meant = unmarked(Bun.YAML.parse(text))
  let looksLeft = Math.max(2, MOST_CHARS / (text.length + 1))
  const means = (more: readonly number[]): boolean => {
    try {
      return Bun.deepEquals(unmarked(Bun.YAML.parse(marked(text, more))), meant)
    } catch {
      return false
    }
  }
  let kept: readonly number[] = []
  const take = (more: readonly number[]): void => {
    if (looksLeft-- <= 0) return
    const all = [...kept, ...more].sort((left, right) => left - right)
    if (means(all)) kept = all
    else if (more.length > 1) {
      // The later half first: names that are numbers come first in an object, and an earlier one of two that alone is marked would count as the last.
      take(more.slice(more.length >> 1))
      take(more.slice(0, more.length >> 1))
    }
  }
  // A quote after a blank or a bracket rather begins a text, as in `a: ":memory:"`.
  const begins = (place: number): boolean => /^[\s[{,:]?["']/.test(text.slice(Math.max(0, place - 1), place + 1))
  take(places.filter((place) => !begins(place)))
  take(places.filter(begins))
  return kept
}

/** `seen`: an alias is what it stands for, which is looked through once. */
const findIn = (
  value: unknown,
  path: string,
  seen: Set<object>,
  lineOf: (number: number) => number,
): RepeatedKey | null => {
  if (value === null || typeof value !== 'object' || seen.has(value)) return null
  seen.add(value)
  const numbers = new Map<string, number>()
  for (const [key, child] of Object.entries(value)) {
    const [, name = key, number] = MARKED.exec(key) ?? []
    const here = Array.isArray(value) ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`
    if (number !== undefined) {
      const first = numbers.get(name)
      if (first !== undefined) return { path: here, line: lineOf(Number(number)), firstLine: lineOf(first) }
      numbers.set(name, Number(number))
    }
    const below = findIn(child, here, seen, lineOf)
    if (below !== null) return below
  }
  return null
}
