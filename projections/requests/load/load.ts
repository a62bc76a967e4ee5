// Brings a build without readers to the end of the log: a thread folds what this one reads, while Postgres takes the
// batch before. What is out of the ordinary (a problem, a request that was settled twice) is left to the follower,
// record by record; then the load goes on from there.
import { wallMs } from '../../../src/lib/time/wall-clock.ts'
import { LogReplaced } from '../../../src/log/port.ts'
import { settled } from '../../database.ts'
import { followPartition, newProgress, type Progress, reasonOf, requireSameLog } from '../../follow.ts'
import type { LoadOptions } from '../../keep.ts'
import { movePosition, type Position, positionOf, rememberSequences, sequencesOf, witnessOf } from '../../projection.ts'
import { cutsOf } from '../../usage/closed.ts'
import { makeDays } from '../days.ts'
import type { FoldedBatch } from './fold-batch.ts'
import { FoldThread } from './fold-thread.ts'
import { merged, type Stretch } from './merged.ts'
import { OddBatch, writeBatch } from './write-batch.ts'

interface Options extends LoadOptions {
  readonly keepDays: number
}

/**
 * The first batch is smaller by this factor, so that Postgres gets work early; each next one is twice as large. Each of
 * the last ones is half of what is left, down to that size again, so that Postgres is done shortly after all is folded.
 */
const FIRST_PART = 4

/**
 * Returns when it is near the end, or when it meets something that followers have to wait for, or end for, as they
 * always do.
 */
export const load = async (given: LoadOptions, keepDays: number): Promise<void> => {
  const options: Options = { ...given, keepDays }
  const { build, signal, diagnostics } = options
  const thread = new FoldThread()
  try {
    while (!signal.aborted) {
      const left = await loadFrom(options, thread)
      if (left.length === 0) return
      for (const { partition, end } of left) {
        const own = { partition, progress: progressOf(options, partition), until: end }
        if ((await followPartition({ ...options, ...own })) !== 'reached') return
      }
    }
  } catch (error) {
    if (error instanceof LogReplaced) throw error
    diagnostics.warn('load_given_up', { model: build.model, reason: reasonOf(error) })
  } finally {
    thread.end()
  }
}

const progressOf = ({ view }: Options, partition: number): Progress => {
  const known = view.partitions.get(partition) ?? newProgress()
  view.partitions.set(partition, known)
  return known
}

/** Where partitions stand. */
type Positions = ReadonlyMap<number, Position>

/** What a batch has of a partition. */
interface Range {
  readonly first: number
  /** After its last record. */
  readonly next: number
  readonly witness: string
  readonly records: number
}

interface Batch {
  readonly ranges: ReadonlyMap<number, Range>
  readonly folded: FoldedBatch
}

/** Where partitions stand after a batch; `left`: it was not written, and is left to the follower. */
interface Applied {
  readonly positions: Positions
  readonly left: readonly Pick<Stretch, 'partition' | 'end'>[]
}

/**
 * Loads from where the partitions stand. Returns the records that a follower has to apply before the load goes on;
 * none: all ends are reached.
 */
const loadFrom = async (options: Options, thread: FoldThread): Promise<Applied['left']> => {
  const { log, projection, sql, build, signal } = options
  const positions = new Map<number, Position>()
  const stretches: Stretch[] = []
  for (const partition of await log.partitions(projection.topic)) {
    const own = { ...options, partition, progress: progressOf(options, partition) }
    const position = await settled(sql, positionOf(own))
    if (position === null) return [] // the build was removed
    await requireSameLog(own, position)
    const end = await log.end(projection.topic, partition)
    options.view.ends.set(partition, { end, sinceMs: wallMs() })
    positions.set(partition, position)
    own.progress.next = position.next
    own.progress.state = 'live'
    if (position.next < end) stretches.push({ partition, next: position.next, end })
  }
  if (stretches.length === 0) return []
  const states = await Promise.all(
    stretches.map(async ({ partition }) => ({
      partition,
      logAtMs: positions.get(partition)!.logAtMs,
      origins: await settled(sql, sequencesOf(sql, { projection, build, partition })),
    })),
  )
  thread.open(states, await settled(sql, cutsOf(sql, build.schemaName, null)))
  const reading = new AbortController()
  const either = AbortSignal.any([signal, reading.signal])
  let applying = Promise.resolve<Applied>({ positions, left: [] })
  try {
    for await (const batch of batches(options, thread, stretches, either)) {
      // Folded while Postgres had the batch before.
      const applied = await applying
      if (applied.left.length > 0 || signal.aborted) return applied.left
      applying = apply(options, thread, applied.positions, batch)
    }
    return (await applying).left
  } finally {
    reading.abort()
    await applying
  }
}

async function* batches(
  { log, projection, load: limits }: Options,
  thread: FoldThread,
  stretches: readonly Stretch[],
  signal: AbortSignal,
): AsyncGenerator<Batch> {
  let ranges = new Map<number, Range>()
  let [count, bytes] = [0, 0]
  const least = Math.ceil(limits.maxRecords / FIRST_PART)
  let most = least
  let left = stretches.reduce((sum, { next, end }) => sum + end - next, 0)
  const taken = async (): Promise<Batch> => {
    const batch = { ranges, folded: await thread.take() }
    ranges = new Map()
    left -= count
    count = 0
    bytes = 0
    most = Math.min(limits.maxRecords, 2 * most, Math.max(least, Math.ceil(left / 2)))
    return batch
  }
  for await (const { partition, records } of merged(log, projection.topic, stretches, signal)) {
    const known = ranges.get(partition)
    const last = records.at(-1)!
    ranges.set(partition, {
      first: known?.first ?? records[0]!.offset,
      next: last.offset + 1,
      witness: witnessOf(last),
      records: (known?.records ?? 0) + records.length,
    })
    bytes += await thread.fold(partition, records)
    count += records.length
    if (count >= most || bytes >= limits.maxBytes) yield await taken()
  }
  if (count > 0 && !signal.aborted) yield await taken()
}

/**
 * Never rejects: a batch that fails is applied record by record by the follower, which waits for Postgres and finds
 * what it cannot store.
 */
const apply = async (options: Options, thread: FoldThread, from: Positions, batch: Batch): Promise<Applied> => {
  const { sql, build, diagnostics, keepDays } = options
  const { ranges, folded } = batch
  try {
    if (folded.odd !== null) throw new OddBatch(folded.odd)
    await settled(sql, makeDays(sql, build, folded.span, keepDays))
    const positions = await settled(sql, write(options, from, batch))
    for (const { partition, repeats } of folded.partitions) {
      const progress = progressOf(options, partition)
      progress.applied += ranges.get(partition)?.records ?? 0
      progress.repeats += repeats
      progress.next = positions.get(partition)!.next
    }
    thread.done(folded)
    return { positions, left: [] }
  } catch (error) {
    diagnostics.info('batch_looked_at', { model: build.model, reason: reasonOf(error) })
    const left = [...ranges].map(([partition, { next }]) => ({ partition, end: next }))
    return { positions: from, left }
  }
}

/** In one transaction. Partitions in their order, so that no two transactions wait in a circle. */
const write = async (
  { sql, projection, build, keepDays }: Options,
  from: Positions,
  { ranges, folded }: Batch,
): Promise<Positions> => {
  const positions = new Map(from)
  const moved = folded.partitions.filter(({ partition }) => ranges.has(partition))
  for (const { partition, logAtMs } of moved) {
    const { next, witness } = ranges.get(partition)!
    positions.set(partition, { next, logAtMs, tip: null, witness })
  }
  await sql.begin(async (transaction) => {
    for (const { partition, origins } of moved.toSorted((a, b) => a.partition - b.partition)) {
      const target = { projection, build, partition }
      const move = { from: from.get(partition)!, to: positions.get(partition)!, first: ranges.get(partition)!.first }
      await movePosition(transaction, target, move)
      await rememberSequences(transaction, target, origins)
    }
    await writeBatch(transaction, build, folded, keepDays)
  })
  return positions
}
