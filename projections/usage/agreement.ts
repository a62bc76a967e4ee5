// Compares usage with the rows that it counts, hour by hour, and each closed day with the records of gateway.usage.v1.
import type { UsageClosed } from '../../src/domain/events/usage-closed.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { type OutcomeSums, Problems, type Snapshot } from '../agreement.ts'
import type { Build } from '../projection.ts'
import { daysOf } from '../requests/days.ts'
import { factColumns, factsOf } from '../requests/stored.ts'
import { type Cell, cellsOf, count, newTally, TIER_MS, type Tier } from './cells.ts'
import { closedOf, setOf } from './closed.ts'
import {
  addCell,
  type Cells,
  type ComparedBucket,
  cellName,
  compareCells,
  nameOf,
  type StoredCell,
} from './compared-cells.ts'
import { readBins } from './histogram.ts'
import { SUMS } from './share.ts'

const TOPIC = TOPICS.usage.name
const HOUR_MS = TIER_MS.hour
const DAY_MS = TIER_MS.day
const ROWS_AT_ONCE = 2_000
/** Days whose records are held at once: each further group of so many is one more pass over the topic. */
const DAYS_AT_ONCE = 32

export interface UsageAgreement {
  /** Days of the read model, all of them. */
  readonly usage: OutcomeSums
  /** The days that are closed: in the topic, and the same days of the read model. */
  readonly closed: OutcomeSums
  readonly usageOfClosed: OutcomeSums
  readonly closedDays: number
  /** Hours whose cells were counted again. */
  readonly hours: number
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

interface ClosedDay {
  readonly dayMs: number
  readonly sequence: number
  /** JSON. */
  readonly offsets: string
  /** It has changed since: it will be closed once more. */
  readonly changed: boolean
}

export const compareUsage = async (snapshot: Snapshot, build: Build): Promise<UsageAgreement> => {
  const { sql } = snapshot
  const problems = new Problems('usage')
  const warnings = new Problems('usage')
  const days = (await daysOf(sql, build.schemaName)).map((day) => day * DAY_MS)
  const closedDays = await sql<ClosedDay[]>`
    select c.day_ms as "dayMs", sequence, offsets, coalesce(l.changes, 0) <> c.late as changed
    from ${sql(`${build.schemaName}.closed_day`)} c left join ${sql(`${build.schemaName}.late_day`)} l 
      using (day_ms) order by 1`
  const closed = emptySums()
  let hours = 0
  const unclosed = days.filter((dayMs) => !closedDays.some((each) => each.dayMs === dayMs))
  for (const dayMs of unclosed) {
    const counted = await countDay(snapshot, build, dayMs, null, problems)
    hours += counted.hours
    await compareStored(
      snapshot,
      build,
      { tier: 'day', bucketMs: dayMs, expected: counted.all, source: 'rows' },
      problems,
    )
  }
  for (let at = 0; at < closedDays.length; at += DAYS_AT_ONCE) {
    const some = closedDays.slice(at, at + DAYS_AT_ONCE)
    const published = await publishedSets(snapshot, some, problems)
    for (const day of some) {
      const { dayMs, sequence, offsets, changed } = day
      const cells = published.get(dayMs)
      const date = new Date(dayMs).toISOString().slice(0, 10)
      if (cells === undefined) {
        problems.report(`${TOPIC} lacks the set with sequence ${sequence} of ${date}, which is closed`)
        continue
      }
      addSums(closed, cells)
      const cut = new Map(JSON.parse(offsets) as [number, number][])
      const counted = days.includes(dayMs) ? await countDay(snapshot, build, dayMs, cut, problems) : null
      hours += counted?.hours ?? 0
      for (const [name, cell] of counted?.beyond ?? []) addCell(cells, name, cell)
      // A settlement that replaced an outcome of a closed day is in the table at once, in the topic with the next
      // closing.
      await compareStored(
        snapshot,
        build,
        { tier: 'day', bucketMs: dayMs, expected: cells, source: 'closed' },
        changed ? warnings : problems,
      )
    }
  }
  return {
    usage: await storedSums(snapshot, build, null),
    closed,
    usageOfClosed: await storedSums(
      snapshot,
      build,
      closedDays.map(({ dayMs }) => dayMs),
    ),
    closedDays: closedDays.length,
    hours,
    problems: problems.list(),
    warnings: warnings.list(),
  }
}

const emptySums = (): OutcomeSums => ({
  outcomes: 0,
  promptTokens: 0,
  completionTokens: 0,
  costNanoUsd: 0,
  digest: null,
})

const EVERYTHING = nameOf('total', '*', '', '')

const addSums = (sums: OutcomeSums, cells: Cells): void => {
  const total = cells.get(EVERYTHING)?.sums
  const of = (name: (typeof SUMS)[number]): number => total?.[SUMS.indexOf(name)] ?? 0
  sums.outcomes += of('requests')
  sums.promptTokens += of('prompt_tokens')
  sums.completionTokens += of('completion_tokens')
  sums.costNanoUsd += of('cost_nano_usd')
}

/**
 * Counts the rows of a day again, an hour at a time, and compares its hours and minutes. `beyond`: those that a closed
 * day does not include.
 */
const countDay = async (
  snapshot: Snapshot,
  build: Build,
  dayMs: number,
  cut: ReadonlyMap<number, number> | null,
  problems: Problems,
) => {
  const { sql, signal } = snapshot
  const all: Cells = new Map()
  const beyond: Cells = new Map()
  let hours = 0
  for (let hourMs = dayMs; hourMs < dayMs + DAY_MS; hourMs += HOUR_MS) {
    signal.throwIfAborted()
    const tally = newTally()
    const later = newTally()
    await sql<(Parameters<typeof factsOf>[0] & { log_partition: number; log_offset: number })[]>`
      select ${factColumns(sql)}, r.log_partition, r.log_offset from ${sql(`${build.schemaName}.request`)} r
      join ${sql(`${build.schemaName}.detail`)} d using (at_ms, id)
      where r.at_ms >= ${hourMs} and r.at_ms < ${hourMs + HOUR_MS}`.cursor(ROWS_AT_ONCE, (rows) => {
      for (const { log_partition, log_offset, ...row } of rows) {
        const facts = factsOf(row)
        count(tally, facts)
        if (cut !== null && log_offset >= (cut.get(log_partition) ?? 0)) count(later, facts)
      }
    })
    const cells = cellsOf(tally, Number.NEGATIVE_INFINITY)
    const into = (tier: Tier, bucketMs: number | null, target: Cells) => {
      for (const cell of cells)
        if (cell.tier === tier && (bucketMs === null || cell.bucketMs === bucketMs))
          addCell(target, cellName(cell), cell)
      return target
    }
    into('day', null, all)
    for (const cell of cellsOf(later, Number.NEGATIVE_INFINITY))
      if (cell.tier === 'day') addCell(beyond, cellName(cell), cell)
    const expected = into('hour', hourMs, new Map())
    await compareStored(snapshot, build, { tier: 'hour', bucketMs: hourMs, expected, source: 'rows' }, problems)
    await compareMinutes(snapshot, build, hourMs, cells, problems)
    if (cells.length > 0) hours++
  }
  return { all, beyond, hours }
}

const storedCells = ({ sql }: Snapshot, build: Build, tier: Tier, fromMs: number, toMs: number) =>
  sql<StoredCell[]>`
    select * from ${sql(`${build.schemaName}.usage`)}
    where tier = ${tier} and bucket_ms >= ${fromMs} and bucket_ms < ${toMs}`

const compareStored = async (
  snapshot: Snapshot,
  build: Build,
  bucket: ComparedBucket,
  problems: Problems,
): Promise<void> => {
  const { tier, bucketMs } = bucket
  compareCells(bucket, await storedCells(snapshot, build, tier, bucketMs, bucketMs + 1), problems)
}

const compareMinutes = async (
  snapshot: Snapshot,
  build: Build,
  hourMs: number,
  cells: readonly Cell[],
  problems: Problems,
): Promise<void> => {
  const expected = new Map<number, Cells>()
  for (const cell of cells) {
    if (cell.tier !== 'minute') continue
    const minute: Cells = expected.get(cell.bucketMs) ?? new Map()
    expected.set(cell.bucketMs, minute)
    addCell(minute, cellName(cell), cell)
  }
  const stored = Map.groupBy(
    await storedCells(snapshot, build, 'minute', hourMs, hourMs + HOUR_MS),
    ({ bucket_ms }) => bucket_ms,
  )
  for (const minuteMs of new Set([...expected.keys(), ...stored.keys()]))
    compareCells(
      { tier: 'minute', bucketMs: minuteMs, expected: expected.get(minuteMs) ?? new Map(), source: 'rows' },
      stored.get(minuteMs) ?? [],
      problems,
    )
}

/** The sets by which days are closed, as the topic has them. */
const publishedSets = async (
  { log, signal }: Snapshot,
  days: readonly ClosedDay[],
  problems: Problems,
): Promise<ReadonlyMap<number, Cells>> => {
  const wanted = new Map<string, number>()
  for (const { dayMs, sequence, offsets } of days) {
    const set = { day: new Date(dayMs).toISOString().slice(0, 10), sequence, offsets: JSON.parse(offsets) }
    wanted.set(setOf(set as UsageClosed), dayMs)
  }
  const parts = new Map<string, Map<number, UsageClosed>>()
  const end = await log.end(TOPIC, 0)
  for await (const closed of closedOf(log, end, signal)) {
    const set = setOf(closed)
    if (!wanted.has(set)) continue
    const held = parts.get(set) ?? new Map<number, UsageClosed>()
    parts.set(set, held)
    const before = held.get(closed.part)
    if (before === undefined) held.set(closed.part, closed)
    else if (JSON.stringify(before) !== JSON.stringify(closed))
      problems.report(`${TOPIC} has part ${closed.part} of ${closed.day} twice with other contents`)
  }
  const found = new Map<number, Cells>()
  for (const [set, held] of parts) {
    const last = [...held.values()].find((closed) => closed.last)?.part ?? Number.POSITIVE_INFINITY
    if (held.size !== last) continue // not whole: treated as missing
    found.set(wanted.get(set)!, cellsIn([...held.values()]))
  }
  return found
}

const cellsIn = (parts: readonly UsageClosed[]): Cells => {
  const cells: Cells = new Map()
  for (const cell of parts.flatMap((part) => part.cells)) {
    const name = nameOf(cell.dimension, cell.tenant_id, cell.name, cell.model)
    const sums = SUMS.map((sum) => cell[sum])
    addCell(cells, name, { sums, latency: readBins(cell.latency), ttft: readBins(cell.ttft) })
  }
  return cells
}

const storedSums = async ({ sql }: Snapshot, build: Build, days: readonly number[] | null): Promise<OutcomeSums> => {
  const [row] = await sql<Omit<OutcomeSums, 'digest'>[]>`
    select coalesce(sum(requests), 0)::bigint as outcomes, coalesce(sum(prompt_tokens), 0)::bigint as "promptTokens",
      coalesce(sum(completion_tokens), 0)::bigint as "completionTokens", 
        coalesce(sum(cost_nano_usd), 0)::bigint as "costNanoUsd"
    from ${sql(`${build.schemaName}.usage`)}
    where tier = 'day' and dimension = 'total' and tenant_id = '*'
      and (${days === null} or bucket_ms in (
        select value::bigint from json_array_elements_text(${JSON.stringify(days ?? [])}::text::json)))`
  return { ...row!, digest: null }
}
