// Most chunks of a stream differ from the one before in nothing but their text. Once one of them was read, the next ones need not be parsed, and runs of them
// pass as one slice: 10 us less for a stream of 20 chunks. That the chunk with the role shows what surrounds a delta (one `JSON.parse` for a stream instead of
// three), with what was done in `stream.ts` and `lib/text/sse.ts`: of a stream in 4 reads 0.65 of the CPU of before that day instead of 0.75, in 19 reads 0.44
// instead of 0.51, in a harness of its own. Streams as OpenAI sends them to who did not ask for the usage (letters, `usage: null`): 0.51 of the
// bare proxy, where others are 0.65 (`bench -- targets`, stream_vendor).

import type { Json } from '../shared/read-json.ts'

const FIELD = 'data: '
const FRAME_END = '\n\n'
const CONTENT_NAME = '"content"'
const CONTENT = `${CONTENT_NAME}:"`
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
/** Escapes, and what separates lines. */
const NO_PLAIN_LINE = /[\\\n\r]/

const QUOTE = 0x22
const BACKSLASH = 0x5c
const SPACE = 0x20

/** What surrounds a string of a chunk, up to its letters. */
interface Around {
  readonly before: string
  readonly after: string
  /** What ends the chunk behind letters that are others each time; '' where there are none. */
  readonly tail: string
}

/** A chunk with the same surroundings of its text has the same structure: only that one string, and the letters, differ. */
export class ChunkTemplate {
  #of: Around | null = null
  /** What is shown in place of the surroundings; null: they are shown as they are. */
  #shown: Around | null = null
  /** The same as `#of`, as frames of server-sent events begin and end. */
  #opening = ''
  #closing = ''
  #frameTail = ''
  /** What they have more of UTF-8 bytes than of UTF-16 units. */
  #frameMore = 0
  #run = ''
  /** UTF-8 bytes of the texts that were passed over last. */
  skimmed = 0
  /** What surrounds the members of a delta, until a chunk with a text was met. */
  #expected: { readonly of: Around; readonly shown: Around | null } | null = null
  /** What surrounds the finish reason of a chunk that says no more than that: up to its empty delta, from there to the reason, and the rest. Null: not known. */
  #ending: readonly [before: string, between: string, after: string] | null = null

  /**
   * Takes the surroundings of a chunk that was parsed; `text` is the content of its only delta, and all that counts as generated. Keeps the ones it has when they
   * cannot be told. `shown` is the chunk as the client gets it: where it is another one, such as without a usage that is not the client's, frames that are passed
   * over are put together so.
   */
  learn(data: string, text: string, shown = data): void {
    const of = aroundText(data, text)
    const shownOf = shown === data ? of : aroundText(shown, text)
    if (of === null || shownOf === null || shownOf.tail !== of.tail) return
    this.#take(of, shown === data ? null : shownOf, `${FIELD}${of.before}`, closingOf(of))
    // Of texts that are whole already: measuring what was just put together would first copy it. With what `draft.ts` spares: 4 % of a stream.
    this.#frameMore = moreBytes(data) - moreBytes(text)
  }

  /** Takes what surrounds the delta of a chunk that was parsed and begins a choice: one that differs in its delta alone need not be. `shown` as in `learn`. */
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

  /** Whether the frame there is the expected one with some text for a delta; its surroundings are taken then. */
  meets(text: string, from: number): boolean {
    if (this.#expected === null) return false
    const { of, shown } = this.#expected
    const opening = `${FIELD}${of.before}${CONTENT}`
    if (!text.startsWith(opening, from)) return false
    const start = from + opening.length
    const quote = endOfPlain(text, start)
    const closing = `"${closingOf(of)}`
    if (quote <= start || endBehind(text, quote, closing, frameTailOf(of)) < 0) return false
    // As parts of them: they are one text each by now, and others would be copies.
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

  /** What was passed over last, as the client gets it. Once: kept, it would hold the text of its read for as long as a stream is silent. */
  takeRun(): string {
    const run = this.#run
    this.#run = ''
    return run
  }

  /** Passes over the frames from `from` on that fit and hold some text; answers where they end, `from` when the first does not fit. */
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
    // All of the run at once: where it has more bytes than units, they are its texts', but for what surrounds each.
    const run = text.slice(from, end)
    this.skimmed = count + moreBytes(run) - frames * this.#frameMore
    this.#run = this.#shown === null ? run : shown
    return end
  }

  #shownFrame(text: string, start: number, quote: number, end: number): string {
    const { before, after } = this.#shown!
    // What stands behind the surroundings, letters among it, stays as it came.
    return FIELD + before + text.slice(start, quote) + after + text.slice(quote + this.#of!.after.length, end)
  }
}

const closingOf = ({ after, tail }: Around): string => (tail === '' ? `${after}${FRAME_END}` : after)
const frameTailOf = ({ tail }: Around): string => (tail === '' ? '' : `${tail}${FRAME_END}`)

const around = (before: string, after: string): Around => {
  const letters = lettersAt(after)
  return letters < 0 ? { before, after, tail: '' } : { before, after: after.slice(0, letters), tail: LETTERS_END }
}

/** Of the members of a chunk's only delta; null: where they stand cannot be told. */
const aroundDelta = (data: string, delta: Json): Around | null => {
  const at = data.indexOf(DELTA)
  // Without escapes each quote begins or ends a string, so what stands there once is the member's name.
  if (at < 0 || data.indexOf(DELTA, at + 1) >= 0 || data.indexOf('\\') >= 0) return null
  const from = at + DELTA.length + ':'.length
  const to = data.indexOf('}', from)
  // As it was parsed: nothing stands there twice, and the brace is its own.
  if (data[from - 1] !== ':' || data.slice(from, to + 1) !== JSON.stringify(delta)) return null
  return around(data.slice(0, from + 1), data.slice(to))
}

/** What a text has more of UTF-8 bytes than of UTF-16 units. */
const moreBytes = (text: string): number => Buffer.byteLength(text) - text.length

/** Of the text of a chunk's only delta; null: where it stands cannot be told without parsing. */
const aroundText = (data: string, text: string): Around | null => {
  const at = data.indexOf(CONTENT_NAME)
  // Twice: which of them is the delta's cannot be told. With an escape, or on several lines: nor is it what it looks like.
  if (at < 0 || data.indexOf(CONTENT_NAME, at + 1) >= 0 || NO_PLAIN_LINE.test(data)) return null
  const start = at + CONTENT.length
  const end = start + text.length
  const stands = data.startsWith(CONTENT, at) && data.startsWith(text, start) && data.charCodeAt(end) === QUOTE
  return stands ? around(data.slice(0, start), data.slice(end)) : null
}

/**
 * Where the letters begin that a chunk ends with, in what stands behind its text; -1: there are none, or anything behind them. Without escapes what reads like the
 * member is one: its first quote stands before a letter, so it begins a string.
 */
const lettersAt = (after: string): number => {
  const at = after.indexOf(LETTERS)
  const from = at + LETTERS.length
  return at >= 0 && endBehind(after, from, '', LETTERS_END) === after.length ? from : -1
}

/** Where `closing` ends that stands at `quote`, with letters and `tail` behind it unless that is ''; -1 when anything else stands there. */
const endBehind = (text: string, quote: number, closing: string, tail: string): number => {
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
