// Measures read models made from the log: `bun tests/bench/rebuild/rebuild.ts [outcomes]`.
// Writes that many outcomes (an admission and a settlement each, two records) into an embedded log, lets a worker catch
// up, drops everything in Postgres, rebuilds all read models, and compares each table. Then it copies the same rows
// from files into tables with the same indexes, which is the least that Postgres needs for them. Needs no network and
// no broker.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { activeBuild } from '../../../projections/builds.ts'
import { openDatabase } from '../../../projections/database.ts'
import { closeDays } from '../../../projections/usage/close.ts'
import { buildFigures } from '../../../projections/verify.ts'
import type { AttemptSummary } from '../../../src/domain/events/request-reading.ts'
import { embeddedLog } from '../../../src/log/embedded/log.ts'
import { openSpool } from '../../../src/log/spool/open.ts'
import { startEmbeddedPostgres } from '../../../src/upkeep/postgres/embedded-postgres.ts'
import { admitted, plan, settled } from '../../projections/support.ts'
import { eventually } from '../../services/eventually.ts'
import { silent } from '../../services/postgres.ts'

const OUTCOMES = Number(process.argv[2] ?? 200_000)
const AIM = 20_000
/** As dense as five million in thirty days. */
const SPAN_MS = (OUTCOMES / 5_000_000) * 30 * 86_400_000
const START_MS = Date.UTC(2026, 9, 1)
const PROVIDERS = 5
const MODELS = 20
const TENANTS = 20

/** The same for the same seed. */
const randomFrom = (seed: number) => () => {
  seed = (seed * 1_664_525 + 1_013_904_223) >>> 0
  return seed / 2 ** 32
}

const uuid = (atMs: number, serial: number): string => {
  const hex = atMs.toString(16).padStart(12, '0') + (0x7000_0000 + serial).toString(16).padStart(8, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-8${hex.slice(17, 20)}-${serial.toString(16).padStart(12, '0')}`
}

const attempt = (n: number, provider: string, model: string, failed: boolean): AttemptSummary => ({
  n,
  provider,
  model,
  outcome: failed ? 'error' : 'success',
  error_code: failed ? 'upstream_error' : null,
  upstream_status: failed ? 503 : 200,
  latency_ms: 400,
  ttft_ms: null,
  ...(failed ? { cost_nano_usd: 0, cost_basis: 'estimated' } : {}),
})

interface Written {
  readonly tenant: string
  readonly admission: string
  readonly settlement: string
}

/** Requests that are under way at once: a settlement stands that many admissions after its own. */
const AT_ONCE = 64
/** The place of an admission among all records. */
const admissionSequence = (serial: number): number => serial + Math.max(0, serial - AT_ONCE)

/** One request as a gateway records it: its admission and its settlement, as JSON. */
const outcome = (serial: number, atMs: number, origin: string, random: () => number): Written => {
  const id = `req_${uuid(atMs, serial)}`
  const pick = (count: number) => Math.floor(random() ** 2 * count)
  const tenantSerial = pick(TENANTS)
  const tenant = `ten_${uuid(START_MS, tenantSerial)}`
  const model = pick(MODELS)
  const provider = `provider-${model % PROVIDERS}`
  const fails = random() < 0.05
  const retried = !fails && random() < 0.05
  const latencyMs = Math.round(80 * 20 ** random())
  const first = {
    key_id: `key_${uuid(START_MS, 3 * tenantSerial + pick(3))}`,
    requested_model: `model-${model}`,
    model_id: `mod_${uuid(START_MS, model)}`,
    provider_id: `prov_${uuid(START_MS, model % PROVIDERS)}`,
    provider,
  }
  const shared = {
    request_id: id,
    trace_id: id.slice(4).replaceAll('-', ''),
    at_ms: atMs,
    tenant_id: tenant,
    ...first,
  }
  const seed = Math.floor(random() * 2 ** 31)
  const attempts = [
    ...(retried ? [attempt(1, 'provider-0', `model-${model}`, true)] : []),
    attempt(retried ? 2 : 1, provider, `model-${model}`, fails),
  ]
  return {
    tenant,
    admission: JSON.stringify(admitted(id, { ...first, at_ms: undefined, plan: { ...plan, seed } })),
    settlement: JSON.stringify(
      settled(id, {
        ...shared,
        admission: `${origin}.${admissionSequence(serial)}`,
        routed_model: `model-${model}`,
        outcome: fails ? 'error' : 'success',
        status: fails ? 502 : 200,
        error_code: fails ? 'upstream_error' : null,
        attempts,
        fallback_used: retried,
        prompt_tokens: Math.floor(random() * 4_000),
        completion_tokens: Math.floor(random() * 800),
        cost_nano_usd: Math.floor(random() * 20_000_000),
        latency_ms: latencyMs,
        ttft_ms: Math.round(latencyMs / 4),
      }),
    ),
  }
}

/** Writes the log; the records' own clock runs through its span. */
const writeLog = async (dataDir: string): Promise<void> => {
  let now = START_MS
  const spool = await openSpool({
    dataDir,
    durability: 'process',
    keeping: { until: 'projected', consumers: { requests: ['projection'], operations: [] }, retentionMs: null },
    nowMs: () => now,
    ballastBytes: 0,
    backlogBytes: 2 ** 40,
  })
  const random = randomFrom(7)
  const origin = `${spool.instance}.${spool.epoch}`
  const open: Written[] = []
  const appending: Promise<unknown>[] = []
  const settle = () => {
    const { tenant, settlement } = open.shift()!
    appending.push(spool.append('requests', 'request.settled', tenant, settlement))
  }
  for (let serial = 0; serial < OUTCOMES; serial++) {
    now = START_MS + Math.floor((serial / OUTCOMES) * SPAN_MS)
    const written = outcome(serial, now, origin, random)
    appending.push(spool.append('requests', 'request.admitted', written.tenant, written.admission))
    open.push(written)
    if (open.length > AT_ONCE) settle()
    if (appending.length >= 2_000) await Promise.all(appending.splice(0))
  }
  while (open.length > 0) settle()
  await Promise.all(appending)
  await spool.close()
}

interface Step {
  readonly seconds: number
  readonly peakMiB: number
  readonly ownSeconds: number
}

/**
 * `worker`: until everything is applied. `rebuild`: all read models, one after the other. Runs in a separate process,
 * so that the peak memory is that of the step alone.
 */
const step = async (what: 'worker' | 'rebuild', dataDir: string, url: string): Promise<Step> => {
  const startedAt = performance.now()
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'rebuild-process.ts'), what, dataDir, url], {
    stdio: ['ignore', process.env.VERBOSE === undefined ? 'ignore' : 'inherit', 'inherit'],
  })
  if ((await child.exited) !== 0) throw new Error(`${what} ended with ${child.exitCode}`)
  const usage = child.resourceUsage()!
  return {
    seconds: (performance.now() - startedAt) / 1_000,
    peakMiB: Math.round(usage.maxRSS / 2 ** 20),
    ownSeconds: Number(usage.cpuTime.total) / 1e6,
  }
}

/** Rows and digest of each table of the active builds. */
const tablesOf = async (url: string): Promise<Map<string, string>> => {
  const sql = openDatabase({ url, name: 'gatelog-bench', maxConnections: 2, statementTimeoutMs: null })
  try {
    const builds = await buildFigures(sql)
    return new Map(
      builds.flatMap(({ model, tables }) =>
        tables.map(({ name, rows, digest }): [string, string] => [`${model}.${name}`, `${rows} ${digest}`]),
      ),
    )
  } finally {
    await sql.end({ timeout: 1 })
  }
}

/**
 * The worker looks once more at a day after it was closed, and a worker that has applied everything may end before
 * that. This is not part of the measurement.
 */
const closeAll = async (dataDir: string, url: string): Promise<void> => {
  const sql = openDatabase({ url, name: 'gatelog-bench', maxConnections: 2, statementTimeoutMs: null })
  const log = embeddedLog({ dataDir, nowMs: Date.now })
  const stopping = new AbortController()
  const closing = closeDays({ sql, log, signal: stopping.signal, diagnostics: silent, pollMs: 100 })
  const build = await activeBuild(sql, 'requests')
  const schema = (table: string) => sql(`${build!.schemaName}.${table}`)
  await eventually('every closed day was looked at once more', async () => {
    const open = await sql`
      select 1 from ${schema('closed_day')} closed left join ${schema('late_day')} late using (day_ms)
      where closed.late <> coalesce(late.changes, 0)`
    return open.length === 0
  })
  stopping.abort()
  await closing
  await log.close()
  await sql.end({ timeout: 1 })
}

const dropAll = async (url: string): Promise<void> => {
  const sql = openDatabase({ url, name: 'gatelog-bench', maxConnections: 1, statementTimeoutMs: null })
  const schemas = await sql<{ name: string }[]>`
    select nspname as name from pg_namespace where nspname = 'gatelog' or nspname ~ '_v[0-9]+_b[0-9]+$'`
  for (const { name } of schemas) await sql`drop schema ${sql(name)} cascade`
  await sql.end({ timeout: 1 })
}

/** COPY of the rows of the large tables from files of the server, by itself, one after the other. */
const bareCopy = async (url: string): Promise<void> => {
  const sql = openDatabase({ url, name: 'gatelog-bench', maxConnections: 1, statementTimeoutMs: null })
  const [build] = await sql<{ name: string }[]>`
    select schema_name as name from gatelog.build where model = 'requests' and state = 'active'`
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-copy-'))
  chmodSync(folder, 0o777) // the server writes there, under its own account
  await sql`create schema bare`
  let seconds = 0
  for (const table of ['request', 'detail', 'usage']) {
    const [from, file] = [`"${build!.name}".${table}`, join(folder, table)]
    await sql.unsafe(`copy (select * from ${from}) to '${file}'`)
    await sql.unsafe(`create table bare.${table} (like ${from} including defaults including indexes)`)
    const startedAt = performance.now()
    await sql.unsafe(`copy bare.${table} from '${file}'`)
    seconds += (performance.now() - startedAt) / 1_000
  }
  console.log(
    `bare COPY of request, detail and usage: ${seconds.toFixed(1)} s, ${Math.round(OUTCOMES / seconds)} outcomes/s`,
  )
  await sql`drop schema bare cascade`
  await sql.end({ timeout: 1 })
  rmSync(folder, { recursive: true, force: true })
}

const dataDir = mkdtempSync(join(tmpdir(), 'gatelog-rebuild-'))
const postgres = startEmbeddedPostgres({ dataDir, diagnostics: silent })
let fine = true
try {
  await Promise.all([writeLog(dataDir), postgres.whenReady])
  console.log(`${OUTCOMES} outcomes written in ${(performance.now() / 1_000).toFixed(1)} s`)
  const tell = (what: string, { seconds, peakMiB, ownSeconds }: Step) =>
    console.log(
      `${what}: ${seconds.toFixed(1)} s, ${Math.round(OUTCOMES / seconds)} outcomes/s (aim ` +
        `${AIM}), peak ${peakMiB} MiB, ${ownSeconds.toFixed(1)} s of processor`,
    )
  const first = await step('worker', dataDir, postgres.url)
  tell('worker', first)
  await closeAll(dataDir, postgres.url)
  const before = await tablesOf(postgres.url)
  await dropAll(postgres.url)
  const again = await step('rebuild', dataDir, postgres.url)
  tell('rebuild', again)
  await closeAll(dataDir, postgres.url)
  const after = await tablesOf(postgres.url)
  for (const [table, figures] of after) {
    const equal = before.get(table) === figures
    fine &&= equal
    console.log(`${equal ? 'equal ' : 'DIFFERS'} ${table}: ${figures}${equal ? '' : `, before ${before.get(table)}`}`)
  }
  await bareCopy(postgres.url)
  fine &&= before.size === after.size && OUTCOMES / again.seconds >= AIM
} finally {
  await postgres.stop()
  rmSync(dataDir, { recursive: true, force: true })
}
process.exit(fine ? 0 : 1)
