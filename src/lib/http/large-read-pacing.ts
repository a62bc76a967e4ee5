// What is read in large pieces is garbage in large pieces. A burst of it is held back, given back and collected here, long before the collector would look.
import { edenGC } from 'bun:jsc'

/** Smaller reads cost more to give back than to leave, and Node's buffers share slabs of 8 KiB. */
export const LARGE_BYTES = 16 * 1024
/** The runtime reads half a megabyte at once from a socket that has it: so many of those that were held back go on in one turn of the event loop. */
const MOST_IN_A_TURN = 8
/**
 * After so many large bytes the young objects are collected: what is left of the bytes is text, which cannot be given back. 1 to 2 ms, whatever else the heap
 * holds (a full collection takes 700 ms with two million objects). Left to itself the collector waits until the heap has doubled.
 */
const COLLECT_BYTES = 8 * 1024 * 1024

/** Something that was held back. */
export interface TakesTurns {
  /** It may read again; called once, perhaps too late. */
  goOn(): void
}

let waiting: TakesTurns[] = []
let goneInThisTurn = 0
let scheduled = false
let freedBytes = 0

/** Lets it go on now or in a later turn, in the order in which they came. */
export const inTurn = (reader: TakesTurns): void => {
  if (goneInThisTurn < MOST_IN_A_TURN) {
    goneInThisTurn++
    reader.goOn()
  } else waiting.push(reader)
  schedule()
}

const schedule = (): void => {
  if (scheduled) return
  scheduled = true
  setImmediate(nextTurn)
}

const nextTurn = (): void => {
  scheduled = false
  const next = waiting.slice(0, MOST_IN_A_TURN)
  waiting = waiting.slice(MOST_IN_A_TURN)
  goneInThisTurn = next.length
  if (next.length > 0) schedule()
  for (const reader of next) reader.goOn()
}

/** Gives the memory of bytes back at once when it is large. Every view of it is empty afterwards. */
export const freeIfLarge = ({ buffer }: Uint8Array): void => {
  if (buffer.byteLength < LARGE_BYTES || !(buffer instanceof ArrayBuffer)) return
  freedBytes += buffer.byteLength
  buffer.transfer(0)
  if (freedBytes < COLLECT_BYTES) return
  freedBytes = 0
  edenGC()
}
