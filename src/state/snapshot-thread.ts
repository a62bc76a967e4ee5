// The serving thread's end of the snapshots: starts the worker, hears what it wrote, starts it again when it dies.
import type { Diagnostics } from '../lib/diagnostics.ts'
import type { FromSnapshotThread, SnapshotThreadStart, ToSnapshotThread } from './snapshot-worker.ts'

export interface SnapshotOptions {
  /** What the thread opens its own log with: `await (await import(logModule))[logFactory](logOptions)`. `logOptions` is copied into the thread. */
  readonly logModule: string
  readonly logFactory: string
  readonly logOptions: unknown
  /** `decisionMacKey` of the master key. */
  readonly macKey: Uint8Array
  /** One thread for each data folder is enough. */
  readonly dataDir: string
  readonly diagnostics: Diagnostics
  readonly everyDecisions?: number
  readonly everyMs?: number
  readonly onWritten?: (snapshot: { next: number; tip: string; tookMs: number }) => void
}

export interface Snapshots {
  status(): { readonly next: number | null; readonly problem: string | null }
  /** Writes a last snapshot when something changed, then ends the thread. */
  stop(): Promise<void>
}

const EVERY_DECISIONS = 5_000
const EVERY_MS = 300_000
const RESTART_MS = 5_000
const STOP_LIMIT_MS = 5_000

export const startSnapshots = (options: SnapshotOptions): Snapshots => new SnapshotThread(options)

class SnapshotThread implements Snapshots {
  #worker: Worker
  #next: number | null = null
  #problem: string | null = null
  #restarting: ReturnType<typeof setTimeout> | null = null
  #stopped: (() => void) | null = null

  constructor(readonly options: SnapshotOptions) {
    this.#worker = this.#spawn()
  }

  status(): { readonly next: number | null; readonly problem: string | null } {
    return { next: this.#next, problem: this.#problem }
  }

  async stop(): Promise<void> {
    if (this.#stopped !== null) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#stopped = resolve
    if (this.#restarting !== null) clearTimeout(this.#restarting)
    // A thread that hangs is ended: the last snapshot then only lies further back.
    const limit = setTimeout(resolve, STOP_LIMIT_MS)
    this.#worker.postMessage({ tell: 'stop' } satisfies ToSnapshotThread)
    await promise
    clearTimeout(limit)
    this.#worker.terminate()
  }

  #spawn(): Worker {
    const worker = new Worker(new URL('./snapshot-worker.ts', import.meta.url).href)
    worker.addEventListener('message', ({ data }: MessageEvent<FromSnapshotThread>) => this.#heard(data))
    worker.addEventListener('error', ({ message }) => this.#died(worker, message))
    worker.addEventListener('close', () => this.#died(worker, 'the thread ended'))
    const { logModule, logFactory, logOptions, macKey, dataDir } = this.options
    const { everyDecisions = EVERY_DECISIONS, everyMs = EVERY_MS } = this.options
    const start = {
      tell: 'start',
      logModule,
      logFactory,
      logOptions,
      macKey,
      dataDir,
      everyDecisions,
      everyMs,
    } as const
    worker.postMessage(start satisfies SnapshotThreadStart)
    return worker
  }

  #heard(message: FromSnapshotThread): void {
    if (message.tell === 'stopped') this.#stopped?.()
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

  #died(worker: Worker, reason: string): void {
    if (worker !== this.#worker || this.#restarting !== null) return
    if (this.#stopped !== null) {
      this.#stopped()
      return
    }
    this.#problem = `the snapshot thread failed: ${reason}`
    this.options.diagnostics.error('snapshot_thread_failed', { reason })
    this.#restarting = setTimeout(() => {
      this.#restarting = null
      worker.terminate()
      this.#worker = this.#spawn()
    }, RESTART_MS)
  }
}
