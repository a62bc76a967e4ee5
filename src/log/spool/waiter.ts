// A record on its way into the spool, with the promise of its caller.
import type { TextPieces } from '../../lib/text/text-pieces.ts'
import type { SpoolTopic } from '../segments/segments.ts'
import { NO_ATTEMPTS, type NotedRecord } from './open-admissions.ts'
import type { Appended, RecordId } from './port.ts'
import type { ShipmentWaiter } from './unshipped.ts'

/** Also the `Appended` that the caller gets. */
export class SpoolWaiter implements ShipmentWaiter, NotedRecord {
  attempts: readonly TextPieces[] = NO_ATTEMPTS
  /** Settled by `resolve` or `reject`. */
  readonly appended: Promise<Appended>
  readonly resolve: (appended: Appended) => void
  readonly reject: (error: unknown) => void

  constructor(
    readonly idPrefix: string,
    readonly sequence: number,
    /** Of all records of the spool. */
    readonly record: number,
    readonly topic: SpoolTopic,
    readonly of: NotedRecord['of'],
    readonly type: string,
    readonly subject: string,
    readonly data: TextPieces,
    readonly atMs: number,
  ) {
    const { promise, resolve, reject } = Promise.withResolvers<Appended>()
    this.appended = promise
    this.resolve = resolve
    this.reject = reject
  }

  get id(): RecordId {
    return `${this.idPrefix}${this.sequence}`
  }

  /** Of the requests topic, whose open admissions are tracked. */
  get observed(): boolean {
    return this.topic === 'requests'
  }

  get isSettlement(): boolean {
    return this.observed && this.type === 'request.settled'
  }
}
