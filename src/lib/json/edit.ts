// Edits the top-level members of a JSON object in its text, so that every byte that is not edited survives: numbers
// beyond 2^53, spacing, escapes. The text must be valid JSON with an object at the top (the caller has parsed it);
// other text is a SyntaxError.
import { TextPrefix } from '../text/text-pieces.ts'

/** One member of the object. Positions are UTF-16 indexes into the text. */
export interface Member {
  /** Decoded: `"mod\u0065l"` is `model`. */
  readonly key: string
  /** Directly after the `{` or `,` before it, so leading space belongs to it. */
  readonly start: number
  /** Opening quote of the key and the position after its closing quote. */
  readonly keyStart: number
  readonly keyEnd: number
  readonly valueStart: number
  readonly valueEnd: number
  /** Position of its `,` or `}`. */
  readonly end: number
}

/**
 * An edit of a key. `set` takes JSON text and appends when the key is absent; `rename` keeps the value's bytes and
 * replaces the member `to`.
 */
export type Edit =
  | { readonly do: 'set'; readonly json: string }
  | { readonly do: 'remove' }
  | { readonly do: 'rename'; readonly to: string }

const QUOTE = 34
const BACKSLASH = 92
const broken = (at: number) => new SyntaxError(`not the JSON text of an object (position ${at})`)

/** The position of the next character that is no white space. */
export const skipSpace = (text: string, from: number): number => {
  let at = from
  for (;;) {
    const code = text.charCodeAt(at)
    if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return at
    at++
  }
}

/** From an opening quote to the position after the closing one. */
const skipString = (text: string, from: number): number => {
  let at = from
  for (;;) {
    at = text.indexOf('"', at + 1)
    if (at === -1) throw broken(from)
    let before = at - 1
    while (text.charCodeAt(before) === BACKSLASH) before--
    if (((at - 1 - before) & 1) === 0) return at + 1
  }
}

const skipContainer = (text: string, from: number): number => {
  let depth = 0
  let at = from
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = skipString(text, at)
      continue
    }
    at++
    if (code === 123 || code === 91) depth++
    else if (code === 125 || code === 93) {
      depth--
      if (depth === 0) return at
    }
  }
  throw broken(from)
}

/** From the first character of a value to the position after its last one. */
export const skipValue = (text: string, from: number): number => {
  const code = text.charCodeAt(from)
  if (code === QUOTE) return skipString(text, from)
  if (code === 123 || code === 91) return skipContainer(text, from)
  let at = from
  while (at < text.length) {
    const next = text.charCodeAt(at)
    if (next === 44 || next === 125 || next === 93 || next === 32 || next === 10 || next === 13 || next === 9) break
    at++
  }
  if (at === from) throw broken(from)
  return at
}

/** The members in the order of the text, repeated keys included. */
export const topLevel = (text: string): readonly Member[] => {
  const open = skipSpace(text, 0)
  if (text.charCodeAt(open) !== 123) throw broken(open)
  const members: Member[] = []
  let start = open + 1
  if (text.charCodeAt(skipSpace(text, start)) === 125) return members
  for (;;) {
    const keyStart = skipSpace(text, start)
    if (text.charCodeAt(keyStart) !== QUOTE) throw broken(keyStart)
    const keyEnd = skipString(text, keyStart)
    const inner = text.slice(keyStart + 1, keyEnd - 1)
    const key = inner.indexOf('\\') === -1 ? inner : (JSON.parse(`"${inner}"`) as string)
    const colon = skipSpace(text, keyEnd)
    if (text.charCodeAt(colon) !== 58) throw broken(colon)
    const valueStart = skipSpace(text, colon + 1)
    const valueEnd = skipValue(text, valueStart)
    const end = skipSpace(text, valueEnd)
    members.push({ key, start, keyStart, keyEnd, valueStart, valueEnd, end })
    const code = text.charCodeAt(end)
    if (code === 125) return members
    if (code !== 44) throw broken(end)
    start = end + 1
  }
}

/**
 * The JSON text of a member's value, as JSON.parse would read it (the last one of a repeated key); null when the key is
 * absent.
 */
export const memberText = (text: string, key: string): string | null => {
  const member = topLevel(text).findLast((candidate) => candidate.key === key)
  return member === undefined ? null : text.slice(member.valueStart, member.valueEnd)
}

/**
 * Applies the edits. Of a repeated key only the last member stays, edited or not, so that any other parser reads what
 * JSON.parse has read. Keys that are set and absent are appended in the order of `edits`.
 */
export const editMembers = (
  text: string,
  edits: ReadonlyMap<string, Edit>,
  members: readonly Member[] = topLevel(text),
): string => {
  const last = new Map<string, number>()
  for (let i = 0; i < members.length; i++) last.set(members[i]!.key, i)
  const replaced = new Set<string>()
  for (const [key, edit] of edits) if (edit.do === 'rename' && edit.to !== key && last.has(key)) replaced.add(edit.to)

  const open = members.length === 0 ? text.indexOf('{') + 1 : members[0]!.start
  const close = members.length === 0 ? text.lastIndexOf('}') : members[members.length - 1]!.end
  let out = text.slice(0, open)
  let empty = true
  for (let i = 0; i < members.length; i++) {
    const member = members[i]!
    const edit = edits.get(member.key)
    if (last.get(member.key) !== i || edit?.do === 'remove') continue
    if (replaced.has(member.key) && edit?.do !== 'rename') continue
    if (empty) empty = false
    else out += ','
    if (edit === undefined) out += text.slice(member.start, member.end)
    else if (edit.do === 'set')
      out += text.slice(member.start, member.valueStart) + edit.json + text.slice(member.valueEnd, member.end)
    else
      out += text.slice(member.start, member.keyStart) + JSON.stringify(edit.to) + text.slice(member.keyEnd, member.end)
  }
  for (const [key, edit] of edits) {
    if (edit.do !== 'set' || last.has(key)) continue
    if (empty) empty = false
    else out += ','
    out += `${quoted(key)}:${edit.json}`
  }
  return out + text.slice(close)
}

/**
 * The result of the last `scan`: the number of members, and the value of the last one of the name (-1 for none). It
 * holds positions only, no text of a request.
 */
const scanned = { members: 0, valueStart: -1, valueEnd: -1 }

/** As `topLevel`, without an object for each member. A key that is written with escapes does not match. */
const scan = (text: string, key: string): void => {
  scanned.members = 0
  scanned.valueStart = -1
  const open = skipSpace(text, 0)
  if (text.charCodeAt(open) !== 123) throw broken(open)
  let start = open + 1
  if (text.charCodeAt(skipSpace(text, start)) === 125) return
  for (;;) {
    const keyStart = skipSpace(text, start)
    if (text.charCodeAt(keyStart) !== QUOTE) throw broken(keyStart)
    const keyEnd = skipString(text, keyStart)
    const colon = skipSpace(text, keyEnd)
    if (text.charCodeAt(colon) !== 58) throw broken(colon)
    const valueStart = skipSpace(text, colon + 1)
    const valueEnd = skipValue(text, valueStart)
    scanned.members++
    if (keyEnd - keyStart === key.length + 2 && text.startsWith(key, keyStart + 1)) {
      scanned.valueStart = valueStart
      scanned.valueEnd = valueEnd
    }
    const end = skipSpace(text, valueEnd)
    const code = text.charCodeAt(end)
    if (code === 125) return
    if (code !== 44) throw broken(end)
    start = end + 1
  }
}

const PLAIN_KEY = /^\w+$/
/** A key as JSON text: most are words, which need no escape. */
export const quoted = (key: string): string => (PLAIN_KEY.test(key) ? `"${key}"` : JSON.stringify(key))

/**
 * As `editMembers` for one `set`, faster (`bench -- tricks`, member), and without a copy when the member has the value
 * already. `keys`: the number of different keys in the text, by which repeated ones are detected.
 */
export const setMember = (text: string, key: string, json: string, keys: number): string => {
  scan(text, key)
  const { members, valueStart, valueEnd } = scanned
  if (members !== keys || valueStart === -1 || key.includes('\\'))
    return editMembers(text, new Map([[key, { do: 'set', json }]]))
  if (valueEnd - valueStart === json.length && text.startsWith(json, valueStart)) return text
  return text.slice(0, valueStart) + json + text.slice(valueEnd)
}

/** Appends members. `members` is JSON text such as `"gateway":{}`; its keys must be absent. */
export const appendMembers = (text: string, members: string): string => {
  const [before, comma, more, end] = appendedPieces(text, members)
  return `${before.text()}${comma}${more}${end}`
}

/**
 * As `appendMembers`, in pieces that follow one another: text that will be written as bytes need not be joined first
 * (`bench -- tricks`, answers).
 */
export const appendedPieces = (text: string, members: string): [TextPrefix, string, string, string] => {
  const close = text.lastIndexOf('}')
  if (close === -1) throw broken(text.length)
  let before = close - 1
  for (; before >= 0; before--) {
    const code = text.charCodeAt(before)
    if (code !== 32 && code !== 10 && code !== 13 && code !== 9) break
  }
  return [new TextPrefix(text, close), text.charCodeAt(before) === 123 ? '' : ',', members, text.slice(close)]
}
