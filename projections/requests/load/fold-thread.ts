// This end of the thread that folds: feeds it, no faster than it folds, and gets its batches.
import { ownModuleUrl } from '../../../src/lib/own-files.ts'
import type { LogRecord } from '../../../src/log/port.ts'
import type { Cuts } from '../../usage/closed.ts'
import type { FoldedBatch, PartitionState } from './fold-batch.ts'
import type { FromFolder, ToFolder } from './fold-worker.ts'
import { type Carrier, newCarrier, pack, sizeOf } from './parcel.ts'

/** Parcels under way to the thread and back. */
const CARRIERS = 8

export class FoldThread {
  readonly #worker: Worker
  readonly #free: Carrier[] = Array.from({ length: CARRIERS }, newCarrier)
  #onFree: (() => void) | null = null
  #onBatch: ((batch: FoldedBatch) => void) | null = null
  #failure: Error | null = null
  #onFailure: ((error: Error) => void) | null = null

  constructor() {
    this.#worker = new Worker(ownModuleUrl('projections/requests/load/fold-worker'))
    this.#worker.addEventListener('message', ({ data }: MessageEvent<FromFolder>) => this.#receive(data))
    this.#worker.addEventListener('error', ({ message }) => this.#failed(message))
    this.#worker.addEventListener('close', () => this.#failed('it ended'))
  }

  /** Begins anew at these places: what was sent before is discarded. */
  open(partitions: readonly PartitionState[], cuts: Cuts): void {
    this.#post({ type: 'open', partitions, cuts })
  }

  /** Sends records of a partition; returns, when all are on their way, how many bytes they are. */
  async fold(partition: number, records: readonly LogRecord[]): Promise<number> {
    let bytes = 0
    for (let rest = records; rest.length > 0; ) {
      const parcel = pack(await this.#carrier(), partition, rest)
      bytes += sizeOf(parcel)
      rest = rest.slice(parcel.count)
      this.#post({ type: 'fold', parcel }, [parcel.numbers.buffer, parcel.bytes.buffer])
    }
    return bytes
  }

  /** The batch of what was sent since the last one. */
  take(): Promise<FoldedBatch> {
    return this.#orFailure((resolve) => {
      this.#onBatch = resolve
      this.#post({ type: 'take' })
    })
  }

  /** The batch is written: its memory goes back. */
  done({ request, detail }: FoldedBatch): void {
    const pieces = [...request, ...detail]
    this.#post(
      { type: 'reuse', pieces },
      pieces.map(({ buffer }) => buffer),
    )
  }

  end(): void {
    this.#failed('it was ended')
    this.#worker.terminate()
  }

  async #carrier(): Promise<Carrier> {
    if (this.#free.length === 0)
      await this.#orFailure<void>((resolve) => {
        this.#onFree = resolve
      })
    return this.#free.pop()!
  }

  #post(message: ToFolder, buffers: readonly ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, [...buffers])
  }

  #receive(message: FromFolder): void {
    if (message.type === 'folded') {
      this.#free.push(message.carrier)
      this.#onFree?.()
      this.#onFree = null
    } else {
      this.#onBatch?.(message.batch)
      this.#onBatch = null
    }
  }

  #orFailure<Result>(wait: (resolve: (result: Result) => void) => void): Promise<Result> {
    if (this.#failure !== null) return Promise.reject(this.#failure)
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    this.#onFailure = reject
    wait(resolve)
    return promise
  }

  #failed(reason: string): void {
    this.#failure ??= new Error(`the thread that folds failed: ${reason}`)
    this.#onFailure?.(this.#failure)
  }
}
