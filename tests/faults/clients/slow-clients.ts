// R20: 500 connections that are kept open: silent, a head sent byte by byte, a silent body, a body sent byte by byte,
// silent after an answer. Prints how many are open after 30 s (those that were answered may wait for
// `server.idle_timeout`), and the latency of a normal client.
// `bun tests/faults/clients/slow-clients.ts [connections]`
import { type GatewayProcess, INFERENCE_KEY, startGateway } from '../../services/gateway.ts'
import { percentiles } from '../oracle.ts'

const CONNECTIONS = Number(process.argv[2] ?? 500)
const LOOK_MS = 30_000
/** The least that the settings take, plus the ticks of the runtime. */
const IDLE_MS = 38_000
const EVERY_MS = 20

interface Slow {
  readonly kind: string
  /** Sent at once. */
  readonly first: string
  /** Sent every second after that. */
  readonly drip: string
}

const HEAD = `POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${INFERENCE_KEY}\r\n`
const LOGIN = 'POST /admin/v1/auth/login HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\n'
const KINDS: readonly Slow[] = [
  { kind: 'silent', first: '', drip: '' },
  { kind: 'a head that drips', first: `${HEAD}X-A: `, drip: 'a' },
  { kind: 'a silent body', first: `${HEAD}Content-Length: 1000\r\n\r\n{`, drip: '' },
  { kind: 'a body that drips', first: `${HEAD}Content-Length: 1000\r\n\r\n`, drip: ' ' },
  { kind: 'a login whose body drips', first: `${LOGIN}Content-Length: 1000\r\n\r\n`, drip: ' ' },
  { kind: 'answered, then silent', first: 'GET /health HTTP/1.1\r\nHost: gw\r\n\r\n', drip: '' },
  { kind: 'answered, then a head that drips', first: 'GET /health HTTP/1.1\r\nHost: gw\r\n\r\nGET ', drip: '/' },
]

const gateway = startGateway({ settings: { server: { idle_timeout: '30s' }, worker: { enabled: false } } })
await gateway.until('serving', 60_000)

/** How long a normal client waits for an answer, at a fixed pace for so long. */
const goodClient = async (to: GatewayProcess, forMs: number) => {
  const tookMs: number[] = []
  let failed = 0
  for (const startedMs = performance.now(); performance.now() - startedMs < forMs; await Bun.sleep(EVERY_MS)) {
    const sentMs = performance.now()
    const body = { model: 'sandbox-echo', messages: [{ role: 'user', content: 'hello' }] }
    const answer = await to.request('/v1/chat/completions', { body })
    await answer.text()
    if (answer.ok) tookMs.push(performance.now() - sentMs)
    else failed++
  }
  return { ...percentiles(tookMs), failed, asked: tookMs.length + failed }
}

const before = await goodClient(gateway, 10_000)
const open = new Map(KINDS.map(({ kind }) => [kind, 0]))
const hold = async ({ kind, first, drip }: Slow): Promise<void> => {
  const closed = Promise.withResolvers<void>()
  const socket = { data() {}, close: () => closed.resolve(), error: () => closed.resolve() }
  const connection = await Bun.connect({ hostname: '127.0.0.1', port: Number(new URL(gateway.url).port), socket })
  open.set(kind, open.get(kind)! + 1)
  connection.write(first)
  const timer = drip === '' ? undefined : setInterval(() => connection.write(drip), 1_000)
  await closed.promise
  clearInterval(timer)
  open.set(kind, open.get(kind)! - 1)
}
const told = () => [...open].map(([kind, count]) => `${kind} ${count}`).join(', ')
const held = Array.from({ length: CONNECTIONS }, (_, i) => hold(KINDS[i % KINDS.length]!))
const startedMs = performance.now()
const meanwhile = await goodClient(gateway, LOOK_MS)
const atLook = [...open].filter(([kind]) => !kind.startsWith('answered')).reduce((sum, [, count]) => sum + count, 0)
console.log(`after 30 s open ${atLook} of ${CONNECTIONS} that were never answered, or not to the end: ${told()}`)
await Promise.race([Promise.all(held), Bun.sleep(IDLE_MS - (performance.now() - startedMs))])
const left = [...open.values()].reduce((sum, count) => sum + count, 0)
console.log(`after ${((performance.now() - startedMs) / 1_000).toFixed(0)} s open ${left} of ${CONNECTIONS}: ${told()}`)
console.log(
  `a good client: before p50 ${before.p50.toFixed(1)}, p99 ${before.p99.toFixed(1)} ms (N ` +
    `${before.asked}); meanwhile p50 ${meanwhile.p50.toFixed(1)}, ` +
    `p99 ${meanwhile.p99.toFixed(1)} ms, failed ${meanwhile.failed} (N ${meanwhile.asked})`,
)
await gateway.remove()
process.exit(atLook === 0 && left === 0 && meanwhile.failed === 0 ? 0 : 1)
