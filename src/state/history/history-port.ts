// What can be asked of the past, and what is answered. The history thread answers; the serving thread never folds for a question.
import type { Actor, EventRecord } from '../../domain/kernel/decision.ts'
import type { RowChange } from '../../domain/kernel/tables.ts'

/** A point of the chain: a decision that counted, or a time (Unix milliseconds) at which the last one before it holds. */
export type Moment = { readonly id: string } | { readonly atMs: number }

/** `turn`: a courtesy between writers, no decision. `malformed`: it counts, and changed nothing. */
export const RECORD_VERDICTS = ['counted', 'malformed', 'lost', 'unreadable', 'forged', 'turn'] as const
export type RecordVerdict = (typeof RECORD_VERDICTS)[number]

/** One record of the control topic and what the counting rule says of it. */
export interface LogEntry {
  readonly offset: number
  /** SHA-256 of its bytes; null for a record without any. */
  readonly id: string | null
  readonly verdict: RecordVerdict
  /** Why it changed nothing; null for what counted or lost. */
  readonly reason: string | null
  /** When the log took it, Unix milliseconds. */
  readonly logAtMs: number
  /** What it says of itself; null where that cannot be trusted or is nothing. */
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
  /** As they stand in the log: with sealed values and digests. Not to be shown unmasked. */
  readonly events: readonly EventRecord[]
  /** Rows before and after; [] for what did not count. At most `CHANGES_TOLD` of them. */
  readonly changes: readonly RowChange[]
  readonly changesTotal: number
}
export const CHANGES_TOLD = 1_024

/** A later decision that changed one of the rows asked about. */
export interface LaterChange {
  readonly revision: string
  readonly at: string
  readonly rows: readonly { readonly table: string; readonly id: string }[]
}

/** Where a state of the past stands. */
export interface PastPoint {
  /** Id of the last decision in it. */
  readonly revision: string
  /** The time that was asked for, else that of the decision; Unix milliseconds. */
  readonly atMs: number
}

/** Question -> what is asked and what is answered. All of it can be copied between threads. */
export interface Questions {
  /** A page, newest first: below the offset `before` (null: from the end), after leaving out `skip`. */
  page: { ask: { before: number | null; skip: number; limit: number }; answer: LogPage }
  /** One record by its id or offset; null when there is none. */
  record: { ask: { id: string | number }; answer: LogDetail | null }
  /** Later decisions about these rows, the first 20. `after`: offset of the record that they come after. */
  later: { ask: { after: number; rows: readonly { table: string; id: string }[] }; answer: readonly LaterChange[] }
  /** A read of the configuration as it was; null when there was no such moment. `read` and `answer` are between the asker and the reader module. */
  past: { ask: { moment: Moment; read: unknown }; answer: { point: PastPoint; answer: unknown } | null }
}
export type QuestionName = keyof Questions
export type Question = { [Name in QuestionName]: { readonly name: Name } & Questions[Name]['ask'] }[QuestionName]

/** Asks the history thread. Throws `HistoryUnavailable`. */
export interface History {
  ask<Name extends QuestionName>(name: Name, ask: Questions[Name]['ask']): Promise<Questions[Name]['answer']>
}

/** The past cannot be read now; the message says why. A repeat may find it. */
export class HistoryUnavailable extends Error {
  override readonly name = 'HistoryUnavailable'
}
