// Syncs the disk before a commit. SQLite's commit blocks the serving thread until the disk acknowledges; a disk with
// many pending writes of others, mainly of the spool, takes 80 to 230 ms for that. A file of its own, synced by the
// runtime's thread pool just before, makes the disk write the pending pages first, so that the commit waits for its
// own pages only (docs/decisions/0048). A hint: no promise depends on it.
import type { Files } from '../files.ts'

export interface PreSyncDeps {
  /** The file that is synced; its content is not read. */
  readonly path: string
  readonly files: Files
  /** Monotonic milliseconds. */
  readonly nowMs: () => number
}

/** For so long after a sync there is no other: others have written little meanwhile. */
const JUST_MS = 100
/** Except after a commit that still took longer than this. */
const SLOW_MS = 5
const SOMETHING = new Uint8Array(1)

export class PreSync {
  readonly #deps: PreSyncDeps
  /** Until then a commit begins without a sync. */
  #quickUntilMs = Number.NEGATIVE_INFINITY
  #running: Promise<void> | null = null

  constructor(deps: PreSyncDeps) {
    this.#deps = deps
  }

  /** Awaited before a commit; null: it may begin. Never rejects. */
  ready(): Promise<void> | null {
    if (this.#running === null && this.#deps.nowMs() >= this.#quickUntilMs)
      this.#running = this.#sync().finally(() => {
        this.#running = null
      })
    return this.#running
  }

  /** Runs a commit and measures its wait. */
  timed(commit: () => unknown): void {
    const startedMs = this.#deps.nowMs()
    commit()
    const nowMs = this.#deps.nowMs()
    this.#quickUntilMs = nowMs - startedMs > SLOW_MS ? Number.NEGATIVE_INFINITY : nowMs + JUST_MS
  }

  async #sync(): Promise<void> {
    const { path, files, nowMs } = this.#deps
    try {
      const descriptor = files.create(path)
      try {
        // The file grows each time: otherwise a sync would have nothing to write.
        files.write(descriptor, SOMETHING, 0, SOMETHING.length, 0)
        await files.sync(descriptor)
      } finally {
        files.close(descriptor)
      }
    } catch {
      // The commit reaches the same disk and reports the failure.
    }
    this.#quickUntilMs = nowMs() + JUST_MS
  }
}
