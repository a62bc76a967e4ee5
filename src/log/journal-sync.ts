// Makes durable what is committed to a SQLite file, beside the thread that commits it: SQLite's own sync (`synchronous=FULL`) stands still until the disk has
// answered, 10 to 230 ms on a slow one, and with it every request (docs/decisions/0048).
import type { Files } from './files.ts'
import { IndefiniteAppend } from './port.ts'

export interface JournalSyncDeps {
  /** Of the topic's file. SQLite's locks are on that one and on its index: the write-ahead log may be opened and closed by others. */
  readonly path: string
  readonly files: Files
  /** Another number after each commit of another connection. */
  version(): number | null
  /** Writes what the write-ahead log holds into the file itself, and syncs that; false: the file is in use. Throws when it fails. */
  rewrite(): Promise<boolean>
}

/** Of one connection. */
export class JournalSync {
  #commits = 0
  /** So many of them are on the disk. */
  #durable = 0
  #running: Promise<void> | null = null
  #descriptor: number | null = null
  /** A sync failed: the kernel says so once, and may call pages clean that are on no disk. Asking again would be believing it. */
  #isDoubtful = false
  /** What `version` said when all that could be read was on the disk. */
  #syncedVersion: number | null = null
  #closed = false
  readonly #deps: JournalSyncDeps

  constructor(deps: JournalSyncDeps) {
    this.#deps = deps
  }

  /** Something was committed by this connection. */
  committed(): void {
    this.#commits++
  }

  /** Resolves when all that was committed before is on the disk; commits that come while one sync runs share the next. Throws IndefiniteAppend when the disk refuses. */
  async settle(): Promise<void> {
    const upTo = this.#commits
    while (this.#durable < upTo) {
      this.#running ??= this.#run()
      await this.#running
    }
  }

  /** The same with what others have committed before: nobody acts on what they read while a power cut could take it. */
  async settleAll(): Promise<void> {
    const version = this.#deps.version()
    if (version !== this.#syncedVersion) this.#commits++
    await this.settle()
    this.#syncedVersion = version
  }

  /** What is being synced is synced still. */
  close(): void {
    this.#closed = true
    if (this.#running === null) this.#forget()
  }

  #forget(): void {
    if (this.#descriptor !== null) this.#deps.files.close(this.#descriptor)
    this.#descriptor = null
  }

  async #run(): Promise<void> {
    const covered = this.#commits
    try {
      if (this.#isDoubtful || !(await this.#isSynced())) await this.#rewrite()
      this.#durable = covered
    } finally {
      this.#running = null
      if (this.#closed) this.#forget()
    }
  }

  async #isSynced(): Promise<boolean> {
    const { path, files } = this.#deps
    try {
      this.#descriptor ??= files.open(`${path}-wal`)
      await files.sync(this.#descriptor)
      return true
    } catch {
      // Told by what follows, if that fails too.
      this.#isDoubtful = true
      this.#forget()
      return false
    }
  }

  async #rewrite(): Promise<void> {
    const { path, rewrite } = this.#deps
    if (!(await rewrite())) throw new IndefiniteAppend(`${path} could not be synced, and is in use`)
    this.#isDoubtful = false
  }
}
