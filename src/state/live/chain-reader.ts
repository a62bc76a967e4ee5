// The reader of the control topic: follows it for ever, suspects records that do not fit, reads the log again from the
// start, goes live, confirms the end.

import { RETIRED_TEXTS } from '../../domain/access/retired-secrets.ts'
import { CHAIN_ROW } from '../../domain/chain.ts'
import type { ControlState } from '../../domain/control.ts'
import { canonicalJson, type RowChange } from '../../domain/kernel/tables.ts'
import { sleep } from '../../lib/event-loop/sleep.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { CONFIRM_EVERY_MS } from '../../lib/time/confirm-period.ts'
import { LogDamaged, LogGap, type LogRecord, LogReplaced, LogUnavailable } from '../../log/port.ts'
import { noteChain } from '../chain-witness.ts'
import { Condition } from '../condition.ts'
import { ChainFold, CONTROL, type FoldStep, foldAgain, politeness, type RecordRead } from '../fold.ts'
import type { LoadedSnapshot } from '../history/snapshot.ts'
import type { LiveDeps } from '../live-chain.ts'
import type { FoldedBatch, LiveStatus } from '../port.ts'
import { controlBatches } from '../read-ahead/reader.ts'
import { RECENT_RECORDS } from '../restore/recent-records.ts'
import { Turns } from '../write-turns.ts'
import { ControlLogRefused, lostHistory, problemOf, type RecordedChain } from './guards.ts'
import { LogEnd } from './log-end.ts'

// The listeners of the fold. An error of a listener is reported and stops neither the fold nor the other listeners.

export class Listeners {
  readonly #batches = new Set<(batch: FoldedBatch) => void>()
  readonly #steps = new Set<(step: FoldStep) => void>()

  constructor(readonly diagnostics: Diagnostics) {}

  subscribe(listener: (batch: FoldedBatch) => void): () => void {
    this.#batches.add(listener)
    return () => this.#batches.delete(listener)
  }

  watch(listener: (step: FoldStep) => void): () => void {
    this.#steps.add(listener)
    return () => this.#steps.delete(listener)
  }

  /** The indexes of the hot path come first: a caller that waits for the decision finds them up to date. */
  batch(batch: FoldedBatch): void {
    for (const listener of this.#batches) this.#notify(listener, batch)
  }

  step(step: FoldStep): void {
    for (const listener of this.#steps) this.#notify(listener, step)
  }

  #notify<What>(listener: (what: What) => void, what: What): void {
    try {
      listener(what)
    } catch (error) {
      this.diagnostics.error('fold_listener_failed', { error })
    }
  }
}

// The changes from one state to another, when a fold is replaced by one that read the log again.

const UNFOLLOWED: readonly string[] = ['causes', ...RETIRED_TEXTS]

/** As row changes, so that the hot indexes follow as they follow the fold. */
export const differences = (from: ControlState, to: ControlState): RowChange[] => {
  const changes: RowChange[] = []
  for (const { name } of to.tables()) {
    if (UNFOLLOWED.includes(name)) continue
    const [before, after] = [from.raw(name), to.raw(name)]
    for (const [id, row] of before.rows()) {
      if (after.get(id) === undefined) changes.push({ table: name, id, before: row, after: null })
    }
    for (const [id, row] of after.rows()) {
      const earlier = before.get(id)
      if (earlier === undefined || canonicalJson(earlier) !== canonicalJson(row))
        changes.push({ table: name, id, before: earlier ?? null, after: row })
    }
  }
  return changes
}

const SHORTER_TIMES = 3
const MAX_START_WAIT_MS = 30_000
const MAX_REREAD_WAIT_MS = 300_000

/**
 * How old the state is that a start begins with: what was confirmed before counts on, and where that is unknown the
 * time of its last decision, which is of the brokers' clock. A clock that has been set back since gives 0.
 */
const staleAtStart = ({ nowMs }: LiveDeps, { start }: LoadedSnapshot, { confirmedAtMs }: RecordedChain): number =>
  start === null ? 0 : Math.max(0, nowMs() - (confirmedAtMs ?? start.logAtMs))

/** A problem that only reading again from the start can settle. */
class Suspicion extends Error {}

export class ChainReader {
  readonly condition = new Condition()
  readonly turns: Turns
  readonly listeners: Listeners
  readonly end: LogEnd
  readonly readiness = Promise.withResolvers<void>()
  fold: ChainFold
  phase: LiveStatus['phase'] = 'starting'
  /** There is a state to serve from. */
  served: boolean
  /** Why the log is not trusted, or null. */
  suspicion: string | null = null
  readonly #closing = new AbortController()
  /** The end of the log at start. */
  #target: number | null = null
  #ignored = 0
  #graced = false
  /** Still among the records that the snapshot contains. */
  #remembering: boolean
  #following = new AbortController()
  #work: Promise<unknown> = Promise.resolve()

  constructor(
    readonly deps: LiveDeps,
    readonly snapshot: LoadedSnapshot,
    readonly known: RecordedChain,
  ) {
    this.fold = snapshot.fold ?? new ChainFold(deps.macKey, snapshot.start)
    this.#remembering = snapshot.start !== null
    this.served = snapshot.start !== null
    this.end = new LogEnd(deps.log, deps.monotonicMs ?? (() => performance.now()), staleAtStart(deps, snapshot, known))
    this.turns = new Turns(() => performance.now())
    this.listeners = new Listeners(deps.diagnostics)
    this.readiness.promise.catch(() => {}) // awaiting it is optional
  }

  start(): void {
    this.#work = Promise.all([this.#run(), this.#confirm(), this.#grace()])
  }

  async close(): Promise<void> {
    this.phase = 'stopped'
    this.#closing.abort()
    this.#following.abort()
    this.readiness.reject(new ControlLogRefused('closed before the control topic was folded'))
    await this.#work
    this.condition.notify()
  }

  /** Follows the log for ever; an error leads to a retry, a suspicion or, at start, a refusal. */
  async #run(): Promise<void> {
    const { diagnostics, endMayLag = false } = this.deps
    const { signal } = this.#closing
    let from = Math.max(0, this.fold.next - RECENT_RECORDS)
    while (!signal.aborted) {
      try {
        if (this.#target === null) {
          this.#target = await this.end.requestFrom(endMayLag ? (this.known.position?.next ?? 0) : 0, signal)
          this.fold.recentFrom = this.#target - RECENT_RECORDS
          if (this.#target < this.fold.next)
            throw new Suspicion(`${CONTROL} ends at ${this.#target}, before what this instance had folded`)
        }
        if (this.suspicion !== null) {
          if (!(await this.#readAgain())) return
          from = this.fold.next
        }
        this.#enterLive()
        await this.#follow(from)
      } catch (error) {
        if (signal.aborted) return
        if (error instanceof ControlLogRefused) return this.#refuseStart(error)
        if (error instanceof LogDamaged && this.phase === 'starting')
          return this.#refuseStart(new ControlLogRefused(error.message))
        if (error instanceof Suspicion) this.#suspect(error.message)
        else {
          if (!(error instanceof LogUnavailable)) diagnostics.warn('control_read_failed', { error })
          await sleep(error instanceof LogGap ? 100 : 500, signal)
        }
      }
      if (!this.#remembering) from = this.fold.next
    }
  }

  async #follow(from: number): Promise<void> {
    if (this.#closing.signal.aborted) return
    this.#following = new AbortController()
    const rest = politeness()
    try {
      // Records of the snapshot are stored byte for byte.
      const aheadUntil = this.#remembering ? 0 : this.fold.recentFrom
      for await (const batch of controlBatches(this.deps, from, aheadUntil, this.#following.signal)) {
        this.#takeBatch(batch)
        if (this.#startsLive()) await this.fold.settle(rest, this.#closing.signal)
        if (this.phase === 'live') this.end.folded(this.fold.next)
        this.#enterLive()
        this.condition.notify()
        await rest()
      }
    } catch (error) {
      if (error instanceof LogReplaced) throw new Suspicion(error.message)
      throw error
    }
  }

  #takeBatch(batch: readonly (LogRecord | RecordRead)[]): void {
    for (const record of batch) {
      if (this.#remembering && 'value' in record && record.offset < this.fold.next) {
        this.fold.remember(record)
        if (record.offset + 1 === this.fold.next) this.#endRemembering()
        continue
      }
      if (record.offset !== this.fold.next)
        throw new Suspicion(`${CONTROL} goes on at ${record.offset} instead of ${this.fold.next}`)
      const step = this.fold.take(record)
      if (step.kind === 'orphan') {
        throw new Suspicion(
          `offset ${record.offset} of ${CONTROL} was decided on ${step.parent.slice(0, 12)}, which this instance ` +
            'has never seen',
        )
      }
      this.#publish(step, record)
    }
  }

  #endRemembering(): void {
    this.#remembering = false
    if (!this.fold.remembered())
      throw new Suspicion(
        `the last decisions that this instance had folded are not, as it folded them, among the last ` +
          `${RECENT_RECORDS} records before`,
      )
  }

  #publish(step: FoldStep, record: Pick<LogRecord, 'offset' | 'atMs'>): void {
    if (step.kind === 'poison') {
      // At start only their number is reported: a wrong master key makes all of them so.
      if (this.phase === 'starting') this.#ignored++
      this.deps.diagnostics[this.phase === 'starting' ? 'debug' : 'warn']('control_record_ignored', { ...step.poison })
    } else if (step.kind === 'turn') {
      if (this.phase === 'live') this.turns.add(step.turn)
    } else {
      if (this.phase === 'live' && step.kind !== 'orphan')
        this.turns.decided(step.by, record.atMs, step.kind === 'counts')
      if (step.kind === 'counts') {
        const { folded } = step
        if (folded.malformed !== null)
          this.deps.diagnostics.error('decision_malformed', { offset: record.offset, reason: folded.malformed })
        if (folded.unknownTypes.length > 0)
          this.deps.diagnostics.error('unknown_event_type', { offset: record.offset, types: folded.unknownTypes })
        this.listeners.batch({ changes: folded.changes, refused: folded.unknownSubjects })
      }
      this.listeners.step(step)
    }
  }

  #startsLive(): boolean {
    return (
      this.phase === 'starting' && !this.#remembering && this.fold.next >= (this.#target ?? Number.POSITIVE_INFINITY)
    )
  }

  /** From starting to live, once the end of the log at start has been folded and the guards accept the log. */
  #enterLive(): void {
    if (!this.#startsLive()) return
    const { expectedChain = null, allowEmpty = false } = this.deps
    const expected = { chainId: expectedChain, allowEmpty, known: this.known }
    const problem = problemOf(this.fold, expected, this.snapshot.witness)
    if (problem !== null) throw new ControlLogRefused(problem)
    noteChain(this.deps, this.known.chainId, this.fold.state.table('chain').get(CHAIN_ROW)?.chain_id)
    if (this.#ignored > 0) this.deps.diagnostics.warn('control_records_ignored', { records: this.#ignored })
    this.phase = 'live'
    this.served = true
    this.end.folded(this.fold.next)
    this.readiness.resolve()
    this.condition.notify()
  }

  #refuseStart(error: ControlLogRefused): void {
    this.suspicion = error.message
    this.phase = 'stopped'
    this.#following.abort()
    // The caller that awaits the readiness reports it, unless the instance serves already.
    this.deps.diagnostics[this.#graced ? 'error' : 'debug']('control_log_refused', { reason: error.message })
    this.readiness.reject(error)
    this.condition.notify()
  }

  #suspect(reason: string): void {
    // A start that is refused for it names the reason itself.
    const level = this.phase === 'starting' && !this.#graced ? 'debug' : 'error'
    this.deps.diagnostics[level]('control_log_suspected', { reason })
    this.suspicion = `${reason}; reading it again from the start`
    if (this.phase === 'live') this.phase = 'stopped'
    this.condition.notify()
  }

  /**
   * Folds the whole log beside what is served, and continues from there when it contains all that was folded. False: it
   * never will (at start), or closing.
   */
  async #readAgain(): Promise<boolean> {
    const { signal } = this.#closing
    for (let waitMs = 10_000; !signal.aborted; waitMs = Math.min(waitMs * 2, MAX_REREAD_WAIT_MS)) {
      let fold: ChainFold
      try {
        fold = await foldAgain(this.deps.log, this.deps.macKey, signal)
      } catch (error) {
        const hopeless = error instanceof LogReplaced || error instanceof LogDamaged
        if (hopeless && this.phase === 'starting') throw new ControlLogRefused(error.message)
        if (!(error instanceof LogUnavailable)) this.deps.diagnostics.warn('control_read_failed', { error })
        await sleep(1_000, signal)
        waitMs = 5_000
        continue
      }
      const problem = this.#problemWith(fold)
      if (problem === null) {
        this.#adopt(fold)
        return true
      }
      if (this.phase === 'starting') throw new ControlLogRefused(problem)
      this.suspicion = problem
      this.deps.diagnostics.error('control_log_lost', { reason: problem })
      this.condition.notify()
      await sleep(waitMs, signal)
    }
    return false
  }

  #problemWith(fold: ChainFold): string | null {
    const lost = lostHistory(fold, this.fold.tip)
    if (this.phase !== 'starting') return lost
    const expected = { chainId: null, allowEmpty: lost === null, known: this.known }
    return problemOf(fold, expected, this.snapshot.witness) ?? lost
  }

  #adopt(fold: ChainFold): void {
    const changes = differences(this.fold.state, fold.state)
    this.fold = fold
    this.#remembering = false
    this.suspicion = null
    if (this.phase === 'stopped') this.phase = 'live'
    this.listeners.batch({ changes, refused: [...fold.unknownSubjects] })
    this.deps.diagnostics.info('control_log_read_again', { next: fold.next, changes: changes.length })
    this.condition.notify()
  }

  /** Confirms the end every few seconds; a log that stays shorter than the fold has lost its tail. */
  async #confirm(): Promise<void> {
    const { confirmEveryMs = CONFIRM_EVERY_MS, diagnostics } = this.deps
    const { signal } = this.#closing
    for (let shorter = 0; !signal.aborted; await sleep(confirmEveryMs, signal)) {
      if (this.phase !== 'live') continue
      try {
        // Records that are folded while the query is under way may lie beyond its result.
        const folded = this.fold.next
        const end = await this.end.request()
        if (this.phase === 'live') this.end.folded(this.fold.next)
        shorter = end < folded ? shorter + 1 : 0 // a new leader may lag for a moment
        if (shorter < SHORTER_TIMES) continue
        shorter = 0
        this.#suspect(`${CONTROL} ends at ${end}, but this instance has folded ${folded} records`)
        this.#following.abort()
      } catch (error) {
        if (!(error instanceof LogUnavailable) && !signal.aborted) diagnostics.warn('control_end_failed', { error })
      }
    }
  }

  /** With a snapshot, a log that does not respond does not delay the start. */
  async #grace(): Promise<void> {
    if (this.snapshot.start === null) return
    const { graceMs = 2_000 } = this.deps
    const { signal } = this.#closing
    await sleep(graceMs, signal)
    if (this.#target !== null)
      await this.condition.until(() => this.phase !== 'starting' || signal.aborted, MAX_START_WAIT_MS)
    if (this.phase !== 'starting' || signal.aborted) return
    this.#graced = true
    this.readiness.resolve()
  }
}
