// Append-only segment files of one process: the writer. Record numbers are permanent and never reused, not even after
// a failure.
import { join } from 'node:path'
import { failpoint } from '../../lib/process/failpoints.ts'
import type { TextPieces } from '../../lib/text/text-pieces.ts'
import { type Files, nodeFiles, removeQuietly, writeWhole } from '../files.ts'
import { addFrame, type Batch, emptyBatch, restOf, seal, wholeOf } from './batch.ts'
import { SEGMENT_FORMAT, type SegmentHeader, type SpoolTopic } from './frame.ts'
import { subjectOf } from './frame-subject.ts'
import { segmentHead } from './header.ts'
import type { PageCacheHints } from './page-cache-hints.ts'
import { noteRefusal } from './sync-refusal.ts'

/** The next number of each kind: of the spool, and in each topic. */
export interface Counters {
  record: number
  requests: number
  operations: number
}

/** A record that the head of a segment repeats: an admission still open, or one of its attempts. */
export interface CarriedFrame {
  readonly type: string
  readonly subject: string
  /** JSON text. */
  readonly data: string
}

export interface SegmentFile {
  readonly ordinal: number
  readonly path: string
  readonly bytes: number
}

export const segmentPath = (directory: string, ordinal: number): string =>
  join(directory, `${String(ordinal).padStart(10, '0')}.segment`)

/** The segments of a spool directory, oldest first. */
export const listSegments = (directory: string, files: Files = nodeFiles): SegmentFile[] =>
  files
    .list(directory)
    .filter((name) => /^\d{10}\.segment$/.test(name))
    .sort()
    .flatMap((name) => {
      const path = join(directory, name)
      const bytes = files.size(path)
      // Deleted since it was listed.
      return bytes === null ? [] : { ordinal: Number(name.slice(0, 10)), path, bytes }
    })

export interface SegmentWriterDeps {
  readonly directory: string
  readonly files: Files
  readonly instance: string
  readonly epoch: string
  readonly nowMs: () => number
  /** A segment takes no further batch once it holds this much: a start reads all of it. */
  readonly segmentBytes: number
  /** The next numbers and the next ordinal. */
  readonly next: Counters
  readonly nextOrdinal: number
  /** From the newest head of an earlier process; see `keptFrom`. */
  readonly neededFrom?: number | null
  /** Retains what was written until it is synced, so that it can be written again elsewhere when a sync fails. */
  readonly keepUnsynced: boolean
  /** Page-cache hints for what was written; null: none. */
  readonly pageCache?: PageCacheHints | null
  /** The records that the head of a new segment repeats. */
  carried(): Iterable<CarriedFrame>
  onSegment?(ordinal: number, header: SegmentHeader): void
}

/** Writes frames in batches. Must not be used after `close`. Every method but `sync` is synchronous. */
export class SegmentWriter {
  readonly next: Counters
  private readonly sequences: Record<SpoolTopic, number> = { requests: 0, operations: 0 }
  /** Numbers of the record that is being added. */
  private readonly numbers = { record: 0, offset: 0, sequence: 0, atMs: 0 }
  private batch: Batch
  /** Bytes of the batch that are in the file already (after a short or failed write). */
  private written = 0
  private descriptor: number | null = null
  private path = ''
  private ordinal: number
  private segmentSize = 0
  /** At which the segment is full. */
  private segmentLimit = 0
  /** Earlier segments that hold unsynced frames, to be synced and closed. */
  private retired: number[] = []
  private unsynced: { readonly bytes: Buffer; readonly first: Counters }[] = []
  unsyncedBytes = 0
  /** A sync failed: unsynced records are written again before anything else, so that records stay in order. */
  isAbandoned = false
  /**
   * The first record that was not durable when the newest head was written. A start reads from there, so it must not
   * be deleted.
   */
  private neededFrom: number
  /** Not durable yet: a power cut may leave the previous head the newest. */
  private headUnsynced = false

  constructor(private readonly deps: SegmentWriterDeps) {
    this.next = { ...deps.next }
    this.ordinal = deps.nextOrdinal
    this.neededFrom = deps.neededFrom ?? Number.POSITIVE_INFINITY
    this.batch = emptyBatch(this.next)
  }

  /** Segments with records from here on, and the one before them, must not be deleted. */
  get retainedFrom(): number {
    return this.headUnsynced ? 0 : this.neededFrom
  }

  get pendingBytes(): number {
    return this.batch.bytes
  }

  /** Numbers of the first record of the batch. */
  get first(): Readonly<Counters> {
    return this.batch.first
  }

  /** Adds a record of that time to the batch; returns its sequence. It is not in the file before `flush`. */
  add(topic: SpoolTopic, type: string, subject: string, data: TextPieces, atMs: number): number {
    const { next, numbers } = this
    const sequence = this.sequences[topic]++
    numbers.record = next.record
    numbers.offset = next[topic]
    numbers.sequence = sequence
    numbers.atMs = atMs
    addFrame(this.batch, topic, numbers, subjectOf(type, subject), data)
    next.record++
    next[topic]++
    return sequence
  }

  /**
   * Writes the batch, into a new segment when this one is full. Throws the error of the disk; what is not in the file
   * then stays in the batch.
   */
  flush(): void {
    const { batch } = this
    if (batch.bytes === 0) return
    seal(batch)
    const { buffer, bytes } = batch
    if (this.isAbandoned) this.rewriteUnsynced()
    if (this.descriptor === null || (this.written === 0 && this.segmentSize + bytes > this.segmentLimit)) this.open()
    const descriptor = this.descriptor!
    while (this.written < bytes) {
      const left = bytes - this.written
      const count = this.deps.files.write(descriptor, buffer, this.written, left, this.segmentSize)
      this.written += count
      this.segmentSize += count
    }
    this.deps.pageCache?.wrote(this.path, this.segmentSize)
    this.keep(batch.bytes)
    this.reset()
  }

  /**
   * Gives up this segment after a failure: cuts the torn end, takes the whole frames out of the batch. The next flush
   * opens a new segment. Returns how many frames were whole.
   */
  leave(): number {
    const { batch } = this
    const count = wholeOf(batch, this.written)
    const bytes = count === 0 ? 0 : batch.ends[count - 1]!
    if (this.descriptor !== null) {
      const half = this.written - bytes
      this.segmentSize -= half
      this.retire(half > 0)
    }
    if (count > 0) this.keep(bytes)
    this.batch = restOf(batch, count)
    this.written = 0
    return count
  }

  /** Drops the batch. Its numbers stay used: readers pass over them. Call `leave` first. */
  drop(): void {
    this.reset()
  }

  /**
   * Makes everything flushed before the call durable. `onDurable` is called with it, before anything else is written,
   * since the next head depends on it. Throws when the disk refuses; call `abandon` then, never `sync` alone.
   */
  async sync(onDurable: () => void): Promise<void> {
    const covered = this.unsynced.length
    const current = this.descriptor
    const retired = this.retired.splice(0)
    try {
      for (const descriptor of retired) await this.deps.files.sync(descriptor)
      if (current !== null) await this.deps.files.sync(current)
    } finally {
      for (const descriptor of retired) this.deps.files.close(descriptor)
    }
    for (const { bytes } of this.unsynced.splice(0, covered)) this.unsyncedBytes -= bytes.length
    if (current === this.descriptor) this.headUnsynced = false
    onDurable()
  }

  /**
   * A file whose sync failed is never synced again, nor by the next start: the kernel may mark its lost pages clean.
   */
  abandon(): void {
    noteRefusal(this.deps.directory, this.deps.files)
    this.leave()
    for (const descriptor of this.retired.splice(0)) this.deps.files.close(descriptor)
    this.isAbandoned = true
  }

  /**
   * Writes the records without a sync again, into a new segment; `flush` does it by itself. The frames keep their
   * numbers, so readers drop the copies.
   */
  rewriteUnsynced(): void {
    const again = this.unsynced
    const first = again[0]?.first
    const written = again.map(({ bytes }) => bytes)
    if (first !== undefined) this.open(first, written)
    this.isAbandoned = false
  }

  close(): void {
    this.retire()
    for (const descriptor of this.retired.splice(0)) this.deps.files.close(descriptor)
  }

  /** The first bytes of the batch are in the file. */
  private keep(bytes: number): void {
    if (!this.deps.keepUnsynced) return
    this.unsynced.push({ bytes: Buffer.from(this.batch.buffer.subarray(0, bytes)), first: this.batch.first })
    this.unsyncedBytes += bytes
  }

  private reset(): void {
    const buffer = this.batch.buffer.length > 4 * 1024 * 1024 ? undefined : this.batch.buffer
    this.batch = emptyBatch(this.next, buffer)
    this.written = 0
  }

  /** Gives up the segment. `isLonger`: its file holds more than its records. */
  private retire(isLonger = false): void {
    if (this.descriptor === null) return
    try {
      if (isLonger) this.deps.files.truncate(this.descriptor, this.segmentSize)
    } catch {
      // A half frame in the file is no frame: readers pass over it when the next segment begins.
    }
    if (this.deps.keepUnsynced) this.retired.push(this.descriptor)
    else this.deps.files.close(this.descriptor)
    this.descriptor = null
  }

  /**
   * Begins a segment. It gets its name once its head, and the records that are written again with it, are in the file:
   * a segment with a name has a header, and never replaces another in part.
   */
  open(first: Counters = this.batch.first, again: readonly Buffer[] = []): void {
    const { directory, files, instance, epoch, nowMs } = this.deps
    const carried = [...this.deps.carried()]
    const unsynced = this.unsynced[0]?.first.record
    const header: SegmentHeader = {
      ...{ format: SEGMENT_FORMAT, instance, epoch, ...first, carried: carried.length, copies: 2, at_ms: nowMs() },
      ...(unsynced !== undefined && { unsynced }),
    }
    const head = segmentHead(header, carried)
    const bytes = again.length === 0 ? head : Buffer.concat([head, ...again])
    const path = segmentPath(directory, this.ordinal)
    const descriptor = files.create(`${path}.new`)
    try {
      writeWhole(files, descriptor, bytes)
      failpoint('segment_unnamed')
      files.rename(`${path}.new`, path)
      if (this.deps.keepUnsynced) files.syncDirectory(directory)
    } catch (error) {
      files.close(descriptor)
      removeQuietly(files, `${path}.new`)
      throw error
    }
    this.retire()
    this.descriptor = descriptor
    this.path = path
    this.headUnsynced = this.deps.keepUnsynced
    this.neededFrom = unsynced ?? Number.POSITIVE_INFINITY
    this.segmentSize = bytes.length
    // Room for at least as much again as is carried: where more is open than fits a segment, every batch would open
    // one and copy all of it.
    this.segmentLimit = Math.max(this.deps.segmentBytes, 2 * head.length)
    this.deps.onSegment?.(this.ordinal, header)
    this.ordinal++
  }
}
