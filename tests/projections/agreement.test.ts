// What `gateway verify` finds: nothing in tables that were made from the log, and each kind of damage by its name.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Sql } from '../../projections/database.ts'
import { verifyOutcomes } from '../../src/commands/verify/outcomes.ts'
import type { Finding } from '../../src/commands/verify/verify.ts'
import { loadConfig } from '../../src/config/schema.ts'
import { readEnvelope } from '../../src/log/envelope.ts'
import type { MemoryLog } from '../../src/log/memory.ts'
import type { LogRecord, NewRecord } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { eventually } from '../services/eventually.ts'
import { sharedPostgres, type TestDatabase } from '../services/postgres.ts'
import { applied, openSql, REQUESTS, type RunningWorker, sender, settled, startWorker, testLog } from './support.ts'

const DAY_MS = 86_400_000
const FIRST_MS = (Math.floor(Date.now() / DAY_MS) - 5) * DAY_MS
const PARTITIONS = 2
const DAYS = 2
const EACH = 60
const OPERATIONS = TOPICS.operations.name
const USAGE = TOPICS.usage.name
const COST = { cost_nano_usd: 777, prompt_tokens: 11, completion_tokens: 5 }

let database: TestDatabase
let sql: Sql
let log: MemoryLog
let schema: string
let frames: string
const { config } = loadConfig({ file: null, env: {} })

const outcome = (index: number) =>
  settled(`r${index}`, {
    at_ms: FIRST_MS + Math.floor((index * DAYS * DAY_MS) / EACH),
    latency_ms: index * 3,
    tenant_id: `ten_${index % 3}`,
    error_code: index % 7 === 0 ? 'timeout' : null,
    ...COST,
  })

beforeAll(async () => {
  database = await sharedPostgres()
  sql = openSql(database.url)
  log = testLog(PARTITIONS)
  const one = sender()
  for (let index = 0; index < EACH; index++)
    await log.append(REQUESTS, index % PARTITIONS, [one.record('request.settled', outcome(index))])
  // What Postgres cannot store is set aside, counted and shown: nothing disagrees.
  await log.append(REQUESTS, 0, [one.record('request.settled', settled('huge', { cost_nano_usd: 1e300 }))])
  // As an instance sends what it does not know to have arrived, and as another one settles what it took for an orphan.
  await log.append(REQUESTS, 0, [one.record('request.settled', outcome(0), 0)])
  await log.append(REQUESTS, 1, [sender('ins_2').record('request.settled', { ...outcome(0), outcome: 'orphaned' })])
  const other = sender('ins_1', 'e2')
  for (let number = 1; number <= 20; number++) {
    const frame = { number, at_ms: Date.now(), whole: true, part: 1, parts: 1, candidates: [] }
    await log.append(OPERATIONS, 0, [other.record('frame.taken', frame)])
  }
  const worker: RunningWorker = startWorker({ log, databaseUrl: database.url, tuning: { closeMs: 20 } })
  for (const [partition, more] of [2, 1].entries())
    schema = await applied(sql, 'requests', EACH / PARTITIONS + more, partition)
  frames = await applied(sql, 'frames', 20)
  await eventually('all days are closed as they stand', async () => {
    const rows = await sql`
      select 1 from ${sql(`${schema}.closed_day`)} c left join ${sql(`${schema}.late_day`)} l using (day_ms) where coalesce(l.changes, 0) = c.late`
    return rows.length === DAYS ? true : null
  })
  await worker.stop()
}, 60_000)
afterAll(async () => {
  await sql?.end({ timeout: 1 })
  await database?.remove()
}, 60_000)

const verify = (from = log): Promise<Finding> =>
  verifyOutcomes({ config, sql, log: from, signal: new AbortController().signal })

/** The figures behind a label of the table. */
const figures = ({ rows }: Finding, label: string): string[] | undefined =>
  rows
    .find(([name]) => name === label)?.[1]
    .trim()
    .split(/ +/)

/** Runs it on altered tables and puts them back. */
const altered = async (alter: string, restore: string): Promise<Finding> => {
  await sql.unsafe(alter)
  try {
    return await verify()
  } finally {
    await sql.unsafe(restore)
  }
}

/** The same log but for what `change` makes of a record. */
const copied = async (change: (topic: string, record: LogRecord) => NewRecord): Promise<MemoryLog> => {
  const copy = testLog(PARTITIONS)
  for (const topic of [REQUESTS, OPERATIONS, USAGE])
    for (const partition of await log.partitions(topic)) {
      const end = await log.end(topic, partition)
      if (end === 0) continue
      for await (const records of log.read(topic, partition, 0, new AbortController().signal)) {
        for (const record of records) await copy.append(topic, partition, [change(topic, record)])
        if (records.at(-1)!.offset + 1 >= end) break
      }
    }
  return copy
}

const ROW = "id = 'r10'"
const AT_R10 = `offset 5 of ${REQUESTS}/0`

describe('verify', () => {
  test('finds nothing where all was made from the log, and shows the same figures of each', async () => {
    const found = await verify()
    expect({ problems: found.problems, warnings: found.warnings }).toEqual({ problems: [], warnings: [] })
    const wanted = [EACH, EACH * COST.prompt_tokens, EACH * COST.completion_tokens, EACH * COST.cost_nano_usd].map(
      String,
    )
    const topic = figures(found, REQUESTS)!
    expect(topic.slice(0, 4)).toEqual(wanted)
    expect(figures(found, 'request log, of those')).toEqual(topic)
    for (const label of ['usage, all days', `${USAGE}, ${DAYS} closed days`, 'usage, of those days'])
      expect([label, figures(found, label)]).toEqual([label, wanted])
    expect(found.rows).toContainEqual(['settled a second time', '1'])
    expect(figures(found, 'frames in the read model')).toEqual(figures(found, `frames in ${OPERATIONS}`)!)
  })

  test('a row that was deleted', async () => {
    await sql.unsafe(`create table kept as select * from "${schema}".request where ${ROW}`)
    const { problems } = await altered(
      `delete from "${schema}".request where ${ROW}`,
      `insert into "${schema}".request select * from kept`,
    )
    expect(problems).toContain(`the request log lacks r10 from ${AT_R10}`)
    expect(problems.filter((line) => line.startsWith('usage of the ')).length).toBeGreaterThan(0)
    expect((await verify()).problems).toEqual([])
  })

  test('a cost that was changed by a nano-dollar, in the request log and in usage', async () => {
    const change = (table: string, where: string) => (by: number) =>
      `update "${schema}".${table} set cost_nano_usd = cost_nano_usd + ${by} where ${where}`
    const request = change('request', ROW)
    expect((await altered(request(1), request(-1))).problems).toContain(
      `the request log differs from ${AT_R10} in r10: cost_nano_usd`,
    )
    const day = change('usage', `tier = 'day' and dimension = 'total' and tenant_id = '*' and bucket_ms = ${FIRST_MS}`)
    const date = new Date(FIRST_MS).toISOString().slice(0, 10)
    const cost = (EACH / DAYS) * COST.cost_nano_usd
    expect((await altered(day(1), day(-1))).problems).toEqual([
      `usage of the day ${date} differs from ${USAGE} in total *: cost_nano_usd ${cost + 1} instead of ${cost}`,
    ])
    const hour = change(
      'usage',
      `tier = 'hour' and dimension = 'total' and tenant_id = '*' and bucket_ms = ${FIRST_MS}`,
    )
    const { problems } = await altered(hour(1), hour(-1))
    expect(problems).toHaveLength(1)
    expect(problems[0]).toStartWith(
      `usage of the hour ${date}T00:00 differs from the request log in total *: cost_nano_usd`,
    )
  })

  test('a frame that was deleted', async () => {
    await sql.unsafe(`create table kept_frame as select * from "${frames}".frame where number = 7`)
    const { problems } = await altered(
      `delete from "${frames}".frame where number = 7`,
      `insert into "${frames}".frame select * from kept_frame`,
    )
    expect(problems).toHaveLength(1)
    expect(problems[0]).toStartWith(`the frames differ from ${OPERATIONS}: 19 `)
  })

  test('an outcome that the topic lacks', async () => {
    const copy = await copied((topic, record) => {
      const isIt = topic === REQUESTS && new TextDecoder().decode(record.value!).includes('"r10"')
      return { key: record.key, value: isIt ? Buffer.from('no envelope') : record.value }
    })
    const { problems } = await verify(copy)
    expect(problems).toContain(`the request log has r10 from ${AT_R10}, which holds no such outcome`)
  })

  test('a closed day whose record differs, and one that is gone', async () => {
    const change = (edit: (text: string) => string) =>
      copied((topic, record) => {
        const text = new TextDecoder().decode(record.value!)
        return { key: record.key, value: Buffer.from(topic === USAGE ? edit(text) : text) }
      })
    const dearer = await change((text) =>
      text.replaceAll(`"cost_nano_usd":${(EACH / DAYS) * 777}`, '"cost_nano_usd":1'),
    )
    const differing = (await verify(dearer)).problems
    expect(differing.length).toBeGreaterThan(0)
    for (const line of differing)
      expect(line).toMatch(new RegExp(`differs from ${USAGE} in .*: cost_nano_usd \\d+ instead of 1$`))
    const last = readEnvelope((await lastOf(USAGE)).value!)!.subject
    const gone = await change((text) => (text.includes(`"day":"${last}"`) ? '{}' : text))
    expect((await verify(gone)).problems).toEqual([
      expect.stringMatching(new RegExp(`^${USAGE} lacks the set with sequence \\d+ of ${last}`)),
    ])
  })
})

const lastOf = async (topic: string): Promise<LogRecord> => {
  const end = await log.end(topic, 0)
  for await (const records of log.read(topic, 0, end - 1, new AbortController().signal)) return records[0]!
  throw new Error('nothing')
}
