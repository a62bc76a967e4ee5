// R14: Postgres is 200 ms away, then another session locks its tables: `bun tests/faults/stores/postgres-slow.ts
// [--seconds 20]`.
// Inference is not affected; afterwards the request log is complete.
import { openDatabase } from '../../../projections/database.ts'
import { startGateway } from '../../services/gateway.ts'
import { socketOf, startPostgres, throughPort } from '../../services/postgres.ts'
import { startTcpProxy } from '../../services/tcp-proxy.ts'
import { conclude, numberArgument } from '../control/figures.ts'
import { compare, percentiles, settledRows, startOracle } from '../oracle.ts'
import { failedOf, failuresText, WITHOUT_LOAD_GATE } from '../rig.ts'

const SECONDS = numberArgument('seconds', 20)
const AWAY_MS = 200
const CLIENTS = 4
const EVERY_MS = 40

const since = new Date(Date.now() - 1_000)
const postgres = await startPostgres()
const proxy = await startTcpProxy()
proxy.to = socketOf(postgres.url)
const near = throughPort(postgres.url, proxy.port)
const gateway = startGateway({ settings: { ...WITHOUT_LOAD_GATE, database: { url: near } } })
await gateway.until('ready', 60_000)
const oracle = startOracle(() => gateway, CLIENTS, 'sandbox-echo', EVERY_MS)
const marks: { name: string; fromMs: number; toMs: number }[] = []
const during = async (name: string, work: () => Promise<void>) => {
  const fromMs = performance.now()
  await work()
  marks.push({ name, fromMs, toMs: performance.now() })
}
const pass = () => Bun.sleep(SECONDS * 1_000)

await during('well', pass)
proxy.delayMs = AWAY_MS
await during(`${AWAY_MS} ms away`, pass)
proxy.delayMs = 0
const other = openDatabase({ url: postgres.url, name: 'somebody', maxConnections: 1, statementTimeoutMs: null })
const tables = await other<{ name: string }[]>`
  select format('%I.%I', schemaname, tablename) as name from pg_tables
  where tablename = 'request' and schemaname not in ('pg_catalog', 'information_schema')`
await during('locked', async () => {
  await other.begin(async (sql) => {
    for (const { name } of tables) await sql.unsafe(`lock table ${name} in access exclusive mode`)
    await pass()
  })
})
await other.end({ timeout: 1 })
await oracle.stop()
const rows = await settledRows(gateway, since, oracle.complete.size)
const { lost, doubled, otherTokens } = compare(oracle, rows)
const waits = marks.map(({ name, fromMs, toMs }) => {
  const seen = [...oracle.seen.values()].filter(({ sentMs }) => sentMs >= fromMs && sentMs < toMs)
  return { name, p99: percentiles(seen.map(({ sentMs, firstByteMs }) => firstByteMs - sentMs)).p99, n: seen.length }
})
await gateway.remove()
await proxy.stop()
await postgres.remove()
conclude([
  {
    row: 'R14',
    what:
      `Postgres ${AWAY_MS} ms away for ${SECONDS} s, then ${tables.length} tables of ` +
      `requests locked by another session for ${SECONDS} s`,
    figure:
      `inference failed ${failedOf(oracle)} of ${oracle.sent.size} (${failuresText(oracle)}); first byte p99 ` +
      `${waits.map(({ name, p99, n }) => `${name} ${p99.toFixed(0)} ms (N ${n})`).join(', ')}; ` +
      `afterwards missing ${lost} of ${oracle.complete.size}, doubled ${doubled}, other tokens ${otherTokens}`,
    n: oracle.complete.size,
    good: failedOf(oracle) + lost + doubled + otherTokens === 0 && tables.length > 0 && oracle.complete.size > 0,
  },
])
