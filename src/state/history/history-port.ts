// Questions about the past, and their replies. The history thread replies; the serving thread never folds for a
// question.
import type { Actor, EventRecord } from '../../domain/kernel/decision.ts'
import type { RowChange } from '../../domain/kernel/tables.ts'

/**
 * A point of the chain: a decision that counted (`id`: its own, or its first 16 digits), or a time (Unix milliseconds),
 * which means the last decision before it.
 */
export type Moment = { readonly id: string } | { readonly atMs: number }

/** `turn`: a record between writers, no decision. `malformed`: it counts, and changed nothing. */
export const RECORD_VERDICTS = ['counted', 'malformed', 'lost', 'unreadable', 'forged', 'turn'] as const
export type RecordVerdict = (typeof RECORD_VERDICTS)[number]

/** One record of the control topic and its verdict by the counting rule. */
export interface LogEntry {
  readonly offset: number
  /** SHA-256 of its bytes; null for a record without any. */
  readonly id: string | null
  readonly verdict: RecordVerdict
  /** Why it changed nothing; null for a record that counted or lost. */
  readonly reason: string | null
  /** When the log took it, Unix milliseconds. */
  readonly logAtMs: number
  /** Null where the contents cannot be trusted or are no decision. */
  readonly decision: {
    readonly parent: string
    readonly at: string
    readonly actor: Actor
    readonly by: string | null
    readonly hasCause: boolean
    readonly eventTypes: readonly string[]
    /** The decision that this one took back, or null. */
    readonly reverts: string | null
  } | null
}

export interface LogPage {
  /** Newest first. */
  readonly entries: readonly LogEntry[]
  /** Records in the topic. */
  readonly total: number
}

export interface LogDetail {
  readonly entry: LogEntry
  /** As in the log: with sealed values and digests. Not to be shown unmasked. */
  readonly events: readonly EventRecord[]
  /** Rows before and after; [] for a record that did not count. At most `CHANGES_TOLD` of them. */
  readonly changes: readonly RowChange[]
  readonly changesTotal: number
}
export const MOST_CHANGES = 1_024

/** A later decision that changed one of the rows in question. */
export interface LaterChange {
  readonly revision: string
  readonly at: string
  readonly rows: readonly { readonly table: string; readonly id: string }[]
}

/** The position of a state of the past. */
export interface PastPoint {
  /** Id of the last decision in it. */
  readonly revision: string
  /** The requested time, else that of the decision; Unix milliseconds. */
  readonly atMs: number
}

/** Question -> its parameters and its reply. All of it can be copied between threads. */
export interface Questions {
  /** A page, newest first: below the offset `before` (null: from the end), after leaving out `skip`. */
  page: { parameters: { before: number | null; skip: number; limit: number }; reply: LogPage }
  /** One record by its id or offset; null when there is none. */
  record: { parameters: { id: string | number }; reply: LogDetail | null }
  /** Later decisions about these rows, the first 20. `after`: offset of the record that they come after. */
  later: {
    parameters: { after: number; rows: readonly { table: string; id: string }[] }
    reply: readonly LaterChange[]
  }
  /**
   * A read of the configuration at that moment; null when there was no such moment. `read` and `answer` are private to
   * the caller and the reader module.
   */
  past: { parameters: { moment: Moment; read: unknown }; reply: { point: PastPoint; reply: unknown } | null }
}
export type QuestionName = keyof Questions
export type Question = { [Name in QuestionName]: { readonly name: Name } & Questions[Name]['parameters'] }[QuestionName]

/** Sends a question to the history thread. Throws `HistoryUnavailable`. */
export interface History {
  query<Name extends QuestionName>(name: Name, query: Questions[Name]['parameters']): Promise<Questions[Name]['reply']>
}

/** The past cannot be read now; the message gives the reason. A repeat may succeed. */
export class HistoryUnavailable extends Error {
  override readonly name = 'HistoryUnavailable'
}
