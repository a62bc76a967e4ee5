// What the rows of the rig share: a broker with a proxy before it, gateways on it, and lines that report whether
// inference went on.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../infra/kafka/kafka.ts'
import { initTopics, kafkaSettings } from '../services/cluster.ts'
import { freePort, type GatewayOptions, type GatewayProcess, startGateway } from '../services/gateway.ts'
import { startTcpProxy } from '../services/tcp-proxy.ts'
import { type Oracle, percentiles } from './oracle.ts'

/** Settings of a gateway that never refuses because of load. Behaviour under too much load is row R28's. */
export const WITHOUT_LOAD_GATE = { server: { max_event_loop_delay: 'off' } }

/** Settings of a gateway that does nothing by itself: every request to a provider is one of the rig's. */
export const UNDISTURBED = { ...WITHOUT_LOAD_GATE, worker: { enabled: false }, health: { probe_interval: 'off' } }

/** One broker: gateways reach it through the proxy, what looks at the log directly. */
export const openBroker = async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-rig-'))
  const proxy = await startTcpProxy()
  const port = freePort()
  proxy.to = port
  const kafka = await startKafka({
    brokers: 1,
    dataDir: join(folder, 'kafka'),
    second: { port, advertised: proxy.port },
  })
  await initTopics(kafkaSettings(kafka.bootstrap), folder)
  const settings = kafkaSettings([`127.0.0.1:${proxy.port}`])
  return {
    kafka,
    proxy,
    folder,
    direct: kafka.bootstrap,
    /** Without a worker, unless its settings define one: the row reads the topic. */
    gateway: (options: GatewayOptions = {}): GatewayProcess =>
      startGateway({
        ...options,
        settings: { ...settings, ...WITHOUT_LOAD_GATE, worker: { enabled: false }, ...options.settings },
      }),
    async remove() {
      await proxy.stop()
      await kafka.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export const failedOf = (oracle: Oracle): number => [...oracle.failures.values()].reduce((sum, count) => sum + count, 0)

export const failuresText = (oracle: Oracle): string =>
  [...oracle.failures].map(([what, count]) => `${what} ${count}`).join(', ') || 'none'

/** How long the requests sent in between waited for their first byte. The oracle has stopped. */
export const waitsBetween = (oracle: Oracle, fromMs: number, toMs: number) => {
  const sent = [...oracle.seen.values()].filter(({ sentMs }) => sentMs >= fromMs && sentMs < toMs)
  return { ...percentiles(sent.map(({ sentMs, firstByteMs }) => firstByteMs - sentMs)), n: sent.length }
}

/** Milliseconds until the tables hold so many requests; Infinity when they do not within the limit. */
export const untilRows = async (gateway: GatewayProcess, since: Date, n: number, limitMs: number): Promise<number> => {
  const startedMs = performance.now()
  for (let tookMs = 0; tookMs < limitMs; tookMs = performance.now() - startedMs) {
    const answer = await gateway.request(`/admin/v1/requests?from=${since.toISOString()}&limit=1`)
    const { total } = (await answer.json()) as { total?: number }
    if (answer.ok && total !== undefined && total >= n) return performance.now() - startedMs
    await Bun.sleep(100)
  }
  return Number.POSITIVE_INFINITY
}

export const rssMb = (pid: number): number =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1_024

/** Calls `/health` repeatedly: the longest time that the serving thread was blocked, as a client sees it. */
export const watchPulse = (gateway: GatewayProcess): { stop(): Promise<number> } => {
  let running = true
  let longestMs = 0
  const asking = (async () => {
    while (running) {
      const startedMs = performance.now()
      const answer = await gateway.request('/health', { signal: AbortSignal.timeout(20_000) }).catch(() => null)
      await answer?.text()
      longestMs = Math.max(longestMs, performance.now() - startedMs)
      await Bun.sleep(20)
    }
  })()
  return {
    async stop() {
      running = false
      await asking
      return longestMs
    },
  }
}
