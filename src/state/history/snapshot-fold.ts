// The fold of the snapshot thread: follows the log by itself and writes snapshots of its state.
import { sleep } from '../../lib/event-loop/sleep.ts'
import type { EventLog, LogRecord } from '../../log/port.ts'
import { type ChainFold, CONTROL, foldAgain } from '../fold.ts'
import { lostHistory } from '../live/guards.ts'
import { RECENT_RECORDS } from '../restore/recent-records.ts'
import { Checkpoints } from './checkpoints.ts'
import { writeSnapshot } from './snapshot.ts'
import type { FromSnapshotThread, SnapshotThreadStart } from './snapshot-worker.ts'

/**
 * Nothing waits for this fold: records are taken at intervals, which saves the log most of the work of being followed.
 */
const FOLLOW_EVERY_MS = 200
/** As many as the embedded log delivers at once: then there are more. */
const MANY_RECORDS = 256
const FINISH_MS = 500
/** A snapshot of very many rows is due when a part of them may have changed. */
const DUE_SHARE = 0.05

export interface SnapshotFoldDeps {
  readonly log: EventLog
  readonly options: SnapshotThreadStart
  readonly signal: AbortSignal
  post(message: FromSnapshotThread): void
}

/** The end of the last snapshot, and the number of rows of the next. */
export interface Written {
  readonly next: number
  readonly rows: number
  readonly atMs: number
}

/** After so many decisions the next snapshot is due. */
export const decisionsDue = ({ everyDecisions }: SnapshotThreadStart, rows: number): number =>
  Math.max(everyDecisions, rows * DUE_SHARE)

export class SnapshotFold {
  /** Offset up to which the last snapshot holds the log, and its count of decisions. */
  #writtenNext = 0
  #writtenCount = 0
  #writtenAtMs = performance.now()
  /** The end of the log at start: nothing is written on the way there. */
  #target: number | null = null
  readonly #checkpoints: Checkpoints

  constructor(
    readonly deps: SnapshotFoldDeps,
    public fold: ChainFold,
    public remembering: boolean,
    /** A snapshot is due once the end is reached. */
    public owed: boolean,
  ) {
    this.#writtenNext = fold.next
    this.#writtenCount = fold.counts.counted
    this.#checkpoints = new Checkpoints(deps.options.dataDir, deps.options.macKey)
  }

  /**
   * Folds and writes. Returns at the end of the log when the state is too large to stay in memory there, or after
   * `restMs` without a record.
   */
  async follow(): Promise<void> {
    const { log, options } = this.deps
    this.#target ??= await log.end(CONTROL, 0)
    const timer = setInterval(() => this.write(false), options.everyMs)
    const resting = new AbortController()
    const signal = AbortSignal.any([this.deps.signal, resting.signal])
    const rest = () => {
      // A thread that may not rest comes back here, and never to the end of the timer above.
      if (performance.now() - this.#writtenAtMs >= options.everyMs) this.write(false)
      if (this.#isOnItsWay() || this.owed) quiet?.refresh()
      else resting.abort()
    }
    const quiet = options.restMs === null ? null : setTimeout(rest, options.restMs)
    const from = this.remembering ? Math.max(0, this.fold.next - RECENT_RECORDS) : this.fold.next
    try {
      for await (const batch of log.read(CONTROL, 0, from, signal)) {
        for (const record of batch) this.#take(record)
        quiet?.refresh()
        const reached = !this.remembering && this.fold.next >= this.#target
        // The first one is written early: it is also the witness of what the log held.
        const due =
          this.#writtenNext === 0 ||
          (this.owed && reached) ||
          this.fold.counts.counted - this.#writtenCount >= decisionsDue(options, this.#rows())
        if (due && !this.write(this.owed)) continue
        if (reached && this.isTooLarge()) return
        if (reached && batch.length < MANY_RECORDS) await sleep(FOLLOW_EVERY_MS, signal)
      }
    } finally {
      clearInterval(timer)
      if (quiet !== null) clearTimeout(quiet)
    }
  }

  #isOnItsWay(): boolean {
    return this.#target === null || this.fold.next < this.#target || this.remembering
  }

  /** A state of so many rows does not stay in memory between two snapshots. */
  isTooLarge(): boolean {
    return this.#rows() > this.deps.options.heldRows
  }

  /** At stop: folds the records since the last interval, if the log delivers them in time. */
  async finish(): Promise<void> {
    if (this.remembering) return
    const limit = AbortSignal.timeout(FINISH_MS)
    const tooLate = new Promise<number>((resolve) => limit.addEventListener('abort', () => resolve(0)))
    const end = await Promise.race([this.deps.log.end(CONTROL, 0), tooLate])
    if (this.fold.next >= end) return
    for await (const batch of this.deps.log.read(CONTROL, 0, this.fold.next, limit)) {
      for (const record of batch) this.#take(record)
      if (this.fold.next >= end) return
    }
  }

  /**
   * Reads the whole log again; false when it lacks what this thread has folded: then the last snapshot stays as it is,
   * as a witness.
   */
  async again(): Promise<boolean> {
    const { log, options, signal, post } = this.deps
    const fold = await foldAgain(log, options.macKey, signal)
    const problem = lostHistory(fold, this.fold.tip)
    if (problem !== null) {
      post({ kind: 'failed', problem })
      return false
    }
    this.fold = fold
    this.remembering = false
    return true
  }

  written(): Written {
    return { next: this.#writtenNext, rows: this.#rows(), atMs: this.#writtenAtMs }
  }

  /**
   * Writes when something was folded since the last time, and the fold is not still on its way to the end. False when
   * that failed.
   */
  write(forced: boolean): boolean {
    const { options, post } = this.deps
    if (this.#isOnItsWay()) return true
    if (this.fold.next === this.#writtenNext) {
      this.owed = false
      return true
    }
    if (
      !forced &&
      this.fold.counts.counted === this.#writtenCount &&
      performance.now() - this.#writtenAtMs < options.everyMs
    )
      return true
    const startMs = performance.now()
    try {
      if (!writeSnapshot(options.dataDir, this.fold, Date.now())) return false
      this.#checkpoints.retain(this.fold.next)
    } catch (error) {
      post({ kind: 'failed', problem: `the snapshot could not be written: ${String(error)}` })
      return false
    }
    this.owed = false
    this.#writtenNext = this.fold.next
    this.#writtenCount = this.fold.counts.counted
    this.#writtenAtMs = performance.now()
    post({ kind: 'written', next: this.fold.next, tip: this.fold.tip, tookMs: Math.round(performance.now() - startMs) })
    return true
  }

  #rows(): number {
    let rows = 0
    for (const { size } of this.fold.state.tables()) rows += size
    return rows
  }

  #take(record: LogRecord): void {
    if (this.remembering && record.offset < this.fold.next) {
      this.fold.remember(record)
      if (record.offset + 1 < this.fold.next) return
      this.remembering = false
      if (!this.fold.remembered()) throw new Error("the snapshot's last decision is not in the log before it")
      return
    }
    const step = this.fold.take(record)
    if (step.kind === 'orphan') throw new Error(`offset ${record.offset} was decided on a decision that was never seen`)
  }
}
