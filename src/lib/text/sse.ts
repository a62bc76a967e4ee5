// Server-sent events: a parser whose input may be cut at any byte, and the events that the gateway writes.
import { createParser, type EventSourceParser } from 'eventsource-parser'

export interface SseEvent {
  /** `event:` field, or null. */
  readonly event: string | null
  readonly data: string
  /**
   * Set for a run of whole events that a `Skimmer` took: `data` is their text to be forwarded, `skimmed` the skimmer's
   * count.
   */
  readonly skimmed?: number
}

/**
 * Takes runs of whole events without making an object of each. It receives text without carriage returns only, from the
 * beginning of an event on.
 */
export interface Skimmer {
  /** Takes events from `from` on; returns where they end, `from` when it takes none. */
  skim(text: string, from: number): number
  /** The text of the last run, to be forwarded. To be called once. */
  takeRun(): string
  /** The skimmer's own count of the last run. */
  readonly skimmed: number
}

/** A line or an event exceeds the limit: the upstream is broken or hostile. */
export class SseTooLarge extends Error {
  override readonly name = 'SseTooLarge'
}

/** A frame of a binary framing contradicts its checksum or its lengths: what follows cannot be read either. */
export class FrameDamaged extends Error {
  override readonly name = 'FrameDamaged'
}

/** Bytes of a stream to events, cut anywhere. Here of server-sent events; other framings implement it as well. */
export interface EventParser {
  /**
   * The events that these bytes complete, in order; retains no view of the bytes. Throws SseTooLarge or FrameDamaged;
   * the parser must not be used afterwards.
   */
  push(bytes: Uint8Array): SseEvent[]
  /** Whether the next bytes may come as text, to `pushText`: the earlier bytes did not end within a character. */
  readonly takesText?: boolean
  pushText?(text: string): SseEvent[]
  /**
   * The event that the end of the body completes: one without its blank line. The standard drops it, but some servers
   * end so after `[DONE]`.
   */
  end(): SseEvent[]
}

/**
 * The WHATWG grammar: CR, LF or CRLF, one leading BOM, comments and unknown fields ignored, `data` lines joined by LF.
 * `maxEventChars` bounds what is buffered of an event that has not ended.
 */
export const createSseParser = (maxEventChars = 8 * 1024 * 1024, skimmer: Skimmer | null = null): EventParser =>
  new SseParser(maxEventChars, skimmer)

/** A class, not closures: one is made for each stream. */
class SseParser implements EventParser {
  readonly #utf8 = new Utf8Pieces()
  #events = NO_EVENTS
  #tooLarge = false
  /** Made when the first event comes that is not in the common form: most streams have none. */
  #parser: EventSourceParser | null = null
  /** The parser buffers nothing: what comes next begins an event. */
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
      // The event that was cut ends at the first blank line; what follows is read in the common form again.
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
    // Not retained: the events hold the text of a whole read until the next one.
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

/**
 * In a read of this size the unfinished last event is decoded by itself: as a slice it would retain the text of the
 * whole read. Shorter reads may come as text.
 */
export const LONG_BYTES = 4 * 1024

/** How many of the bytes end with the last blank line in the common form. */
const wholeFrames = (bytes: Uint8Array): number => {
  for (let at = bytes.length - 1; at > 0; at--) if (bytes[at] === 10 && bytes[at - 1] === 10) return at + 1
  return 0
}

const FIRST = new TextDecoder()
const LATER = new TextDecoder('utf-8', { ignoreBOM: true })

/**
 * Bytes to text, cut anywhere. While every piece ends with a whole character the shared decoders serve; a decoder for
 * the stream is made only for a cut character, since it is expensive.
 */
class Utf8Pieces {
  /** From now on a byte order mark is a character. */
  isStarted = false
  /** Buffers half a character. */
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

  /** Nothing is buffered. */
  get isWhole(): boolean {
    return this.#own === null
  }

  end(): string {
    return this.#own?.decode() ?? ''
  }
}

const PLAIN = 'data: '

/**
 * Reads whole events of the common form, `data: ...` and a blank line; returns how far it came. The parser reads the
 * rest, and takes three times as long.
 */
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

/**
 * One `data` event. Line ends in JSON text can only be space between tokens, so they become spaces: an event is always
 * one line.
 */
export const sseFrame = (json: string): string =>
  json.indexOf('\n') === -1 && json.indexOf('\r') === -1
    ? `data: ${json}\n\n`
    : `data: ${json.replace(/[\r\n]/g, ' ')}\n\n`
