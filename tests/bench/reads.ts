// Measures reads of a large request log: `bun tests/bench/reads.ts [outcomes, 5000000] [folder] [pattern of routes'
// names]`.
// A day of outcomes passes through a real log and a real worker. SQL repeats the projected rows for each day before, 35
// days in all. Then the bench calls every read route over HTTP with its defaults, and the request log with each filter.
// A named folder is kept and used again when it exists.
// Needs no network and no broker. Five million outcomes take 20 GB of disk and some minutes.
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { activeBuild } from '../../projections/builds.ts'
import { openDatabase, type Sql } from '../../projections/database.ts'
import { embeddedPostgresUrl } from '../../src/upkeep/postgres/embedded-postgres.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'
import { type Grown, repeatDay, settleTables } from './reads/many-days.ts'
import { type Known, type Measured, measuredRoutes } from './reads/routes.ts'
import { DAY_MS, writeDay } from './reads/sample-day.ts'
import { makeWorld, type World } from './reads/world.ts'

const OUTCOMES = Number(process.argv[2] ?? 5_000_000)
const KEPT = process.argv[3] || null
const WANTED = new RegExp(process.argv[4] ?? '')
const DAYS = 35
const CALLS = 120
/** A route that is slower gets fewer calls. */
const ROUTE_MS = 20_000
const WARM_UP = 5
const PROJECTED_WITHIN_MS = 600_000
const SETTINGS = { health: { probe_interval: 'off' } }
/** No record arrives during the measurement. */
const QUIET = { ...SETTINGS, worker: { enabled: false } }

interface Made {
  readonly world: World
  readonly startMs: number
  readonly grown: Grown
}

/** Of the embedded Postgres of a folder, whose gateway runs. */
const withSql = async <Result>(folder: string, run: (sql: Sql) => Promise<Result>): Promise<Result> => {
  const url = embeddedPostgresUrl(join(folder, 'data'))
  if (url === null) throw new Error('there is no Postgres in this folder')
  const sql = openDatabase({ url, name: 'gatelog-bench', maxConnections: 2, statementTimeoutMs: null })
  return run(sql).finally(() => sql.end({ timeout: 1 }))
}

/** Waits until the worker has applied so many outcomes. */
const untilProjected = (folder: string, atLeast: number): Promise<void> =>
  withSql(folder, async (sql) => {
    for (const deadline = performance.now() + PROJECTED_WITHIN_MS; performance.now() < deadline; ) {
      await Bun.sleep(1_000)
      const [row] = await sql<{ behind: number }[]>`
        select coalesce(sum(behind_records), 1)::int as behind from gatelog.status`
      const build = await activeBuild(sql, 'requests')
      if (row?.behind !== 0 || build === null) continue
      const [held] = await sql<{ count: number }[]>`select count(*) as count from ${sql(`${build.schemaName}.request`)}`
      if (held!.count >= atLeast) return
    }
    throw new Error('the worker did not apply the day in time')
  })

/**
 * Makes the configuration, a day of outcomes that the worker projects, and the days before. The worker sees none of
 * those earlier days: it would close them while they are made.
 */
const make = async (folder: string): Promise<Made> => {
  const gateway = startGateway({ folder, settings: SETTINGS })
  try {
    await gateway.until('ready', 60_000)
    const world = await makeWorld(gateway)
    await gateway.end()
    const startMs = Math.floor(Date.now() / DAY_MS) * DAY_MS
    const count = Math.round(OUTCOMES / DAYS)
    const records = await writeDay(join(folder, 'data'), startMs, count, world)
    say(`${count} outcomes written (${records} records)`)
    gateway.start()
    await gateway.until('ready', 60_000)
    await untilProjected(folder, count)
    say('projected')
    await gateway.end()
    return { world, startMs, grown: await grow(folder, startMs) }
  } finally {
    await gateway.end()
  }
}

const grow = async (folder: string, startMs: number): Promise<Grown> => {
  const gateway = startGateway({ folder, settings: QUIET })
  try {
    await gateway.until('ready', 60_000)
    return await withSql(folder, async (sql) => {
      for (let day = 1; day < DAYS; day++) await repeatDay(sql, startMs, day)
      say('repeated')
      return settleTables(sql)
    })
  } finally {
    await gateway.end()
  }
}

const say = (what: string): void => console.log(`${(performance.now() / 1_000).toFixed(0).padStart(4)} s  ${what}`)

const knownOf = (folder: string, { world, startMs }: Made): Promise<Known> =>
  withSql(folder, async (sql) => {
    const build = await activeBuild(sql, 'requests')
    const request = sql(`${build!.schemaName}.request`)
    const ids: string[] = []
    const labels: string[] = []
    for (let day = 0; day < DAYS; day++) {
      const fromMs = startMs - day * DAY_MS
      const rows = await sql<{ id: string; request_id: string }[]>`
        (select id, request_id from ${request} where at_ms >= ${fromMs} and request_id <> id order by at_ms limit 3)`
      ids.push(...rows.map(({ id }) => id))
      labels.push(...rows.map(({ request_id }) => request_id))
    }
    const [row] = await sql<{ user: string }[]>`
      select end_user as user from ${request} where at_ms >= ${startMs} and end_user is not null order by at_ms limit 1`
    return { world, ids, labels, user: row!.user, days: DAYS }
  })

const call = async (
  gateway: GatewayProcess,
  route: Measured,
  n: number,
  key: string | undefined,
): Promise<[ms: number, status: number]> => {
  const leaving = new AbortController()
  const startedAt = performance.now()
  const answer = await gateway.request(`/admin/v1${route.path(n)}`, { key, signal: leaving.signal })
  if (route.firstByte === true) {
    const reader = answer.body!.getReader()
    await reader.read()
    const ms = performance.now() - startedAt
    leaving.abort()
    return [ms, answer.status]
  }
  await answer.arrayBuffer()
  return [performance.now() - startedAt, answer.status]
}

const shareOf = (sorted: readonly number[], share: number): number => sorted[Math.ceil(share * sorted.length) - 1]!

/** Calls the route repeatedly, one call after the other. Returns whether it was within its aim. */
const measure = async (gateway: GatewayProcess, route: Measured, tenantSecret: string): Promise<boolean> => {
  const key = route.asTenant === true ? tenantSecret : undefined
  const statuses = new Map<number, number>()
  const times: number[] = []
  const endAt = performance.now() + ROUTE_MS
  for (let n = 0; n < CALLS + WARM_UP && (n <= WARM_UP || performance.now() < endAt); n++) {
    const [ms, status] = await call(gateway, route, n, key)
    if (n < WARM_UP) continue
    times.push(ms)
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
  }
  times.sort((a, b) => a - b)
  const p95 = shareOf(times, 0.95)
  const fine = p95 < route.aimMs && statuses.get(200) === times.length
  const figures = [shareOf(times, 0.5), p95, times.at(-1)!].map((ms) => ms.toFixed(1).padStart(8)).join('')
  const failed = statuses.get(200) === times.length ? '' : ` ${JSON.stringify(Object.fromEntries(statuses))}`
  const name = route.name.replace(/=([a-z]+_)[0-9a-f-]{36}/, '=$1...')
  console.log(
    `${name.padEnd(56)}${String(times.length).padStart(5)}${figures}${fine ? '' : `  MISSED (aim ${route.aimMs})`}${failed}`,
  )
  return fine
}

const folder = KEPT ?? mkdtempSync(join(tmpdir(), 'gatelog-reads-'))
mkdirSync(folder, { recursive: true })
chmodSync(folder, 0o755) // else the cluster stands elsewhere, for the account that runs it may not enter
const notes = join(folder, 'made.json')
if (!existsSync(notes)) writeFileSync(notes, JSON.stringify(await make(folder)))
const made = JSON.parse(readFileSync(notes, 'utf8')) as Made
const gateway = startGateway({ folder, settings: QUIET })
let fine = true
try {
  await gateway.until('ready', 60_000)
  const known = await knownOf(folder, made)
  const { requests, usage, feedback } = made.grown
  say(`${requests} requests over ${DAYS} days, ${usage} rows of usage, ${feedback} of feedback; one call at a time`)
  console.log(`${'route'.padEnd(56)}    N     p50     p95     max  ms`)
  for (const route of measuredRoutes(known).filter(({ name }) => WANTED.test(name)))
    fine = (await measure(gateway, route, made.world.tenantSecret)) && fine
} finally {
  if (KEPT === null) await gateway.remove()
  else await gateway.end()
}
process.exit(fine ? 0 : 1)
