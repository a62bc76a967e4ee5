// Stores the last records of the control topic in the data folder: written when they are folded, before waiters learn
// that they count, synced once a second. A few microseconds for each batch of the serving thread.
import { closeSync, fdatasync, openSync, renameSync, rmSync, truncateSync, writeSync } from 'node:fs'
import { sha256Hex } from '../../lib/crypto/digest.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { LiveChain } from '../live-chain.ts'
import { readStoredFile, recordFiles, recordFrame } from './kept-records.ts'
import { RECENT_BYTES, RECENT_RECORDS } from './recent-records.ts'

const SYNC_MS = 1_000
const RETRY_MS = 5_000

export interface RecordStoreDeps {
  readonly live: LiveChain
  /** One process for each data folder. */
  readonly dataDir: string
  readonly diagnostics: Diagnostics
  /** A file of so many records becomes the older one. */
  readonly records?: number
}

/**
 * Stores folded records until the function that it returns is called. Call it once the state is opened; it begins when
 * the state is live.
 */
export const storeRecords = (deps: RecordStoreDeps): (() => void) => {
  const store = new RecordStore(deps)
  return () => store.stop()
}

class RecordStore {
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

  stop(): void {
    this.#unwatch()
    clearInterval(this.#timer)
    this.#flush()
    if (this.#file !== null) closeSync(this.#file)
    this.#file = null
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
    for (const { offset, value, counted } of live.recentRecords(next)) {
      if (offset !== next) {
        this.#beginAnew() // not written for so long that some records are no longer recent
        return
      }
      frames.push(recordFrame({ offset, value, counted }))
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
    const { newer } = recordFiles(dataDir)
    const { records } = readStoredFile(newer)
    const last = records.findLast(({ counted }) => counted)
    this.#of = live.state
    if (last === undefined || live.offsetOf(sha256Hex(last.value!)) !== last.offset) {
      this.#beginAnew()
      return
    }
    // Records behind the last decision are written again: a crash may have torn them.
    const stored = records.slice(0, records.indexOf(last) + 1)
    this.#records = stored.length
    this.#bytes = stored.reduce((sum, record) => sum + recordFrame(record).length, 0)
    this.#next = last.offset + 1
    truncateSync(newer, this.#bytes)
    this.#file = openSync(newer, 'a', 0o600)
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
    this.#append(recent.map(recordFrame))
    renameSync(draft, newer)
    rmSync(older, { force: true })
    this.#next = this.deps.live.next
  }

  #rotate(): void {
    const { newer, older } = recordFiles(this.deps.dataDir)
    this.#close()
    renameSync(newer, older)
    this.#file = openSync(newer, 'w', 0o600)
    this.#records = 0
    this.#bytes = 0
  }

  #close(): void {
    if (this.#file !== null) closeSync(this.#file)
    this.#file = null
  }

  #sync(): void {
    const file = this.#file
    if (file === null || !this.#unsynced || this.#syncing) return
    this.#unsynced = false
    this.#syncing = true
    fdatasync(file, (error) => {
      this.#syncing = false
      // A file that was closed meanwhile is the older one: its sync is under way.
      if (error !== null && this.#file === file) this.deps.diagnostics.warn('control_records_not_synced', { error })
    })
  }
}
