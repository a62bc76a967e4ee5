// R7: the broker is stopped for a minute under load: `bun tests/faults/brokers/broker.ts [seconds]`.
// Inference must not be affected. Admin writes answer 504 within 5 s and are never carried out later. Afterwards every
// outcome is in Kafka once.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { initTopics, kafkaSettings } from '../../services/cluster.ts'
import { startGateway } from '../../services/gateway.ts'
import { conclude } from '../control/figures.ts'
import { percentiles, startOracle } from '../oracle.ts'
import { failedOf, failuresText, WITHOUT_LOAD_GATE, waitsBetween } from '../rig.ts'
import { settledInKafka } from '../settled.ts'
import { strainText, watchStrain } from '../watch.ts'

const OUTAGE_MS = Number(process.argv[2] ?? 60) * 1_000
const CLIENTS = 8
/**
 * Pause between requests of one client. The row compares latencies with and without the broker, so the machine must not
 * be saturated in either case.
 */
const EVERY_MS = 20
const MOST_WRITE_MS = 5_500
/** What the first byte may take longer, p99, on a machine that stops a broker at the same time. */
const MOST_ADDED_MS = 50

const folder = mkdtempSync(join(tmpdir(), 'gatelog-broker-'))
const kafka = await startKafka({ brokers: 1, dataDir: join(folder, 'kafka') })
const settings = kafkaSettings(kafka.bootstrap)
await initTopics(settings, folder)
const gateway = startGateway({ settings: { ...settings, ...WITHOUT_LOAD_GATE, worker: { enabled: false } } })
await gateway.until('serving', 60_000)
const warming = startOracle(() => gateway, CLIENTS, 'sandbox-echo', EVERY_MS)
await Bun.sleep(5_000)
await warming.stop()
const oracle = startOracle(() => gateway, CLIENTS, 'sandbox-echo', EVERY_MS)
const begunMs = performance.now()
await Bun.sleep(10_000)
const strain = watchStrain(gateway)
const sentBefore = oracle.sent.size
const stoppedMs = performance.now()
await kafka.broker(0).stop()
const writes: { readonly status: number; readonly ms: number }[] = []
while (performance.now() - stoppedMs < OUTAGE_MS) {
  const startedMs = performance.now()
  const body = { slug: `outage-${writes.length}`, name: 'sent while the broker was down' }
  const answer = await gateway.request('/admin/v1/tenants', { body })
  await answer.text()
  writes.push({ status: answer.status, ms: performance.now() - startedMs })
  await Bun.sleep(500)
}
const sentMeanwhile = oracle.sent.size - sentBefore
const healedMs = performance.now()
const seen = await strain.stop()
await kafka.broker(0).restart()
await oracle.answered(500)
await oracle.stop()
const settled = await settledInKafka(kafka.bootstrap, oracle)
const caughtUpS = (performance.now() - healedMs) / 1_000
const { tenants } = (await (await gateway.request('/admin/v1/tenants?limit=1000')).json()) as {
  tenants: { slug: string }[]
}
const late = tenants.filter(({ slug }) => slug.startsWith('outage-')).length
const failed = failedOf(oracle)
const times = percentiles(writes.map(({ ms }) => ms))
const refused = writes.filter(({ status }) => status === 504).length
const [before, meanwhile] = [waitsBetween(oracle, begunMs, stoppedMs), waitsBetween(oracle, stoppedMs, healedMs)]
const addedMs = meanwhile.p99 - before.p99
const { lost, doubled, otherTokens, outcomes, repeats, records } = settled
await gateway.remove()
await kafka.stop()
rmSync(folder, { recursive: true, force: true })
conclude([
  {
    row: 'R7',
    what: `the broker stopped for ${OUTAGE_MS / 1_000} s`,
    figure:
      `inference failed ${failed} of ${oracle.sent.size} (${sentMeanwhile} sent meanwhile; ` +
      `${failuresText(oracle)}); first byte p99 ${before.p99.toFixed(1)} ms before, ` +
      `${meanwhile.p99.toFixed(1)} meanwhile, delta ${addedMs.toFixed(1)}; ` +
      `admin writes 504 ${refused} of ${writes.length}, p50 ${times.p50.toFixed(0)}, max ` +
      `${times.max.toFixed(0)} ms, carried out afterwards ${late}; ` +
      `spool at most ${seen.spoolPeakMb.toFixed(1)} MB; ${strainText(seen)}; lost ${lost} of ` +
      `${oracle.complete.size}, doubled ${doubled} of ${outcomes}, other tokens ${otherTokens}, ` +
      `repeats dropped by id ${repeats} of ${records}; ` +
      `caught up ${caughtUpS.toFixed(1)} s after the restart began`,
    n: oracle.complete.size,
    good:
      failed + late + lost + doubled + otherTokens === 0 &&
      oracle.complete.size > 0 &&
      writes.length > 0 &&
      refused === writes.length &&
      times.max < MOST_WRITE_MS &&
      seen.spoolPeakMb > 0 &&
      addedMs < MOST_ADDED_MS,
  },
])
