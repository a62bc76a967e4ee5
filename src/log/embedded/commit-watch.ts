// Waiting at the end of a shared topic: until somebody has committed, this process or another.

import { sleep } from '../../lib/event-loop/sleep.ts'

const POLL_MS = 5
/**
 * Where nobody has committed for a while, readers look less often: each look costs some 28 us (docs/decisions/0022). Topics that are looked
 * at as often are looked at at the same times: one wake-up of the thread instead of four, and what a look needs is in its
 * caches for all but the first. With the file that `upkeep/watch/load-watch.ts` keeps open 8.7 ms a second of an idle main thread instead of 18.3.
 */
const IDLE_POLL_MS = 20
const LIVELY_MS = 1_000
/** So often waiting readers look for themselves: the file may not be the same one any more. */
const LOOK_MS = 250

/** By how long they are waited for. */
const ticks = new Map<number, Promise<void>>()

/** The next of the times that are so far apart, for all who wait for as long. */
const nextTick = (everyMs: number): Promise<void> => {
  const next = ticks.get(everyMs) ?? sleep(everyMs).then(() => void ticks.delete(everyMs))
  ticks.set(everyMs, next)
  return next
}

export class CommitWatch {
  readonly #waiting = new Set<() => void>()
  #seen: number | null = null
  #polling = false
  #closed = false
  /** When another process's commit was noticed last, and when readers last looked for themselves. */
  #movedMs = Number.NEGATIVE_INFINITY
  #lookedMs = Number.NEGATIVE_INFINITY

  /** `version` is another number after each commit of somebody else; what it throws counts as a change. */
  constructor(private readonly version: () => number | null) {}

  /** Resolves when there may be something new: an own append, another process's commit, a file that was replaced, an abort, a close. */
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
      const moved = version !== this.#seen
      this.#seen = version
      return moved
    } catch {
      // Whoever waits looks for itself and reports what it finds.
      return true
    }
  }
}
