// The live fold: the control state at the end of the log, and how far the end is confirmed.

import { CHAIN_ROW } from '../../domain/chain.ts'
import type { ControlReader, ControlState, Rows, TableName } from '../../domain/control.ts'
import { GENESIS } from '../../domain/kernel/decision.ts'
import type { TableReader } from '../../domain/kernel/tables.ts'
import { readChainWitness } from '../chain-witness.ts'
import type { Condition } from '../condition.ts'
import type { FoldStep, Poison } from '../fold.ts'
import { type LoadedSnapshot, loadSnapshot } from '../history/snapshot.ts'
import type { LiveChain, LiveDeps } from '../live-chain.ts'
import type { Degradation, FoldedBatch, LiveStatus } from '../port.ts'
import { type ChainPosition, readConfirmed, readPosition } from '../position-witness.ts'
import { positionOf, readStoredRecords } from '../restore/kept-records.ts'
import type { RecentRecord } from '../restore/recent-records.ts'
import { withStoredRecords } from '../restore/stored-tail.ts'
import type { Turns } from '../write-turns.ts'
import { ChainReader } from './chain-reader.ts'
import type { RecordedChain } from './guards.ts'

const STALE_MS = 10_000
const NOT_DEGRADED = { degraded: null, degradation: null } as const

/**
 * Loads the snapshot and what the data folder holds behind it, then folds the log beside what is served. Resolves once
 * that is loaded; await `ready()` before serving.
 */
export const openLiveState = async (deps: LiveDeps): Promise<LiveChain> => {
  const { dataDir, macKey, diagnostics } = deps
  if (dataDir === null) return liveFrom(deps, NOTHING_STORED, { chainId: null, position: null, confirmedAtMs: null })
  const snapshot = await loadSnapshot(dataDir, macKey)
  if (snapshot.problem !== null) diagnostics.warn('snapshot_not_used', { reason: snapshot.problem })
  const stored = readStoredRecords(dataDir)
  const known: RecordedChain = {
    chainId: readChainWitness(dataDir),
    position: farther(readPosition(dataDir), positionOf(stored)),
    confirmedAtMs: readConfirmed(dataDir),
  }
  const loaded = await withStoredRecords(snapshot, stored, macKey)
  const missing = missingRecords(loaded, known.position)
  if (missing === null) return liveFrom(deps, loaded, known)
  diagnostics.warn('stored_records_missing', missing)
  // The confirmation is of a later state than the loaded one.
  return liveFrom(deps, loaded, { ...known, confirmedAtMs: null })
}

/** The offsets of decisions that this instance had folded and does not hold; null: it holds all of them. */
const missingRecords = (
  { start }: LoadedSnapshot,
  position: ChainPosition | null,
): { readonly from: number; readonly to: number } | null =>
  // Behind the same decision there are only records that did not count.
  start === null || position === null || position.next <= start.next || position.tip === start.tip
    ? null
    : { from: start.next, to: position.next }

const NOTHING_STORED: LoadedSnapshot = { start: null, witness: null, problem: null }

/** The same, of a snapshot that is loaded already. */
export const liveFrom = (deps: LiveDeps, snapshot: LoadedSnapshot, known: RecordedChain): LiveChain => {
  const reader = new ChainReader(deps, snapshot, known)
  reader.start()
  return new Live(reader)
}

/**
 * The position is recorded once a second, records are stored as they are folded: after a crash the records are farther.
 */
const farther = (noted: ChainPosition | null, kept: ChainPosition | null): ChainPosition | null =>
  noted === null || (kept !== null && kept.next > noted.next) ? kept : noted

/** The interface of the reader for the rest of the gateway. */
class Live implements LiveChain {
  readonly control: ControlReader = {
    table: <Name extends TableName>(name: Name): TableReader<Rows[Name]> => this.#reader.fold.state.table(name),
  }
  readonly #reader: ChainReader

  constructor(reader: ChainReader) {
    this.#reader = reader
  }

  get state(): ControlState {
    return this.#reader.fold.state
  }
  get next(): number {
    return this.#reader.fold.next
  }
  get tip(): string {
    return this.#reader.fold.tip
  }
  get logAtMs(): number {
    return this.#reader.fold.logAtMs
  }
  get refused(): ReadonlySet<string> {
    return this.#reader.fold.unknownSubjects
  }
  get condition(): Condition {
    return this.#reader.condition
  }
  get turns(): Turns {
    return this.#reader.turns
  }

  ready(): Promise<void> {
    return this.#reader.readiness.promise
  }

  status(): LiveStatus {
    const fold = this.#reader.fold
    return {
      offset: fold.next,
      tip: fold.tip,
      logAtMs: fold.logAtMs,
      chainId: fold.state.table('chain').get(CHAIN_ROW)?.chain_id ?? null,
      get digest() {
        return fold.state.digest()
      },
      phase: this.#reader.phase,
      serves: this.#reader.served,
      ...this.#degraded(),
      staleMs: this.#reader.end.staleMs(),
      counts: { ...fold.counts },
    }
  }

  refusal(): string | null {
    if (this.#reader.suspicion !== null) return this.#reader.suspicion
    const [unknown] = this.#reader.fold.unknownTypes
    return unknown === undefined
      ? null
      : `the log holds events of the type "${unknown}", which this build does not know: upgrade it`
  }

  verdictOf(id: string): 'counted' | 'lost' | null {
    return this.#reader.fold.counted.has(id) ? 'counted' : this.#reader.fold.lost.has(id) ? 'lost' : null
  }

  reached(revision: string, timeoutMs: number): Promise<boolean> {
    return this.condition.until(() => revision === GENESIS || this.#reader.fold.counted.has(revision), timeoutMs)
  }

  subscribe(listener: (batch: FoldedBatch) => void): () => void {
    listener({ changes: [], refused: [...this.refused] })
    return this.#reader.listeners.subscribe(listener)
  }

  watch(listener: (step: FoldStep) => void): () => void {
    return this.#reader.listeners.watch(listener)
  }

  offsetOf(id: string): number | undefined {
    return this.#reader.fold.recent.offsetOf(id)
  }
  recentRecords(from = 0): IterableIterator<RecentRecord> {
    return this.#reader.fold.recent.records(from)
  }
  poison(): readonly Poison[] {
    return this.#reader.fold.poison
  }

  requestEnd(): Promise<number> {
    return this.#reader.end.request()
  }

  close(): Promise<void> {
    return this.#reader.close()
  }

  #degraded(): { readonly degraded: string; readonly degradation: Degradation } | typeof NOT_DEGRADED {
    const { suspicion, phase, served, end } = this.#reader
    const refusal = this.refusal()
    if (refusal !== null) return { degraded: refusal, degradation: suspicion !== null ? 'suspected' : 'unknown_events' }
    if (phase === 'stopped') return { degraded: 'stopped', degradation: 'stopped' }
    if (phase === 'starting' && served) {
      const degraded =
        'serves what this instance had stored: the end of the control topic was last confirmed at ' +
        `${this.#confirmedAt()}, and is not folded yet`
      return { degraded, degradation: 'starting' }
    }
    const staleMs = end.staleMs()
    if (phase !== 'live' || staleMs <= STALE_MS) return NOT_DEGRADED
    const degraded =
      `stale: the end of the control topic was last confirmed ${Math.round(staleMs / 1000)} s ago, ` +
      `at ${this.#confirmedAt()}`
    return { degraded, degradation: 'stale' }
  }

  #confirmedAt(): string {
    const { deps, end } = this.#reader
    return new Date(Math.round((deps.nowMs() - end.staleMs()) / 1_000) * 1_000).toISOString().replace('.000Z', 'Z')
  }
}
