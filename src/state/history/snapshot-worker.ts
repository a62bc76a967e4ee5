// The thread that writes snapshots and replies to questions about the past: it folds the log by itself, so that neither
// is ever done on the serving thread. `snapshot-thread.ts` sends its commands.
import type { ControlState } from '../../domain/control.ts'
import { sleep } from '../../lib/event-loop/sleep.ts'
import { type EventLog, LogUnavailable } from '../../log/port.ts'
import { openThreadLog, type ThreadLog } from '../../log/thread-log.ts'
import { ChainFold, CONTROL } from '../fold.ts'
import { Checkpoints } from './checkpoints.ts'
import { LogHistory } from './history.ts'
import { HistoryUnavailable, type PastPoint, type Question } from './history-port.ts'
import { loadSnapshot } from './snapshot.ts'
import { decisionsDue, SnapshotFold, type Written } from './snapshot-fold.ts'

export interface SnapshotThreadStart extends ThreadLog {
  readonly kind: 'start'
  readonly macKey: Uint8Array
  readonly dataDir: string
  readonly everyDecisions: number
  readonly everyMs: number
  /** A state of more rows does not stay in memory between two snapshots: it would take its memory a second time. */
  readonly heldRows: number
  /** False in a process whose data folder another one owns: it replies to questions, and writes nothing. */
  readonly writes: boolean
  /** A snapshot is due at once: the thread was started for it. */
  readonly owed: boolean
  /** After so long without a record the thread reports that it may end. Null: it stays. */
  readonly restMs: number | null
  /**
   * The last snapshot of the thread before this one, which ended to rest, and its age: a question then does not fold
   * for snapshots. Null: none is recorded, or `owed`.
   */
  readonly rested: { readonly next: number; readonly rows: number; readonly ageMs: number } | null
  /** Module and function that read a state of the past: `(state, point, read) => answer`, all of it copyable. */
  readonly readerModule: string | null
  readonly readerFunction: string
}
export type ToSnapshotThread =
  | SnapshotThreadStart
  | { readonly kind: 'ask'; readonly number: number; readonly question: Question }
  | { readonly kind: 'stop' }
  /** As `stop`, and nothing more is written. */
  | { readonly kind: 'rest' }
export type FromSnapshotThread =
  | { readonly kind: 'written'; readonly next: number; readonly tip: string; readonly tookMs: number }
  | { readonly kind: 'failed'; readonly problem: string }
  | { readonly kind: 'answer'; readonly number: number; readonly answer: unknown }
  /** `soon`: a repeat may succeed. */
  | { readonly kind: 'no_answer'; readonly number: number; readonly problem: string; readonly soon: boolean }
  /**
   * There was no record for a while. The last snapshot holds the log up to `next`; after `due` more decisions another
   * is due. Repeated while there is no record.
   */
  | { readonly kind: 'rests'; readonly next: number; readonly rows: number; readonly due: number }
  | { readonly kind: 'stopped' }

declare const self: Worker

const AFTER_FAILURE_MS = 1_000
const AFTER_LOSS_MS = 60_000
const LOOK_MS = 1_000

const post = (message: FromSnapshotThread): void => self.postMessage(message)
const stopping = new AbortController()

/**
 * Collects the memory of the state now, since an idle thread does not collect. Called when no stack frame refers to the
 * state any more.
 */
const giveBack = async (): Promise<void> => {
  await sleep(LOOK_MS, stopping.signal)
  Bun.gc(true)
}

/** Reports that this thread may be ended; the serving thread decides. */
const rests = (options: SnapshotThreadStart, { next, rows }: Written): void =>
  post({ kind: 'rests', next, rows, due: decisionsDue(options, rows) })

/** Resolves when the log holds enough that is not in the last snapshot, or holds more and time has passed. */
const snapshotDue = async (log: EventLog, options: SnapshotThreadStart, written: Written): Promise<void> => {
  while (!stopping.signal.aborted) {
    const behind = (await log.end(CONTROL, 0)) - written.next
    if (behind >= decisionsDue(options, written.rows)) return
    if (behind > 0 && performance.now() - written.atMs >= options.everyMs) return
    if (options.restMs !== null) rests(options, written)
    await sleep(LOOK_MS, stopping.signal)
  }
}

const fromSnapshot = async (log: EventLog, options: SnapshotThreadStart, owed: boolean): Promise<SnapshotFold> => {
  const { start } = await loadSnapshot(options.dataDir, options.macKey)
  const fold = new ChainFold(options.macKey, start)
  return new SnapshotFold({ log, options, post, signal: stopping.signal }, fold, start !== null, owed)
}

const run = async (options: SnapshotThreadStart): Promise<void> => {
  const log = await openThreadLog(options)
  let { rested } = options
  /** Null: it is too large to stay in memory until the next one is due, or nothing is due yet. */
  let snapshots: SnapshotFold | null = rested === null ? await fromSnapshot(log, options, options.owed) : null
  let suspected = false
  while (!stopping.signal.aborted) {
    try {
      if (rested !== null) {
        await snapshotDue(log, options, { ...rested, atMs: performance.now() - rested.ageMs })
        rested = null
        continue
      }
      snapshots ??= await fromSnapshot(log, options, true)
      if (suspected && !(await snapshots.again())) {
        await sleep(AFTER_LOSS_MS, stopping.signal)
        continue
      }
      suspected = false
      await snapshots.follow()
      if (stopping.signal.aborted) break
      const written: Written = snapshots.written()
      if (options.restMs !== null) rests(options, written)
      if (!snapshots.isTooLarge()) continue
      snapshots = null
      await giveBack()
      await snapshotDue(log, options, written)
    } catch (error) {
      if (stopping.signal.aborted) break
      suspected = !(error instanceof LogUnavailable)
      if (suspected) post({ kind: 'failed', problem: `reading the control topic again: ${String(error)}` })
      await sleep(AFTER_FAILURE_MS, stopping.signal)
    }
  }
  if (!suspected && !thread.isResting && snapshots !== null) {
    // A snapshot without its last records is sufficient: the next start folds them.
    await snapshots.finish().catch((error) => post({ kind: 'failed', problem: `the last records: ${String(error)}` }))
    snapshots.write(true)
  }
  await log.close()
}

/**
 * Reports every error that ends a run, and runs again: snapshots are a shortcut, but the thread must not be missing
 * silently.
 */
const runForEver = async (options: SnapshotThreadStart): Promise<void> => {
  while (!stopping.signal.aborted) {
    try {
      await run(options)
    } catch (error) {
      post({ kind: 'failed', problem: String(error) })
      await sleep(AFTER_LOSS_MS, stopping.signal)
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

/** Replies to questions, one at a time, in their order, on a log of its own. */
class Replies {
  #queue: Promise<void> = Promise.resolve()
  #history: Promise<LogHistory> | null = null
  #log: EventLog | null = null

  constructor(readonly options: SnapshotThreadStart) {}

  ask(number: number, question: Question): void {
    this.#queue = this.#queue.then(() => this.#reply(number, question))
  }

  async close(): Promise<void> {
    await this.#queue
    await this.#log?.close()
  }

  async #reply(number: number, question: Question): Promise<void> {
    try {
      this.#history ??= this.#open()
      const answer = await (await this.#history).answer(question)
      post({ kind: 'answer', number, answer })
    } catch (error) {
      const soon = error instanceof HistoryUnavailable || error instanceof LogUnavailable
      post({ kind: 'no_answer', number, problem: error instanceof Error ? error.message : String(error), soon })
    }
  }

  async #open(): Promise<LogHistory> {
    const { options } = this
    this.#log ??= await openThreadLog(options)
    let reader: Promise<Reader> | null = null
    return new LogHistory({
      log: this.#log,
      macKey: options.macKey,
      checkpoints: new Checkpoints(options.dataDir, options.macKey),
      indexStore: { dataDir: options.dataDir, writes: options.writes },
      async readPast(state, point, read) {
        reader ??= readerOf(options)
        return (await reader)(state, point, read)
      },
      signal: stopping.signal,
    })
  }
}

/** The commands of the serving thread. */
class CommandedThread {
  /** It ends to rest: nothing more is written. */
  isResting = false
  #running: Promise<void> = Promise.resolve()
  #replies: Replies | null = null

  receive(command: ToSnapshotThread): void {
    if (command.kind === 'start') {
      this.#replies = new Replies(command)
      if (command.writes) this.#running = runForEver(command)
      return
    }
    if (command.kind === 'ask') {
      this.#replies?.ask(command.number, command.question)
      return
    }
    this.isResting = command.kind === 'rest'
    stopping.abort()
    void Promise.all([this.#running, this.#replies?.close()]).finally(() => post({ kind: 'stopped' }))
  }
}

const thread = new CommandedThread()
self.onmessage = ({ data }: MessageEvent<ToSnapshotThread>) => thread.receive(data)
