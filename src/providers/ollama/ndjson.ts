// Newline-delimited JSON: a parser that accepts cuts at any byte.
import { type EventParser, type SseEvent, SseTooLarge } from '../../lib/text/sse.ts'

const LF = 10
const FIRST_BYTES = 1_024

/**
 * Each line is one event without a name. Lines end with LF or CRLF, the last one perhaps with neither; blank ones are
 * skipped. `maxLineBytes` bounds the buffered text.
 */
export const createNdjsonParser = (maxLineBytes = 8 * 1024 * 1024): EventParser => {
  const decoder = new TextDecoder()
  // The unfinished line. Grown by doubling: a server that sends byte by byte costs no more than the line's length.
  let buffered = new Uint8Array(0)
  let bufferedBytes = 0

  const hold = (bytes: Uint8Array): void => {
    const needed = bufferedBytes + bytes.length
    if (needed > maxLineBytes) throw new SseTooLarge(`a line of the stream exceeds ${maxLineBytes} bytes`)
    if (needed > buffered.length) {
      const grown = new Uint8Array(Math.min(maxLineBytes, Math.max(needed, buffered.length * 2, FIRST_BYTES)))
      grown.set(buffered.subarray(0, bufferedBytes))
      buffered = grown
    }
    buffered.set(bytes, bufferedBytes)
    bufferedBytes = needed
  }
  /** Characters are whole: no byte of one is a line end. */
  const take = (line: Uint8Array, events: SseEvent[]): void => {
    if (line.length > maxLineBytes) throw new SseTooLarge(`a line of the stream exceeds ${maxLineBytes} bytes`)
    const data = decoder.decode(line).trim()
    if (data !== '') events.push({ event: null, data })
  }
  const takeBuffered = (events: SseEvent[]): void => {
    const line = buffered.subarray(0, bufferedBytes)
    bufferedBytes = 0
    take(line, events)
  }

  return {
    push(bytes) {
      const events: SseEvent[] = []
      let from = 0
      for (let at = bytes.indexOf(LF); at !== -1; at = bytes.indexOf(LF, from)) {
        if (bufferedBytes === 0) take(bytes.subarray(from, at), events)
        else {
          hold(bytes.subarray(from, at))
          takeBuffered(events)
        }
        from = at + 1
      }
      if (from < bytes.length) hold(bytes.subarray(from))
      return events
    },
    end() {
      const events: SseEvent[] = []
      takeBuffered(events)
      return events
    },
  }
}
