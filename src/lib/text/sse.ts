// Server-sent events: a parser that may be cut at any byte, and the frames that we write.
import { createParser, type EventSourceParser } from 'eventsource-parser'

export interface SseEvent {
  /** `event:` field, or null. */
  readonly event: string | null
  readonly data: string
  /** Set when this is no event but a run of whole frames that a `Skimmer` took: `data` is their text as it is to go on, and this what they count. */
  readonly skimmed?: number
}

/** Takes whole frames without their events being made. It sees text without carriage returns only, and only where a frame begins. */
export interface Skimmer {
  /** Takes as many frames as it will from there on; answers where they end, `from` when it takes none. */
  skim(text: string, from: number): number
  /** Those that it took last, as they are to go on. Answered once. */
  takeRun(): string
  /** A count of its own of them. */
  readonly skimmed: number
}

/** A line or an event grew beyond the limit: the upstream is broken or hostile. */
export class SseTooLarge extends Error {
  override readonly name = 'SseTooLarge'
}

/** A frame of a binary framing does not match its checksum or its own lengths: what follows it cannot be read either. */
export class FrameDamaged extends Error {
  override readonly name = 'FrameDamaged'
}

/** Bytes of a stream to events, cut anywhere. Of server-sent events here; other framings answer the same. */
export interface EventParser {
  /** The events that these bytes complete, in order; keeps no view of the bytes. Throws SseTooLarge or FrameDamaged; the parser is of no use after that. */
  push(bytes: Uint8Array): SseEvent[]
  /** Whether the next bytes may come as text, to `pushText`: what came before did not end within a character. */
  readonly takesText?: boolean
  pushText?(text: string): SseEvent[]
  /** What the end of the body completes: an event whose blank line is missing (the standard drops it, but some servers end so after `[DONE]`). */
  end(): SseEvent[]
}

/**
 * The WHATWG grammar: CR, LF or CRLF, one leading BOM, comments and unknown fields ignored, `data` lines joined by LF.
 * `maxEventChars` bounds what is held of an event that has not ended.
 */
export const createSseParser = (maxEventChars = 8 * 1024 * 1024, skimmer: Skimmer | null = null): EventParser =>
  new SseParser(maxEventChars, skimmer)

/** A class, not closures: one is made for each stream. */
class SseParser implements EventParser {
  readonly #utf8 = new Utf8Pieces()
  #events = NO_EVENTS
  #tooLarge = false
  /** Made when the first frame comes that is not of the one common form: most streams hold none. */
  #parser: EventSourceParser | null = null
  /** The parser holds nothing: what comes next starts a frame. */
  #clean = true

  constructor(
    private readonly maxEventChars: number,
    private readonly skimmer: Skimmer | null,
  ) {}

  push(bytes: Uint8Array): SseEvent[] {
    const end = bytes.length < LONG_BYTES ? 0 : wholeFrames(bytes)
    if (end === 0 || end === bytes.length) return this.#feed(this.#utf8.decode(bytes))
    const read = this.#feed(this.#utf8.decode(bytes.subarray(0, end)))
    const rest = this.#feed(this.#utf8.decode(bytes.subarray(end)))
    return rest.length === 0 ? read : [...read, ...rest]
  }

  get takesText(): boolean {
    return this.#utf8.isWhole
  }

  pushText(text: string): SseEvent[] {
    this.#utf8.isStarted = true
    return this.#feed(text)
  }

  end(): SseEvent[] {
    return this.#feed(`${this.#utf8.end()}\n\n`)
  }

  #feed(text: string): SseEvent[] {
    const events: SseEvent[] = []
    this.#events = events
    let from = 0
    if (!this.#clean) {
      // The frame that was cut ends at the first blank line; what follows it is read in the common form again.
      const end = text.indexOf('\n\n')
      if (end !== -1 && end + 2 < text.length) {
        this.#parser!.feed(text.slice(0, end + 2))
        from = end + 2
        this.#clean = true
      }
    }
    if (this.#clean) from = plainFrames(text, from, events, this.maxEventChars, this.skimmer)
    if (from < text.length) {
      this.#parser ??= this.#makeParser()
      this.#parser.feed(from === 0 ? text : text.slice(from))
      this.#clean = text.endsWith('\n\n')
    }
    // Not kept: they hold the text of a whole read, for as long as nobody asks for the next one.
    this.#events = NO_EVENTS
    if (this.#tooLarge) throw new SseTooLarge(`an event of the stream exceeds ${this.maxEventChars} characters`)
    return events
  }

  #makeParser(): EventSourceParser {
    return createParser({
      maxBufferSize: this.maxEventChars,
      onEvent: ({ event, data }) => {
        this.#events.push({ event: event ?? null, data })
      },
      onError: ({ type }) => {
        if (type === 'max-buffer-size-exceeded') this.#tooLarge = true
      },
    })
  }
}

const NO_EVENTS: SseEvent[] = []

/** The frame that such a read ends within is made text by itself: as a slice it would keep the text of all until its end comes. Shorter ones may come as text. */
export const LONG_BYTES = 4 * 1024

/** How many of the bytes end with the last blank line in the common form. */
const wholeFrames = (bytes: Uint8Array): number => {
  for (let at = bytes.length - 1; at > 0; at--) if (bytes[at] === 10 && bytes[at - 1] === 10) return at + 1
  return 0
}

const FIRST = new TextDecoder()
const LATER = new TextDecoder('utf-8', { ignoreBOM: true })

/** Bytes to text, cut anywhere. While every piece ends with a whole character the shared decoders do: one of its own costs a stream microseconds. */
class Utf8Pieces {
  /** A byte order mark is no more than a character from now on. */
  isStarted = false
  /** Holds back half a character. */
  #own: TextDecoder | null = null

  decode(bytes: Uint8Array): string {
    if (bytes.length === 0) return ''
    if (this.#own === null && bytes[bytes.length - 1]! >= 0x80)
      this.#own = new TextDecoder('utf-8', { ignoreBOM: this.isStarted })
    const text =
      this.#own === null ? (this.isStarted ? LATER : FIRST).decode(bytes) : this.#own.decode(bytes, { stream: true })
    this.isStarted = true
    return text
  }

  /** Nothing is held back. */
  get isWhole(): boolean {
    return this.#own === null
  }

  end(): string {
    return this.#own?.decode() ?? ''
  }
}

const PLAIN = 'data: '

/** Reads whole frames of the one common form, `data: ...` and a blank line, three times as fast; answers how far it came. The parser has the rest. */
const plainFrames = (
  text: string,
  start: number,
  events: SseEvent[],
  maxEventChars: number,
  skimmer: Skimmer | null,
): number => {
  let from = start
  if (text.indexOf('\r', from) !== -1) return from
  while (from < text.length) {
    const skimmed = skimmer === null ? from : skimmer.skim(text, from)
    if (skimmed > from) {
      events.push({ event: null, data: skimmer!.takeRun(), skimmed: skimmer!.skimmed })
      from = skimmed
      continue
    }
    if (!text.startsWith(PLAIN, from)) break
    const end = text.indexOf('\n', from)
    if (end === -1 || text.charCodeAt(end + 1) !== 10 || end - from > maxEventChars) break
    events.push({ event: null, data: text.slice(from + PLAIN.length, end) })
    from = end + 2
  }
  return from
}

/** One `data` frame. Line ends inside JSON text can only be space between tokens, so they become spaces: a frame is always one line. */
export const sseFrame = (json: string): string =>
  json.indexOf('\n') === -1 && json.indexOf('\r') === -1
    ? `data: ${json}\n\n`
    : `data: ${json.replace(/[\r\n]/g, ' ')}\n\n`
