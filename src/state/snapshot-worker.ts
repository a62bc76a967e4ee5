// The thread that writes snapshots and answers for the past: it folds the log by itself, so that neither is ever done on the serving thread.
// Told what to do by `snapshot-thread.ts`.
import type { ControlState } from '../domain/control.ts'
import { pause } from '../lib/pause.ts'
import { type EventLog, type LogRecord, LogUnavailable } from '../log/port.ts'
import { Checkpoints } from './checkpoints.ts'
import { ChainFold, CONTROL, foldAgain } from './fold.ts'
import { lostHistory } from './guards.ts'
import { LogHistory } from './history.ts'
import { HistoryUnavailable, type PastPoint, type Question } from './history-port.ts'
import { RECENT_RECORDS } from './recent.ts'
import { loadSnapshot, writeSnapshot } from './snapshot.ts'

export interface SnapshotThreadStart {
  readonly tell: 'start'
  /** URL of a module, the name of a function in it, and what that is given: it returns an EventLog or a promise of one. */
  readonly logModule: string
  readonly logFactory: string
  readonly logOptions: unknown
  readonly macKey: Uint8Array
  readonly dataDir: string
  readonly everyDecisions: number
  readonly everyMs: number
  /** False in a process whose data folder another one keeps: it answers for the past, and writes nothing. */
  readonly writes: boolean
  /** Module and function that read a state of the past: `(state, point, read) => answer`, all of it copyable. */
  readonly readerModule: string | null
  readonly readerFunction: string
}
export type ToSnapshotThread =
  | SnapshotThreadStart
  | { readonly tell: 'ask'; readonly number: number; readonly question: Question }
  | { readonly tell: 'stop' }
export type FromSnapshotThread =
  | { readonly tell: 'written'; readonly next: number; readonly tip: string; readonly tookMs: number }
  | { readonly tell: 'failed'; readonly problem: string }
  | { readonly tell: 'answer'; readonly number: number; readonly answer: unknown }
  /** `soon`: a repeat may find it. */
  | { readonly tell: 'no_answer'; readonly number: number; readonly problem: string; readonly soon: boolean }
  | { readonly tell: 'stopped' }

declare const self: Worker

const AFTER_FAILURE_MS = 1_000
/** Nobody waits for this fold: what comes drop by drop is taken in gulps, which spares the log most of the work of being followed. */
const FOLLOW_EVERY_MS = 200
const MANY_RECORDS = 500
const FINISH_MS = 500
const AFTER_LOSS_MS = 60_000

const tell = (message: FromSnapshotThread): void => self.postMessage(message)
const stopping = new AbortController()

class SnapshotFold {
  /** Offset up to which the last snapshot holds the log, and its count of decisions. */
  #writtenNext = 0
  #writtenCount = 0
  #writtenAtMs = performance.now()
  /** The end that was seen at start: nothing is written on the way there. */
  #target: number | null = null
  readonly #checkpoints: Checkpoints

  constructor(
    readonly log: EventLog,
    readonly options: SnapshotThreadStart,
    public fold: ChainFold,
    public remembering: boolean,
  ) {
    this.#writtenNext = fold.next
    this.#writtenCount = fold.counts.counted
    this.#checkpoints = new Checkpoints(options.dataDir, options.macKey)
  }

  async follow(): Promise<void> {
    this.#target ??= await this.log.end(CONTROL, 0)
    const timer = setInterval(() => this.write(false), this.options.everyMs)
    const from = this.remembering ? Math.max(0, this.fold.next - RECENT_RECORDS) : this.fold.next
    try {
      for await (const batch of this.log.read(CONTROL, 0, from, stopping.signal)) {
        for (const record of batch) this.#take(record)
        // The first one soon: it is also the witness of what the log held.
        const due =
          this.#writtenNext === 0 || this.fold.counts.counted - this.#writtenCount >= this.options.everyDecisions
        if (due) this.write(false)
        if (batch.length < MANY_RECORDS) await pause(FOLLOW_EVERY_MS, stopping.signal)
      }
    } finally {
      clearInterval(timer)
    }
  }

  /** At stop: what came since the last gulp, if the log gives it soon. */
  async finish(): Promise<void> {
    if (this.remembering) return
    const limit = AbortSignal.timeout(FINISH_MS)
    const tooLate = new Promise<number>((resolve) => limit.addEventListener('abort', () => resolve(0)))
    const end = await Promise.race([this.log.end(CONTROL, 0), tooLate])
    if (this.fold.next >= end) return
    for await (const batch of this.log.read(CONTROL, 0, this.fold.next, limit)) {
      for (const record of batch) this.#take(record)
      if (this.fold.next >= end) return
    }
  }

  /** Reads the whole log again; false when it lacks what this thread has folded: then the last snapshot stays as it is, as a witness. */
  async again(): Promise<boolean> {
    const fold = await foldAgain(this.log, this.options.macKey, stopping.signal)
    const problem = lostHistory(fold, this.fold.tip)
    if (problem !== null) {
      tell({ tell: 'failed', problem })
      return false
    }
    this.fold = fold
    this.remembering = false
    return true
  }

  /** Writes when something was folded since the last time, and the fold is not still on its way to the end. */
  write(atStop: boolean): void {
    if (this.#target === null || this.fold.next < this.#target || this.remembering) return
    if (this.fold.next === this.#writtenNext) return
    if (
      !atStop &&
      this.fold.counts.counted === this.#writtenCount &&
      performance.now() - this.#writtenAtMs < this.options.everyMs
    )
      return
    const startMs = performance.now()
    try {
      if (!writeSnapshot(this.options.dataDir, this.fold, Date.now())) return
      this.#checkpoints.keep(this.fold.next)
    } catch (error) {
      tell({ tell: 'failed', problem: `the snapshot could not be written: ${String(error)}` })
      return
    }
    this.#writtenNext = this.fold.next
    this.#writtenCount = this.fold.counts.counted
    this.#writtenAtMs = performance.now()
    tell({ tell: 'written', next: this.fold.next, tip: this.fold.tip, tookMs: Math.round(performance.now() - startMs) })
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

const openLog = async ({ logModule, logFactory, logOptions }: SnapshotThreadStart): Promise<EventLog> => {
  const module: Record<string, (options: unknown) => EventLog | Promise<EventLog>> = await import(logModule)
  const open = module[logFactory]
  if (open === undefined) throw new Error(`${logModule} has no ${logFactory}`)
  return open(logOptions)
}

const run = async (options: SnapshotThreadStart): Promise<void> => {
  const log = await openLog(options)
  const { start } = await loadSnapshot(options.dataDir, options.macKey)
  const snapshots = new SnapshotFold(log, options, new ChainFold(options.macKey, start), start !== null)
  let suspected = false
  while (!stopping.signal.aborted) {
    try {
      if (suspected && !(await snapshots.again())) {
        await pause(AFTER_LOSS_MS, stopping.signal)
        continue
      }
      suspected = false
      await snapshots.follow()
    } catch (error) {
      if (stopping.signal.aborted) break
      suspected = !(error instanceof LogUnavailable)
      if (suspected) tell({ tell: 'failed', problem: `reading the control topic again: ${String(error)}` })
      await pause(AFTER_FAILURE_MS, stopping.signal)
    }
  }
  if (!suspected) {
    // Without its last records a snapshot is as good: the next start folds them.
    await snapshots.finish().catch((error) => tell({ tell: 'failed', problem: `the last records: ${String(error)}` }))
    snapshots.write(true)
  }
  await log.close()
}

/** Whatever ends a run is said, and tried again: snapshots are a shortcut, the thread must not be one that is silently missing. */
const runForEver = async (options: SnapshotThreadStart): Promise<void> => {
  while (!stopping.signal.aborted) {
    try {
      await run(options)
    } catch (error) {
      tell({ tell: 'failed', problem: String(error) })
      await pause(AFTER_LOSS_MS, stopping.signal)
    }
  }
}

type Reader = (state: ControlState, point: PastPoint, read: unknown) => unknown

const readerOf = async ({ readerModule, readerFunction }: SnapshotThreadStart): Promise<Reader> => {
  if (readerModule === null) throw new Error('nothing reads the past here')
  const module: Record<string, Reader> = await import(readerModule)
  const read = module[readerFunction]
  if (read === undefined) throw new Error(`${readerModule} has no ${readerFunction}`)
  return read
}

/** Answers what is asked, one at a time, in the order of asking, on a log of its own. */
class Answers {
  #queue: Promise<void> = Promise.resolve()
  #history: Promise<LogHistory> | null = null
  #log: EventLog | null = null

  constructor(readonly options: SnapshotThreadStart) {}

  ask(number: number, question: Question): void {
    this.#queue = this.#queue.then(() => this.#answer(number, question))
  }

  async close(): Promise<void> {
    await this.#queue
    await this.#log?.close()
  }

  async #answer(number: number, question: Question): Promise<void> {
    try {
      this.#history ??= this.#open()
      const answer = await (await this.#history).answer(question)
      tell({ tell: 'answer', number, answer })
    } catch (error) {
      const soon = error instanceof HistoryUnavailable || error instanceof LogUnavailable
      tell({ tell: 'no_answer', number, problem: error instanceof Error ? error.message : String(error), soon })
    }
  }

  async #open(): Promise<LogHistory> {
    const { options } = this
    this.#log ??= await openLog(options)
    let reader: Promise<Reader> | null = null
    return new LogHistory({
      log: this.#log,
      macKey: options.macKey,
      checkpoints: new Checkpoints(options.dataDir, options.macKey),
      async readPast(state, point, read) {
        reader ??= readerOf(options)
        return (await reader)(state, point, read)
      },
      signal: stopping.signal,
    })
  }
}

let running: Promise<void> = Promise.resolve()
let answers: Answers | null = null
self.onmessage = ({ data }: MessageEvent<ToSnapshotThread>) => {
  if (data.tell === 'start') {
    answers = new Answers(data)
    if (data.writes) running = runForEver(data)
    return
  }
  if (data.tell === 'ask') {
    answers?.ask(data.number, data.question)
    return
  }
  stopping.abort()
  void Promise.all([running, answers?.close()]).finally(() => tell({ tell: 'stopped' }))
}
