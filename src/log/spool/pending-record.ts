// A record on its way into the spool, with the promise of its caller.
import type { TextPieces } from '../../lib/text/text-pieces.ts'
import type { SpoolTopic } from '../segments/segments.ts'
import { NO_ATTEMPTS, type NotedRecord } from './open-admissions.ts'
import type { Appended, RecordId } from './port.ts'
import type { ShipmentWaiter } from './unshipped.ts'

/** A record that was added to the batch. */
export interface WaitingRecord {
  /** The common start of the ids of its spool: all but the sequence. */
  readonly idPrefix: string
  readonly sequence: number
  /** Number of the record among all records of the spool. */
  readonly record: number
  readonly topic: SpoolTopic
  readonly of: NotedRecord['of']
  readonly type: string
  readonly subject: string
  readonly data: TextPieces
  readonly atMs: number
}

/** Also the `Appended` that the caller gets. */
export class SpoolWaiter implements ShipmentWaiter, NotedRecord {
  attempts: readonly TextPieces[] = NO_ATTEMPTS
  /** Settled by `resolve` or `reject`. */
  readonly appended: Promise<Appended>
  readonly resolve: (appended: Appended) => void
  readonly reject: (error: unknown) => void

  readonly idPrefix: string
  readonly sequence: number
  readonly record: number
  readonly topic: SpoolTopic
  readonly of: NotedRecord['of']
  readonly type: string
  readonly subject: string
  readonly data: TextPieces
  readonly atMs: number

  constructor({ idPrefix, sequence, record, topic, of, type, subject, data, atMs }: WaitingRecord) {
    this.idPrefix = idPrefix
    this.sequence = sequence
    this.record = record
    this.topic = topic
    this.of = of
    this.type = type
    this.subject = subject
    this.data = data
    this.atMs = atMs
    const { promise, resolve, reject } = Promise.withResolvers<Appended>()
    this.appended = promise
    this.resolve = resolve
    this.reject = reject
  }

  get id(): RecordId {
    return `${this.idPrefix}${this.sequence}`
  }

  /** True for records of the requests topic, whose open admissions are tracked. */
  get observed(): boolean {
    return this.topic === 'requests'
  }

  get isSettlement(): boolean {
    return this.observed && this.type === 'request.settled'
  }
}
