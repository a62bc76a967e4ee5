// An instance loses contact with the broker while another one goes on writing. It keeps serving, reports the loss in
// /ready, and catches up when the broker's answers reach it again.
// `bun tests/faults/control/behind.ts [--times 3]`: two gateways on a real broker, one of them behind a proxy that
// drops the broker's answers.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { initTopics, kafkaSettings } from '../../services/cluster.ts'
import { freePort, type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { startTcpProxy } from '../../services/tcp-proxy.ts'
import { percentiles } from '../oracle.ts'
import { conclude, type Figure, numberArgument } from './figures.ts'

/** An instance that has not confirmed the log's end for 10 s is degraded; the end is confirmed every 2 s. */
const TOLD_WITHIN_MS = 15_000
const BACK_WITHIN_MS = 15_000

const controlOf = async (gateway: GatewayProcess): Promise<string> => {
  const body = (await (await gateway.request('/ready')).json()) as { checks: { control: string } }
  return body.checks.control
}

/**
 * Milliseconds until the condition holds; infinite when it does not within the time. Inference requests go on
 * meanwhile.
 */
const until = async (
  gateway: GatewayProcess,
  limitMs: number,
  tally: { asked: number; failed: number },
  holds: (control: string) => boolean,
) => {
  const startedAt = performance.now()
  const body = { model: 'sandbox-echo', messages: [{ role: 'user', content: 'Hello' }] }
  while (performance.now() - startedAt < limitMs) {
    if (holds(await controlOf(gateway))) return performance.now() - startedAt
    const answer = await gateway.request('/v1/chat/completions', { body })
    await answer.arrayBuffer()
    tally.asked++
    if (!answer.ok) tally.failed++
    await Bun.sleep(20)
  }
  return Number.POSITIVE_INFINITY
}

export const behind = async (times: number): Promise<readonly Figure[]> => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-behind-'))
  const proxy = await startTcpProxy()
  proxy.to = freePort()
  const kafka = await startKafka({ dataDir: join(folder, 'kafka'), second: { port: proxy.to, advertised: proxy.port } })
  const more = { worker: { enabled: false } }
  const settings = kafkaSettings(kafka.bootstrap, more)
  await initTopics(settings, folder)
  const near = startGateway({ settings })
  const deaf = startGateway({ settings: kafkaSettings([`127.0.0.1:${proxy.port}`], more) })
  try {
    for (const gateway of [near, deaf]) await gateway.until('serving', 60_000)
    const tally = { asked: 0, failed: 0 }
    const told: number[] = []
    const back: number[] = []
    let missing = 0
    for (let n = 0; n < times; n++) {
      proxy.dropAnswers = true
      const made = await near.request('/admin/v1/tenants', { body: { slug: `behind-${n}`, name: 'Behind' } })
      const revision = made.headers.get('X-Gateway-Revision')!
      told.push(await until(deaf, TOLD_WITHIN_MS, tally, (control) => control.startsWith('degraded: stale')))
      proxy.dropAnswers = false
      proxy.cut()
      back.push(await until(deaf, BACK_WITHIN_MS, tally, (control) => control === 'ok'))
      const seen = await deaf.request('/admin/v1/tenants', { headers: { 'X-Gateway-Min-Revision': revision } })
      if (!seen.ok) missing++
    }
    const [first, second] = [percentiles(told), percentiles(back)]
    const seconds = (ms: number) => (ms / 1_000).toFixed(1)
    const what = 'an instance that no longer hears the broker, while another one writes'
    const figure =
      `said so in /ready after s p50 ${seconds(first.p50)}, max ${seconds(first.max)}; inference failed ` +
      `${tally.failed} of ${tally.asked}; heard again, ok after s p50 ${seconds(second.p50)}, max ` +
      `${seconds(second.max)}; changes that it lacked then ${missing}`
    const good = Number.isFinite(first.max) && Number.isFinite(second.max) && tally.failed === 0 && missing === 0
    return [{ row: 'behind', what, figure, n: times, good }]
  } finally {
    for (const gateway of [near, deaf]) await gateway.remove()
    await kafka.stop()
    await proxy.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) conclude(await behind(numberArgument('times', 3)))
