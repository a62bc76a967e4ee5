// R21: clients that ask for a long stream and never read it. The gateway must hold the upstream back: its memory stays flat, and everything is let go when
// they leave. Prints growth of RSS, what the upstream could send, and what was released.
import { readFileSync } from 'node:fs'
import { type GatewayProcess, INFERENCE_KEY, startGateway } from '../services/gateway.ts'
import { startFaultServer } from './matrix/fault-server.ts'
import { DONE, delta, FINISH, open, ROLE } from './matrix/row.ts'
import { settledRows } from './oracle.ts'

const READERS = Number(process.argv[2] ?? 100)
const STREAM_MB = 64
const LOOK_MS = 15_000
const MOST_GROWTH_MB = 100
const MB = 1024 * 1024

const rssMb = (pid: number) => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1_024

const frame = delta({ content: 'a word or two of an answer '.repeat(4) })
const piece = frame.repeat(Math.ceil((64 * 1024) / frame.length))
let sentBytes = 0
let whole = 0
const upstream = startFaultServer(async (request) => {
  if (!request.stream) return
  open(request, ROLE)
  for (let bytes = 0; bytes < STREAM_MB * MB && !request.connection.gone; bytes += piece.length) {
    request.chunk(piece)
    await request.connection.drained()
    if (!request.connection.gone) sentBytes += piece.length
  }
  if (request.connection.gone) return
  whole++
  for (const last of [FINISH, DONE]) request.chunk(last)
  request.last()
})

const gateway: GatewayProcess = startGateway({
  settings: {
    health: { probe_interval: 'off' },
    bootstrap: {
      providers: [
        {
          name: 'long',
          kind: 'openai_compatible',
          base_url: `http://127.0.0.1:${upstream.port}/v1`,
          models: [{ name: 'long' }],
        },
      ],
    },
  },
})
const since = new Date(Date.now() - 1_000)
await gateway.until('ready', 60_000)
while (!(await (await gateway.request('/v1/models')).text()).includes('"long"')) await Bun.sleep(50)

const body = (number: number) =>
  JSON.stringify({ model: 'long', stream: true, messages: [{ role: 'user', content: `reader ${number}` }] })
const requestText = (number: number) =>
  `POST /v1/chat/completions HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer ${INFERENCE_KEY}\r\nContent-Type: application/json\r\nX-Request-ID: reader-${number}\r\nContent-Length: ${body(number).length}\r\n\r\n${body(number)}`

/** One that reads everything: the code is warm, and the memory of a stream that flows is in the figure that growth is counted from. */
const warm = await gateway.request('/v1/chat/completions', { body: JSON.parse(body(-1)) })
let warmBytes = 0
for await (const bytes of warm.body!) warmBytes += bytes.length
await Bun.sleep(500)
const sentWarm = sentBytes
const beforeMb = rssMb(gateway.pid)

const sockets: Bun.Socket[] = []
for (let number = 0; number < READERS; number++) {
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port: Number(new URL(gateway.url).port),
    socket: { data() {}, error() {} },
  })
  socket.write(requestText(number))
  socket.pause()
  sockets.push(socket)
}
let peakMb = 0
const startedMs = performance.now()
while (performance.now() - startedMs < LOOK_MS) {
  peakMb = Math.max(peakMb, rssMb(gateway.pid))
  await Bun.sleep(100)
}
const heldBack = upstream.open()
const takenMb = (sentBytes - sentWarm) / MB
for (const socket of sockets) socket.terminate()
const leftMs = performance.now()
let releasedMs = Number.NaN
while (performance.now() - leftMs < 5_000) {
  if (upstream.open() === 0) {
    releasedMs = performance.now() - leftMs
    break
  }
  await Bun.sleep(5)
}
const rows = (await settledRows(gateway, since, READERS + 1)) as unknown as readonly {
  request_id: string
  outcome: string
}[]
const canceled = rows.filter(
  ({ request_id, outcome }) => request_id.startsWith('reader-') && outcome === 'canceled',
).length
const metrics = await (await gateway.request('/metrics')).text()
const inFlight = Number(/^gateway_provider_calls_in_flight\{[^}]*\} (\d+)/m.exec(metrics)?.[1] ?? 0)
await Bun.sleep(2_000)
const afterMb = rssMb(gateway.pid)

console.log(
  `${READERS} readers that never read a stream of ${STREAM_MB} MB, for ${LOOK_MS / 1_000} s (one that read it all first: ${(warmBytes / MB).toFixed(0)} MB)`,
)
console.log(
  `RSS of the gateway, MB: before ${beforeMb.toFixed(0)}, peak ${peakMb.toFixed(0)}, growth ${(peakMb - beforeMb).toFixed(0)}; 2 s after they left ${afterMb.toFixed(0)}`,
)
console.log(
  `upstreams held back: ${heldBack} of ${READERS}; taken of them ${takenMb.toFixed(0)} of ${READERS * STREAM_MB} MB, kernel buffers included; streams sent whole: ${whole - 1}`,
)
console.log(
  `after they left: upstreams still open ${upstream.open()} of ${READERS} (all closed after ${releasedMs.toFixed(0)} ms), outcomes canceled ${canceled} of ${READERS}, provider calls in flight ${inFlight}`,
)
await gateway.remove()
upstream.stop()
const good =
  peakMb - beforeMb < MOST_GROWTH_MB &&
  heldBack === READERS &&
  upstream.open() === 0 &&
  canceled === READERS &&
  inFlight === 0
process.exit(good ? 0 : 1)
