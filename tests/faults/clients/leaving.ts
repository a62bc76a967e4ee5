// R22: clients leave at a random byte of their request's body or of the answer, by FIN or RST, while the gateway reads,
// waits, pauses before a retry, or streams. Prints upstream calls left running, outcomes, and the time from leaving to
// the close of the upstream's connection.
// A client that leaves before its headers are complete has made no request.

import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, INFERENCE_KEY, startGateway } from '../../services/gateway.ts'
import { percentiles, settledRows } from '../oracle.ts'
import { type Call, startLeavingUpstream } from './leaving-upstream.ts'

const CLIENTS = Number(process.argv[2] ?? 2_000)
const AT_ONCE = Number(process.argv[3] ?? 64)
/** How long after leaving the upstream must be free. */
const LIMIT_MS = 100
const ANSWER_BYTES = 9_000
const PADDING = 'p'.repeat(20_000)

interface Leaver {
  readonly number: number
  readonly stream: boolean
  readonly model: string
  /** Bytes of the body that are sent, or bytes of the answer that are read, before it leaves. */
  readonly phase: 'request' | 'answer'
  readonly atByte: number
  readonly how: 'FIN' | 'RST'
  leftMs: number
  read: number
}

const below = (limit: number) => Math.floor(Math.random() * limit)

const leaverOf = (number: number): Leaver => ({
  number,
  stream: Math.random() < 0.6,
  model: Math.random() < 0.1 ? 'flaky' : 'steady',
  phase: Math.random() < 0.25 ? 'request' : 'answer',
  atByte: Math.random() < 0.3 ? 0 : below(ANSWER_BYTES),
  how: Math.random() < 0.5 ? 'FIN' : 'RST',
  leftMs: Number.NaN,
  read: 0,
})

const requestOf = ({ number, stream, model }: Leaver) => {
  const body = JSON.stringify({
    model,
    stream,
    messages: [{ role: 'user', content: `leaver-${number} ${PADDING}` }],
  })
  const head = [
    'POST /v1/chat/completions HTTP/1.1',
    'Host: gateway.test',
    `Authorization: Bearer ${INFERENCE_KEY}`,
    'Content-Type: application/json',
    `X-Request-ID: leaver-${number}`,
    `Content-Length: ${body.length}`,
  ]
  return { head: `${head.join('\r\n')}\r\n\r\n`, body }
}

/** Connects, sends, reads up to its byte and leaves; resolves then. */
const leave = async (leaver: Leaver, port: number): Promise<void> => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const { head, body } = requestOf(leaver)
  const sent = leaver.phase === 'request' ? head + body.slice(0, below(body.length)) : head + body
  let unsent = Buffer.from(sent)
  const go = (socket: Bun.Socket) => {
    if (!Number.isNaN(leaver.leftMs)) return
    leaver.leftMs = performance.now()
    if (leaver.how === 'FIN') socket.end()
    else socket.terminate()
    resolve()
  }
  const goSoon = (socket: Bun.Socket, withinMs: number) => setTimeout(() => go(socket), Math.random() * withinMs)
  const send = (socket: Bun.Socket) => {
    if (unsent.length === 0) return
    const written = socket.write(unsent)
    unsent = unsent.subarray(Math.max(0, written))
    if (unsent.length > 0) return
    if (leaver.phase === 'request') goSoon(socket, 60)
    else if (leaver.atByte === 0) goSoon(socket, 400)
  }
  await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: {
      open: send,
      drain: send,
      data(socket, bytes) {
        leaver.read += bytes.length
        if (leaver.atByte > 0 && leaver.read >= leaver.atByte) go(socket)
      },
      close: go, // the answer was over before its byte came
      error() {},
    },
  })
  // An answer that is kept alive and shorter than its byte: it leaves an answered request.
  const patience = setTimeout(resolve, 5_000)
  await promise
  clearTimeout(patience)
  if (Number.isNaN(leaver.leftMs)) leaver.leftMs = performance.now()
}

const settledText = (rows: readonly { outcome: string }[]) =>
  Object.entries(Object.groupBy(rows, ({ outcome }) => outcome))
    .map(([name, of]) => `${name} ${of?.length}`)
    .join(', ')

/** When the upstream had nothing more to do for it: let go, or everything sent. */
const overMs = ({ completeMs, closedMs }: Call) =>
  Math.min(completeMs ?? Number.POSITIVE_INFINITY, closedMs ?? Number.POSITIVE_INFINITY)
const running = (call: Call, atMs: number) => call.startedMs <= atMs && overMs(call) > atMs

const upstream = startLeavingUpstream()
const gateway: GatewayProcess = startGateway({
  settings: {
    health: { probe_interval: 'off' },
    bootstrap: {
      providers: [
        {
          name: 'slow',
          kind: 'openai_compatible',
          base_url: upstream.baseUrl,
          models: [{ name: 'steady' }, { name: 'flaky' }],
        },
      ],
      policies: [
        {
          name: 'default',
          retry: { attempts: 1, backoff_initial_ms: 300 },
          breaker: { failure_threshold: 10_000, minimum_requests: 10_000 },
        },
      ],
    },
  },
})
const since = new Date(Date.now() - 1_000)
await gateway.until('ready', 60_000)
await eventually('the model is seeded', async () =>
  (await (await gateway.request('/v1/models')).text()).includes('"flaky"'),
)

const port = Number(new URL(gateway.url).port)
const leavers = Array.from({ length: CLIENTS }, (_, number) => leaverOf(number))
const queue = [...leavers]
const lane = async () => {
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) await leave(next, port)
}
const startedMs = performance.now()
await Promise.all(Array.from({ length: AT_ONCE }, lane))
const tookMs = performance.now() - startedMs
await Bun.sleep(1_000)

const nowMs = performance.now()
const closing: number[] = []
let left = 0
let late = 0
for (const { number, leftMs } of leavers) {
  for (const call of upstream.calls.get(number) ?? []) {
    if (running(call, nowMs)) left++
    if (running(call, leftMs)) closing.push(overMs(call) - leftMs)
    if (call.startedMs > leftMs + LIMIT_MS) late++
  }
}
const rows = await settledRows(gateway, since, CLIENTS)
const byLabel = Map.groupBy(rows, ({ request_id }) => request_id)
const recorded = leavers.filter(({ number }) => byLabel.get(`leaver-${number}`)?.length === 1).length
const counted = rows as unknown as readonly {
  request_id: string
  outcome: string
  stream: boolean
  completion_tokens: number | null
}[]
const canceled = counted.filter(({ outcome }) => outcome === 'canceled')
/** Clients that had read a good part of a stream: its tokens must stand in the outcome. */
const midStream = canceled.filter(
  ({ request_id, stream }) => stream && leavers[Number(request_id.slice(7))]!.read > 2_000,
)
const withoutTokens = midStream.filter(({ completion_tokens }) => (completion_tokens ?? 0) === 0).length
const strange = counted.filter(({ outcome }) => outcome !== 'canceled' && outcome !== 'success').length
const { p50, p99, max } = percentiles(closing)
const paused = leavers.filter(({ number, model, leftMs }) => {
  const calls = upstream.calls.get(number) ?? []
  return model === 'flaky' && calls.length === 1 && (calls[0]!.completeMs ?? Number.POSITIVE_INFINITY) < leftMs
}).length
const phases = settledText(leavers.map(({ phase }) => ({ outcome: phase })))

console.log(
  `${CLIENTS} clients left at a random byte (${phases}; ${AT_ONCE} at once) in ${(tookMs / 1_000).toFixed(1)} s`,
)
console.log(
  `upstreams left running: ${left} of ${upstream.calls.size} called; called after the client had been ` +
    `gone for ${LIMIT_MS} ms: ${late}; left in the pause before a repeat: ${paused}`,
)
console.log(
  `outcomes recorded once: ${recorded} of ${CLIENTS} (${settledText(rows)}; neither canceled nor complete ` +
    `${strange}); canceled mid-stream without tokens: ${withoutTokens} of ${midStream.length}`,
)
// The gateway's own count: each request that it read was counted when it ended, or is in flight still.
const metrics = await (await gateway.request('/metrics')).text()
const sumOf = (name: string) =>
  [...metrics.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)`, 'gm'))].reduce(
    (sum, [, value]) => sum + Number(value),
    0,
  )
const ended = sumOf('gateway_requests_total')
const inFlight = sumOf('gateway_requests_in_flight')
const unrecorded = sumOf('gateway_outcomes_unrecorded_total')
const missing = leavers.filter(({ number }) => !byLabel.has(`leaver-${number}`))
/** The client got no byte of an answer, and no provider was called for the request. */
const untouched = missing.filter(({ number, read }) => read === 0 && !upstream.calls.has(number)).length
const allSeenRecorded = inFlight === 0 && unrecorded === 0 && ended === rows.length && untouched === missing.length
console.log(
  `the gateway says: ${ended} requests ended, ${inFlight} in flight, ${unrecorded} outcomes not written; ` +
    `without an outcome ${missing.length}, of which ${untouched} got no byte and made no ` +
    `call${missing.length > 0 && allSeenRecorded ? ': it never read them, so they are no requests' : ''}`,
)
for (const { number, phase, how, read } of missing.slice(0, 5))
  console.log(`no outcome of ${number}: left in its ${phase} by ${how} after ${read} bytes were read`)
console.log(
  `from leaving to the upstream's connection closing, ms: p50 ${p50.toFixed(1)}, p99 ` +
    `${p99.toFixed(1)}, max ${max.toFixed(0)} (N ${closing.length})`,
)
await gateway.remove()
upstream.stop()
const all = recorded + missing.length === CLIENTS && allSeenRecorded
const good = left === 0 && late === 0 && all && strange === 0 && withoutTokens === 0 && max < LIMIT_MS
process.exit(good ? 0 : 1)
