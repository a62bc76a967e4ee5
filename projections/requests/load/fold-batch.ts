// Records -> what one transaction of a load writes, as far as it can be made without the database. Pure; runs in a
// thread of its own.
import type { Origin } from '../../../src/log/envelope.ts'
import { CopyText, copyLine } from '../../copy.ts'
import { type AppliedSequences, isRepeat, processStart } from '../../repeats.ts'
import { cellsOf, newTally, type Tally } from '../../usage/cells.ts'
import { type ClosedDays, type Cuts, closedBy } from '../../usage/closed.ts'
import { type UsageText, usageText } from '../../usage/project.ts'
import { countFresh, placeOf } from '../counted.ts'
import { dayOf, logDayOf, type Span } from '../days.ts'
import { type AdmittedRow, foldRequestRecord, type SettledRow } from '../fold.ts'
import type { ParcelRecord } from './parcel.ts'

/** The state of a partition before its next record. */
export interface PartitionState {
  readonly partition: number
  /** Running maximum of log time. */
  readonly logAtMs: number
  /** The highest sequence that was applied of each process start. */
  readonly origins: readonly Origin[]
}

/** What a batch has of a partition. */
export interface FoldedPartition extends PartitionState {
  readonly repeats: number
}

/** A settlement whose admission stands in an earlier batch. */
export interface EarlySettlement {
  readonly id: string
  readonly atMs: number
  /** For `detail.settled`. */
  readonly settled: string
}

export interface FoldedBatch {
  readonly partitions: readonly FoldedPartition[]
  /** Why it cannot be written as it is: a record in it needs the follower. Null: it can. */
  readonly odd: string | null
  readonly span: Span
  /** The earliest arrival of its rows; Infinity when it has none. */
  readonly oldestMs: number
  /** Rows of `request` and `detail`, to be copied. */
  readonly request: readonly Uint8Array<ArrayBuffer>[]
  readonly detail: readonly Uint8Array<ArrayBuffer>[]
  readonly early: readonly EarlySettlement[]
  /** Admissions whose settlement is not in the batch. */
  readonly open: readonly AdmittedRow[]
  /** Arrivals of outcomes that their closed day does not include. */
  readonly lateMs: readonly number[]
  readonly usage: readonly UsageText[]
}

/** A partition while it is folded. */
interface Lane {
  logAtMs: number
  repeats: number
  readonly applied: AppliedSequences
  /** Process starts that the batch has records of, by name. */
  readonly seen: Map<string, Origin>
  /** One of the newest of them: the next record nearly always belongs to the same start. */
  newest: Origin | null
}

/** A batch while it is folded. */
interface Draft {
  odd: string | null
  readonly days: Set<number>
  newest: number
  oldestMs: number
  readonly admitted: Map<string, AdmittedRow>
  readonly early: EarlySettlement[]
  readonly lateMs: number[]
  readonly tally: Tally
}

const newDraft = (): Draft => ({
  odd: null,
  days: new Set(),
  newest: Number.NEGATIVE_INFINITY,
  oldestMs: Number.POSITIVE_INFINITY,
  admitted: new Map(),
  early: [],
  lateMs: [],
  tally: newTally(),
})

/** Folds batch after batch of the same partitions. */
export class BatchFold {
  readonly #lanes: ReadonlyMap<number, Lane>
  readonly #closed: ClosedDays
  readonly #request: CopyText
  readonly #detail: CopyText
  #draft = newDraft()

  constructor(partitions: readonly PartitionState[], cuts: Cuts, makePiece?: () => Uint8Array<ArrayBuffer>) {
    this.#lanes = new Map(
      partitions.map(({ partition, logAtMs, origins }) => {
        const applied = new Map(origins.map((origin): [string, number] => [processStart(origin), origin.sequence]))
        return [partition, { logAtMs, repeats: 0, applied, seen: new Map(), newest: null }]
      }),
    )
    this.#closed = closedBy(cuts)
    this.#request = new CopyText(makePiece)
    this.#detail = new CopyText(makePiece)
  }

  add(partition: number, record: ParcelRecord): void {
    const lane = this.#lanes.get(partition)!
    lane.logAtMs = Math.max(lane.logAtMs, record.atMs)
    const { origin, rows, problem } = foldRequestRecord(record, lane.logAtMs, partition)
    if (origin !== null && wasApplied(lane, origin)) return
    if (problem !== null) this.#draft.odd ??= problem
    for (const row of rows) {
      const draft = this.#draft
      draft.days.add(dayOf(row.atMs))
      draft.newest = Math.max(draft.newest, logDayOf(lane.logAtMs))
      draft.oldestMs = Math.min(draft.oldestMs, row.atMs)
      if (row.kind === 'settled') this.#settle(row)
      else this.#admit(row)
    }
  }

  /** What was added since the last time. */
  take(): FoldedBatch {
    const { odd, days, newest, oldestMs, admitted, early, lateMs, tally } = this.#draft
    this.#draft = newDraft()
    const partitions = [...this.#lanes].map(([partition, lane]): FoldedPartition => {
      const { logAtMs, repeats, applied, seen } = lane
      const origins = [...seen].map(([name, origin]) => ({ ...origin, sequence: applied.get(name)! }))
      lane.repeats = 0
      lane.newest = null
      seen.clear()
      return { partition, logAtMs, repeats, origins }
    })
    return {
      partitions,
      odd,
      span: { days, newest },
      oldestMs,
      request: this.#request.take(),
      detail: this.#detail.take(),
      early,
      open: [...admitted.values()],
      lateMs,
      usage: usageText(cellsOf(tally, Number.NEGATIVE_INFINITY)),
    }
  }

  /** A request that was settled before, in this batch or another, is found by the key of its row. */
  #settle(row: SettledRow): void {
    const { admitted, early, lateMs, tally } = this.#draft
    const { id, atMs } = row
    this.#request.add(row.line)
    const own = admitted.get(id)
    if (own === undefined && row.wasAdmitted) early.push({ id, atMs, settled: row.settled })
    else this.#detail.addJson([atMs, id], [own?.admitted ?? null, row.settled])
    if (own !== undefined) admitted.delete(id)
    countFresh(tally, this.#closed, row)
    if (this.#closed.isClosed(atMs) && !this.#closed.has(placeOf(row))) lateMs.push(atMs)
  }

  #admit(row: AdmittedRow): void {
    const { admitted } = this.#draft
    const known = admitted.get(row.id)
    if (known === undefined) admitted.set(row.id, row)
    else if (known.place.partition !== row.place.partition)
      this.#draft.odd ??= 'one request was admitted in two partitions'
  }
}

/** A row of `detail`. */
export const DETAIL_COLUMNS = ['at_ms', 'id', 'admitted', 'settled'] as const
export const detailLine = (
  { atMs, id, settled }: Pick<SettledRow, 'atMs' | 'id' | 'settled'>,
  admitted: string | null,
): string => copyLine([atMs, id, admitted, settled])

const wasApplied = (lane: Lane, origin: Origin): boolean => {
  const { newest, seen, applied } = lane
  if (newest?.instance !== origin.instance || newest.epoch !== origin.epoch) seen.set(processStart(origin), origin)
  lane.newest = origin
  if (!isRepeat(applied, origin)) return false
  lane.repeats++
  return true
}
