// The producers' books against what stands in Postgres and in gateway.usage.v1.
import type { Sql } from '../../../projections/database.ts'
import { UsageClosed } from '../../../src/domain/events/usage-closed.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { TypeCompiler } from '../../../src/lib/schema/schema.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import type { Books } from './producers.ts'

export interface Differences {
  readonly missing: number
  readonly doubled: number
  /** One line for each figure that differs. */
  readonly problems: readonly string[]
}

const schemaOf = async (sql: Sql, model: string): Promise<string> => {
  const [row] = await sql<{ name: string }[]>`
    select schema_name as name from gatelog.build where model = ${model} and state = 'active'`
  return row!.name
}

type Sums = Pick<Books, 'outcomes' | 'promptTokens' | 'completionTokens' | 'costNanoUsd'>

/** Rows, usage of every tier and frames. */
export const compareTables = async (sql: Sql, books: Books): Promise<Differences> => {
  const [requests, frames] = [await schemaOf(sql, 'requests'), await schemaOf(sql, 'frames')]
  const problems: string[] = []
  const equal = (what: string, found: unknown, wanted: unknown) => {
    if (JSON.stringify(found) !== JSON.stringify(wanted))
      problems.push(`${what}: ${JSON.stringify(found)}, written were ${JSON.stringify(wanted)}`)
  }
  const { outcomes, promptTokens, completionTokens, costNanoUsd, latencyMs } = books
  const wanted: Sums = { outcomes, promptTokens, completionTokens, costNanoUsd }
  const sums = sql`sum(prompt_tokens)::bigint as "promptTokens", sum(completion_tokens)::bigint as "completionTokens",
    sum(cost_nano_usd)::bigint as "costNanoUsd"`
  const [rows] = await sql<(Sums & { latencyMs: number })[]>`
    select count(*) as outcomes, ${sums}, sum(latency_ms)::bigint as "latencyMs" from ${sql(`${requests}.request`)}`
  equal('the request log', rows, { ...wanted, latencyMs })
  const [ids] = await sql<{ missing: number; doubled: number }[]>`
    with held as (select id, count(*) as rows from ${sql(`${requests}.request`)} group by id)
    select count(*) filter (where held.rows is null) as missing, coalesce(sum(held.rows - 1), 0)::bigint as doubled
    from generate_series(0, ${outcomes - 1}::integer) as wanted (at) left join held on held.id = 'req_' || wanted.at`
  const [beside] = await sql<{ details: number; pending: number; admitted: number; aside: number }[]>`
    select (select count(*) from ${sql(`${requests}.detail`)}) as details, (select count(*) from ${sql(`${requests}.pending`)}) as pending,
      (select count(admitted) from ${sql(`${requests}.detail`)}) as admitted, (select count(*) from gatelog.poison) as aside`
  equal('details, admissions', beside, { details: outcomes, pending: 0, admitted: outcomes, aside: 0 })
  const usage = sql(`${requests}.usage`)
  for (const tier of ['minute', 'hour', 'day']) {
    const [sum] = await sql<Sums[]>`
      select sum(requests)::bigint as outcomes, ${sums} from ${usage}
      where tier = ${tier} and dimension = 'total' and tenant_id = '*'`
    equal(`usage of the tier ${tier}`, sum, wanted)
  }
  const tenants = await sql<{ tenant: string; cost: number }[]>`
    select tenant_id as tenant, sum(cost_nano_usd)::bigint as cost from ${usage}
    where tier = 'day' and dimension = 'key' group by 1 order by 1`
  equal(
    'cost of the tenants',
    tenants.map(({ tenant, cost }) => [tenant, cost]),
    [...books.costOfTenant].sort(([a], [b]) => (a < b ? -1 : 1)),
  )
  const [held] = await sql<{ frames: number; highest: number }[]>`
    select count(*) as frames, max(number) as highest from ${sql(`${frames}.frame`)}`
  equal('frames', held, { frames: books.frames, highest: books.frames })
  return { ...ids!, problems }
}

export interface ClosingReport {
  readonly records: number
  /** Whole sets: one day as it was at certain offsets. */
  readonly sets: number
  /** Those that were written more than once, each time alike. */
  readonly writtenAgain: number
  readonly problems: readonly string[]
}

const check = TypeCompiler.Compile(UsageClosed)

/**
 * Every set of a closed day is alike however often it was written; each day is closed; the set that holds equals the
 * table, sum for sum.
 */
export const compareClosings = async (sql: Sql, log: EventLog, books: Books): Promise<ClosingReport> => {
  const problems: string[] = []
  const parts = new Map<string, { readonly digest: string; readonly closed: UsageClosed; times: number }>()
  const records = await log.end(TOPICS.usage.name, 0)
  for await (const closed of closings(log, records)) {
    const { day, sequence, offsets, part } = closed
    const name = JSON.stringify([day, sequence, offsets, part])
    const digest = sha256Hex(JSON.stringify(closed))
    const held = parts.get(name)
    if (held === undefined) parts.set(name, { digest, closed, times: 1 })
    else if (held.digest === digest) held.times++
    else problems.push(`${day} sequence ${sequence} part ${part} was written with other contents`)
  }
  const last = [...parts.values()].filter(({ closed }) => closed.last)
  for (const [dayMs, requests] of books.requestsOfDay) {
    const day = new Date(dayMs).toISOString().slice(0, 10)
    const reach = ({ offsets }: UsageClosed) => offsets.reduce((sum, [, next]) => sum + next, 0)
    const best = last
      .map(({ closed }) => closed)
      .filter((closed) => closed.day === day)
      .sort((a, b) => b.sequence - a.sequence || reach(b) - reach(a))[0]
    if (best === undefined) {
      problems.push(`${day} was not closed`)
      continue
    }
    const cells = Array.from({ length: best.part }, (_, at) => {
      const name = JSON.stringify([day, best.sequence, best.offsets, at + 1])
      return parts.get(name)?.closed.cells ?? []
    }).flat()
    const total = cells.find(({ dimension, tenant_id }) => dimension === 'total' && tenant_id === '*')
    if (total?.requests !== requests)
      problems.push(`${day} is closed with ${total?.requests} requests of ${requests} that were written`)
    const [table] = await sql<{ cells: number; cost: number }[]>`
      select count(*) as cells, sum(cost_nano_usd)::bigint as cost
      from ${sql(`${await schemaOf(sql, 'requests')}.usage`)} where tier = 'day' and bucket_ms = ${dayMs}`
    const own = { cells: cells.length, cost: cells.reduce((sum, { cost_nano_usd }) => sum + cost_nano_usd, 0) }
    if (JSON.stringify(own) !== JSON.stringify(table))
      problems.push(`${day} is closed with ${JSON.stringify(own)}, the table has ${JSON.stringify(table)}`)
  }
  return { records, sets: last.length, writtenAgain: last.filter(({ times }) => times > 1).length, problems }
}

async function* closings(log: EventLog, end: number): AsyncGenerator<UsageClosed> {
  if (end === 0) return
  for await (const records of log.read(TOPICS.usage.name, 0, 0, new AbortController().signal)) {
    for (const { value } of records) {
      const envelope = value === null ? null : readEnvelope(value)
      if (envelope === null || !check.Check(envelope.data))
        throw new Error('a record of the usage topic is not readable')
      yield envelope.data
    }
    if (records.at(-1)!.offset + 1 >= end) return
  }
}
