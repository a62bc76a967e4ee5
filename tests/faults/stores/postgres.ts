// R13: Postgres is stopped under load: `bun tests/faults/stores/postgres.ts [seconds]`.
// Inference goes on, /ready is 503, analytics reads answer with the envelope; afterwards the tables are complete.
import { startGateway } from '../../services/gateway.ts'
import { startPostgres } from '../../services/postgres.ts'
import { conclude } from '../control/figures.ts'
import { compare, settledRows, startOracle } from '../oracle.ts'
import { failedOf, failuresText, untilRows, WITHOUT_LOAD_GATE } from '../rig.ts'

const OUTAGE_MS = Number(process.argv[2] ?? 20) * 1_000

const since = new Date(Date.now() - 1_000)
const postgres = await startPostgres()
const gateway = startGateway({ settings: { ...WITHOUT_LOAD_GATE, database: { url: postgres.url } } })
await gateway.until('ready')
const oracle = startOracle(() => gateway, 8, 'sandbox-echo')
await oracle.answered(1_000)
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
const healedMs = performance.now()
await gateway.until('ready', Number.POSITIVE_INFINITY)
const readyS = (performance.now() - healedMs) / 1_000
await oracle.stop()
const tookMs = await untilRows(gateway, since, oracle.complete.size, 120_000)
const caughtUpS = Number.isFinite(tookMs) ? (performance.now() - healedMs) / 1_000 : tookMs
const rows = await settledRows(gateway, since, oracle.complete.size)
const { lost, doubled, otherTokens } = compare(oracle, rows)
const failed = failedOf(oracle)
await gateway.remove()
await postgres.remove()
const isTold = [...seen.reads.keys()].every((what) => what === '502 upstream_error')
const isNotReady = [...seen.ready.keys()].join() === '503'
conclude([
  {
    row: 'R13',
    what: `Postgres stopped for ${OUTAGE_MS / 1_000} s`,
    figure:
      `inference failed ${failed} of ${oracle.sent.size} (${sentDuring} sent meanwhile; ` +
      `${failuresText(oracle)}); /ready ${JSON.stringify(Object.fromEntries(seen.ready))}, ` +
      `reads ${JSON.stringify(Object.fromEntries(seen.reads))}, slowest ${slowestReadMs.toFixed(0)} ms; missing ` +
      `${lost} of ${oracle.complete.size}, doubled ${doubled} of ${rows.length}, other tokens ${otherTokens}; ` +
      `ready again ${readyS.toFixed(1)} s after its start, caught up ${caughtUpS.toFixed(1)} s after`,
    n: oracle.complete.size,
    good:
      failed + lost + doubled + otherTokens === 0 &&
      oracle.complete.size > 0 &&
      isTold &&
      isNotReady &&
      Number.isFinite(caughtUpS),
  },
])
