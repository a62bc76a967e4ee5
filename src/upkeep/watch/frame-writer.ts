// Writes frames to the operations topic: in order and without a gap, since an outcome names the frame by which it was
// planned, and each frame holds only what changed since the one before.
import type { HealthEvent } from '../../domain/events/health.ts'
import { SpoolClosed } from '../../log/spool/spool.ts'

export type FrameEvent = Extract<HealthEvent, { type: 'frame.taken' }>

export interface FrameWriterDeps {
  /** Rejects when the record was not written. */
  append(event: FrameEvent): Promise<unknown>
  /** An append failed: it is retried. */
  onFailure(error: unknown): void
  /** Too many wait: they are dropped, and the next frame must be whole. */
  onLost(count: number): void
}

export interface FrameWriter {
  write(event: FrameEvent): void
  /** Retries what could not be written. */
  retry(): void
  readonly waiting: number
}

/** Frames are taken once a second: minutes of them, at most 4 MB. */
const MOST_WAITING = 64

export const frameWriter = ({ append, onFailure, onLost }: FrameWriterDeps): FrameWriter => {
  let queue: FrameEvent[] = []
  let writing = false

  const drain = async (): Promise<void> => {
    writing = true
    while (queue.length > 0) {
      const event = queue[0]!
      const error = await failureOf(event)
      if (error !== null) {
        onFailure(error)
        break
      }
      if (queue[0] === event) queue.shift() // unless all were dropped meanwhile
    }
    writing = false
  }

  /** Null: it is in the log, though perhaps not shipped in time. */
  const failureOf = async (event: FrameEvent): Promise<unknown> => {
    try {
      await append(event)
      return null
    } catch (error) {
      return error instanceof SpoolClosed && error.written !== null ? null : (error ?? 'unknown')
    }
  }

  return {
    write(event) {
      if (queue.length >= MOST_WAITING) {
        const count = queue.length
        queue = []
        onLost(count)
        return
      }
      queue.push(event)
      if (!writing && queue.length === 1) void drain()
    },
    retry() {
      if (!writing && queue.length > 0) void drain()
    },
    get waiting() {
      return queue.length
    },
  }
}
