// The serving thread's end of snapshots and of the past: starts the worker, receives its messages, sends questions,
// starts it again when it dies.

import { ownModuleUrl } from '../../lib/own-files.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { ThreadLog } from '../../log/thread-log.ts'
import { type History, HistoryUnavailable, type Question, type QuestionName, type Questions } from './history-port.ts'
import type { FromSnapshotThread, SnapshotThreadStart, ToSnapshotThread } from './snapshot-worker.ts'

/** The options for the thread's own log. */
export interface SnapshotOptions extends ThreadLog {
  /** `decisionMacKey` of the master key. */
  readonly macKey: Uint8Array
  /** One thread for each data folder is enough. */
  readonly dataDir: string
  readonly diagnostics: Diagnostics
  readonly everyDecisions?: number
  readonly everyMs?: number
  /** A state of more rows is read again from the last snapshot when the next is due, instead of staying in memory. */
  readonly heldRows?: number
  readonly onWritten?: (snapshot: { next: number; tip: string; tookMs: number }) => void
  /**
   * False: nothing is written, the thread only replies to questions about the past, and the first question starts it.
   */
  readonly writes?: boolean
  /**
   * The thread starts after this promise, or with the first question: a second fold of the same log beside the serving
   * one would only make the start longer. When it rejects there is nothing to write, and the thread does not start.
   */
  readonly after?: Promise<unknown>
  /**
   * Lets the thread end while it has no work: it takes memory, and polls the log (docs/decisions/0043). Absent: it
   * stays. `position`: the offset after the last control record that this process has folded; it determines when the
   * thread starts again.
   */
  readonly rest?: { position(): number; readonly afterMs?: number }
  /** Module and function that read states of the past, for `past` questions. */
  readonly readerModule?: string
  readonly readerFunction?: string
}

export interface Snapshots extends History {
  status(): { readonly next: number | null; readonly problem: string | null }
  /** Writes a last snapshot when something changed, then ends the thread. */
  stop(): Promise<void>
}

const EVERY_DECISIONS = 5_000
const EVERY_MS = 300_000
const HELD_ROWS = 100_000
const RESTART_MS = 5_000
const REST_AFTER_MS = 5_000
/** While the thread rests: interval between checks whether a snapshot is due. */
const LOOK_MS = 1_000
const STOP_LIMIT_MS = 5_000
/** How long a stop waits for a thread that was started for the last snapshot. */
const LAST_LIMIT_MS = 2_000
/** Bound of the questions without a reply. */
const MAX_OPEN = 32
const REPLY_MS = 10_000

interface Open {
  resolve(answer: unknown): void
  reject(error: Error): void
}

/** The last message of a thread that ended to rest. */
interface Resting {
  readonly next: number
  readonly rows: number
  readonly due: number
}

export const startSnapshots = (options: SnapshotOptions): Snapshots => new SnapshotThread(options)

class SnapshotThread implements Snapshots {
  #worker: Worker | null
  /** Open requests by number; null: the caller no longer waits. */
  readonly #open = new Map<number, Open | null>()
  #asked = 0
  #next: number | null = null
  #writtenAtMs = performance.now()
  #problem: string | null = null
  #restarting: ReturnType<typeof setTimeout> | null = null
  #resting: Resting | null = null
  #look: ReturnType<typeof setInterval> | null = null
  #lastQuestionAtMs = Number.NEGATIVE_INFINITY
  /** Resolves the stop that waits for the last snapshot. */
  #onLast: (() => void) | null = null
  #stopped: (() => void) | null = null

  constructor(readonly options: SnapshotOptions) {
    const { after, writes = true } = options
    this.#worker = writes && after === undefined ? this.#spawn() : null
    const begin = () => {
      if (this.#stopped === null) this.#spawnOnce()
    }
    if (writes) after?.then(begin, () => {}) // the owner of the serving state reports why there is none
  }

  query<Name extends QuestionName>(name: Name, ask: Questions[Name]['parameters']): Promise<Questions[Name]['reply']> {
    if (this.#stopped !== null) return Promise.reject(new HistoryUnavailable('the gateway is stopping'))
    if (this.#restarting !== null)
      return Promise.reject(new HistoryUnavailable('the thread that reads it is restarted'))
    if (this.#open.size >= MAX_OPEN) return Promise.reject(new HistoryUnavailable('too many questions wait'))
    const number = ++this.#asked
    const { promise, resolve, reject } = Promise.withResolvers<Questions[Name]['reply']>()
    const limit = setTimeout(() => {
      this.#open.set(number, null) // counts until its reply
      reject(new HistoryUnavailable(`it was not read within ${REPLY_MS / 1_000} s`))
    }, REPLY_MS)
    this.#open.set(number, { resolve: resolve as Open['resolve'], reject })
    this.#lastQuestionAtMs = performance.now()
    this.#spawnOnce().postMessage({
      kind: 'ask',
      number,
      question: { name, ...ask } as Question,
    } satisfies ToSnapshotThread)
    return promise.finally(() => clearTimeout(limit))
  }

  status(): { readonly next: number | null; readonly problem: string | null } {
    return { next: this.#next, problem: this.#problem }
  }

  async stop(): Promise<void> {
    if (this.#stopped !== null) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#stopped = resolve
    if (this.#restarting !== null) clearTimeout(this.#restarting)
    if (this.#look !== null) clearInterval(this.#look)
    this.#rejectOpen('the gateway is stopping')
    const { heldRows = HELD_ROWS } = this.options
    if (this.#behind() > 0 && this.#resting!.rows <= heldRows) await this.#writeLast()
    if (this.#worker === null) return
    // A thread that hangs is ended: the last snapshot then only lies further back.
    const limit = setTimeout(resolve, STOP_LIMIT_MS)
    const worker = this.#worker
    worker.postMessage({ kind: 'stop' } satisfies ToSnapshotThread)
    await promise
    clearTimeout(limit)
    worker.terminate()
  }

  /** Records that the last snapshot lacks, by the position of this process; 0 while the thread runs. */
  #behind(): number {
    return this.#resting === null ? 0 : (this.options.rest?.position() ?? 0) - this.#resting.next
  }

  /**
   * Starts the thread for the snapshot that is owed; resolves when that is written or has failed. A thread that takes
   * too long is ended: it writes beside, then renames.
   */
  async #writeLast(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#onLast = resolve
    const limit = setTimeout(() => {
      this.#worker?.terminate()
      this.#worker = null
      resolve()
    }, LAST_LIMIT_MS)
    this.#startOwed()
    await promise
    clearTimeout(limit)
  }

  /** The thread has nothing to do, and there was no question for a while. */
  #rest({ next, rows, due }: FromSnapshotThread & { kind: 'rests' }, worker: Worker): void {
    const { rest, everyMs = EVERY_MS } = this.options
    const { afterMs = REST_AFTER_MS } = rest!
    if (this.#stopped !== null || this.#open.size > 0 || performance.now() - this.#lastQuestionAtMs < afterMs) return
    this.#worker = null
    this.#resting = { next, rows, due }
    const limit = setTimeout(() => worker.terminate(), STOP_LIMIT_MS)
    worker.addEventListener('message', ({ data }: MessageEvent<FromSnapshotThread>) => {
      if (data.kind !== 'stopped') return
      clearTimeout(limit)
      worker.terminate()
    })
    worker.postMessage({ kind: 'rest' } satisfies ToSnapshotThread)
    this.options.diagnostics.debug('snapshot_thread_rests', { next })
    this.#look = setInterval(
      () => {
        const behind = this.#behind()
        const isLate = behind > 0 && performance.now() - this.#writtenAtMs >= everyMs
        if (behind >= due || isLate) this.#startOwed()
      },
      Math.min(LOOK_MS, afterMs),
    )
    this.#look.unref()
  }

  #startOwed(): void {
    this.#worker ??= this.#spawn(true)
  }

  #spawnOnce(): Worker {
    this.#worker ??= this.#spawn()
    return this.#worker
  }

  #spawn(owed = false): Worker {
    const resting = this.#resting
    this.#resting = null
    if (this.#look !== null) clearInterval(this.#look)
    const worker = new Worker(ownModuleUrl('src/state/history/snapshot-worker'))
    worker.addEventListener('message', ({ data }: MessageEvent<FromSnapshotThread>) => this.#receive(data, worker))
    worker.addEventListener('error', ({ message }) => this.#died(worker, message))
    worker.addEventListener('close', () => this.#died(worker, 'the thread ended'))
    const { logModule, logFactory, logOptions, macKey, dataDir } = this.options
    const { everyDecisions = EVERY_DECISIONS, everyMs = EVERY_MS, heldRows = HELD_ROWS, writes = true } = this.options
    const { readerModule = null, readerFunction = '', rest } = this.options
    const start = {
      kind: 'start',
      logModule,
      logFactory,
      logOptions,
      macKey,
      dataDir,
      everyDecisions,
      everyMs,
      heldRows,
      writes,
      owed,
      restMs: rest === undefined ? null : (rest.afterMs ?? REST_AFTER_MS),
      rested:
        owed || resting === null
          ? null
          : { next: resting.next, rows: resting.rows, ageMs: performance.now() - this.#writtenAtMs },
      readerModule,
      readerFunction,
    } as const
    worker.postMessage(start satisfies SnapshotThreadStart)
    return worker
  }

  #receive(message: FromSnapshotThread, worker: Worker): void {
    if (worker !== this.#worker) {
      // The thread was ended to rest; a snapshot that it wrote before it received that counts.
      if (message.kind === 'written' && this.#resting !== null) this.#resting = { ...this.#resting, next: message.next }
      return
    }
    if (message.kind === 'stopped') this.#stopped?.()
    else if (message.kind === 'rests') this.#rest(message, worker)
    else if (message.kind === 'answer' || message.kind === 'no_answer') this.#receiveReply(message)
    else if (message.kind === 'failed') {
      this.#problem = message.problem
      this.options.diagnostics.warn('snapshot_failed', { reason: message.problem })
      this.#onLast?.()
    } else {
      this.#next = message.next
      this.#writtenAtMs = performance.now()
      this.#problem = null
      this.options.diagnostics.debug('snapshot_written', { next: message.next, took_ms: message.tookMs })
      this.options.onWritten?.(message)
      this.#onLast?.()
    }
  }

  #receiveReply(message: FromSnapshotThread & { kind: 'answer' | 'no_answer' }): void {
    const open = this.#open.get(message.number)
    this.#open.delete(message.number)
    if (message.kind === 'answer') open?.resolve(message.answer)
    else {
      if (!message.soon) this.options.diagnostics.error('history_failed', { reason: message.problem })
      open?.reject(message.soon ? new HistoryUnavailable(message.problem) : new Error(message.problem))
    }
  }

  #rejectOpen(reason: string): void {
    for (const open of this.#open.values()) open?.reject(new HistoryUnavailable(reason))
    this.#open.clear()
  }

  #died(worker: Worker, reason: string): void {
    if (worker !== this.#worker || this.#restarting !== null) return
    if (this.#stopped !== null) {
      this.#stopped()
      this.#onLast?.()
      return
    }
    this.#rejectOpen('the thread that reads it has failed and is restarted')
    this.#problem = `the snapshot thread failed: ${reason}`
    this.options.diagnostics.error('snapshot_thread_failed', { reason })
    this.#restarting = setTimeout(() => {
      this.#restarting = null
      worker.terminate()
      this.#worker = this.#spawn()
    }, RESTART_MS)
  }
}
