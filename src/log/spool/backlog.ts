// How much of a spool is not consumed yet, and which segments no consumer needs. Pure bookkeeping on a few thousand
// marks.

import type { Counters } from '../segments/segments.ts'
import type { SegmentMark } from './recovery.ts'

/** State of the spool at a time: the next numbers, and the bytes written before. */
interface Mark extends Counters {
  readonly atMs: number
  readonly bytes: number
}

/** How far the consumers are. A topic without consumers is Infinity. */
export type Watermark = { readonly record: number } | { readonly requests: number; readonly operations: number }

export interface BacklogReport {
  readonly records: number
  readonly bytes: number
  /** Age of the oldest record of it, milliseconds; null when there is none. */
  readonly oldestMs: number | null
}

const MAX_MARKS = 4096
const MARK_MS = 1_000
const MARK_BYTES = 1024 * 1024

const passed = (mark: Counters, watermark: Watermark): boolean =>
  'record' in watermark
    ? mark.record <= watermark.record
    : mark.requests <= watermark.requests && mark.operations <= watermark.operations

/** Bytes and age are exact to one second or one MiB of writing; records are exact. */
export class Backlog {
  private marks: Mark[] = []
  private segments: SegmentMark[]
  private bytes = 0
  private watermark: Watermark

  constructor(segments: readonly SegmentMark[], watermark: Watermark) {
    this.watermark = watermark
    this.segments = [...segments]
    for (const segment of segments) {
      this.marks.push({ ...numbersOf(segment), atMs: segment.atMs, bytes: this.bytes })
      this.bytes += segment.bytes
    }
  }

  /** A segment was begun. */
  began(segment: SegmentMark): void {
    this.segments.push(segment)
  }

  /** A batch of `bytes` is about to be written; `first` holds its first numbers. */
  writing(first: Counters, bytes: number, atMs: number): void {
    const last = this.marks.at(-1)
    if (last === undefined || atMs - last.atMs >= MARK_MS || this.bytes - last.bytes >= MARK_BYTES) {
      this.marks.push({ ...numbersOf(first), atMs, bytes: this.bytes })
      // Every second mark is dropped: bytes and age get coarser, records stay exact.
      if (this.marks.length > MAX_MARKS) this.marks = this.marks.filter((_, index) => index % 2 === 0)
    }
    this.bytes += bytes
  }

  advance(watermark: Watermark): void {
    this.watermark = watermark
    let drop = 0
    while (drop + 1 < this.marks.length && passed(this.marks[drop + 1]!, watermark)) drop++
    this.marks.splice(0, drop)
  }

  report(next: Counters, nowMs: number): BacklogReport {
    const records = waiting(next, this.watermark)
    const oldest = this.marks[0]
    if (records === 0 || oldest === undefined) return { records, bytes: 0, oldestMs: null }
    return { records, bytes: this.bytes - oldest.bytes, oldestMs: Math.max(0, nowMs - oldest.atMs) }
  }

  /**
   * Removes and returns the segments that lie wholly below the watermark and below `retainFrom`, and ended before a
   * time, oldest first. Never the newest.
   */
  takeDeletable(endedBeforeMs: number, retainFrom = Number.POSITIVE_INFINITY): SegmentMark[] {
    let count = 0
    for (let at = 1; at < this.segments.length; at++) {
      const following = this.segments[at]!
      // A power cut may have taken copies whose originals survived. The originals are needed up to the next segment
      // that begins without copies.
      if (following.repeats) continue
      if (!passed(following, this.watermark) || following.atMs >= endedBeforeMs || following.record > retainFrom) break
      count = at
    }
    return this.segments.splice(0, count)
  }
}

const numbersOf = ({ record, requests, operations }: Counters): Counters => ({ record, requests, operations })

const waiting = (next: Counters, watermark: Watermark): number =>
  'record' in watermark
    ? Math.max(0, next.record - watermark.record)
    : Math.max(0, next.requests - watermark.requests) + Math.max(0, next.operations - watermark.operations)
