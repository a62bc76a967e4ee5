// R7: the broker is stopped for a minute under load. Inference must not notice, admin writes answer 504 within 5 s and are never sent afterwards,
// then every outcome is in Kafka once.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../infra/kafka/kafka.ts'
import { readEnvelope } from '../../src/log/envelope.ts'
import { kafkaLog } from '../../src/log/kafka.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { initTopics, kafkaSettings } from '../services/cluster.ts'
import { startGateway } from '../services/gateway.ts'
import { percentiles, startOracle } from './oracle.ts'

const OUTAGE_MS = Number(process.argv[2] ?? 60) * 1_000
const CLIENTS = 8

const folder = mkdtempSync(join(tmpdir(), 'gatelog-broker-'))
const kafka = await startKafka({ brokers: 1, dataDir: join(folder, 'kafka') })
const settings = kafkaSettings(kafka.bootstrap)
await initTopics(settings, folder)
const gateway = startGateway({ settings: { ...settings, worker: { enabled: false } } })
await gateway.until('serving', 60_000)
const oracle = startOracle(() => gateway, CLIENTS, 'sandbox-echo')
await Bun.sleep(5_000)
const before = { sent: oracle.sent.size, complete: oracle.complete.size }

await kafka.broker(0).stop()
const stoppedAt = performance.now()
const answers: { status: number; ms: number }[] = []
let slug = 0
while (performance.now() - stoppedAt < OUTAGE_MS) {
  const startedAt = performance.now()
  const answer = await gateway.request('/admin/v1/tenants', {
    body: { slug: `outage-${slug++}`, name: 'sent while the broker was down' },
  })
  await answer.text()
  answers.push({ status: answer.status, ms: performance.now() - startedAt })
  await Bun.sleep(500)
}
const during = { sent: oracle.sent.size - before.sent, complete: oracle.complete.size - before.complete }
await kafka.broker(0).restart()
const healedAt = performance.now()
await Bun.sleep(3_000)
await oracle.stop()

const log = kafkaLog({ brokers: kafka.bootstrap, clientId: 'fault-reader' })
const settled = new Map<string, number>()
const seen = new Set<string>()
let raw = 0
let repeats = 0
const reading = new AbortController()
const partitions = await log.partitions(TOPICS.requests.name)
const missing = () => [...oracle.complete].filter((id) => !settled.has(id)).length
const readers = partitions.map(async (partition) => {
  for await (const batch of log.read(TOPICS.requests.name, partition, 0, reading.signal)) {
    for (const { value } of batch) {
      const envelope = value === null ? null : readEnvelope(value)
      if (envelope === null || envelope.type !== 'request.settled') continue
      raw++
      if (seen.has(envelope.id)) {
        repeats++
        continue
      }
      seen.add(envelope.id)
      const { request_id } = envelope.data as { request_id: string }
      settled.set(request_id, (settled.get(request_id) ?? 0) + 1)
    }
  }
})
while (missing() > 0 && performance.now() - healedAt < 120_000) await Bun.sleep(200)
const caughtUpMs = performance.now() - healedAt
reading.abort()
await Promise.all(readers)
const tenants = (await (await gateway.request('/admin/v1/tenants?limit=1000')).json()) as {
  tenants: { slug: string }[]
}
const late = tenants.tenants.filter((tenant) => tenant.slug.startsWith('outage-')).length
const failed = [...oracle.failures.values()].reduce((sum, count) => sum + count, 0)
const doubled = [...settled.values()].filter((count) => count > 1).length
const times = percentiles(answers.map(({ ms }) => ms))
const statuses = Object.fromEntries(
  Object.entries(Object.groupBy(answers, ({ status }) => status)).map(([status, of]) => [status, of?.length]),
)

console.log(
  `broker stopped for ${OUTAGE_MS / 1000} s: ${during.sent} requests sent meanwhile, ${during.complete} complete; failed in the whole run ${failed} of ${oracle.sent.size}`,
)
console.log(
  `admin writes meanwhile: ${JSON.stringify(statuses)} of ${answers.length}, ms p50 ${times.p50.toFixed(0)}, max ${times.max.toFixed(0)}; carried out afterwards ${late} of ${answers.length}`,
)
console.log(
  `outcomes in Kafka: lost ${missing()} of ${oracle.complete.size}, doubled ${doubled} of ${settled.size}, raw repeats dropped by id ${repeats} of ${raw}; caught up ${caughtUpMs.toFixed(0)} ms after the restart began`,
)
const good =
  failed === 0 &&
  late === 0 &&
  missing() === 0 &&
  doubled === 0 &&
  answers.every(({ status, ms }) => status === 504 && ms < 5_500)
await log.close()
await gateway.remove()
await kafka.stop()
rmSync(folder, { recursive: true, force: true })
process.exit(good ? 0 : 1)
