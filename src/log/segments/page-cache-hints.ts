// Limits how much of the segments the kernel's page cache holds. Without hints each write fills pages that were not
// used before: where the host of a virtual machine backs memory on first touch, that is a quarter of the CPU of a full
// load, and in a container it fills the memory limit (docs/decisions/0045).
import type { Files } from '../files.ts'
import type { SpoolKeeping } from '../spool/spool.ts'

const SLICE_BYTES = 1024 * 1024
/**
 * A slice is dropped so far behind its write: the projections read younger ones from memory, and the disk has had time
 * to write it.
 */
const CACHED_SLICES = 64
/** A hint that takes longer means that the disk's queue is full: writes would wait for it. */
const SLOW_MS = 20
/** So many slices get no hint then. */
const PASSED_OVER_SLICES = 256

interface Slice {
  readonly path: string
  readonly start: number
  readonly bytes: number
}

type Hints = Pick<Files, 'startWriting' | 'dropCached'>

/**
 * Starts writing new slices to the disk at once, and drops them from the page cache when they are some 64 MiB old, so
 * that the kernel reuses the same pages.
 */
export class PageCacheHints {
  /** Slices under way to the disk, oldest first. */
  private readonly sent: Slice[] = []
  private path = ''
  private end = 0
  /** Offset in the current file up to which writing to the disk was started. */
  private sentTo = 0
  private passedOver = 0

  constructor(
    private readonly hints: Hints,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** The file holds so many bytes now. Files are written one after the other, and only grow. */
  wrote(path: string, bytes: number): void {
    if (path !== this.path) this.next(path)
    this.end = bytes
    while (this.end - this.sentTo >= SLICE_BYTES) this.send(SLICE_BYTES)
  }

  private next(path: string): void {
    if (this.end > this.sentTo) this.send(this.end - this.sentTo)
    this.path = path
    this.end = 0
    this.sentTo = 0
  }

  private send(bytes: number): void {
    const slice = { path: this.path, start: this.sentTo, bytes }
    this.sentTo += bytes
    if (this.passedOver > 0) {
      this.passedOver--
      return
    }
    const startedMs = this.nowMs()
    this.hints.startWriting(slice.path, slice.start, slice.bytes)
    if (this.sent.push(slice) > CACHED_SLICES) {
      const { path, start, bytes } = this.sent.shift()!
      this.hints.dropCached(path, start, bytes)
    }
    if (this.nowMs() - startedMs > SLOW_MS) this.passedOver = PASSED_OVER_SLICES
  }
}

/**
 * Null where segments live until they are shipped: they are deleted, and their pages reused, before the disk has to
 * write them.
 */
export const pageCacheHintsOf = (keeping: SpoolKeeping, files: Files): PageCacheHints | null =>
  keeping.until === 'projected' ? new PageCacheHints(files) : null
