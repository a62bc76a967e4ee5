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

/** The largest RSS seen until the answer is called. */
const watchRss = () => {
  let peakMb = rssMb(gateway.pid)
  const timer = setInterval(() => {
    peakMb = Math.max(peakMb, rssMb(gateway.pid))
  }, 50)
  return () => {
    clearInterval(timer)
    return peakMb
  }
}

/** Reads at full speed, as much as the kernel holds of a stream that nobody reads, and leaves. */
const readSome = async (number: number) => {
  const answer = await gateway.request('/v1/chat/completions', { body: JSON.parse(body(number)) })
  const reader = answer.body!.getReader()
  for (let bytes = 0; bytes < 10 * MB; ) bytes += (await reader.read()).value?.length ?? Number.POSITIVE_INFINITY
  await reader.cancel()
}
const coldMb = rssMb(gateway.pid)
const warmPeak = watchRss()
await Promise.all(Array.from({ length: READERS }, (_, number) => readSome(number)))
const readingPeakMb = warmPeak()
await Bun.sleep(3_000)
const sentWarm = sentBytes

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
const peak = watchRss()
await Bun.sleep(LOOK_MS)
const peakMb = peak()
const heldMb = rssMb(gateway.pid)
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
const rows = (await settledRows(gateway, since, 2 * READERS)) as unknown as readonly {
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

console.log(`${READERS} readers that never read a stream of ${STREAM_MB} MB, for ${LOOK_MS / 1_000} s`)
console.log(
  `RSS of the gateway, MB: after its start ${coldMb.toFixed(0)}; while as many read at full speed ${readingPeakMb.toFixed(0)}; with those that never read ${peakMb.toFixed(0)} while the kernel's buffers filled, then held ${heldMb.toFixed(0)}, growth since the start ${(heldMb - coldMb).toFixed(0)}; 2 s after they left ${afterMb.toFixed(0)}`,
)
console.log(
  `upstreams held back: ${heldBack} of ${READERS}; taken of them ${takenMb.toFixed(0)} of ${READERS * STREAM_MB} MB, kernel buffers included; streams sent whole: ${whole}`,
)
console.log(
  `after they left: upstreams still open ${upstream.open()} of ${READERS} (all closed after ${releasedMs.toFixed(0)} ms), outcomes canceled ${canceled} of ${READERS}, provider calls in flight ${inFlight}`,
)
await gateway.remove()
upstream.stop()
const released = upstream.open() === 0 && canceled === READERS && inFlight === 0
const flat = heldMb - coldMb < MOST_GROWTH_MB && peakMb - readingPeakMb < MOST_GROWTH_MB
process.exit(flat && released && heldBack === READERS ? 0 : 1)
