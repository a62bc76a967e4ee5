// What the outcomes of a spool charge to budgets, and from which record on it has to be read again.
import { type Amount, isNothing, most, NO_AMOUNT, plus } from '../../domain/budgets/amount.ts'
import { overrunIn } from '../../domain/budgets/lease.ts'
import { chargeOf } from '../../domain/budgets/recorded-parts.ts'
import type { RequestSettled } from '../../domain/events/request.ts'
import { LogReplaced } from '../../log/port.ts'
import { listSegments, readSegmentHeader, SegmentReader, type SpoolRecord } from '../../log/segments/segments.ts'
import { type LocalSpool, readWatermark, writeWatermark } from '../../log/spool/spool.ts'
import { NOTHING_REPORTED, type ReportedOrphans, reportedOrphans } from './reported-orphans.ts'

/** Under this name a spool keeps from which record on its outcomes are needed. */
const CONSUMER = 'budgets'
const BATCH_RECORDS = 512

/** What one holder has spent in one account. */
export interface Sums {
  /** The tenant of these requests. */
  readonly tenantId: string | undefined
  /** With the orphans that were settled for it and reported before. */
  spent: Amount
  counted: Amount
  overrun: Amount
  /** Settled for it after its death, beyond that. */
  orphaned: Amount
  /** Anything was settled for it after its death. */
  hasOrphans: boolean
  /** Some of it was taken from a lease: the log has seen this holder. */
  leased: boolean
  /** When the newest of its outcomes was written. */
  newestMs: number
}
export type ByAccount = Map<string, Sums>
export type SpentByHolder = Map<string, ByAccount>

/** From which record on the outcomes of a spool are needed. */
export const neededFrom = (spool: Pick<LocalSpool, 'directory' | 'files'>): number =>
  readWatermark(spool.directory, CONSUMER, 'spool', spool.files)

/** Nothing before this record is needed any more. */
export const noteNeeded = (spool: Pick<LocalSpool, 'directory' | 'files'>, record: number): void =>
  writeWatermark(spool.directory, CONSUMER, 'spool', record, spool.files)

/**
 * What the outcomes of a spool charge to leases, from the record that is still needed. Reads in pieces: the process
 * serves meanwhile.
 */
export const spentIn = async (
  spool: Pick<LocalSpool, 'directory' | 'files' | 'end'>,
  signal: AbortSignal,
): Promise<SpentByHolder> => {
  const sums: SpentByHolder = new Map()
  const { directory, files, end } = spool
  if (files.size(directory) === null) return sums
  const cursor = new SegmentReader({ directory, files })
  const from = neededFrom(spool)
  const before = reportedOrphans(spool)
  // The log has every reported orphan before the mark goes on.
  const reported = before.upTo > from ? before : NOTHING_REPORTED
  try {
    if (!seek(cursor, from)) return sums
    for (;;) {
      const records = cursor.next(BATCH_RECORDS)
      for (const each of records)
        if (each.type === 'request.settled' && each.data.includes('"budget":[')) add(sums, each, reported)
      const last = records.at(-1)
      if (signal.aborted || (last !== undefined && last.record + 1 >= end) || (records.length === 0 && cursor.atEnd))
        break
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
    return sums
  } finally {
    cursor.close()
  }
}

/** An earlier build may have deleted what is needed: then everything that is left is read. */
const seek = (cursor: SegmentReader, record: number): boolean => {
  try {
    return cursor.seek({ record })
  } catch (error) {
    if (error instanceof LogReplaced) return cursor.seek({ record: 0 })
    throw error
  }
}

type Outcome = Pick<SpoolRecord, 'record' | 'data' | 'atMs' | 'instance' | 'epoch'>

const add = (sums: SpentByHolder, outcome: Outcome, reported: ReportedOrphans): void => {
  const { record, data, atMs, instance, epoch } = outcome
  const { tenant_id, budget = [] } = JSON.parse(data) as Pick<RequestSettled, 'tenant_id' | 'budget'>
  for (const recorded of budget) {
    const charge = chargeOf(recorded, `${instance}.${epoch}`)
    const accounts = sums.get(charge.holder) ?? new Map<string, Sums>()
    sums.set(charge.holder, accounts)
    const spent = reported.spent.get(charge.holder)?.get(charge.account)
    const before = accounts.get(charge.account) ?? { ...NO_SUMS, tenantId: tenant_id, spent: spent ?? NO_AMOUNT }
    const { total } = charge
    if (total === undefined) {
      if (spent === undefined || record >= reported.upTo) before.orphaned = plus(before.orphaned, charge)
      before.hasOrphans = true
      before.leased ||= charge.leased && !isNothing(charge)
    } else {
      before.spent = most(before.spent, total.spent)
      before.counted = most(before.counted, total.counted)
      before.overrun = most(before.overrun, overrunIn(total))
      before.leased ||= !isNothing(total.spent)
    }
    before.newestMs = Math.max(before.newestMs, atMs)
    accounts.set(charge.account, before)
  }
}

export const NO_SUMS = {
  ...{ spent: NO_AMOUNT, counted: NO_AMOUNT, overrun: NO_AMOUNT, orphaned: NO_AMOUNT },
  ...{ hasOrphans: false, leased: false, newestMs: 0 },
}

/** How many of the newest segments are searched for their writers. */
const WRITTEN_SEGMENTS = 64

/**
 * The names under which processes have written this spool, as far as its newest segments hold them. Call it while the
 * spool is owned, before this process writes much.
 */
export const writersOf = ({ instance, directory, files }: LocalSpool): ReadonlySet<string> => {
  const names = new Set<string>()
  for (const { path } of listSegments(directory, files).slice(-WRITTEN_SEGMENTS)) {
    const header = readSegmentHeader(path, files)
    if (header !== null) names.add(`${instance}.${header.epoch}`)
  }
  return names
}
