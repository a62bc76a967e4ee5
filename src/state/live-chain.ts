// The options of the live fold, and its interface for the commit queue and the announcements beyond the port.
import type { ControlState } from '../domain/control.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import type { EventLog } from '../log/port.ts'
import type { Condition } from './condition.ts'
import type { FoldStep, Poison } from './fold.ts'
import type { LiveState } from './port.ts'
import type { ReadAheadOptions } from './read-ahead/reader.ts'
import type { RecentRecord } from './restore/recent-records.ts'
import type { Turns } from './write-turns.ts'

export interface LiveDeps {
  readonly log: EventLog
  /** `decisionMacKey` of the master key. */
  readonly macKey: Uint8Array
  /** Where the snapshot thread writes; null: no snapshots. */
  readonly dataDir: string | null
  readonly nowMs: () => number
  /** Measures how long ago the end of the log was confirmed; `performance.now` when absent. */
  readonly monotonicMs?: () => number
  readonly diagnostics: Diagnostics
  /** Lets a thread read a long log ahead of the fold. */
  readonly readAhead?: ReadAheadOptions
  /** `log.kafka.chain`. */
  readonly expectedChain?: string | null
  /** Accept a topic without a chain (tests; `gateway topics --init` before it starts one). */
  readonly allowEmpty?: boolean
  /** Interval of confirming the end of the log. */
  readonly confirmEveryMs?: number
  /** A new leader may report an end that lies a moment back: at start the end is requested again (Kafka). */
  readonly endMayLag?: boolean
  /** With a snapshot, how long the start waits for a log that does not respond. */
  readonly graceMs?: number
}

export interface LiveChain extends LiveState {
  /**
   * The state behind `control`: the base of overlays, never to be changed. Another object after the log was read again.
   */
  readonly state: ControlState
  readonly next: number
  readonly tip: string
  readonly logAtMs: number
  readonly turns: Turns
  /** Notified after each slice of folded records and each change of the phase. */
  readonly condition: Condition
  /**
   * Resolves when requests may be served: live, or from the snapshot while the log does not respond. Rejects with
   * ControlLogRefused.
   */
  ready(): Promise<void>
  /** Why this instance must not write, or null. */
  refusal(): string | null
  /** Called synchronously for each folded record that is a decision. Returns how to stop. */
  watch(listener: (step: FoldStep) => void): () => void
  /** The verdict on a decision: null when it is not folded (yet). */
  verdictOf(id: string): 'counted' | 'lost' | null
  /** Requests the end of the log, in one query for all callers of that moment; the query is sent after this call. */
  requestEnd(): Promise<number>
  /** Offset of a decision among the last 10,000 records. */
  offsetOf(id: string): number | undefined
  recentRecords(from?: number): IterableIterator<RecentRecord>
  /** The last few records that changed nothing because they are no decisions. */
  poison(): readonly Poison[]
}
