// R23: many requests at once for a provider whose address swallows connections: `bun
// tests/faults/upstreams/swallowed.ts [--requests 1000]`.
// The kernel goes on opening each connection that the gateway gave up, for two minutes, so the row counts how many the
// gateway begins, and checks that it serves again when the address answers.
import { startGateway } from '../../services/gateway.ts'
import { startUpstream } from '../../services/upstream.ts'
import { conclude, numberArgument } from '../control/figures.ts'
import { percentiles } from '../oracle.ts'
import { UNDISTURBED } from '../rig.ts'
import { ownDescriptors, socketsTo } from '../watch.ts'
import { startFullListener } from './full-listener.ts'

const REQUESTS = numberArgument('requests', 1_000)
const CONNECT_MS = 600
const LOOK_MS = 20
/** `MOST_OPENING` of the client, and one a second beside those that were given up. */
const MOST_SOCKETS = 256 + 60
const AGAIN_WITHIN_MS = 90_000

const listener = await startFullListener()
const ports = new Set([listener.port])
const gateway = startGateway({
  settings: {
    ...UNDISTURBED,
    bootstrap: {
      providers: [
        {
          ...{ name: 'hung', kind: 'openai_compatible', base_url: `http://127.0.0.1:${listener.port}/v1` },
          models: [{ name: 'hung' }],
        },
      ],
      policies: [
        {
          ...{ name: 'default', retry: { attempts: 0 } },
          timeouts: { connect_ms: CONNECT_MS, first_token_ms: 60_000, stream_idle_ms: 60_000, total_ms: 60_000 },
        },
      ],
    },
  },
})
await gateway.until('serving', 60_000)
const before = ownDescriptors(gateway)
const ask = async (): Promise<{ readonly status: number; readonly tookMs: number }> => {
  const startedMs = performance.now()
  const body = { model: 'hung', messages: [{ role: 'user', content: 'hello' }] }
  const answer = await gateway.request('/v1/chat/completions', { body })
  await answer.text()
  return { status: answer.status, tookMs: performance.now() - startedMs }
}

let most = 0
let running = true
const looking = (async () => {
  while (running) {
    most = Math.max(most, socketsTo(gateway.pid, ports))
    await Bun.sleep(LOOK_MS)
  }
})()
const answers = await Promise.all(Array.from({ length: REQUESTS }, ask))
running = false
await looking
const held = socketsTo(gateway.pid, ports)
const told = answers.filter(({ status }) => status === 504 || status === 502).length
const times = percentiles(answers.map(({ tookMs }) => tookMs))

await listener.stop()
const upstream = startUpstream({ port: listener.port, behaviour: { text: 'Hello again.' } })
const healedMs = performance.now()
let again = 0
while (again !== 200 && performance.now() - healedMs < AGAIN_WITHIN_MS) {
  again = (await ask()).status
  if (again !== 200) await Bun.sleep(100)
}
const againMs = performance.now() - healedMs
const left = socketsTo(gateway.pid, ports)
const after = ownDescriptors(gateway)
await gateway.remove()
await upstream.stop()
conclude([
  {
    row: 'R23',
    what:
      `${REQUESTS.toLocaleString('en')} requests at once for a provider that ` +
      `swallows connections, \`connect_ms\` ${CONNECT_MS}`,
    figure:
      `told ${told} of ${REQUESTS}, p50 ${times.p50.toFixed(0)}, max ${times.max.toFixed(0)} ms; sockets to ` +
      `it at most ${most} (bound ${MOST_SOCKETS}), ${held} when all were told; ` +
      `descriptors ${before} before, ${after} afterwards; served again ${again === 200 ? 'yes' : 'no'}, ` +
      `${(againMs / 1_000).toFixed(1)} s after it answers, sockets to it then ${left}`,
    n: REQUESTS,
    good: told === REQUESTS && most > 0 && most <= MOST_SOCKETS && again === 200,
  },
])
