// Most chunks of a stream differ from the previous one in their text alone. Once one of them was read, the next ones
// need not be parsed, and runs of them pass as one slice. The chunk with the role already shows what surrounds a
// delta, so most streams need one `JSON.parse`. Gain: `bench -- targets`, stream and stream_vendor.

import type { Json } from '../shared/read-json.ts'

const FIELD = 'data: '
const FRAME_END = '\n\n'
const CONTENT_NAME = '"content"'
const CONTENT = `${CONTENT_NAME}:"`
const DELTA = '"delta"'
const FINISH = '"finish_reason"'
/** The text between a delta and the finish reason of its choice, where there is any. */
const LOGPROBS = ',"logprobs":null'
/**
 * Random letters that OpenAI adds to each chunk, as its last member, so that its length does not reveal the length of
 * its text.
 */
const LETTERS = '"obfuscation":"'
const LETTERS_END = '"}'
const MOST_ASCII = 0x7e
/** Finish reasons that need no mapping. */
const REASONS = ['"stop"', '"length"', '"tool_calls"']
/** Escapes and line ends. */
const NO_PLAIN_LINE = /[\\\n\r]/

const QUOTE = 0x22
const BACKSLASH = 0x5c
const SPACE = 0x20

/** The surroundings of a string of a chunk, up to its letters. */
interface Around {
  readonly before: string
  readonly after: string
  /** The end of the chunk behind random letters; '' without letters. */
  readonly tail: string
}

/**
 * A chunk with the same surroundings of its text has the same structure: only that one string, and the letters,
 * differ.
 */
export class ChunkTemplate {
  #of: Around | null = null
  /** The surroundings that the client gets instead; null: the same ones. */
  #shown: Around | null = null
  /** The surroundings of `#of`, with the start and end of a server-sent event. */
  #opening = ''
  #closing = ''
  #frameTail = ''
  /** UTF-8 bytes of the surroundings in one event, less their UTF-16 units. */
  #frameMore = 0
  #run = ''
  /** UTF-8 bytes of the texts of the last skipped run. */
  skimmed = 0
  /** The surroundings of the members of a delta, until a chunk with a text arrives. */
  #expected: { readonly of: Around; readonly shown: Around | null } | null = null
  /**
   * The surroundings of the finish reason of a chunk with no other content: up to its empty delta, from there to the
   * reason, and the rest. Null: unknown.
   */
  #ending: readonly [before: string, between: string, after: string] | null = null

  /**
   * Takes the surroundings of a chunk that was parsed; `text` is the content of its only delta, and all that counts as
   * generated. Keeps the previous ones when they cannot be determined. `shown` is the chunk as the client gets it:
   * where it differs, such as without usage that the client did not request, skipped frames are rebuilt in that form.
   */
  learn(data: string, text: string, shown = data): void {
    const of = aroundText(data, text)
    const shownOf = shown === data ? of : aroundText(shown, text)
    if (of === null || shownOf === null || shownOf.tail !== of.tail) return
    this.#take(of, shown === data ? null : shownOf, `${FIELD}${of.before}`, closingOf(of))
    // Measured on texts that are one string already: measuring a concatenation would first copy it.
    this.#frameMore = moreBytes(data) - moreBytes(text)
  }

  /**
   * Takes the surroundings of the delta of a parsed chunk that begins a choice: a chunk that differs in its delta
   * alone need not be parsed. `shown` as in `learn`.
   */
  expect(data: string, delta: Json, shown = data): void {
    const of = aroundDelta(data, delta)
    const shownOf = shown === data ? of : aroundDelta(shown, delta)
    if (of === null || shownOf === null || shownOf.tail !== of.tail) return
    this.#expected = { of, shown: shown === data ? null : shownOf }
    if (of.tail !== '' || shown !== data) return
    const to = data.length - of.after.length
    let reason = to + 1
    if (data.startsWith(LOGPROBS, reason)) reason += LOGPROBS.length
    if (!data.startsWith(`,${FINISH}:null}`, reason)) return
    const value = reason + `,${FINISH}:`.length
    this.#ending = [of.before, data.slice(to, value), data.slice(value + 'null'.length)]
  }

  /** Whether the frame at `from` is the expected one with some text as its delta; its surroundings are then taken. */
  matches(text: string, from: number): boolean {
    if (this.#expected === null) return false
    const { of, shown } = this.#expected
    const opening = `${FIELD}${of.before}${CONTENT}`
    if (!text.startsWith(opening, from)) return false
    const start = from + opening.length
    const quote = endOfPlain(text, start)
    const closing = `"${closingOf(of)}`
    if (quote <= start || endBehind(text, quote, closing, frameTailOf(of)) < 0) return false
    // Slices of strings that are one text by now; concatenations would be copies.
    const met = {
      before: opening.slice(FIELD.length),
      after: of.tail === '' ? closing.slice(0, -FRAME_END.length) : closing,
      tail: of.tail,
    }
    const metShown = shown && { before: `${shown.before}${CONTENT}`, after: `"${shown.after}`, tail: shown.tail }
    this.#take(met, metShown, opening, closing)
    this.#frameMore = moreBytes(of.before) + moreBytes(of.after)
    this.#expected = null
    return true
  }

  #take(of: Around, shown: Around | null, opening: string, closing: string): void {
    this.#of = of
    this.#shown = shown
    this.#opening = opening
    this.#closing = closing
    this.#frameTail = frameTailOf(of)
  }

  /**
   * The finish reason of a chunk that differs from the expected one in that alone and has an empty delta; null for any
   * other.
   */
  reasonIn(data: string): string | null {
    if (this.#ending === null) return null
    const [before, between, after] = this.#ending
    const start = before.length + between.length
    if (!data.startsWith(before) || !data.startsWith(between, before.length) || !data.endsWith(after)) return null
    for (const quoted of REASONS)
      if (data.length === start + quoted.length + after.length && data.startsWith(quoted, start))
        return quoted.slice(1, -1)
    return null
  }

  /** A chunk that fits, with its text, in the form that the client gets. */
  shown(data: string, text: string): string {
    const { before, after, tail } = this.#of!
    if (this.#shown === null) return data
    const letters = tail === '' ? '' : data.slice(before.length + text.length + after.length)
    return this.#shown.before + text + this.#shown.after + letters
  }

  /** The text of a chunk that fits, null for any other. */
  textIn(data: string): string | null {
    if (this.#of === null) return null
    const { before, after, tail } = this.#of
    if (!data.startsWith(before)) return null
    const quote = endOfPlain(data, before.length)
    return quote >= 0 && endBehind(data, quote, after, tail) === data.length ? data.slice(before.length, quote) : null
  }

  get isLearned(): boolean {
    return this.#of !== null
  }

  /**
   * The frames that were skipped last, as the client gets them. Once: retained, they would hold the text of their read
   * for as long as a stream is silent.
   */
  takeRun(): string {
    const run = this.#run
    this.#run = ''
    return run
  }

  /**
   * Skips the frames from `from` on that fit and hold some text; returns their end, `from` when the first does not
   * fit.
   */
  skim(text: string, from: number): number {
    const opening = this.#opening
    const closing = this.#closing
    if (this.#of === null || !text.startsWith(opening, from)) return from
    let end = from
    let count = 0
    let frames = 0
    let shown = ''
    do {
      const start = end + opening.length
      const quote = endOfPlain(text, start)
      const frameEnd = quote <= start ? -1 : endBehind(text, quote, closing, this.#frameTail)
      if (frameEnd < 0) break
      count += quote - start
      frames++
      if (this.#shown !== null) shown += this.#shownFrame(text, start, quote, frameEnd)
      end = frameEnd
    } while (text.startsWith(opening, end))
    if (end === from) return from
    // The whole run at once: bytes beyond its units belong to its texts, except those of the surroundings.
    const run = text.slice(from, end)
    this.skimmed = count + moreBytes(run) - frames * this.#frameMore
    this.#run = this.#shown === null ? run : shown
    return end
  }

  #shownFrame(text: string, start: number, quote: number, end: number): string {
    const { before, after } = this.#shown!
    // The rest behind the surroundings, letters included, stays as it came.
    return FIELD + before + text.slice(start, quote) + after + text.slice(quote + this.#of!.after.length, end)
  }
}

const closingOf = ({ after, tail }: Around): string => (tail === '' ? `${after}${FRAME_END}` : after)
const frameTailOf = ({ tail }: Around): string => (tail === '' ? '' : `${tail}${FRAME_END}`)

const around = (before: string, after: string): Around => {
  const letters = lettersAt(after)
  return letters < 0 ? { before, after, tail: '' } : { before, after: after.slice(0, letters), tail: LETTERS_END }
}

/** The surroundings of the members of a chunk's only delta; null: their place cannot be determined. */
const aroundDelta = (data: string, delta: Json): Around | null => {
  const at = data.indexOf(DELTA)
  // Without escapes each quote begins or ends a string, so a single occurrence is the member's name.
  if (at < 0 || data.indexOf(DELTA, at + 1) >= 0 || data.indexOf('\\') >= 0) return null
  const from = at + DELTA.length + ':'.length
  const to = data.indexOf('}', from)
  // Equal to the parsed delta: no member is repeated, and the brace is its own.
  if (data[from - 1] !== ':' || data.slice(from, to + 1) !== JSON.stringify(delta)) return null
  return around(data.slice(0, from + 1), data.slice(to))
}

/** The UTF-8 bytes of a text less its UTF-16 units. */
const moreBytes = (text: string): number => Buffer.byteLength(text) - text.length

/** The surroundings of the text of a chunk's only delta; null: its place cannot be determined without parsing. */
const aroundText = (data: string, text: string): Around | null => {
  const at = data.indexOf(CONTENT_NAME)
  // Two occurrences: which of them is the delta's cannot be determined. With an escape, or over several lines, neither
  // can be trusted.
  if (at < 0 || data.indexOf(CONTENT_NAME, at + 1) >= 0 || NO_PLAIN_LINE.test(data)) return null
  const start = at + CONTENT.length
  const end = start + text.length
  const stands = data.startsWith(CONTENT, at) && data.startsWith(text, start) && data.charCodeAt(end) === QUOTE
  return stands ? around(data.slice(0, start), data.slice(end)) : null
}

/**
 * The index of the letters that end a chunk, in the text behind its content; -1: there are none, or anything follows
 * them. Without escapes a text that reads like the member is the member: its first quote precedes a letter, so it
 * begins a string.
 */
const lettersAt = (after: string): number => {
  const at = after.indexOf(LETTERS)
  const from = at + LETTERS.length
  return at >= 0 && endBehind(after, from, '', LETTERS_END) === after.length ? from : -1
}

/**
 * The end of `closing` at `quote`, with letters and `tail` behind it unless that is ''; -1 when the text there
 * differs.
 */
const endBehind = (text: string, quote: number, closing: string, tail: string): number => {
  if (!text.startsWith(closing, quote)) return -1
  const end = quote + closing.length
  if (tail === '') return end
  const letters = endOfPlain(text, end, MOST_ASCII)
  return letters >= 0 && text.startsWith(tail, letters) ? letters + tail.length : -1
}

/**
 * The index of the quote that ends the JSON string text from `start` on; -1 when an escape, a control character, one
 * beyond `most` or the end comes first.
 */
const endOfPlain = (text: string, start: number, most = 0xffff): number => {
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at
    if (code === BACKSLASH || code < SPACE || code > most) return -1
  }
  return -1
}
