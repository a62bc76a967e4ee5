// The serving thread's end of snapshots and of the past: starts the worker, hears what it wrote, asks it, starts it again when it dies.
import type { Diagnostics } from '../lib/diagnostics.ts'
import type { ThreadLog } from '../log/thread-log.ts'
import { type History, HistoryUnavailable, type Question, type QuestionName, type Questions } from './history-port.ts'
import type { FromSnapshotThread, SnapshotThreadStart, ToSnapshotThread } from './snapshot-worker.ts'

/** With what the thread opens its own log. */
export interface SnapshotOptions extends ThreadLog {
  /** `decisionMacKey` of the master key. */
  readonly macKey: Uint8Array
  /** One thread for each data folder is enough. */
  readonly dataDir: string
  readonly diagnostics: Diagnostics
  readonly everyDecisions?: number
  readonly everyMs?: number
  /** A state of more rows is read again from the last snapshot when the next is due, not held until then. */
  readonly heldRows?: number
  readonly onWritten?: (snapshot: { next: number; tip: string; tookMs: number }) => void
  /** False: nothing is written, the thread only answers for the past, and is started by the first question. */
  readonly writes?: boolean
  /**
   * The thread starts after it, or with the first question: until the serving state is folded, a second fold of the same log beside it would only make the
   * start longer. One that rejects starts nothing: there is nothing to write then.
   */
  readonly after?: Promise<unknown>
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
const STOP_LIMIT_MS = 5_000
/** Questions that the thread has not answered yet. */
const MAX_OPEN = 32
const ANSWER_MS = 10_000

interface Open {
  resolve(answer: unknown): void
  reject(error: Error): void
}

export const startSnapshots = (options: SnapshotOptions): Snapshots => new SnapshotThread(options)

class SnapshotThread implements Snapshots {
  #worker: Worker | null
  /** By number; null for one that its asker no longer waits for. */
  readonly #open = new Map<number, Open | null>()
  #asked = 0
  #next: number | null = null
  #problem: string | null = null
  #restarting: ReturnType<typeof setTimeout> | null = null
  #stopped: (() => void) | null = null

  constructor(readonly options: SnapshotOptions) {
    const { after, writes = true } = options
    this.#worker = writes && after === undefined ? this.#spawn() : null
    const begin = () => {
      if (this.#stopped === null) this.#spawnOnce()
    }
    if (writes) after?.then(begin, () => {}) // who serves the state tells why there is none
  }

  ask<Name extends QuestionName>(name: Name, ask: Questions[Name]['ask']): Promise<Questions[Name]['answer']> {
    if (this.#stopped !== null) return Promise.reject(new HistoryUnavailable('the gateway is stopping'))
    if (this.#restarting !== null)
      return Promise.reject(new HistoryUnavailable('the thread that reads it is restarted'))
    if (this.#open.size >= MAX_OPEN) return Promise.reject(new HistoryUnavailable('too many questions wait'))
    const number = ++this.#asked
    const { promise, resolve, reject } = Promise.withResolvers<Questions[Name]['answer']>()
    const limit = setTimeout(() => {
      this.#open.set(number, null) // counts until it is answered
      reject(new HistoryUnavailable(`it was not read within ${ANSWER_MS / 1_000} s`))
    }, ANSWER_MS)
    this.#open.set(number, { resolve: resolve as Open['resolve'], reject })
    this.#spawnOnce().postMessage({
      tell: 'ask',
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
    this.#rejectOpen('the gateway is stopping')
    if (this.#worker === null) return
    // A thread that hangs is ended: the last snapshot then only lies further back.
    const limit = setTimeout(resolve, STOP_LIMIT_MS)
    const worker = this.#worker
    worker.postMessage({ tell: 'stop' } satisfies ToSnapshotThread)
    await promise
    clearTimeout(limit)
    worker.terminate()
  }

  #spawnOnce(): Worker {
    this.#worker ??= this.#spawn()
    return this.#worker
  }

  #spawn(): Worker {
    const worker = new Worker(new URL('./snapshot-worker.ts', import.meta.url).href)
    worker.addEventListener('message', ({ data }: MessageEvent<FromSnapshotThread>) => this.#heard(data))
    worker.addEventListener('error', ({ message }) => this.#died(worker, message))
    worker.addEventListener('close', () => this.#died(worker, 'the thread ended'))
    const { logModule, logFactory, logOptions, macKey, dataDir } = this.options
    const { everyDecisions = EVERY_DECISIONS, everyMs = EVERY_MS, heldRows = HELD_ROWS, writes = true } = this.options
    const { readerModule = null, readerFunction = '' } = this.options
    const start = {
      tell: 'start',
      logModule,
      logFactory,
      logOptions,
      macKey,
      dataDir,
      everyDecisions,
      everyMs,
      heldRows,
      writes,
      readerModule,
      readerFunction,
    } as const
    worker.postMessage(start satisfies SnapshotThreadStart)
    return worker
  }

  #heard(message: FromSnapshotThread): void {
    if (message.tell === 'stopped') this.#stopped?.()
    else if (message.tell === 'answer' || message.tell === 'no_answer') this.#answered(message)
    else if (message.tell === 'failed') {
      this.#problem = message.problem
      this.options.diagnostics.warn('snapshot_failed', { reason: message.problem })
    } else {
      this.#next = message.next
      this.#problem = null
      this.options.diagnostics.debug('snapshot_written', { next: message.next, took_ms: message.tookMs })
      this.options.onWritten?.(message)
    }
  }

  #answered(message: FromSnapshotThread & { tell: 'answer' | 'no_answer' }): void {
    const open = this.#open.get(message.number)
    this.#open.delete(message.number)
    if (message.tell === 'answer') open?.resolve(message.answer)
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
