// The spool as the data plane uses it. Implemented by `log/spool/open.ts` on `log/segments/writer.ts`.
import type { TextPieces } from '../../lib/text/text-pieces.ts'

/** `<instance>.<epoch>.<sequence>`: the id of the record's envelope. */
export type RecordId = string

/** A record that was appended. Its id is built on access: most callers do not need it. */
export interface Appended {
  /** Within its topic. */
  readonly sequence: number
  /** The common start of the ids of all records of its spool since this start: all but the sequence. */
  readonly idPrefix: string
  readonly id: RecordId
}

/** These members only, of an object with more. */
export const appendedOnly = ({ id, idPrefix, sequence }: Appended): Appended => ({ id, idPrefix, sequence })

/**
 * The disk is full or failing, the backlog is at its bound, or the log takes nothing (durability `log`): nothing is
 * admitted until there is room again.
 */
export class SpoolClosed extends Error {
  override readonly name = 'SpoolClosed'

  /**
   * `written`: the record is in the spool all the same, and will be in the log; `log.durability` required more than
   * that. `durable`: resolves if it is made durable later; until then a power cut may take it (durability `host`).
   * `lacks`: what has to come back, the disk of this machine or a log that takes what waits.
   */
  constructor(
    message: string,
    readonly written: Appended | null = null,
    readonly durable: Promise<void> | null = null,
    readonly lacks: 'disk' | 'log' = 'log',
  ) {
    super(message)
  }
}

/**
 * In place of an admission: the record belongs to none, and is refused while admission is closed. A `request.admitted`,
 * and records that the log can be without.
 */
export const REFUSABLE = 'refusable'

export interface Spool {
  readonly instance: string
  readonly epoch: string
  /** Whether new requests may be admitted; `reason` is for `/ready` and for clients. */
  readonly admission: { readonly open: boolean; readonly reason: string }
  /**
   * Appends one record to a topic, in one batch with all others of this iteration of the event loop. `subject` is the
   * partition key. Resolves when the record is as durable as `log.durability` requires, and throws SpoolClosed when
   * that takes too long. `of`: the admission, of this spool, that the record belongs to; without it the text is
   * searched for the admission. `REFUSABLE`: throws SpoolClosed while admission is closed; all others may use the
   * ballast.
   */
  append(
    topic: 'requests' | 'operations',
    type: string,
    subject: string,
    dataJson: TextPieces,
    of?: Appended | typeof REFUSABLE,
  ): Promise<Appended>
  /** Bytes and records not yet shipped (Kafka) or projected (embedded); `oldestMs` is the age of the oldest. */
  backlog(): { readonly records: number; readonly bytes: number; readonly oldestMs: number | null }
  close(): Promise<void>
}
