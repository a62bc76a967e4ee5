// What the app reads from the parts around it, for `/metrics`. All of it may be absent: in tests, and where a part is
// switched off.

import type { Budgets } from '../../state/budgets/budgets.ts'

/** Progress of one read model, as its worker last reported it. */
export interface ProjectionView {
  readonly model: string
  readonly lagMs: number
  readonly behindRecords: number
  readonly poisonRecords: number
  /** Age of the report. */
  readonly ageMs: number
}

/** The senders that ship the spools to Kafka, all together, since this process started. */
export interface SendingView {
  readonly stuck: boolean
  readonly shipped: number
  readonly resent: number
  readonly refused: number
  readonly damagedBytes: number
  /** Age of the newest record of the last batch when the log acknowledged it, milliseconds. */
  readonly lagMs: number
}

/** Writes of the spool that the disk refused since this process started. */
export interface DiskView {
  readonly writeFailures: number
  readonly syncFailures: number
}

export interface TraceCounts {
  readonly queued: number
  readonly exported: number
  readonly dropped: number
}

export interface Telemetry {
  /** Queries Postgres; may reject. */
  readonly projections?: () => Promise<readonly ProjectionView[]>
  /** Null: nothing is shipped (embedded). */
  readonly sending?: () => SendingView | null
  readonly disk?: () => DiskView
  readonly budgets?: Budgets['figures']
  readonly traces?: { readonly counts: TraceCounts } | null
}
