// Paces large reads, which become large garbage: a burst of paused readers resumes a few at a time, and the memory of
// what was read is freed and collected here, long before the collector would run.
import { edenGC } from 'bun:jsc'

/** Freeing a smaller buffer costs more than it saves, and Node's buffers share slabs of 8 KiB. */
export const LARGE_BYTES = 16 * 1024
/**
 * The runtime reads up to half a megabyte at once from a socket: paused readers that resume in one iteration of the
 * event loop.
 */
const MOST_IN_A_TURN = 8
/**
 * The young objects are collected after this many freed bytes: the texts made of them cannot be freed by hand. A young
 * collection takes 1 to 2 ms whatever the heap holds; the collector by itself waits until the heap has doubled.
 */
const COLLECT_BYTES = 8 * 1024 * 1024

/** A paused reader. */
export interface TakesTurns {
  /** Resumes reading; called once, possibly after the reader has ended. */
  goOn(): void
}

let waiting: TakesTurns[] = []
let goneInThisTurn = 0
let scheduled = false
let freedBytes = 0

/** Resumes the reader now or in a later iteration of the event loop, first in, first out. */
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

/** Frees the memory of large bytes at once. Every view of it is empty afterwards. */
export const freeIfLarge = ({ buffer }: Uint8Array): void => {
  if (buffer.byteLength < LARGE_BYTES || !(buffer instanceof ArrayBuffer)) return
  freedBytes += buffer.byteLength
  buffer.transfer(0)
  if (freedBytes < COLLECT_BYTES) return
  freedBytes = 0
  edenGC()
}
