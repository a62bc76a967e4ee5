// Waits at the end of a shared topic until this or another process commits.

import { sleep } from '../../lib/event-loop/sleep.ts'

const POLL_MS = 5
/**
 * Without commits for a while, readers poll less often: each poll costs some 28 us (docs/decisions/0022). Topics with
 * the same interval are polled at the same times: one wake-up of the thread instead of four, and only the first poll
 * finds the caches cold.
 */
const IDLE_POLL_MS = 20
const LIVELY_MS = 1_000
/** Waiting readers also poll at this interval: the file may have been replaced. */
const LOOK_MS = 250

/** One shared tick for each interval. */
const ticks = new Map<number, Promise<void>>()

/** The next tick of this interval, shared by all waiters with the same interval. */
const nextTick = (everyMs: number): Promise<void> => {
  const next = ticks.get(everyMs) ?? sleep(everyMs).then(() => void ticks.delete(everyMs))
  ticks.set(everyMs, next)
  return next
}

export class CommitWatch {
  readonly #waiting = new Set<() => void>()
  #lastVersion: number | null = null
  #polling = false
  #closed = false
  /** When a commit of another process was noticed last, and when readers last polled. */
  #movedMs = Number.NEGATIVE_INFINITY
  #lookedMs = Number.NEGATIVE_INFINITY

  /** `version` changes after each commit of another connection. If it throws, that counts as a change. */
  constructor(private readonly version: () => number | null) {}

  /**
   * Resolves when there may be something new: an append of this process, a commit of another process, a replaced file,
   * an abort, a close.
   */
  change(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        this.#waiting.delete(end)
        signal.removeEventListener('abort', end)
        resolve()
      }
      this.#waiting.add(end)
      signal.addEventListener('abort', end)
      if (signal.aborted || this.#closed) return end()
      if (!this.#polling) void this.#poll()
    })
  }

  wake(): void {
    for (const end of [...this.#waiting]) end()
  }

  close(): void {
    this.#closed = true
    this.wake()
  }

  async #poll(): Promise<void> {
    this.#polling = true
    while (this.#waiting.size > 0 && !this.#closed) {
      const nowMs = performance.now()
      const moved = this.#hasMoved()
      if (moved) this.#movedMs = nowMs
      if (moved || nowMs - this.#lookedMs >= LOOK_MS) {
        this.#lookedMs = nowMs
        this.wake()
      }
      await nextTick(nowMs - this.#movedMs < LIVELY_MS ? POLL_MS : IDLE_POLL_MS)
    }
    this.#polling = false
  }

  #hasMoved(): boolean {
    try {
      const version = this.version()
      const moved = version !== this.#lastVersion
      this.#lastVersion = version
      return moved
    } catch {
      // The waiting reader polls by itself and reports what it finds.
      return true
    }
  }
}
