// One partition of one build: read, fold, apply, for ever. Loses to another worker without harm; waits for Postgres and
// the log as long as it takes.

import { sleep } from '../src/lib/event-loop/sleep.ts'
import type { Diagnostics } from '../src/lib/process/diagnostics.ts'
import { type EventLog, LogGap, type LogRecord, LogReplaced } from '../src/log/port.ts'
import { isDataError, isMissingPartition, isMissingTable, settled } from './database.ts'
import { type GatherLimits, gather } from './gather.ts'
import { databaseProblem, isOfDatabase } from './problems.ts'
import {
  applyBatch,
  type BatchTarget,
  type Entry,
  type Folder,
  foldAll,
  LostOwnership,
  type Position,
  positionOf,
  witnessOf,
} from './projection.ts'

/** The progress of a partition; the worker's reports are made of these. */
export interface Progress {
  state: 'starting' | 'live' | 'follower' | 'waiting'
  next: number
  /** Log time of the oldest record that was read and is not applied, or null. */
  pendingAtMs: number | null
  applied: number
  repeats: number
  poison: number
  detail: string
}

export const newProgress = (): Progress => ({
  state: 'starting',
  next: 0,
  pendingAtMs: null,
  applied: 0,
  repeats: 0,
  poison: 0,
  detail: '',
})

export interface FollowOptions<Row> extends BatchTarget<Row> {
  readonly log: EventLog
  readonly signal: AbortSignal
  readonly diagnostics: Diagnostics
  readonly limits: GatherLimits
  /** A follower takes over when the owner has not moved for this long although there is more in the log. */
  readonly takeoverMs: number
  readonly progress: Progress
  /** Ends once everything below is applied; never when not given. */
  readonly until?: number
}

const MAX_BACKOFF_MS = 500

/**
 * Ends with `stopped` when the signal is aborted, with `replaced` when the build or a table of it is removed and with
 * `reached` at `until`. Throws LogReplaced when the log is not the one that was folded.
 */
export const followPartition = async <Row>(
  options: FollowOptions<Row>,
): Promise<'stopped' | 'replaced' | 'reached'> => {
  const { signal, diagnostics, progress, build, partition, until = Number.POSITIVE_INFINITY } = options
  for (let failures = 0; !signal.aborted; failures++) {
    const appliedBefore = progress.applied
    try {
      const position = await ownedPosition(options)
      if (position === null) return signal.aborted ? 'stopped' : 'replaced'
      if (position.next >= until) return 'reached'
      await followFrom(options, position)
    } catch (error) {
      if (signal.aborted) break
      if (error instanceof LogReplaced) throw error
      if (error instanceof LostOwnership) {
        diagnostics.info('projection_ownership_lost', { model: build.model, partition })
        progress.state = 'follower'
        continue
      }
      if (isMissingTable(error)) return 'replaced'
      if (progress.applied > appliedBefore) failures = 0
      progress.state = 'waiting'
      progress.detail = reasonOf(error)
      diagnostics.warn('projection_waits', { model: build.model, partition, reason: progress.detail })
      await sleep(backoffMs(failures), signal)
    }
  }
  return 'stopped'
}

const backoffMs = (failures: number): number => Math.min(MAX_BACKOFF_MS, 100 * 2 ** Math.min(failures, 10))

/** Without any content of a row. */
export const reasonOf = (error: unknown): string => {
  return isOfDatabase(error) ? `Postgres: ${databaseProblem(error)}` : messageOf(error)
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const storedPosition = <Row>(options: FollowOptions<Row>): Promise<Position | null> =>
  settled(options.sql, positionOf(options as unknown as BatchTarget<never>))

/**
 * The position to go on from; waits while another worker moves it. Null when the build was removed or the signal was
 * aborted.
 */
const ownedPosition = async <Row>(options: FollowOptions<Row>): Promise<Position | null> => {
  const { log, projection, partition, signal, progress, takeoverMs } = options
  const pollMs = Math.max(10, Math.min(1_000, takeoverMs / 5))
  let seen: number | null = null
  let stalledSince = performance.now()
  while (!signal.aborted) {
    const position = await storedPosition(options)
    if (position === null) return null
    progress.next = position.next
    if (progress.state !== 'follower') return position
    const end = await log.end(projection.topic, partition)
    if (position.next !== seen || end <= position.next) stalledSince = performance.now()
    else if (performance.now() - stalledSince > takeoverMs) return position
    seen = position.next
    await sleep(pollMs, signal)
  }
  return null
}

const followFrom = async <Row>(options: FollowOptions<Row>, start: Position): Promise<void> => {
  const { log, projection, partition, limits, progress, signal, until = Number.POSITIVE_INFINITY } = options
  await requireSameLog(options, start)
  const folder: Folder<Row> = await projection.open({ ...options, position: start })
  // Ended with this attempt, not with the worker: a reader that is left behind would go on reading.
  const reading = new AbortController()
  const stop = () => reading.abort()
  signal.addEventListener('abort', stop)
  // Aborted while a query of the log or the database ran: no event will come any more, and the reader would wait for
  // ever.
  if (signal.aborted) stop()
  let { next, logAtMs } = start
  progress.state = 'live'
  progress.detail = ''
  let applying: Promise<Position> = Promise.resolve(start)
  try {
    const where = `${projection.topic}/${partition}`
    const how = { only: projection.only ?? null }
    const source = unbroken(log.read(projection.topic, partition, next, reading.signal, how), where, next)
    const waitMs = Math.min(limits.waitMs, projection.gatherMs ?? limits.waitMs)
    for await (const records of gather(source, { ...limits, waitMs })) {
      const [first] = records
      progress.pendingAtMs ??= first!.atMs
      const entries = await foldAll(folder, records, logAtMs)
      next = records.at(-1)!.offset + 1
      logAtMs = entries.at(-1)!.logAtMs
      // Folded while Postgres had the batch before.
      const from = await applying
      progress.pendingAtMs = first!.atMs
      applying = apply(options, folder, from, entries)
      applying.catch(stop) // reported after the loop, which may be waiting for a record
      // A checkpoint holds the state of its moment: nothing may be folded beyond it.
      if (folder.committed !== undefined) await applying
      if (signal.aborted || next >= until) break
    }
    await applying
  } finally {
    reading.abort()
    signal.removeEventListener('abort', stop)
    await applying.catch(() => {}) // reported above, unless another error is
    progress.pendingAtMs = null
  }
}

/** The same, each batch beginning where the one before ended: else throws LogGap. From 0 it may begin anywhere. */
async function* unbroken(
  source: AsyncIterable<readonly LogRecord[]>,
  where: string,
  from: number,
): AsyncGenerator<readonly LogRecord[]> {
  let next = from
  for await (const records of source) {
    const { offset } = records[0]!
    if (next > 0 && offset !== next) throw new LogGap(`${where}: ${offset} came after ${next - 1}`)
    next = records.at(-1)!.offset + 1
    yield records
  }
}

const apply = async <Row>(
  options: FollowOptions<Row>,
  folder: Folder<Row>,
  from: Position,
  entries: readonly Entry<Row>[],
): Promise<Position> => {
  const position = await commit(options, from, entries)
  options.progress.pendingAtMs = null
  options.progress.next = position.next
  await folder.committed?.(position.next, position.logAtMs)
  return position
}

/**
 * Applies a folded batch, however long Postgres is not reachable. What Postgres can never store is found by halving and
 * set aside.
 */
const commit = async <Row>(
  options: FollowOptions<Row>,
  from: Position,
  entries: readonly Entry<Row>[],
): Promise<Position> => {
  const { signal, diagnostics, progress, build, partition } = options
  for (let failures = 0; ; failures++) {
    signal.throwIfAborted()
    try {
      const { position, repeats } = await settled(options.sql, applyBatch(options, from, entries))
      progress.applied += position.next - entries[0]!.record.offset
      progress.repeats += repeats
      progress.poison += entries.filter(({ problem }) => problem !== null).length
      progress.state = 'live'
      return position
    } catch (error) {
      if (error instanceof LostOwnership) {
        // A commit of ours whose response was lost looks the same.
        const stored = failures === 0 ? null : await storedPosition(options)
        const last = entries.at(-1)!
        if (stored?.next === last.record.offset + 1 && stored.tip === last.tip) return stored
        throw error
      }
      if (isDataError(error) && (entries.length > 1 || entries[0]!.problem === null)) {
        return commitApart(options, from, entries, error)
      }
      if (isMissingTable(error)) throw error
      if (isMissingPartition(error)) options.projection.forget?.(options.sql, build)
      progress.state = 'waiting'
      progress.detail = reasonOf(error)
      diagnostics.warn('projection_waits', { model: build.model, partition, reason: progress.detail })
      await sleep(backoffMs(failures), signal)
    }
  }
}

const commitApart = async <Row>(
  options: FollowOptions<Row>,
  from: Position,
  entries: readonly Entry<Row>[],
  error: unknown,
): Promise<Position> => {
  if (entries.length === 1) {
    const [entry] = entries
    const problem = `Postgres cannot store it: ${databaseProblem(error)}`
    // Without its origin, which may be the part that cannot be stored.
    return commit(options, from, [{ ...entry!, origin: null, rows: [], problem }])
  }
  const middle = entries.length >> 1
  const position = await commit(options, from, entries.slice(0, middle))
  return commit(options, position, entries.slice(middle))
}

/** The log must still hold what was folded from it: no shorter, and the same record before the next. */
export const requireSameLog = async <Row>(
  {
    log,
    projection,
    build,
    partition,
    signal,
  }: Pick<FollowOptions<Row>, 'log' | 'projection' | 'build' | 'partition' | 'signal'>,
  { next, witness }: Position,
): Promise<void> => {
  if (next === 0) return
  const where = `${projection.topic}/${partition}`
  const command = `gateway rebuild ${build.model}`
  const mend = `the topic was truncated, recreated or replaced; when that was intended, run: ${command}`
  const end = await log.end(projection.topic, partition)
  if (end < next)
    throw new LogReplaced(`${where} ends at ${end}, but ${build.model} has applied it up to ${next}: ${mend}`)
  const record = await readOne(log, projection.topic, partition, next - 1, signal)
  if (record !== null && witness !== null && witnessOf(record) !== witness) {
    throw new LogReplaced(
      `${where} holds another record at ${next - 1} than the one that ${build.model} has applied: ${mend}`,
    )
  }
}

/** One record, or null when retention has taken it. */
export const readOne = async (
  log: EventLog,
  topic: string,
  partition: number,
  offset: number,
  signal: AbortSignal,
): Promise<LogRecord | null> => {
  const reading = new AbortController()
  const stop = () => reading.abort()
  signal.addEventListener('abort', stop)
  try {
    for await (const [record] of log.read(topic, partition, offset, reading.signal)) {
      return record?.offset === offset ? record : null
    }
    return null
  } catch (error) {
    if (error instanceof LogReplaced) return null // the caller has compared the end: it can only be below the start
    throw error
  } finally {
    reading.abort()
    signal.removeEventListener('abort', stop)
  }
}
