// R13: Postgres is stopped under load. Inference goes on, /ready is 503, analytics reads give the envelope; afterwards the tables are complete.

import { startGateway } from '../services/gateway.ts'
import { startPostgres } from '../services/postgres.ts'
import { compare, settledRows, startOracle } from './oracle.ts'

const OUTAGE_MS = Number(process.argv[2] ?? 20) * 1_000

const since = new Date(Date.now() - 1_000)
const postgres = await startPostgres()
const gateway = startGateway({ settings: { database: { url: postgres.url } } })
await gateway.until('ready')
const oracle = startOracle(() => gateway, 8, 'sandbox-echo')
await Bun.sleep(3_000)
const sentBefore = oracle.sent.size
await postgres.stop()
const stoppedAt = performance.now()
const seen = { ready: new Map<number, number>(), reads: new Map<string, number>() }
let slowestReadMs = 0
while (performance.now() - stoppedAt < OUTAGE_MS) {
  const ready = await gateway.request('/ready')
  await ready.text()
  seen.ready.set(ready.status, (seen.ready.get(ready.status) ?? 0) + 1)
  const startedAt = performance.now()
  const read = await gateway.request('/admin/v1/requests')
  slowestReadMs = Math.max(slowestReadMs, performance.now() - startedAt)
  const body = (await read.json()) as { error?: { code: string; message: string }; gateway?: unknown }
  const what = `${read.status} ${body.error?.code ?? 'no envelope'}`
  seen.reads.set(what, (seen.reads.get(what) ?? 0) + 1)
  await Bun.sleep(500)
}
const sentDuring = oracle.sent.size - sentBefore
await postgres.start()
await gateway.until('ready', 120_000)
await oracle.stop()
const rows = await settledRows(gateway, since, oracle.complete.size)
const { lost, doubled } = compare(oracle, rows)
const failed = [...oracle.failures.values()].reduce((sum, count) => sum + count, 0)
console.log(
  `Postgres stopped for ${OUTAGE_MS / 1000} s: ${sentDuring} requests sent meanwhile, failed in the whole run ${failed} of ${oracle.sent.size}`,
)
console.log(
  `/ready meanwhile: ${JSON.stringify(Object.fromEntries(seen.ready))}; reads: ${JSON.stringify(Object.fromEntries(seen.reads))}, slowest ${slowestReadMs.toFixed(0)} ms`,
)
console.log(`tables afterwards: missing ${lost} of ${oracle.complete.size}, doubled ${doubled} of ${rows.length}`)
await gateway.remove()
await postgres.remove()
const isRetryable = [...seen.reads.keys()].every((what) => what === '502 upstream_error')
const isNotReady = [...seen.ready.keys()].join() === '503'
const isComplete = oracle.complete.size > 0 && lost === 0 && doubled === 0
process.exit(failed === 0 && isComplete && isRetryable && isNotReady ? 0 : 1)
