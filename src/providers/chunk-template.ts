// Most chunks of a stream differ from the one before in nothing but their text. Once one of them was read, the next ones need not be parsed.

const CONTENT = '"content":"'
/** JSON string text without escapes: what stands there is what is meant. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what no JSON string holds unescaped
const PLAIN = /^[^"\\\x00-\x1f]*$/

const QUOTE = 0x22
const BACKSLASH = 0x5c
const SPACE = 0x20

/** What surrounds the text of a chunk. A chunk with the same surroundings has the same structure: only that one string differs. */
export class ChunkTemplate {
  #before = ''
  #after = ''
  /** The same, as frames of server-sent events begin and end. */
  #opening = ''
  #closing = ''
  /** What both together have more of UTF-8 bytes than of UTF-16 units. */
  #frameMore = 0
  /** What is shown in place of the surroundings; null: they are shown as they are. */
  #shown: readonly [before: string, after: string] | null = null

  /**
   * Takes the surroundings of a chunk that was parsed; `text` is the content of its only delta. Keeps the ones it has when they cannot be told. `shown` is the
   * chunk as the client gets it: where it is another one, frames cannot be passed over as they came.
   */
  learn(data: string, text: string, shown = data): void {
    const start = textStart(data, text)
    const shownStart = shown === data ? start : textStart(shown, text)
    if (start < 0 || shownStart < 0) return
    this.#before = data.slice(0, start)
    this.#after = data.slice(start + text.length)
    this.#shown = shown === data ? null : [shown.slice(0, shownStart), shown.slice(shownStart + text.length)]
    this.#opening = shown === data ? `data: ${this.#before}` : ''
    this.#closing = `${this.#after}\n\n`
    // Of texts that are whole already: measuring what was just put together would first copy it.
    this.#frameMore = moreBytes(shown) - moreBytes(text)
  }

  /** A chunk that fits, with its text, as the client gets it. */
  shown(data: string, text: string): string {
    return this.#shown === null ? data : this.#shown[0] + text + this.#shown[1]
  }

  /** The text of a chunk that fits, null for any other. */
  textIn(data: string): string | null {
    const before = this.#before
    if (before === '' || data.length < before.length + this.#after.length) return null
    if (!data.startsWith(before) || !data.endsWith(this.#after)) return null
    const text = data.slice(before.length, data.length - this.#after.length)
    return PLAIN.test(text) ? text : null
  }

  get isLearned(): boolean {
    return this.#opening !== ''
  }

  /** Passes over the frames from `from` on that fit and hold some text: where the last of them ends, and the UTF-8 bytes of their texts. Null when the first does not fit. */
  skim(text: string, from: number): { readonly end: number; readonly count: number } | null {
    const opening = this.#opening
    const closing = this.#closing
    if (opening === '' || !text.startsWith(opening, from)) return null
    let end = from
    let count = 0
    let frames = 0
    do {
      const start = end + opening.length
      const quote = endOfPlain(text, start)
      if (quote <= start || !text.startsWith(closing, quote)) break
      count += quote - start
      frames++
      end = quote + closing.length
    } while (text.startsWith(opening, end))
    if (end === from) return null
    // All of the run at once: where it has more bytes than units, they are its texts', but for what surrounds each.
    const run = text.slice(from, end)
    return { end, count: count + Buffer.byteLength(run) - run.length - frames * this.#frameMore }
  }
}

/** What a text has more of UTF-8 bytes than of UTF-16 units. */
const moreBytes = (text: string): number => Buffer.byteLength(text) - text.length

/** Where the text of a chunk's only delta stands in it; -1 when that cannot be told without parsing. */
const textStart = (data: string, text: string): number => {
  const at = data.indexOf(CONTENT)
  // Twice: which of them is the delta's cannot be told.
  if (at < 0 || data.indexOf(CONTENT, at + CONTENT.length) >= 0) return -1
  const start = at + CONTENT.length
  const stands = data.startsWith(text, start) && data.charCodeAt(start + text.length) === QUOTE
  return stands && PLAIN.test(text) ? start : -1
}

/** Where the JSON string text from `start` on ends with its quote; -1 when an escape, a control character or the end comes before it. */
const endOfPlain = (text: string, start: number): number => {
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at
    if (code === BACKSLASH || code < SPACE) return -1
  }
  return -1
}
