// Measures how far the read models are behind at 2,000 requests a second, and what the worker costs the hot path:
// gateways with and without worker and Postgres in turn. Load, upstream, gateway, worker and embedded Postgres share
// all cores of the machine.
// `bun tests/bench/rebuild/lag.ts [requests a second] [seconds] [rounds]`. Lag is measured for each outcome, from its
// settlement to the commit that shows it.
import { readdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { embeddedPostgresUrl } from '../../../src/upkeep/postgres/embedded-postgres.ts'
import { openSql } from '../../projections/support.ts'
import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, INFERENCE_KEY, startGateway } from '../../services/gateway.ts'
import { benchJob, cpuSeconds, type LoadProcess, median, startLoad } from '../contenders.ts'
import type { LoadResult } from '../load.ts'

const AIM_LAG_MS = 1_000
const WARM_UP_MS = 3_000
const CONNECTIONS = 64
const [perSecond = 2_000, seconds = 20, rounds = 3] = process.argv.slice(2).map(Number)

interface Lag {
  readonly outcomes: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

interface Round extends LoadResult {
  readonly lag: Lag | null
  /** Processor time of gateway, worker and Postgres as a share of one core. */
  readonly cores: readonly [gateway: number, worker: number, postgres: number]
}

const start = (upstreamPort: number, withWorker: boolean): GatewayProcess =>
  startGateway({
    settings: {
      ...(withWorker ? {} : { worker: { enabled: false }, database: { url: 'postgres://nobody@127.0.0.1:1/none' } }),
      bootstrap: {
        providers: [{ name: 'bench', kind: 'openai_compatible', base_url: `http://127.0.0.1:${upstreamPort}/v1` }],
        models: [{ name: 'bench-model', provider: 'bench', input_cost_per_million: 1, output_cost_per_million: 2 }],
      },
    },
    env: { NODE_ENV: 'production' },
  })

/** Postgres then knows of each row when it was committed. */
const withCommitTimes = async (gateway: GatewayProcess): Promise<void> => {
  const sql = openSql(embeddedPostgresUrl(join(gateway.folder, 'data'))!)
  await sql`alter system set track_commit_timestamp = on`
  await sql.end({ timeout: 1 })
  await gateway.end()
  gateway.start()
  await gateway.until('ready')
}

/** Live processes by what stands in their command line, this gateway's. */
const pidsOf = (gateway: GatewayProcess) => {
  const parentOf = (pid: number) => Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[1])
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const below: number[] = [gateway.pid]
  // A child's number may be the lower one: until nothing is added.
  for (let before = 0; before !== below.length; ) {
    before = below.length
    for (const pid of all.map(Number)) {
      try {
        if (!below.includes(pid) && below.includes(parentOf(pid))) below.push(pid)
      } catch {
        // The process has ended in the meantime.
      }
    }
  }
  const command = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
  const rest = below.slice(1)
  const worker = rest.filter((pid) => command(pid).includes(' worker '))
  return { gateway: [gateway.pid], worker, postgres: rest.filter((pid) => command(pid).includes('postgres')) }
}

const usedBy = (pids: readonly number[]): number =>
  pids.reduce((sum, pid) => {
    try {
      return sum + cpuSeconds(pid)
    } catch {
      return sum // it has ended
    }
  }, 0)

const lagSince = async (gateway: GatewayProcess, sinceMs: number, expected: number): Promise<Lag> => {
  const sql = openSql(embeddedPostgresUrl(join(gateway.folder, 'data'))!)
  const [{ name } = { name: '' }] = await sql<{ name: string }[]>`
    select schema_name as name from gatelog.build where model = 'requests' and state = 'active'`
  const rows = () => sql<{ lag: number }[]>`
    select (extract(epoch from pg_xact_commit_timestamp(xmin)) * 1000)::float8 - (at_ms + latency_ms) as lag
    from ${sql(`${name}.request`)} where at_ms >= ${sinceMs} and purpose is null order by 1`
  const lags = (
    await eventually('every outcome is visible', async () => {
      const found = await rows()
      return found.length >= expected ? found : null
    })
  ).map(({ lag }) => lag)
  await sql.end({ timeout: 1 })
  const at = (share: number) => lags[Math.min(lags.length - 1, Math.floor(lags.length * share))]!
  return { outcomes: lags.length, p50Ms: at(0.5), p99Ms: at(0.99), maxMs: lags.at(-1)! }
}

const measure = async (load: LoadProcess, withWorker: boolean): Promise<Round> => {
  const gateway = start(load.upstreamPort, withWorker)
  try {
    await gateway.until(withWorker ? 'ready' : 'serving')
    if (withWorker) await withCommitTimes(gateway)
    const contender = { port: Number(new URL(gateway.url).port), headers: { Authorization: `Bearer ${INFERENCE_KEY}` } }
    const job = (durationMs: number) => ({ ...benchJob(contender, 'json', CONNECTIONS, durationMs), perSecond })
    await load.run(job(WARM_UP_MS))
    const pids = pidsOf(gateway)
    const groups = [pids.gateway, pids.worker, pids.postgres] as const
    const before = groups.map(usedBy)
    const sinceMs = Date.now()
    const result = await load.run(job(seconds * 1_000))
    const cores = groups.map((group, at) => (usedBy(group) - before[at]!) / result.seconds)
    const lag = withWorker ? await lagSince(gateway, sinceMs, result.requests) : null
    return { ...result, lag, cores: cores as [number, number, number] }
  } finally {
    await gateway.remove()
  }
}

const load = await startLoad(null)
const found: Record<'without' | 'with', Round[]> = { without: [], with: [] }
for (let round = 0; round < rounds; round++) {
  found.without.push(await measure(load, false))
  found.with.push(await measure(load, true))
}
await load.stop()

console.log(
  `machine: ${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, Bun ${Bun.version}; ${perSecond} ` +
    `requests/s, ${rounds} rounds of ${seconds} s each way, medians of the rounds`,
)
console.log('| | requests/s | failed | p50 us | p99 us | gateway, worker, Postgres: cores |')
console.log('|---|---|---|---|---|---|')
for (const [name, each] of Object.entries(found)) {
  const middle = (pick: (round: Round) => number) => median(each.map(pick))
  const cores = [0, 1, 2].map((at) => middle(({ cores }) => cores[at]!).toFixed(2)).join(', ')
  console.log(
    `| ${name} the worker | ` +
      `${Math.round(middle(({ requests, seconds: took }) => requests / took))} | ` +
      `${each.reduce((sum, { failed }) => sum + failed, 0)} | ${middle(({ p50Us }) => p50Us)} | ` +
      `${middle(({ p99Us }) => p99Us)} | ${cores} |`,
  )
}
let missed = false
for (const { lag } of found.with) {
  if (lag === null) continue
  console.log(
    `lag from settlement to commit: p50 ${lag.p50Ms.toFixed(0)}, p99 ${lag.p99Ms.toFixed(0)}, max ` +
      `${lag.maxMs.toFixed(0)} ms (N ${lag.outcomes}; aim: p99 under ${AIM_LAG_MS} ms)`,
  )
  if (lag.p99Ms >= AIM_LAG_MS) missed = true
}
process.exit(missed ? 1 : 0)
