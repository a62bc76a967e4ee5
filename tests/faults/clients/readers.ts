// R21: clients request a long stream and never read it (`never`), or read their socket once in 100 ms (`slowly`). The
// gateway must hold the upstream back: its memory stays flat, and everything is released when the clients leave.
// `json`: unread answers of 4 MB. Each is held whole, so growth is bounded by their number, and only the release is
// judged.
// Prints peak and held growth of RSS, how much the upstream could send, and what was released.
import { readFileSync } from 'node:fs'
import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, INFERENCE_KEY, startGateway } from '../../services/gateway.ts'
import { startFaultServer } from '../matrix/fault-server.ts'
import { DONE, delta, FINISH, JSON_TYPE, open, ROLE } from '../matrix/row.ts'
import { settledRows } from '../oracle.ts'

const READERS = Number(process.argv[2] ?? 100)
const MODE = (process.argv[3] ?? 'never') as 'never' | 'slowly' | 'json'
const STREAM_MB = 64
const JSON_MB = 4
const LOOK_MS = 15_000
/** On a busy machine the kernel's buffers fill slowly: the peak is looked for until nothing moves any more. */
const FILL_MS = 120_000
const STILL_MS = 3_000
const MOST_GROWTH_MB = 100
const MB = 1024 * 1024

const rssMb = (pid: number) => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1_024

const frame = delta({ content: 'a word or two of an answer '.repeat(4) })
const piece = frame.repeat(Math.ceil((64 * 1024) / frame.length))
let sentBytes = 0
let whole = 0
const upstream = startFaultServer(async (request) => {
  if (!request.stream) {
    if (!request.body.includes('reader')) return
    const message = { role: 'assistant', content: 'one more word '.repeat((JSON_MB * MB) / 14) }
    request.head200(JSON_TYPE)
    request.chunk(
      JSON.stringify({ id: 'c1', object: 'chat.completion', choices: [{ index: 0, message, finish_reason: 'stop' }] }),
    )
    request.last()
    return
  }
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
await eventually('the model is seeded', async () =>
  (await (await gateway.request('/v1/models')).text()).includes('"long"'),
)

const body = (number: number) =>
  JSON.stringify({ model: 'long', stream: MODE !== 'json', messages: [{ role: 'user', content: `reader ${number}` }] })
const requestText = (number: number) =>
  `POST /v1/chat/completions HTTP/1.1\r\nHost: gateway.test\r\n` +
  `Authorization: Bearer ${INFERENCE_KEY}\r\nContent-Type: application/json\r\n` +
  `X-Request-ID: reader-${number}\r\nContent-Length: ${body(number).length}\r\n\r\n` +
  `${body(number)}`

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

const coldMb = rssMb(gateway.pid)
const sockets: Bun.Socket[] = []
for (let number = 0; number < READERS; number++) {
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port: Number(new URL(gateway.url).port),
    socket: {
      data(socket) {
        if (MODE !== 'slowly') return
        socket.pause()
        setTimeout(() => socket.resume(), 100)
      },
      error() {},
    },
  })
  socket.write(requestText(number))
  if (MODE !== 'slowly') socket.pause()
  sockets.push(socket)
}
const peak = watchRss()
const lookedFromMs = performance.now()
const lookedMs = () => performance.now() - lookedFromMs
await Bun.sleep(LOOK_MS)
for (let before = -1; MODE === 'never' && before !== sentBytes && lookedMs() < FILL_MS; await Bun.sleep(STILL_MS))
  before = sentBytes
const tookS = lookedMs() / 1_000
const peakMb = peak()
const heldMb = rssMb(gateway.pid)
const heldBack = upstream.open()
const takenMb = sentBytes / MB
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
const rows = (await settledRows(gateway, since, READERS)) as unknown as readonly {
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

const how = { never: 'never read', slowly: 'slowly read', json: 'never read' }[MODE]
const what = MODE === 'json' ? `a JSON answer of ${JSON_MB} MB` : `a stream of ${STREAM_MB} MB`
console.log(`${READERS} readers that ${how} ${what}, for ${tookS.toFixed(0)} s`)
const mb = (value: number) => `${value.toFixed(0)} MB (${(value - coldMb).toFixed(0)} above the start)`
console.log(
  `RSS of the gateway: after its start ${coldMb.toFixed(0)} MB; peak ${mb(peakMb)}; held ` +
    `at the end ${mb(heldMb)}; 2 s after they left ${mb(afterMb)}`,
)
console.log(
  `upstreams held back: ${heldBack} of ${READERS}; taken of them ${takenMb.toFixed(0)} of ` +
    `${READERS * STREAM_MB} MB, kernel buffers included; streams sent whole: ${whole}`,
)
console.log(
  `after they left: upstreams still open ${upstream.open()} of ${READERS} (all closed after ` +
    `${releasedMs.toFixed(0)} ms), outcomes canceled ${canceled} of ${READERS}, provider calls in flight ${inFlight}`,
)
await gateway.remove()
upstream.stop()
const released = upstream.open() === 0 && inFlight === 0 && (MODE === 'json' || canceled === READERS)
const flat = MODE === 'json' || (peakMb - coldMb < MOST_GROWTH_MB && heldBack === READERS)
process.exit(flat && released ? 0 : 1)
