// What the data plane sees of the spool. Implemented by `log/spool/open.ts` on `log/segments/writer.ts`.
import type { TextPieces } from '../../lib/text/text-pieces.ts'

/** `<instance>.<epoch>.<sequence>`: the id that the record's envelope will have. */
export type RecordId = string

/** A record that was appended. Its id is text once somebody asks: nobody does for most, and a text in cold memory takes 0.3 us. */
export interface Appended {
  /** Within its topic. */
  readonly sequence: number
  /** What its id, and that of every record of its spool since this start, begins with: all but the sequence. */
  readonly idPrefix: string
  readonly id: RecordId
}

/** Nothing but that, of what knows more. */
export const appendedOnly = ({ id, idPrefix, sequence }: Appended): Appended => ({ id, idPrefix, sequence })

/** The disk is full or failing, the backlog is at its bound, or the log takes nothing (durability `log`): nothing is admitted until it has room again. */
export class SpoolClosed extends Error {
  override readonly name = 'SpoolClosed'

  /**
   * `written`: the record is in the spool all the same, and will be in the log: `log.durability` asked for more than that. `durable`: resolves should it be made
   * durable later; until then a power cut may take it (durability `host`).
   */
  constructor(
    message: string,
    readonly written: Appended | null = null,
    readonly durable: Promise<void> | null = null,
  ) {
    super(message)
  }
}

export interface Spool {
  readonly instance: string
  readonly epoch: string
  /** Whether new requests may be admitted; `reason` is for `/ready` and the 429. */
  readonly admission: { readonly open: boolean; readonly reason: string }
  /**
   * Appends one record to a topic (`requests` or `operations`), batched with all others of this event-loop turn. Resolves when it is as durable as
   * `log.durability` asks, and throws SpoolClosed when that takes too long. `admission: true` (a `request.admitted`, and what can be done without) throws SpoolClosed while admission is closed; the others use the kept ballast.
   * `subject` is the partition key. `of` is the admission, in this spool, that a record of a request belongs to (of an admission itself: null), where
   * the caller knows it: else the text is searched for it.
   */
  append(
    topic: 'requests' | 'operations',
    type: string,
    subject: string,
    dataJson: TextPieces,
    admission?: boolean,
    of?: Appended | null,
  ): Promise<Appended>
  /** Bytes and records not yet shipped (Kafka) or projected (embedded); `oldestMs` is the age of the oldest. */
  backlog(): { readonly records: number; readonly bytes: number; readonly oldestMs: number | null }
  close(): Promise<void>
}
