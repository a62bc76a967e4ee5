// Paces large reads, which become large garbage: a burst of paused readers resumes a few at a time, and the memory of
// what was read is freed and collected here, long before the collector would run.
import { edenGC } from 'bun:jsc'

/** Freeing a smaller buffer costs more than it saves, and Node's buffers share slabs of 8 KiB. */
export const LARGE_BYTES = 16 * 1024
/**
 * The runtime reads up to half a megabyte at once from a socket: paused readers that resume in one iteration of the
 * event loop.
 */
const MAX_PER_ITERATION = 8
/**
 * The young objects are collected after this many freed bytes: the texts made of them cannot be freed by hand. A young
 * collection takes 1 to 2 ms whatever the heap holds; the collector by itself waits until the heap has doubled.
 */
const COLLECT_BYTES = 8 * 1024 * 1024

/** A paused reader. */
export interface PacedReader {
  /** Resumes reading; called once, possibly after the reader has ended. */
  resumeReading(): void
}

// Mutable: a process has one event loop and one heap, so one queue and one count of freed bytes.
let waiting: PacedReader[] = []
let resumedInIteration = 0
let scheduled = false
let bytesSinceCollection = 0

/** Resumes the reader now or in a later iteration of the event loop, first in, first out. */
export const resumePaced = (reader: PacedReader): void => {
  if (resumedInIteration < MAX_PER_ITERATION) {
    resumedInIteration++
    reader.resumeReading()
  } else waiting.push(reader)
  schedule()
}

const schedule = (): void => {
  if (scheduled) return
  scheduled = true
  setImmediate(nextIteration)
}

const nextIteration = (): void => {
  scheduled = false
  const next = waiting.slice(0, MAX_PER_ITERATION)
  waiting = waiting.slice(MAX_PER_ITERATION)
  resumedInIteration = next.length
  if (next.length > 0) schedule()
  for (const reader of next) reader.resumeReading()
}

/** Frees the memory of large bytes at once. Every view of it is empty afterwards. */
export const freeIfLarge = ({ buffer }: Uint8Array): void => {
  if (buffer.byteLength < LARGE_BYTES || !(buffer instanceof ArrayBuffer)) return
  bytesSinceCollection += buffer.byteLength
  buffer.transfer(0)
  if (bytesSinceCollection < COLLECT_BYTES) return
  bytesSinceCollection = 0
  edenGC()
}
