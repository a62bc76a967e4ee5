// AWS's binary framing of streams (`application/vnd.amazon.eventstream`): a parser that accepts cuts at any byte. A
// frame: total length, length of the headers, CRC-32 of these two; headers; payload; CRC-32 of all before it.
// Big-endian throughout.
import { type EventParser, FrameDamaged, type SseEvent, SseTooLarge } from '../../lib/text/sse.ts'

const PRELUDE_BYTES = 12
const CHECKSUM_BYTES = 4
const STRING = 7
/**
 * Sizes of header values by type: true, false, byte, short, integer, long, bytes (its own length), string (its own
 * length), timestamp, uuid.
 */
const VALUE_BYTES: readonly (number | null)[] = [0, 0, 1, 2, 4, 8, null, null, 8, 16]
const FIRST_BYTES = 4_096

const decoder = new TextDecoder()
const damaged = (what: string): FrameDamaged => new FrameDamaged(`a frame of the stream is damaged: ${what}`)

/** String headers by name; values of other types are skipped. */
const readHeaders = (bytes: Uint8Array): ReadonlyMap<string, string> => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const headers = new Map<string, string>()
  let at = 0
  while (at < bytes.length) {
    const nameEnd = at + 1 + bytes[at]!
    const type = bytes[nameEnd]
    const fixed = type === undefined ? undefined : VALUE_BYTES[type]
    if (fixed === undefined) throw damaged('its headers cannot be read')
    let valueAt = nameEnd + 1
    if (fixed === null && valueAt + 2 > bytes.length) throw damaged('its headers cannot be read')
    const size = fixed ?? view.getUint16(valueAt)
    if (fixed === null) valueAt += 2
    const next = valueAt + size
    if (next > bytes.length) throw damaged('its headers cannot be read')
    if (type === STRING)
      headers.set(decoder.decode(bytes.subarray(at + 1, nameEnd)), decoder.decode(bytes.subarray(valueAt, next)))
    at = next
  }
  return headers
}

/** A modelled failure has its type and a JSON payload; an unmodelled one only a code and a message in its headers. */
const eventOf = (headers: ReadonlyMap<string, string>, payload: Uint8Array): SseEvent => {
  if (headers.get(':message-type') === 'error') {
    const failure = { code: headers.get(':error-code') ?? null, message: headers.get(':error-message') ?? '' }
    return { event: 'error', data: JSON.stringify({ error: failure }) }
  }
  const event = headers.get(':event-type') ?? headers.get(':exception-type') ?? null
  return { event, data: decoder.decode(payload) }
}

class FrameParser implements EventParser {
  /**
   * The unfinished frame. Grown by doubling: a server that sends byte by byte costs no more than the frame's length.
   */
  #buffered = new Uint8Array(0)
  #bufferedBytes = 0

  constructor(readonly maxFrameBytes: number) {}

  push(bytes: Uint8Array): SseEvent[] {
    const events: SseEvent[] = []
    let from = 0
    while (from < bytes.length) {
      if (this.#bufferedBytes === 0) {
        const size = this.#sizeOf(bytes.subarray(from))
        if (size !== null && from + size <= bytes.length) {
          events.push(this.#read(bytes.subarray(from, from + size)))
          from += size
          continue
        }
      }
      from += this.#buffer(bytes.subarray(from))
      const size = this.#sizeOf(this.#buffered.subarray(0, this.#bufferedBytes))
      if (size !== this.#bufferedBytes) continue
      events.push(this.#read(this.#buffered.subarray(0, size)))
      this.#bufferedBytes = 0
    }
    return events
  }

  /** An unfinished frame yields no event. */
  end(): SseEvent[] {
    return []
  }

  /** Takes no more than the unfinished frame needs; returns how many bytes that was. */
  #buffer(bytes: Uint8Array): number {
    const buffered = this.#bufferedBytes
    const size = buffered < PRELUDE_BYTES ? PRELUDE_BYTES : this.#sizeOf(this.#buffered.subarray(0, buffered))!
    const taken = Math.min(size - buffered, bytes.length)
    if (buffered + taken > this.#buffered.length) {
      const grown = new Uint8Array(
        Math.min(Math.max(buffered + taken, this.#buffered.length * 2, FIRST_BYTES), this.maxFrameBytes),
      )
      grown.set(this.#buffered.subarray(0, buffered))
      this.#buffered = grown
    }
    this.#buffered.set(bytes.subarray(0, taken), buffered)
    this.#bufferedBytes += taken
    return taken
  }

  /** Length of the frame that starts here, checked; null while its head is incomplete. */
  #sizeOf(bytes: Uint8Array): number | null {
    if (bytes.length < PRELUDE_BYTES) return null
    const view = new DataView(bytes.buffer, bytes.byteOffset, PRELUDE_BYTES)
    const [total, headerBytes] = [view.getUint32(0), view.getUint32(4)]
    if (Bun.hash.crc32(bytes.subarray(0, 8)) !== view.getUint32(8))
      throw damaged('the checksum of its lengths is wrong')
    if (headerBytes + PRELUDE_BYTES + CHECKSUM_BYTES > total) throw damaged('its lengths contradict each other')
    if (total > this.maxFrameBytes) throw new SseTooLarge(`a frame of the stream exceeds ${this.maxFrameBytes} bytes`)
    return total
  }

  #read(frame: Uint8Array): SseEvent {
    const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength)
    const payloadEnd = frame.length - CHECKSUM_BYTES
    if (Bun.hash.crc32(frame.subarray(0, payloadEnd)) !== view.getUint32(payloadEnd))
      throw damaged('its checksum is wrong')
    const headersEnd = PRELUDE_BYTES + view.getUint32(4)
    return eventOf(readHeaders(frame.subarray(PRELUDE_BYTES, headersEnd)), frame.subarray(headersEnd, payloadEnd))
  }
}

/**
 * An event is named by its `:event-type` or `:exception-type` and holds the payload, JSON text. An unmodelled error is
 * named `error` and holds `{error: {code, message}}`. `maxFrameBytes` bounds the buffered bytes. Throws FrameDamaged
 * at a wrong checksum.
 */
export const createAwsEventStreamParser = (maxFrameBytes = 8 * 1024 * 1024): EventParser =>
  new FrameParser(Math.max(maxFrameBytes, PRELUDE_BYTES))
