// The folding thread's end of the one that reads ahead: starts it, bounds its parcels under way, ends it.
import { ownModuleUrl } from '../../lib/own-files.ts'
import type { ThreadLog } from '../../log/thread-log.ts'
import type { FromReadAhead, ReadAheadSpan, ToReadAhead } from './worker.ts'

/** Bound of the parcels that are read and not folded: a megabyte or so each at most. */
const PARCELS = 4
const STOP_LIMIT_MS = 2_000
/**
 * A thread that sends nothing for so long waits for a log that cannot be reached, or hangs: the reader in its place
 * reports the problem.
 */
const SILENCE_MS = 10_000

export class ReadAheadThread {
  readonly #worker: Worker
  readonly #parcels: string[] = []
  #ended: { readonly problem: string | null } | null = null
  #onNews: (() => void) | null = null

  constructor(
    log: ThreadLog,
    span: ReadAheadSpan,
    readonly silenceMs = SILENCE_MS,
  ) {
    this.#worker = new Worker(ownModuleUrl('src/state/read-ahead/worker'))
    this.#worker.addEventListener('message', ({ data }: MessageEvent<FromReadAhead>) => this.#receive(data))
    this.#worker.addEventListener('error', ({ message }) => this.#end(message))
    this.#worker.addEventListener('close', () => this.#end('the thread ended'))
    const { logModule, logFactory, logOptions } = log
    this.#post({ kind: 'start', log: { logModule, logFactory, logOptions }, span, parcels: PARCELS })
  }

  /**
   * The next parcel; null: there is none, because all were taken or the signal was aborted. Throws when the thread
   * failed or is silent.
   */
  async next(signal: AbortSignal): Promise<string | null> {
    const wake = () => this.#onNews?.()
    let isSilent = false
    const limit = setTimeout(() => {
      isSilent = true
      wake()
    }, this.silenceMs)
    signal.addEventListener('abort', wake)
    try {
      while (this.#parcels.length === 0 && this.#ended === null && !signal.aborted) {
        if (isSilent) throw new Error(`the thread that reads ahead gave nothing for ${this.silenceMs} ms`)
        await this.#news()
      }
    } finally {
      clearTimeout(limit)
      signal.removeEventListener('abort', wake)
    }
    if (signal.aborted) return null
    const parcel = this.#parcels.shift()
    if (parcel !== undefined) {
      this.#post({ kind: 'more' })
      return parcel
    }
    if (this.#ended!.problem !== null) throw new Error(`the thread that reads ahead failed: ${this.#ended!.problem}`)
    return null
  }

  /** Lets it close its log, then ends it; one that hangs is ended without. */
  async end(): Promise<void> {
    const limit = setTimeout(() => this.#end('it did not stop'), STOP_LIMIT_MS)
    if (this.#ended === null) this.#post({ kind: 'stop' })
    while (this.#ended === null) await this.#news()
    clearTimeout(limit)
    this.#worker.terminate()
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#onNews = resolve
    })
  }

  #receive(message: FromReadAhead): void {
    if (typeof message === 'string') {
      this.#parcels.push(message)
      this.#onNews?.()
    } else this.#end(message.problem)
  }

  #end(problem: string | null): void {
    this.#ended ??= { problem }
    this.#onNews?.()
  }

  #post(message: ToReadAhead): void {
    this.#worker.postMessage(message)
  }
}
