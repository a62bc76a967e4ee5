// Stores the last records of the control topic in the data folder: written when they are folded, before waiters learn
// that they count, synced once a second, or at once where an acknowledged decision has to survive a power cut. A few
// microseconds for each batch of the serving thread.
import { closeSync, fdatasync, fdatasyncSync, openSync, renameSync, rmSync, truncateSync, writeSync } from 'node:fs'
import { sha256Hex } from '../../lib/crypto/digest.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { syncFolder } from '../../lib/process/sync-folder.ts'
import { snapshotEnd } from '../history/snapshot.ts'
import type { LiveChain } from '../live-chain.ts'
import { readStoredFile, recordFiles, recordFrame, type StoredRecord } from './kept-records.ts'
import { RECENT_BYTES, RECENT_RECORDS } from './recent-records.ts'

const SYNC_MS = 1_000
const RETRY_MS = 5_000
/** Records behind the snapshot are retained, a start folds them, up to so much in one file. */
const MOST_BYTES = 4 * RECENT_BYTES

export interface RecordStoreDeps {
  readonly live: LiveChain
  /** One process for each data folder. */
  readonly dataDir: string
  readonly diagnostics: Diagnostics
  /** A record counts as stored once it is synced: it has to survive a power cut. */
  readonly syncs?: boolean
  /** A file of so many records becomes the older one. */
  readonly records?: number
  /** How far the log is in the snapshot of the data folder, null: there is none; by its header when absent. */
  readonly snapshotEnd?: () => number | null
}

/** How far the records are stored: a start without the log folds up to there. */
export interface StoredRecords {
  /** All records below it are stored; 0 before the first. */
  readonly next: number
  /** Called when `next` has advanced. */
  onAdvance(listener: () => void): void
  stop(): void
}

/** Stores folded records until it is stopped. Call it once the state is opened; it begins when the state is live. */
export const storeRecords = (deps: RecordStoreDeps): StoredRecords => new RecordStore(deps)

class RecordStore implements StoredRecords {
  #file: number | null = null
  /** Records and bytes in the newer file. */
  #records = 0
  #bytes = 0
  /** The next offset. */
  #next = 0
  /** The state of these records: another object after the log was read again. */
  #of: LiveChain['state'] | null = null
  #due = false
  #unsynced = false
  #syncing = false
  #failedAtMs = Number.NEGATIVE_INFINITY
  /** A sync failed: both files are written anew. */
  #isDoubtful = false
  /** The first offset in the newer file. */
  #first = 0
  #storedNext = 0
  readonly #listeners: (() => void)[] = []
  readonly #unwatch: () => void
  readonly #timer: ReturnType<typeof setInterval>

  constructor(readonly deps: RecordStoreDeps) {
    this.#unwatch = deps.live.watch((step) => {
      if (step.kind === 'counts') this.#queueFlush()
    })
    this.#timer = setInterval(() => {
      this.#flush() // also records that are no decisions, and records that failed
      this.#sync()
    }, SYNC_MS)
    this.#timer.unref()
    void deps.live.ready().then(
      () => this.#flush(),
      () => undefined, // refused: no record of that log is stored
    )
  }

  get next(): number {
    return this.#storedNext
  }

  onAdvance(listener: () => void): void {
    this.#listeners.push(listener)
  }

  stop(): void {
    this.#unwatch()
    clearInterval(this.#timer)
    this.#flush()
    if (this.#file !== null) closeSync(this.#file)
    this.#file = null
  }

  #advance(next: number): void {
    if (this.#storedNext === next) return
    this.#storedNext = next
    for (const listener of this.#listeners) listener()
  }

  /** Flushes once for a batch of records, before the waiters run: their promises are resolved after this was queued. */
  #queueFlush(): void {
    if (this.#due) return
    this.#due = true
    queueMicrotask(() => {
      this.#due = false
      this.#flush()
    })
  }

  #flush(): void {
    const { live, diagnostics } = this.deps
    if (live.status().phase !== 'live') return // on the way to the end, or a log under suspicion
    if (performance.now() - this.#failedAtMs < RETRY_MS) return
    try {
      if (this.#file === null || live.state !== this.#of) this.#open()
      if (this.#next < live.next) this.#write()
      if (this.deps.syncs === true) this.#sync()
      else this.#advance(this.#next)
    } catch (error) {
      this.#failedAtMs = performance.now()
      this.#close()
      diagnostics.warn('control_records_not_kept', { error })
    }
  }

  #write(): void {
    const { live } = this.deps
    const frames: Uint8Array[] = []
    let next = this.#next
    for (const { offset, atMs, value, counted } of live.recentRecords(next)) {
      if (offset !== next) {
        this.#beginAnew() // not written for so long that some records are no longer recent
        return
      }
      frames.push(recordFrame({ offset, atMs, value, counted }))
      next = offset + 1
    }
    this.#append(frames)
    this.#next = next
    if (this.#records >= (this.deps.records ?? RECENT_RECORDS) || this.#bytes >= RECENT_BYTES) this.#rotate()
  }

  #append(frames: readonly Uint8Array[]): void {
    const bytes = Buffer.concat(frames)
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#file!, bytes, at)
    this.#unsynced = true
    this.#bytes += bytes.length
    this.#records += frames.length
  }

  /** Continues the files where they end in what was folded, else begins new ones. */
  #open(): void {
    this.#close()
    const { live, dataDir } = this.deps
    const { newer, older } = recordFiles(dataDir)
    this.#of = live.state
    const records = this.#continued(newer)
    // It was rotated by the last record that was written.
    const before = records.length > 0 || this.#isDoubtful ? [] : this.#continued(older)
    const last = records.at(-1) ?? before.at(-1)
    if (this.#isDoubtful || last === undefined) {
      this.#beginAnew()
      return
    }
    this.#records = records.length
    this.#bytes = bytesOf(records)
    this.#first = records[0]?.offset ?? last.offset + 1
    this.#next = last.offset + 1
    this.#file = openSync(newer, 'a', 0o600)
  }

  /**
   * The records of a file up to its last decision, when that is among what was folded; the file is cut there. Records
   * behind it are written again: a crash may have torn them.
   */
  #continued(path: string): readonly StoredRecord[] {
    const { records } = readStoredFile(path)
    const last = records.findLast(({ counted }) => counted)
    const isTimed = records.every(({ atMs }) => atMs !== null)
    if (last === undefined || !isTimed || this.deps.live.offsetOf(sha256Hex(last.value!)) !== last.offset) return []
    const stored = records.slice(0, records.indexOf(last) + 1)
    truncateSync(path, bytesOf(stored))
    return stored
  }

  /** Begins new files with all recent records, beside the existing ones until they are written. */
  #beginAnew(): void {
    this.#close()
    const { newer, older } = recordFiles(this.deps.dataDir)
    const draft = `${newer}.draft`
    this.#file = openSync(draft, 'w', 0o600)
    this.#records = 0
    this.#bytes = 0
    const recent = [...this.deps.live.recentRecords()]
    this.#first = recent[0]?.offset ?? this.deps.live.next
    this.#append(recent.map(recordFrame))
    renameSync(draft, newer)
    rmSync(older, { force: true })
    if (this.deps.syncs === true) syncFolder(this.deps.dataDir)
    this.#isDoubtful = false
    this.#next = this.deps.live.next
  }

  #rotate(): void {
    const { dataDir } = this.deps
    const { newer, older } = recordFiles(dataDir)
    // The older file goes with this: a start without the log needs what the snapshot lacks.
    const covered = this.deps.snapshotEnd?.() ?? snapshotEnd(dataDir) ?? 0
    if (this.#bytes < MOST_BYTES && covered < this.#first) return
    if (this.deps.syncs === true) fdatasyncSync(this.#file!)
    this.#close()
    renameSync(newer, older)
    this.#file = openSync(newer, 'w', 0o600)
    if (this.deps.syncs === true) syncFolder(dataDir)
    this.#first = this.#next
    this.#records = 0
    this.#bytes = 0
  }

  #close(): void {
    if (this.#file !== null) closeSync(this.#file)
    this.#file = null
  }

  #sync(): void {
    const file = this.#file
    if (file === null || this.#syncing) return
    const next = this.#next
    if (!this.#unsynced) {
      this.#advance(next)
      return
    }
    this.#unsynced = false
    this.#syncing = true
    fdatasync(file, (error) => {
      this.#syncing = false
      // A file that was closed meanwhile is the older one: its sync is under way.
      if (error === null) this.#advance(next)
      else if (this.#file === file) {
        // The kernel takes what it could not write for clean: a later sync would not write it.
        this.#isDoubtful = true
        this.#failedAtMs = performance.now()
        this.#close()
        this.deps.diagnostics.warn('control_records_not_synced', { error })
      }
      // What was written meanwhile.
      if (this.deps.syncs === true && error === null && this.#unsynced) this.#sync()
    })
  }
}

const bytesOf = (records: readonly StoredRecord[]): number =>
  records.reduce((sum, record) => sum + recordFrame(record).length, 0)
