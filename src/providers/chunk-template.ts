// Most chunks of a stream differ from the one before in nothing but their text. Once one of them was read, the next ones need not be parsed, and runs of them
// pass as one slice: 10 us less for a stream of 20 chunks. That the chunk with the role shows what surrounds a delta (one `JSON.parse` for a stream instead of
// three), with what was done in `openai-stream.ts` and `sse.ts`: of a stream in 4 reads 0.65 of the CPU of before that day instead of 0.75, in 19 reads 0.44
// instead of 0.51, in a harness of its own (docs/profile.md). Streams as OpenAI sends them to who did not ask for the usage (letters, `usage: null`): 0.45 of the
// bare proxy where it was 0.40 while each of their chunks was shown by itself (`bench -- targets`, stream_vendor).

import type { Json } from './read-json.ts'

const FIELD = 'data: '
const FRAME_END = '\n\n'
const CONTENT = '"content":"'
const DELTA = '"delta"'
const FINISH = '"finish_reason"'
/** What stands between a delta and the finish reason of its choice, where anything does. */
const LOGPROBS = ',"logprobs":null'
/** Letters that OpenAI puts behind each chunk, so that its length says little of its text: others each time, and the last member. */
const LETTERS = '"obfuscation":"'
const LETTERS_END = '"}'
const MOST_ASCII = 0x7e
/** Finish reasons that are the client's already. */
const REASONS = ['"stop"', '"length"', '"tool_calls"']
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
  /** Letters of `obfuscation` stand behind `#after`, and nothing behind them. */
  #lettered = false
  /** The same, as frames of server-sent events begin and end. */
  #opening = ''
  #closing = ''
  /** What ends a frame behind its letters; '' where there are none. */
  #tail = ''
  /** What both together have more of UTF-8 bytes than of UTF-16 units. */
  #frameMore = 0
  /** UTF-8 bytes of the texts that were passed over last. */
  skimmed = 0
  /** What was passed over last, as the client gets it. */
  run = ''
  /** What surrounds the members of a delta, until a chunk with a text was met. */
  #expected: { readonly of: Around; readonly shown: Around | null } | null = null
  /** What surrounds the finish reason of a chunk that says no more than that: up to its empty delta, from there to the reason, and the rest. Null: not known. */
  #ending: readonly [before: string, between: string, after: string] | null = null
  /** What is shown in place of the surroundings; null: they are shown as they are. */
  #shown: readonly [before: string, after: string] | null = null

  /**
   * Takes the surroundings of a chunk that was parsed; `text` is the content of its only delta. Keeps the ones it has when they cannot be told. `shown` is the
   * chunk as the client gets it: where it is another one, such as without a usage that is not the client's, frames that are passed over are put together so.
   */
  learn(data: string, text: string, shown = data): void {
    const start = textStart(data, text)
    const shownStart = shown === data ? start : textStart(shown, text)
    if (start < 0 || shownStart < 0) return
    const after = data.slice(start + text.length)
    const shownAfter = shown.slice(shownStart + text.length)
    const letters = lettersAt(after)
    const shownLetters = lettersAt(shownAfter)
    if (letters < 0 !== shownLetters < 0) return
    this.#before = data.slice(0, start)
    this.#lettered = letters >= 0
    this.#after = this.#lettered ? after.slice(0, letters) : after
    this.#shown =
      shown === data
        ? null
        : [shown.slice(0, shownStart), this.#lettered ? shownAfter.slice(0, shownLetters) : shownAfter]
    // Of a frame with several lines its text does not show where each begins.
    this.#opening = data.indexOf('\n') < 0 ? `${FIELD}${this.#before}` : ''
    this.#close(this.#after)
    // Of texts that are whole already: measuring what was just put together would first copy it. With what `openai-draft.ts` spares: 4 % of a stream.
    this.#frameMore = moreBytes(data) - moreBytes(text)
  }

  #close(after: string): void {
    this.#closing = this.#lettered ? after : `${after}${FRAME_END}`
    this.#tail = this.#lettered ? `${LETTERS_END}${FRAME_END}` : ''
  }

  /** Takes what surrounds the delta of a chunk that was parsed and begins a choice: one that differs in its delta alone need not be. `shown` as in `learn`. */
  expect(data: string, delta: Json, shown = data): void {
    const of = isFlat(delta) ? aroundDelta(data) : null
    const shownAround = shown === data || of === null ? null : aroundDelta(shown)
    if (of === null || (shown !== data && shownAround?.lettered !== of.lettered)) return
    this.#expected = { of, shown: shownAround }
    if (of.lettered || shownAround !== null) return
    const to = data.length - of.after.length
    let reason = to + 1
    if (data.startsWith(LOGPROBS, reason)) reason += LOGPROBS.length
    if (!data.startsWith(`,${FINISH}:null}`, reason)) return
    const value = reason + `,${FINISH}:`.length
    this.#ending = [of.before, data.slice(to, value), data.slice(value + 'null'.length)]
  }

  /** Whether the frame there is the expected one with some text for a delta; its surroundings are taken then. */
  meets(text: string, from: number): boolean {
    if (this.#expected === null) return false
    const { of, shown } = this.#expected
    const { before, after, lettered } = of
    const opening = `${FIELD}${before}${CONTENT}`
    if (!text.startsWith(opening, from)) return false
    const start = from + opening.length
    const quote = endOfPlain(text, start)
    const closing = lettered ? `"${after}` : `"${after}${FRAME_END}`
    const tail = lettered ? `${LETTERS_END}${FRAME_END}` : ''
    if (quote <= start || endOfFrame(text, quote, closing, tail) < 0) return false
    // As parts of them: they are one text each by now, and others would be copies.
    this.#before = opening.slice(FIELD.length)
    this.#after = lettered ? closing : closing.slice(0, -FRAME_END.length)
    this.#lettered = lettered
    this.#shown = shown === null ? null : [`${shown.before}${CONTENT}`, `"${shown.after}`]
    this.#opening = opening
    this.#closing = closing
    this.#tail = tail
    this.#frameMore = moreBytes(before) + moreBytes(after)
    this.#expected = null
    return true
  }

  /** The finish reason of a chunk that differs from the expected one in that alone and has an empty delta; null for any other. */
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

  /** A chunk that fits, with its text, as the client gets it. */
  shown(data: string, text: string): string {
    if (this.#shown === null) return data
    const letters = this.#lettered ? data.slice(this.#before.length + text.length + this.#after.length) : ''
    return this.#shown[0] + text + this.#shown[1] + letters
  }

  /** The text of a chunk that fits, null for any other. */
  textIn(data: string): string | null {
    const before = this.#before
    if (before === '' || data.length < before.length + this.#after.length) return null
    if (this.#lettered) return this.#textBeforeLetters(data)
    if (!data.startsWith(before) || !data.endsWith(this.#after)) return null
    const text = data.slice(before.length, data.length - this.#after.length)
    return PLAIN.test(text) ? text : null
  }

  #textBeforeLetters(data: string): string | null {
    const before = this.#before
    if (!data.startsWith(before)) return null
    const quote = endOfPlain(data, before.length)
    if (quote < 0 || endOfFrame(data, quote, this.#after, LETTERS_END) !== data.length) return null
    return data.slice(before.length, quote)
  }

  get isLearned(): boolean {
    return this.#opening !== ''
  }

  /** Passes over the frames from `from` on that fit and hold some text; answers where they end, `from` when the first does not fit. */
  skim(text: string, from: number): number {
    const opening = this.#opening
    const closing = this.#closing
    if (opening === '' || !text.startsWith(opening, from)) return from
    let end = from
    let count = 0
    let frames = 0
    let shown = ''
    do {
      const start = end + opening.length
      const quote = endOfPlain(text, start)
      const frameEnd = quote <= start ? -1 : endOfFrame(text, quote, closing, this.#tail)
      if (frameEnd < 0) break
      count += quote - start
      frames++
      if (this.#shown !== null) shown += this.#shownFrame(text, start, quote, frameEnd)
      end = frameEnd
    } while (text.startsWith(opening, end))
    if (end === from) return from
    // All of the run at once: where it has more bytes than units, they are its texts', but for what surrounds each.
    const run = text.slice(from, end)
    this.skimmed = count + moreBytes(run) - frames * this.#frameMore
    this.run = this.#shown === null ? run : shown
    return end
  }

  #shownFrame(text: string, start: number, quote: number, end: number): string {
    const [before, after] = this.#shown!
    // Letters stay as they came.
    const rest = this.#lettered ? text.slice(quote + this.#after.length, end) : FRAME_END
    return FIELD + before + text.slice(start, quote) + after + rest
  }
}

/** What surrounds the members of a delta, up to the letters where there are any. */
interface Around {
  readonly before: string
  readonly after: string
  readonly lettered: boolean
}

/** Null: where they stand cannot be told. */
const aroundDelta = (data: string): Around | null => {
  const at = data.indexOf(DELTA)
  // Without escapes each quote begins or ends a string, so what stands there once is the member's name; and a delta of plain members ends with its first brace.
  if (at < 0 || data.indexOf(DELTA, at + 1) >= 0 || data.indexOf('\\') >= 0) return null
  if (!data.startsWith(':{', at + DELTA.length)) return null
  const from = at + DELTA.length + ':{'.length
  const after = data.slice(data.indexOf('}', from))
  const letters = lettersAt(after)
  return { before: data.slice(0, from), after: letters < 0 ? after : after.slice(0, letters), lettered: letters >= 0 }
}

/** No member holds others, or a brace in its text. */
const isFlat = (delta: Json): boolean => {
  for (const name in delta) {
    const value = delta[name]
    if (name.includes('}') || (value !== null && (typeof value !== 'string' || value.includes('}')))) return false
  }
  return true
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

/**
 * Where the letters begin that a chunk ends with, in what stands behind its text; -1: there are none, or anything behind them. Without escapes what reads like the
 * member is one: its first quote stands before a letter, so it begins a string.
 */
const lettersAt = (after: string): number => {
  const at = after.indexOf(LETTERS)
  const from = at + LETTERS.length
  return at >= 0 && endOfFrame(after, from, '', LETTERS_END) === after.length ? from : -1
}

/** Where a frame ends whose text ends at `quote`, with `closing` behind it, and letters and `tail` unless that is ''; -1 when it ends otherwise. */
const endOfFrame = (text: string, quote: number, closing: string, tail: string): number => {
  if (!text.startsWith(closing, quote)) return -1
  const end = quote + closing.length
  if (tail === '') return end
  const letters = endOfPlain(text, end, MOST_ASCII)
  return letters >= 0 && text.startsWith(tail, letters) ? letters + tail.length : -1
}

/** Where the JSON string text from `start` on ends with its quote; -1 when an escape, a control character, one beyond `most` or the end comes before it. */
const endOfPlain = (text: string, start: number, most = 0xffff): number => {
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at
    if (code === BACKSLASH || code < SPACE || code > most) return -1
  }
  return -1
}
