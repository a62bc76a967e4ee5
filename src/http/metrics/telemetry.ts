// What the app is told of the parts around it, for `/metrics`. All of it may be absent: tests, and what is switched off.

import type { Budgets } from '../../state/budgets/budgets.ts'

/** How far one read model is, as its worker last reported. */
export interface ProjectionView {
  readonly model: string
  readonly lagMs: number
  readonly behindRecords: number
  readonly poisonRecords: number
  /** Age of the report. */
  readonly ageMs: number
}

/** What ships the spools to Kafka, all of them together, since this process started. */
export interface SendingView {
  readonly stuck: boolean
  readonly shipped: number
  readonly resent: number
  readonly refused: number
  readonly damagedBytes: number
  /** Of the newest batch. */
  readonly lagMs: number
}

/** What the disk refused of the spool since this process started. */
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
  /** Asks Postgres; may reject. */
  readonly projections?: () => Promise<readonly ProjectionView[]>
  /** Null: nothing is shipped (embedded). */
  readonly sending?: () => SendingView | null
  readonly disk?: () => DiskView
  readonly budgets?: Budgets['figures']
  readonly traces?: { readonly counts: TraceCounts } | null
}
