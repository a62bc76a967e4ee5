// R4 and R5: SIGTERM with streams in flight, over Kafka. Streams that fit into the drain end normally, the others with
// an error frame and `[DONE]`. Idle connections are closed. Outcomes are shipped or, with the broker away, kept and
// shipped by the next start. The exit code is 0 within the deadline.
// `bun tests/faults/gateway/shutdown.ts [streams] [rounds] [drain, seconds]`
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../../infra/kafka/kafka.ts'
import type { RequestSettled } from '../../../src/domain/events/request.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import { kafkaLog } from '../../../src/log/kafka/log.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { initTopics, kafkaSettings, NO_READ_MODELS } from '../../services/cluster.ts'
import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'

const STREAMS = Number(process.argv[2] ?? 200)
const ROUNDS = Number(process.argv[3] ?? 5)
const IDLE = 100
const DRAIN_S = Number(process.argv[4] ?? 5)
/** Beyond the drain: what is left is ended and settled (2 s), the last shipment (2 s), everything is closed. */
const BEYOND_S = 10
/** Half of the drain for what is short, twice the drain for what is long. */
const SLOW = `sandbox-slow-${10 * DRAIN_S}`
const SHORT_WORDS = 50
const LONG_WORDS = 199

const folder = mkdtempSync(join(tmpdir(), 'gatelog-shutdown-'))
const kafka = await startKafka({ brokers: 1, dataDir: join(folder, 'kafka') })
const settings = {
  ...kafkaSettings(kafka.bootstrap),
  ...NO_READ_MODELS,
  server: { drain: `${DRAIN_S}s` },
  bootstrap: {
    providers: [{ name: 'sandbox', kind: 'sandbox', models: [{ name: 'sandbox-echo' }, { name: SLOW }] }],
  },
}
await initTopics(settings, folder)
const gateway = startGateway({ settings })
const log = kafkaLog({ brokers: kafka.bootstrap, clientId: 'shutdown-reader' })

/** Outcome of each settled request by its label, as Kafka holds it now. */
const outcomes = async (): Promise<Map<string, string>> => {
  const found = new Map<string, string>()
  for (const partition of await log.partitions(TOPICS.requests.name)) {
    const end = await log.end(TOPICS.requests.name, partition)
    if (end === 0) continue
    const done = new AbortController()
    for await (const batch of log.read(TOPICS.requests.name, partition, 0, done.signal)) {
      for (const { value } of batch) {
        const envelope = value === null ? null : readEnvelope(value)
        if (envelope?.type !== 'request.settled') continue
        const { id, request_id = id, outcome } = envelope.data as RequestSettled
        found.set(request_id, outcome)
      }
      if (batch.at(-1)!.offset + 1 >= end) break
    }
    done.abort()
  }
  return found
}

/** A connection on which one request was answered. Resolves when the server closes it. */
const idle = async (): Promise<{ closed: Promise<void> }> => {
  const answered = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<void>()
  const socket = { data: () => answered.resolve(), close: () => closed.resolve() }
  const connection = await Bun.connect({ hostname: '127.0.0.1', port: Number(new URL(gateway.url).port), socket })
  connection.write('GET /health HTTP/1.1\r\nHost: gw\r\n\r\n')
  await answered.promise
  return { closed: closed.promise }
}

type Ending = 'complete' | 'told' | 'cut'
/** Begins a stream; its ending comes later. */
const stream = async (to: GatewayProcess, label: string, words: number): Promise<{ ended: Promise<Ending> }> => {
  const answer = await to.request('/v1/chat/completions', {
    body: { model: SLOW, stream: true, messages: [{ role: 'user', content: 'word '.repeat(words) }] },
    headers: { 'X-Request-ID': label },
  })
  if (answer.status !== 200) throw new Error(`${label} was answered ${answer.status}: ${await answer.text()}`)
  const ending = async (): Promise<Ending> => {
    const text = await answer.text().catch(() => '')
    if (!text.endsWith('data: [DONE]\n\n')) return 'cut'
    return text.includes('event: error') ? 'told' : 'complete'
  }
  return { ended: ending() }
}

const round = async (name: string, words: number, isBrokerAway: boolean) => {
  await gateway.until('serving', 60_000)
  const labels = Array.from({ length: STREAMS }, (_, i) => `${name}-${i}`)
  const streams = await Promise.all(labels.map((label) => stream(gateway, label, words)))
  const idles = await Promise.all(Array.from({ length: IDLE }, idle))
  if (isBrokerAway) await kafka.broker(0).stop()
  const startedMs = performance.now()
  const code = await gateway.end('SIGTERM')
  const tookS = (performance.now() - startedMs) / 1_000
  const ended = await Promise.all(streams.map((each) => each.ended))
  await Promise.all(idles.map(({ closed }) => closed))
  if (isBrokerAway) await kafka.broker(0).restart()
  const count = (ending: Ending) => ended.filter((each) => each === ending).length
  const atExit = isBrokerAway ? null : await outcomes()
  gateway.start()
  let found = atExit ?? new Map<string, string>()
  await eventually(
    () => `every outcome is in Kafka: ${labels.filter((label) => !found.has(label)).length} are not`,
    async () => {
      found = await outcomes()
      return labels.every((label) => found.has(label))
    },
    { limitMs: 60_000 },
  )
  const shippedAtExit = atExit === null ? null : labels.filter((label) => atExit.has(label)).length
  const shipped = shippedAtExit === null ? 'kept' : `${shippedAtExit} shipped at the exit`
  const kinds = Map.groupBy(labels, (label) => found.get(label)!)
  console.log(
    `${name}: exit ${code} after ${tookS.toFixed(1)} s (drain ${DRAIN_S} s); ` +
      `complete ${count('complete')}, told ${count('told')}, ` +
      `silently cut ${count('cut')} of ${STREAMS}; idle connections closed ${idles.length}; outcomes ${shipped}, ` +
      `in the end ${[...kinds].map(([kind, those]) => `${kind} ${those.length}`).join(', ')}`,
  )
  // Streams that fit into the drain end as without a shutdown.
  const fitsWell = words > SHORT_WORDS || (count('complete') === STREAMS && shippedAtExit === STREAMS)
  if (code !== 0 || tookS > DRAIN_S + BEYOND_S || count('cut') > 0 || !fitsWell) process.exitCode = 1
}

try {
  for (let i = 0; i < ROUNDS; i++) {
    await round(`short-${i}`, SHORT_WORDS, false)
    await round(`long-${i}`, LONG_WORDS, false)
    await round(`away-${i}`, LONG_WORDS, true)
  }
} finally {
  await log.close()
  await gateway.remove()
  await kafka.stop()
  rmSync(folder, { recursive: true, force: true })
}
process.exit()
