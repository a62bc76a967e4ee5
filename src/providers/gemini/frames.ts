// The framing of Gemini's streams: server-sent events, and bare text between them. An error that ends a stream is
// plain JSON over several lines, which a parser by the standard ignores.
import { createSseParser, type EventParser, type SseEvent, SseTooLarge } from '../../lib/text/sse.ts'

const LINE_FEED = 10
const MOST_BARE_BYTES = 1024 * 1024
/** First characters of a line of JSON that is no field of an event: space, quote, comma, brackets, braces. */
const BARE = new Set([...' \t",[]{}'].map((sign) => sign.charCodeAt(0)))

/** Bare lines are one event named `error` at the end of the body. */
class GeminiFrames implements EventParser {
  readonly #events = createSseParser()
  #bare: Uint8Array[] = []
  #bareBytes = 0
  #startsLine = true
  #inBareLine = false

  push(bytes: Uint8Array): SseEvent[] {
    this.#collect(bytes)
    return this.#events.push(bytes)
  }

  end(): SseEvent[] {
    const events = this.#events.end()
    const text = Buffer.concat(this.#bare).toString('utf8').trim()
    if (text !== '') events.push({ event: 'error', data: text })
    return events
  }

  #collect(bytes: Uint8Array): void {
    let at = 0
    while (at < bytes.length) {
      if (this.#startsLine) this.#inBareLine = BARE.has(bytes[at]!)
      const feed = bytes.indexOf(LINE_FEED, at)
      const end = feed === -1 ? bytes.length : feed + 1
      if (this.#inBareLine) {
        this.#bareBytes += end - at
        if (this.#bareBytes > MOST_BARE_BYTES) throw new SseTooLarge('text outside the events of the stream')
        this.#bare.push(bytes.slice(at, end))
      }
      this.#startsLine = feed !== -1
      at = end
    }
  }
}

export const geminiFrames = (): EventParser => new GeminiFrames()
