// Load generator and fake upstream (plain and over TLS) in one process on one core, both on raw sockets. A request
// costs them a few microseconds, so that the gateway on the other core is what is measured. Commands arrive as JSON
// lines on stdin; results leave as JSON lines on stdout.
import { readFileSync } from 'node:fs'
import type { Socket } from 'bun'
import { LAST_CHUNK, messageLength, startFakeUpstream } from './fake-upstream.ts'
import { type HoldJob, heldStreams } from './held-streams.ts'

/**
 * One measurement: `connections` clients, each sending its next request when the last answer is complete, or at a given
 * rate.
 */
export interface LoadJob {
  readonly port: number
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Where body and headers hold `MARK`, each request has a number below this one, by chance. */
  readonly spread?: number
  readonly connections: number
  readonly durationMs: number
  /** Stops after so many answers instead. */
  readonly requests?: number
  /**
   * Requests a second, sent at this rate even while earlier ones are unanswered. A request that finds no free
   * connection waits for one, and its wait counts. Absent: each client sends as soon as its answer arrives.
   */
  readonly perSecond?: number
  /** Complete answers end with this text (chunked bodies) or by Content-Length. */
  readonly expect: string
}

/** Seven characters that a number takes the place of. */
export const MARK = '%%%%%%%'

export interface LoadResult {
  readonly requests: number
  readonly failed: number
  /** What came of the first one that failed. */
  readonly firstFailure: string | null
  readonly seconds: number
  readonly p50Us: number
  readonly p99Us: number
  /** Requests that the upstreams received during the job. */
  readonly upstream: { readonly plain: number; readonly secure: number }
}

const fixture = (name: string) => readFileSync(`${import.meta.dir}/../fixtures/tls/${name}`, 'utf8')

interface Client {
  startedAt: number
  buffer: Buffer | null
  /** What the socket did not take yet of a large request. */
  rest: Buffer | null
}

/** Writes numbers over the marks of a request, always the same one in a request. */
const numbering = (request: Buffer, spread: number | undefined): (() => void) => {
  if (spread === undefined) return () => {}
  const places: number[] = []
  for (let at = request.indexOf(MARK); at >= 0; at = request.indexOf(MARK, at + 1)) places.push(at)
  return () => {
    const digits = numbered(Math.floor(Math.random() * spread))
    for (const at of places) request.write(digits, at, 'latin1')
  }
}
/** As a request names the thing of that number. */
export const numbered = (number: number): string => String(number).padStart(MARK.length, '0')

const TICK_MS = 1
/** A server that closes what it has just accepted gets no new connection at once. */
const REOPEN_MS = 10

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
      // In turn: a connection that is never used is closed by the gateway, and would be counted as a failure.
      let socket = free.shift()
      while (socket !== undefined && socket.readyState < 1) socket = free.shift() // closed meanwhile
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

const write = (socket: Socket<Client>, bytes: Buffer) => {
  const written = socket.write(bytes)
  socket.data.rest = written < bytes.length ? bytes.subarray(Math.max(0, written)) : null
}

const SAID_CHARS = 400
/** Its first line, and how it ends. */
const saidIn = (answer: Buffer): string => {
  const text = answer.toString('latin1')
  return `${text.slice(0, text.indexOf('\r\n'))} ... ${text.slice(-SAID_CHARS)}`
}

const runJob = async (job: LoadJob): Promise<Omit<LoadResult, 'upstream'>> => {
  const head = Object.entries(job.headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
  const request = Buffer.from(
    `POST ${job.path} HTTP/1.1\r\nHost: 127.0.0.1:${job.port}\r\nContent-Type: application/json\r\n` +
      `${head}Content-Length: ${Buffer.byteLength(job.body)}\r\n\r\n${job.body}`,
  )
  const latenciesUs: number[] = []
  let failed = 0
  let firstFailure: string | null = null
  let running = true
  /** All connections were open: before that, one that was opened anew waits for the others. */
  let begun = false
  const enough = Promise.withResolvers<void>()
  const isEnough = () => job.requests !== undefined && latenciesUs.length + failed >= job.requests
  const fail = (came: string) => {
    failed++
    firstFailure ??= came
  }
  const number = numbering(request, job.spread)
  let sent = 0
  const send = (socket: Socket<Client>, sinceMs = performance.now()) => {
    // A count per request covers the requested number of requests, and no others.
    if (job.requests !== undefined && sent >= job.requests) return
    sent++
    socket.data.startedAt = sinceMs
    number()
    write(socket, request)
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
    else fail(saidIn(buffer))
    if (isEnough()) enough.resolve()
    else if (running) goOn(socket)
    else socket.end()
  }
  const sockets = new Set<Socket<Client>>()
  const connect = async () => {
    const socket = await Bun.connect<Client>({
      hostname: '127.0.0.1',
      port: job.port,
      data: { startedAt: 0, buffer: null, rest: null },
      socket: {
        data: receive,
        drain(socket) {
          if (socket.data.rest !== null) write(socket, socket.data.rest)
        },
        close(socket) {
          sockets.delete(socket)
          if (!running) return
          fail(`closed ${socket.data.buffer === null ? 'between answers' : `behind ${saidIn(socket.data.buffer)}`}`)
          if (isEnough()) enough.resolve()
          else reopen()
        },
      },
    })
    sockets.add(socket)
    return socket
  }
  /**
   * The number of open connections stays as requested. With fewer, a contender that closes connections would look
   * faster to the remaining ones, or slower itself.
   */
  const reopen = async () => {
    await Bun.sleep(REOPEN_MS)
    if (!running) return
    try {
      const socket = await connect()
      if (!running) socket.terminate()
      else if (begun) goOn(socket)
    } catch (error) {
      fail(String(error))
      if (isEnough()) enough.resolve()
      else void reopen()
    }
  }
  await Promise.all(Array.from({ length: job.connections }, connect))
  begun = true
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
  return { requests, failed, firstFailure, seconds, p50Us: at(0.5), p99Us: at(0.99) }
}

if (import.meta.main) {
  const upstream = startFakeUpstream()
  const secureUpstream = startFakeUpstream({ cert: fixture('upstream.pem'), key: fixture('upstream.key') })
  const held = heldStreams(upstream.tick)
  console.log(JSON.stringify({ upstreamPort: upstream.port, secureUpstreamPort: secureUpstream.port }))
  for await (const line of console) {
    const job = JSON.parse(line) as LoadJob | HoldJob
    if ('hold' in job) {
      console.log(JSON.stringify(await held.run(job)))
      continue
    }
    const before = { plain: upstream.served(), secure: secureUpstream.served() }
    const result = await runJob(job)
    const served = { plain: upstream.served() - before.plain, secure: secureUpstream.served() - before.secure }
    console.log(JSON.stringify({ ...result, upstream: served } satisfies LoadResult))
  }
  upstream.stop()
  secureUpstream.stop()
}
