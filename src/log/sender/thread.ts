// The serving thread's side of the sender: starts the worker, receives its progress, restarts it when it dies.
// Shipping 200 records blocks a thread for up to a millisecond, so it has a thread of its own; waking that costs the
// serving thread nanoseconds (`bench -- tricks`, sender; docs/decisions/0053-records-packed-for-kafka.md).

import { ownModuleUrl } from '../../lib/own-files.ts'
import { wallMs } from '../../lib/time/wall-clock.ts'
import type { SpoolTopic } from '../segments/segments.ts'
import type { LocalSpool } from '../spool/spool.ts'
import type { ThreadLog } from '../thread-log.ts'
import type { ShipProgress } from './ship.ts'
import type { ShipTarget } from './shipments.ts'
import type { FromSender, SpoolToShip, ToSender } from './worker.ts'

/** The arguments with which the thread opens its own log. */
export interface SenderOptions extends ThreadLog {
  /** This process's own spool. */
  readonly spool: LocalSpool
  readonly targets: Readonly<Record<SpoolTopic, ShipTarget>>
  /** As in `ShipOptions`. */
  readonly afterSync: boolean
  /** As in `ShipOptions`. */
  readonly gatherMs: number
  /** A problem for an operator; the sender continues by itself. */
  onProblem?(problem: string): void
}

export interface SenderStatus {
  readonly spools: readonly ShipProgress[]
  /** Why the sender makes no progress, or null. */
  readonly problem: string | null
  /** How often the thread was restarted. */
  readonly restarts: number
}

export interface Sender {
  /** Pass it to `openSpool` as `onFlushed`: wakes the thread at once. A few microseconds. */
  wake(): void
  /**
   * Ships the spool of a dead process to its end, then deletes it, once nothing else needs it (`isUnneeded` resolves
   * false where something does). Settle its orphans first.
   */
  drain(adopted: LocalSpool, isUnneeded?: Promise<boolean>): void
  status(): SenderStatus
  /** Ends the thread. Unshipped records stay in the spool. */
  stop(): Promise<void>
}

const RESTART_MS = 1_000
const STOP_LIMIT_MS = 3_000

export const startSender = (options: SenderOptions): Sender => new SenderThread(options)

interface SpoolOfThread {
  readonly spool: LocalSpool
  readonly drain: boolean
  /** Whether a drained spool is deleted once it is shipped; true for others. */
  readonly isUnneeded: Promise<boolean>
}

const UNNEEDED = Promise.resolve(true)

class SenderThread implements Sender {
  private readonly bell = new Int32Array(new SharedArrayBuffer(4))
  private readonly spools = new Map<string, SpoolOfThread>()
  private readonly progress = new Map<string, ShipProgress>()
  private readonly failures = new Map<string, string>()
  private worker: Worker
  private restarts = 0
  private restarting: ReturnType<typeof setTimeout> | null = null
  private stopped: (() => void) | null = null
  private stopping = false

  constructor(private readonly options: SenderOptions) {
    this.spools.set(options.spool.directory, { spool: options.spool, drain: false, isUnneeded: UNNEEDED })
    this.worker = this.spawn()
  }

  wake(): void {
    Atomics.add(this.bell, 0, 1)
    Atomics.notify(this.bell, 0)
  }

  drain(adopted: LocalSpool, isUnneeded = UNNEEDED): void {
    this.spools.set(adopted.directory, { spool: adopted, drain: true, isUnneeded })
    this.post({ type: 'ship', spool: { directory: adopted.directory, drain: true } })
  }

  status(): SenderStatus {
    const spools = [...this.progress.values()]
    const problem = [...this.failures.values()][0] ?? spools.find((spool) => spool.problem !== null)?.problem ?? null
    return { spools, problem, restarts: this.restarts }
  }

  async stop(): Promise<void> {
    if (this.stopping) return
    this.stopping = true
    if (this.restarting !== null) clearTimeout(this.restarting)
    const ended = new Promise<void>((resolve) => {
      this.stopped = resolve
    })
    // A thread that hangs in the log's client is ended: its watermark is only lower than it could be.
    const limit = setTimeout(() => this.stopped?.(), STOP_LIMIT_MS)
    this.post({ type: 'stop' })
    await ended
    clearTimeout(limit)
    this.worker.terminate()
  }

  private post(message: ToSender): void {
    this.worker.postMessage(message)
  }

  private spawn(): Worker {
    const worker = new Worker(ownModuleUrl('src/log/sender/worker'))
    worker.addEventListener('message', ({ data }: MessageEvent<FromSender>) => this.received(data))
    worker.addEventListener('error', ({ message }) => this.died(worker, message))
    worker.addEventListener('close', () => this.died(worker, 'the thread ended'))
    const { logModule, logFactory, logOptions, targets, afterSync, gatherMs } = this.options
    const spools: SpoolToShip[] = [...this.spools].map(([directory, { drain }]) => ({ directory, drain }))
    const bell = this.bell.buffer
    const start = {
      type: 'start',
      logModule,
      logFactory,
      logOptions,
      targets,
      afterSync,
      gatherMs,
      spools,
      bell,
    } as const
    worker.postMessage(start satisfies ToSender)
    return worker
  }

  private received(message: FromSender): void {
    if (message.type === 'progress') {
      const { directory, record } = message.progress
      // The thread has the clock of the machine, records have the corrected one.
      const lagMs = Math.max(0, message.progress.lagMs - (Date.now() - wallMs()))
      this.progress.set(directory, { ...message.progress, lagMs })
      this.failures.delete(directory)
      this.spools.get(directory)?.spool.shipped(record)
    } else if (message.type === 'failed') {
      this.failures.set(message.directory, message.problem)
      this.options.onProblem?.(message.problem)
    } else if (message.type === 'drained') this.drained(message.directory)
    else this.stopped?.()
  }

  private drained(directory: string): void {
    const entry = this.spools.get(directory)
    this.spools.delete(directory)
    this.progress.delete(directory)
    this.failures.delete(directory)
    entry?.isUnneeded
      .then((isUnneeded) => entry.spool.close({ remove: isUnneeded }))
      .catch((error: unknown) => {
        this.options.onProblem?.(`${directory} is shipped and could not be removed: ${String(error)}`)
      })
  }

  private died(worker: Worker, reason: string): void {
    if (worker !== this.worker || this.restarting !== null) return
    if (this.stopping) {
      this.stopped?.()
      return
    }
    this.failures.set('thread', `the sender's thread failed: ${reason}`)
    this.options.onProblem?.(`the sender's thread failed: ${reason}`)
    this.restarting = setTimeout(() => {
      this.restarting = null
      this.restarts++
      this.failures.delete('thread')
      worker.terminate()
      this.worker = this.spawn()
    }, RESTART_MS)
  }
}
