// The log: append, read, its end, and the start of a moment. Three adapters (kafka, embedded, memory), one contract
// (tests/contract/event-log.ts).

/** One record of the log. `value` is null for a tombstone (compacted topics only). */
export interface LogRecord {
  /** Position in the partition, from 0, without gaps. A safe integer: 2^53 records are not reached. */
  readonly offset: number
  /** When the log took it (log append time), Unix milliseconds. May step back; folds take the running maximum. */
  readonly atMs: number
  readonly key: string | null
  readonly value: Uint8Array | null
  /**
   * The parts of `value`, from an adapter that stores them apart; `value` is then built on access. Read through
   * `envelopeOf`.
   */
  readonly parts?: EnvelopeParts
}

/** What readers need of an envelope. */
export interface EnvelopeParts {
  readonly type: string
  readonly instance: string
  readonly epoch: string
  readonly sequence: number
  /** JSON text. */
  readonly data: string
  /** Upper bound of its UTF-8 bytes, without reading it. */
  readonly dataBytes: number
  /** Copies the UTF-8 of `data`, without decoding it; returns its end. */
  writeData(into: Buffer, at: number): number
}

export interface NewRecord {
  readonly key: string | null
  readonly value: Uint8Array | null
  /**
   * Upper bound of the bytes of `value`, from a caller that can write the value in place, which spares a copy; `value`
   * is then built on access.
   */
  readonly valueBound?: number
  /** Writes the same; returns its end. Together with `valueBound`. */
  writeValue?(into: Buffer, at: number): number
  /**
   * The same object for records that differ in ids and numbers only; a log that packs them searches the previous one
   * for repetitions.
   */
  readonly like?: object
}

/** The bounds of one append. */
export interface AppendLimits {
  readonly records: number
  /** Bound of the bytes of all values. */
  readonly bytes: number
  /** A longer record is better appended alone. */
  readonly longestBytes: number
}

export interface ReadOptions {
  /** The caller is done with a batch of records when it requests the next: their memory may be reused. */
  readonly passing?: boolean
  /**
   * The caller uses records of this type only: of the others, all but the first and the last of a batch may be left
   * out.
   */
  readonly only?: string | null
}

export interface EventLog {
  /** 256 records and 448 KiB where it is absent. */
  readonly limits?: AppendLimits
  /**
   * Appends the records together and in order to one partition, durably; at most 256 records and 448 KiB at once, or
   * what `limits` allows. Throws `RecordRefused` when it is certain that nothing was written and never will be,
   * `LogUnavailable` when it is certain that nothing was written but it may work later, `IndefiniteAppend` when they
   * may or may not have been (resend, or read forward to find out).
   */
  append(topic: string, partition: number, records: readonly NewRecord[], signal?: AbortSignal): Promise<void>
  /**
   * Follows a partition from an offset, for ever: batches in order, every offset once (except with `only`), never an
   * empty batch. Waits at the end. 0 means the first retained record. On a compacted topic, offsets that compaction
   * removed are passed over. A gap ends it with `LogGap`; an offset that the partition does not have (truncated,
   * recreated) with `LogReplaced`. While the log is unreachable it waits and retries. Ends without an error when the
   * signal is aborted.
   */
  read(
    topic: string,
    partition: number,
    from: number,
    signal: AbortSignal,
    how?: ReadOptions,
  ): AsyncIterable<readonly LogRecord[]>
  /** The first offset that does not exist. Throws `LogUnavailable` when the log is unreachable. */
  end(topic: string, partition: number): Promise<number>
  /**
   * Where a reader begins that needs what the log took since a moment: the first retained record of that log time or
   * later, else the end; where only whole spools have a time, the first retained record (0). Where log time steps
   * back, an earlier record may have a later time: pass a moment with a margin. Throws `LogUnavailable` when the log
   * is unreachable.
   */
  since(topic: string, partition: number, atMs: number): Promise<number>
  /** The partitions that exist now. Embedded `requests` and `operations` gain one for each spool; Kafka's are fixed. */
  partitions(topic: string): Promise<readonly number[]>
  /** Whether the log responded within the last seconds; `detail` states the problem, for `/ready`. */
  health(): { readonly ok: boolean; readonly detail: string }
  close(): Promise<void>
}

/** The log cannot be reached; nothing was written. */
export class LogUnavailable extends Error {
  override readonly name: string = 'LogUnavailable'
}
/**
 * A file of the embedded log is damaged: waiting does not fix it. Stops a start; while serving it degrades the
 * instance as an outage does.
 */
export class LogDamaged extends LogUnavailable {
  override readonly name = 'LogDamaged'
}
/** The append timed out or its response was lost: it may or may not have happened. */
export class IndefiniteAppend extends Error {
  override readonly name = 'IndefiniteAppend'
}
/** The log refuses the record for good (too large, not allowed). */
export class RecordRefused extends Error {
  override readonly name = 'RecordRefused'
}
/** A reader received an offset beyond the next expected one. */
export class LogGap extends Error {
  override readonly name = 'LogGap'
}
/** The partition differs from the one that was read before: truncated, recreated or replaced. */
export class LogReplaced extends Error {
  override readonly name: string = 'LogReplaced'
}
/** The records are those of a build from before the form that this one reads. */
export class EarlierRecords extends LogReplaced {
  override readonly name = 'EarlierRecords'
}
/**
 * The stored settings of a topic are not what Gatelog needs; the message names the topic, the setting and the remedy.
 */
export class TopicMisconfigured extends Error {
  override readonly name = 'TopicMisconfigured'
}
