// The fold of the control topic: judge, then apply. Used by the serving process, by the snapshot thread, and by every
// other reader of the log.
import { ControlState, type Folded, foldDecision } from '../domain/control.ts'
import { type Decision, GENESIS, judge, readDecision, standingOf } from '../domain/kernel/decision.ts'
import { type EventLog, type LogRecord, LogReplaced } from '../log/port.ts'
import { TOPICS } from '../log/topics.ts'
import { IdSet } from './id-set.ts'
import { RECENT_RECORDS, RecentRecords } from './restore/recent-records.ts'
import { readTurn, type Turn } from './write-turns.ts'

/** The one partition of the control topic. */
export const CONTROL = TOPICS.control.name

/** A record that changed nothing because it is no decision, or one that its schema refuses. */
export interface Poison {
  readonly offset: number
  readonly kind: 'unreadable' | 'forged' | 'malformed'
  readonly reason: string
}
const POISON_KEPT = 20

/** A record that was parsed in advance: its MAC is valid, its id is that of its bytes, which were left behind. */
export interface RecordRead {
  readonly offset: number
  readonly atMs: number
  readonly id: string
  readonly decision: Decision
}

export interface FoldCounts {
  counted: number
  lost: number
  unreadable: number
  forged: number
  malformed: number
}

export type FoldStep =
  | { readonly kind: 'counts'; readonly id: string; readonly by: string | null; readonly folded: Folded }
  | { readonly kind: 'lost'; readonly id: string; readonly by: string | null }
  /**
   * The fold never had its parent: this reader skipped something or the log lost its tail. Nothing was folded, `next`
   * did not move.
   */
  | { readonly kind: 'orphan'; readonly id: string; readonly parent: string }
  | { readonly kind: 'turn'; readonly turn: Turn }
  | { readonly kind: 'poison'; readonly poison: Poison }

/** The position of a fold, as a snapshot restores it. */
export interface FoldStart {
  readonly state: ControlState
  readonly next: number
  readonly tip: string
  readonly logAtMs: number
  readonly counts: Readonly<FoldCounts>
}

export class ChainFold {
  readonly state: ControlState
  /** Next offset to fold. */
  next: number
  tip: string
  /** Running maximum of log time, Unix milliseconds. */
  logAtMs: number
  readonly counts: FoldCounts
  /** Decisions with a valid MAC that this fold has read: those that counted, and those that lost. */
  readonly counted = new IdSet()
  readonly lost = new IdSet()
  readonly recent = new RecentRecords()
  /**
   * Records before this offset are not retained among the recent ones: on a long way to the end they would soon be
   * pushed out.
   */
  recentFrom = 0
  readonly poison: Poison[] = []
  /** Event types that this build does not support, and their subjects. Not empty: no writes, no snapshots. */
  readonly unknownTypes = new Set<string>()
  readonly unknownSubjects = new Set<string>()
  /**
   * Only while the log is read again from the start: parents that were named but not folded so far, with the offset
   * that named them.
   */
  readonly missingParents = new Map<string, number>()
  /** Log time of each decision that this fold took from the data folder, not from the log, until that is compared. */
  readonly storedAtMs = new Map<string, number>()
  readonly #window = new Map<string, { parent: string; offset: number; atMs: number }>()

  constructor(
    readonly macKey: Uint8Array,
    start: FoldStart | null = null,
  ) {
    this.state = start?.state ?? new ControlState()
    this.next = start?.next ?? 0
    this.tip = start?.tip ?? GENESIS
    this.logAtMs = start?.logAtMs ?? 0
    this.counts = { ...(start?.counts ?? { counted: 0, lost: 0, unreadable: 0, forged: 0, malformed: 0 }) }
  }

  /** A record below `next`, which the snapshot contains already: only its id, its parent and its bytes are stored. */
  remember(record: LogRecord): void {
    const verdict = record.value === null ? null : judge(this.tip, record.value, this.macKey)
    if (verdict?.kind === 'counts' || verdict?.kind === 'lost') {
      this.lost.add(verdict.id)
      // Of several copies the first is the one that counted.
      const { offset, atMs } = this.#window.get(verdict.id) ?? record
      this.#window.set(verdict.id, { parent: verdict.decision.parent, offset, atMs })
    }
    this.recent.add(record, null)
  }

  /**
   * All records below `next` were remembered: finds, from the tip backwards, those that counted. False: the tip is not
   * among them, or some are younger than the snapshot, so they were lost and restored since, with other times for later
   * folds. Nor may a decision have another time in the log than the data folder had for it.
   */
  remembered(): boolean {
    let found = this.tip === GENESIS || this.#window.has(this.tip)
    for (let id = this.tip, at = this.#window.get(id); at !== undefined; id = at.parent, at = this.#window.get(id)) {
      if (at.atMs > this.logAtMs || at.atMs !== (this.storedAtMs.get(id) ?? at.atMs)) found = false
      this.counted.add(id)
      this.recent.counts(id, at.offset)
    }
    this.#window.clear()
    this.storedAtMs.clear()
    return found
  }

  /**
   * Folds the record at `next`. `collectOrphans`: records an unknown parent and continues (it may follow later, in a
   * restored tail).
   */
  take(record: LogRecord | RecordRead, collectOrphans = false): FoldStep {
    if (record.offset !== this.next) throw new RangeError(`offset ${record.offset} cannot be folded at ${this.next}`)
    const step = this.#judged(record, collectOrphans)
    if (step.kind === 'orphan') return step
    this.next = record.offset + 1
    if (record.offset >= this.recentFrom) {
      if ('decision' in record)
        throw new RangeError(`offset ${record.offset} is recent, and its bytes were left behind`)
      this.recent.add(record, step.kind === 'counts' ? step.id : null)
    }
    return step
  }

  /** Computes the digest of the state in advance. `rest`: lets other work run, which must not fold. */
  async settle(rest: () => Promise<void>, signal: AbortSignal): Promise<void> {
    for (const _ of this.state.settle()) {
      await rest()
      if (signal.aborted) return
    }
  }

  /** Whether the decision was folded, counted or lost. */
  hasSeen(id: string): boolean {
    return id === GENESIS || this.counted.has(id) || this.lost.has(id)
  }

  #judged(record: LogRecord | RecordRead, collectOrphans: boolean): FoldStep {
    if ('decision' in record) return this.#decided(record, record, collectOrphans)
    if (record.value === null) return this.#poisoned(record.offset, 'unreadable', 'no value')
    const read = readDecision(record.value, this.macKey)
    if ('decision' in read) return this.#decided(record, read, collectOrphans)
    const turn = read.kind === 'unreadable' ? readTurn(record.value, this.macKey) : null
    return turn === null ? this.#poisoned(record.offset, read.kind, read.reason) : { kind: 'turn', turn }
  }

  #decided(
    record: Pick<LogRecord, 'offset' | 'atMs'>,
    { id, decision }: Pick<RecordRead, 'id' | 'decision'>,
    collectOrphans: boolean,
  ): FoldStep {
    if (standingOf(this.tip, decision) === 'lost') {
      if (!this.hasSeen(decision.parent)) {
        if (!collectOrphans) return { kind: 'orphan', id, parent: decision.parent }
        this.missingParents.set(decision.parent, record.offset)
      }
      if (!this.counted.has(id)) this.lost.add(id) // a further copy of one that counted
      this.missingParents.delete(id)
      this.counts.lost += 1
      return { kind: 'lost', id, by: decision.by ?? null }
    }
    this.logAtMs = Math.max(this.logAtMs, record.atMs)
    const folded = foldDecision(this.state, decision, id, this.logAtMs)
    this.tip = id
    this.counted.add(id)
    this.missingParents.delete(id)
    this.counts.counted += 1
    if (folded.malformed !== null) this.#poisoned(record.offset, 'malformed', folded.malformed)
    for (const type of folded.unknownTypes) this.unknownTypes.add(type)
    for (const subject of folded.unknownSubjects) this.unknownSubjects.add(subject)
    return { kind: 'counts', id, by: decision.by ?? null, folded }
  }

  #poisoned(offset: number, kind: Poison['kind'], reason: string): FoldStep {
    const poison = { offset, kind, reason }
    this.counts[kind] += 1
    this.poison.push(poison)
    if (this.poison.length > POISON_KEPT) this.poison.shift()
    return { kind: 'poison', poison }
  }
}

const TURN_MS = 8

/** Lets other work of this event loop run when a long fold has held it for 8 ms. */
export const politeness = (): (() => Promise<void>) => {
  let sinceMs = performance.now()
  return async () => {
    if (performance.now() - sinceMs < TURN_MS) return
    await new Promise((resolve) => setImmediate(resolve))
    sinceMs = performance.now()
  }
}

/**
 * Folds the whole log, from its first record to its present end, beside the state that is served. Throws LogReplaced
 * when its head is gone.
 */
export const foldAgain = async (log: EventLog, macKey: Uint8Array, signal: AbortSignal): Promise<ChainFold> => {
  const fold = new ChainFold(macKey)
  const end = await log.end(CONTROL, 0)
  if (end === 0) return fold
  fold.recentFrom = end - RECENT_RECORDS
  const pause = politeness()
  for await (const batch of log.read(CONTROL, 0, 0, signal)) {
    for (const record of batch) {
      if (record.offset >= end) break
      if (record.offset !== fold.next) {
        throw new LogReplaced(
          `${CONTROL} has no records from ${fold.next} to ${record.offset}: it is kept for ever, so it was cut; ` +
            'restore it',
        )
      }
      fold.take(record, true)
    }
    if (fold.next >= end) break
    await pause()
  }
  await fold.settle(pause, signal)
  signal.throwIfAborted()
  return fold
}
