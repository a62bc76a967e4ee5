// R33: two instances on Kafka are restarted one after the other, again and again, under a load balancer that follows
// `/ready` every second, at 200 requests a second. Clients retry a refused connection and nothing else.
// `bun tests/faults/gateway/rolling-restart.ts [--requests 10000] [--rate 200]`
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { initTopics, kafkaSettings } from '../../services/cluster.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { startPostgres } from '../../services/postgres.ts'
import { conclude, numberArgument } from '../control/figures.ts'

const REQUESTS = numberArgument('requests', 10_000)
const RATE = numberArgument('rate', 200)
const LOOK_MS = 1_000
const ANSWER_MS = 30_000
const START_MS = 60_000
/** Each instance serves its share for so long before the other one is restarted. */
const BETWEEN_MS = 3_000
/** So few restarts would prove little. */
const LEAST_RESTARTS = Math.max(1, Math.floor(REQUESTS / RATE / 20))

/** Sends to the instances whose `/ready` was 200 when it last looked, in turn. */
const balance = (gateways: readonly GatewayProcess[]) => {
  const ready = new Set<GatewayProcess>()
  const look = async (gateway: GatewayProcess): Promise<void> => {
    const answer = await gateway.request('/ready', { signal: AbortSignal.timeout(LOOK_MS) }).catch(() => null)
    await answer?.text().catch(() => '')
    if (answer?.status === 200) ready.add(gateway)
    else ready.delete(gateway)
  }
  const timer = setInterval(() => {
    for (const gateway of gateways) void look(gateway)
  }, LOOK_MS)
  let next = 0
  return {
    isReady: (gateway: GatewayProcess) => ready.has(gateway),
    /** The next instance; one that is not ready only when none is. */
    choose(): GatewayProcess {
      const among = gateways.filter((each) => ready.has(each))
      const from = among.length > 0 ? among : gateways
      return from[next++ % from.length]!
    },
    stop: () => clearInterval(timer),
  }
}

interface Tally {
  answered: number
  refusedConnections: number
  slowestMs: number
  /** What went wrong -> how often. */
  readonly failures: Map<string, number>
}

const isRefused = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ConnectionRefused' || error.code === 'ECONNREFUSED')

/** One completion, every other one a stream. Throws what a client would report. */
const complete = async (gateway: GatewayProcess, n: number): Promise<void> => {
  const stream = n % 2 === 1
  const body = { model: 'sandbox-echo', stream, messages: [{ role: 'user', content: `request ${n}` }] }
  const answer = await gateway.request('/v1/chat/completions', { body, signal: AbortSignal.timeout(ANSWER_MS) })
  const text = await answer.text()
  if (answer.status !== 200) throw new Error(`${answer.status} ${text.slice(0, 120)}`)
  if (!text.includes(stream ? 'data: [DONE]' : `request ${n}`)) throw new Error('cut off')
}

const send = async (balancer: ReturnType<typeof balance>, n: number, tally: Tally): Promise<void> => {
  const sentMs = performance.now()
  for (let tries = 0; ; tries++) {
    try {
      await complete(balancer.choose(), n)
      tally.answered++
      tally.slowestMs = Math.max(tally.slowestMs, performance.now() - sentMs)
      return
    } catch (error) {
      if (isRefused(error) && tries < 10) {
        tally.refusedConnections++
        continue
      }
      const what = error instanceof Error ? error.message : String(error)
      tally.failures.set(what, (tally.failures.get(what) ?? 0) + 1)
      return
    }
  }
}

const untilBalanced = async (balancer: ReturnType<typeof balance>, gateway: GatewayProcess): Promise<void> => {
  const untilMs = performance.now() + START_MS
  while (!balancer.isReady(gateway)) {
    if (performance.now() > untilMs) throw new Error(`not ready:\n${gateway.output().slice(-2_000)}`)
    await Bun.sleep(50)
  }
}

const folder = mkdtempSync(join(tmpdir(), 'gatelog-restarts-'))
const kafka = await startKafka({ brokers: 1, dataDir: join(folder, 'kafka') })
const postgres = await startPostgres()
const settings = {
  ...kafkaSettings(kafka.bootstrap),
  database: { url: postgres.url },
  // As it is by default: an instance that is late refuses requests, which is part of what is shown here.
  server: { max_event_loop_delay: '200ms' },
}
await initTopics(settings, folder)
const gateways = [1, 2].map(() => startGateway({ settings, env: { GATEWAY_SERVER_SHUTDOWN_GRACE: '' } }))
const balancer = balance(gateways)
const tally: Tally = { answered: 0, refusedConnections: 0, slowestMs: 0, failures: new Map() }
let restarts = 0
let exits = ''
try {
  for (const gateway of gateways) await untilBalanced(balancer, gateway)
  let isSending = true
  const rolling = (async () => {
    for (let turn = 0; isSending; turn++) {
      await Bun.sleep(BETWEEN_MS)
      if (!isSending) return
      const gateway = gateways[turn % gateways.length]!
      exits += `${await gateway.end('SIGTERM')} `
      gateway.start()
      await untilBalanced(balancer, gateway)
      restarts++
    }
  })()
  const startedMs = performance.now()
  const sent: Promise<void>[] = []
  while (sent.length < REQUESTS) {
    const due = Math.min(REQUESTS, Math.floor(((performance.now() - startedMs) / 1_000) * RATE))
    while (sent.length < due) sent.push(send(balancer, sent.length, tally))
    await Bun.sleep(2)
  }
  await Promise.all(sent)
  isSending = false
  await rolling
} finally {
  balancer.stop()
  await Promise.all(gateways.map((gateway) => gateway.remove()))
  await postgres.remove()
  await kafka.stop()
  rmSync(folder, { recursive: true, force: true })
}
const failed = [...tally.failures.values()].reduce((sum, count) => sum + count, 0)
const failures = [...tally.failures].map(([what, count]) => `${what}: ${count}`).join(', ')
conclude([
  {
    row: 'R33',
    what: `restarted one after the other ${restarts} times at ${RATE} requests/s, exits ${exits.trim()}`,
    figure:
      `failed ${failed} of ${REQUESTS.toLocaleString('en')}${failures === '' ? '' : ` (${failures})`}, ` +
      `refused connections ${tally.refusedConnections}, slowest ${Math.round(tally.slowestMs)} ms`,
    n: REQUESTS,
    good: failed === 0 && tally.answered === REQUESTS && restarts >= LEAST_RESTARTS && /^(0 )+$/.test(exits),
  },
])
