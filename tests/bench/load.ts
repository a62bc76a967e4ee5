// Load generator and fake upstream (plain and over TLS) in one process on one core, both on raw sockets: a request costs it a few microseconds, so that the
// gateway on the other core is what is measured. Commands arrive as JSON lines on stdin, results leave as JSON lines on stdout.
import { readFileSync } from 'node:fs'
import type { Socket } from 'bun'

/** One measurement: `connections` clients, each sending its next request when the last answer is complete, or at a given rate. */
export interface LoadJob {
  readonly port: number
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly connections: number
  readonly durationMs: number
  /** Stops after so many answers instead. */
  readonly requests?: number
  /** So many requests a second, whatever becomes of those before: one that finds no connection free waits for it, and its wait counts. Absent: as fast as answers come. */
  readonly perSecond?: number
  /** Complete answers end with this text (chunked bodies) or by Content-Length. */
  readonly expect: string
}

export interface LoadResult {
  readonly requests: number
  readonly failed: number
  readonly seconds: number
  readonly p50Us: number
  readonly p99Us: number
}

const ANSWER = JSON.stringify({
  id: 'chatcmpl-bench',
  object: 'chat.completion',
  created: 1_760_000_000,
  model: 'bench-model',
  choices: [{ index: 0, message: { role: 'assistant', content: 'x'.repeat(380) }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 20, completion_tokens: 90, total_tokens: 110, prompt_tokens_details: { cached_tokens: 0 } },
})
const chunkOf = (delta: unknown, finish: string | null) =>
  `data: ${JSON.stringify({ id: 'chatcmpl-bench', object: 'chat.completion.chunk', created: 1_760_000_000, model: 'bench-model', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
const framed = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

const JSON_ANSWER = Buffer.from(
  `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(ANSWER)}\r\n\r\n${ANSWER}`,
)
const STREAM_HEAD = Buffer.from(
  'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n',
)
const STREAM_CHUNKS = [
  // As every vendor begins.
  framed(chunkOf({ role: 'assistant', content: '' }, null)),
  ...Array.from({ length: 18 }, (_, i) => framed(chunkOf({ content: `word ${i} ` }, null))),
  framed(chunkOf({}, 'stop')),
  framed('data: [DONE]\n\n'),
]
const LAST_CHUNK = Buffer.from('0\r\n\r\n')
/** 20 chunks and [DONE] in four writes: one write each would make this process the bottleneck. */
const STREAM_WRITES = [
  STREAM_CHUNKS.slice(0, 5),
  STREAM_CHUNKS.slice(5, 10),
  STREAM_CHUNKS.slice(10, 15),
  [...STREAM_CHUNKS.slice(15), LAST_CHUNK.toString()],
].map((chunks) => Buffer.from(chunks.join('')))

/** Full length of the HTTP message that starts the buffer, or -1 while it is incomplete; Infinity for a chunked body. */
const messageLength = (buffer: Buffer): number => {
  const headEnd = buffer.indexOf('\r\n\r\n')
  if (headEnd < 0) return -1
  const head = buffer.toString('latin1', 0, headEnd).toLowerCase()
  const at = head.indexOf('content-length:')
  if (at >= 0) return headEnd + 4 + Number.parseInt(head.slice(at + 15), 10)
  return head.includes('transfer-encoding: chunked') ? Number.POSITIVE_INFINITY : headEnd + 4
}

const fixture = (name: string) => readFileSync(`${import.meta.dir}/../fixtures/tls/${name}`, 'utf8')

const listen = (tls: Bun.TLSOptions | undefined) =>
  Bun.listen<{ buffer: Buffer | null }>({
    hostname: '127.0.0.1',
    port: 0,
    ...(tls === undefined ? {} : { tls }),
    socket: {
      open(socket) {
        socket.data = { buffer: null }
      },
      data(socket, bytes) {
        const buffer = socket.data.buffer === null ? bytes : Buffer.concat([socket.data.buffer, bytes])
        const length = messageLength(buffer)
        if (length < 0 || buffer.length < length) {
          socket.data.buffer = Buffer.from(buffer)
          return
        }
        socket.data.buffer = null
        if (buffer.includes('"stream":true')) {
          socket.write(STREAM_HEAD)
          for (const bytes of STREAM_WRITES) socket.write(bytes)
        } else socket.write(JSON_ANSWER)
      },
    },
  })

interface Client {
  startedAt: number
  buffer: Buffer | null
}

const TICK_MS = 1

/** Hands out requests as they fall due. */
const paced = (perSecond: number, send: (socket: Socket<Client>, sinceMs: number) => void) => {
  const free: Socket<Client>[] = []
  /** When those fell due that no connection was free for. */
  const waiting: number[] = []
  const startedAt = performance.now()
  let due = 0
  const timer = setInterval(() => {
    const now = performance.now()
    for (const wanted = ((now - startedAt) * perSecond) / 1_000; due < wanted; due++) {
      const socket = free.pop()
      if (socket === undefined) waiting.push(now)
      else send(socket, now)
    }
  }, TICK_MS)
  return {
    goOn(socket: Socket<Client>) {
      const sinceMs = waiting.shift()
      if (sinceMs === undefined) free.push(socket)
      else send(socket, sinceMs)
    },
    stop: () => clearInterval(timer),
  }
}

const runJob = async (job: LoadJob): Promise<LoadResult> => {
  const head = Object.entries(job.headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
  const request = Buffer.from(
    `POST ${job.path} HTTP/1.1\r\nHost: 127.0.0.1:${job.port}\r\nContent-Type: application/json\r\n${head}Content-Length: ${Buffer.byteLength(job.body)}\r\n\r\n${job.body}`,
  )
  const latenciesUs: number[] = []
  let failed = 0
  let running = true
  const enough = Promise.withResolvers<void>()
  const send = (socket: Socket<Client>, sinceMs = performance.now()) => {
    socket.data.startedAt = sinceMs
    socket.write(request)
  }
  const { goOn, stop } = job.perSecond === undefined ? { goOn: send, stop() {} } : paced(job.perSecond, send)
  const receive = (socket: Socket<Client>, bytes: Buffer) => {
    const buffer = socket.data.buffer === null ? bytes : Buffer.concat([socket.data.buffer, bytes])
    const length = messageLength(buffer)
    const complete =
      length === Number.POSITIVE_INFINITY
        ? buffer.length >= 5 && buffer.subarray(-5).equals(LAST_CHUNK)
        : length >= 0 && buffer.length >= length
    if (!complete) {
      socket.data.buffer = Buffer.from(buffer)
      return
    }
    socket.data.buffer = null
    if (buffer.toString('latin1', 9, 12) === '200' && buffer.includes(job.expect))
      latenciesUs.push((performance.now() - socket.data.startedAt) * 1000)
    else failed++
    if (latenciesUs.length + failed === job.requests) enough.resolve()
    else if (running) goOn(socket)
    else socket.end()
  }
  const sockets = await Promise.all(
    Array.from({ length: job.connections }, () =>
      Bun.connect<Client>({
        hostname: '127.0.0.1',
        port: job.port,
        data: { startedAt: 0, buffer: null },
        socket: { data: receive, close: () => void (running && failed++) },
      }),
    ),
  )
  const startedAt = performance.now()
  for (const socket of sockets) goOn(socket)
  await (job.requests === undefined ? Bun.sleep(job.durationMs) : enough.promise)
  running = false
  stop()
  const seconds = (performance.now() - startedAt) / 1000
  const requests = latenciesUs.length
  latenciesUs.sort((a, b) => a - b)
  await Bun.sleep(200)
  for (const socket of sockets) socket.terminate()
  const at = (share: number) => Math.round(latenciesUs[Math.min(requests - 1, Math.floor(requests * share))] ?? 0)
  return { requests, failed, seconds, p50Us: at(0.5), p99Us: at(0.99) }
}

if (import.meta.main) {
  const upstream = listen(undefined)
  const secureUpstream = listen({ cert: fixture('upstream.pem'), key: fixture('upstream.key') })
  console.log(JSON.stringify({ upstreamPort: upstream.port, secureUpstreamPort: secureUpstream.port }))
  for await (const line of console) console.log(JSON.stringify(await runJob(JSON.parse(line) as LoadJob)))
  upstream.stop(true)
  secureUpstream.stop(true)
}
