// A pooled HTTP/1.1 client on Bun's sockets. One connection carries one request at a time and returns to the pool of
// its destination only after a complete response without surplus bytes. Why not `fetch`:
// docs/decisions/0004-pooled-upstream-client.md.
import { Deadlines } from '../event-loop/deadlines.ts'
import { sharedBuffer } from '../event-loop/shared-buffer.ts'
import { latin1Length, writeLatin1, writeUtf8 } from '../text/text-pieces.ts'
import { ConnectLimiter } from './connect-limiter.ts'
import { HttpConnection, type Pool, type RequestBytes } from './connection.ts'
import { DialFailure, type DialLimits, type DialRequest, type DialResponse } from './dial.ts'

/** A checked address to connect to. */
export interface Destination {
  readonly secure: boolean
  /** IP literal, without brackets. */
  readonly address: string
  readonly port: number
  /** `Host` header. */
  readonly host: string
  /** The name that the certificate must show; null when the URL names an address. */
  readonly serverName: string | null
  /** Path and query. */
  readonly path: string
  /** Equal for all destinations whose connections may carry each other's requests. */
  readonly key: string
  /** The last heads that were sent to it, at most HEADS_KEPT. */
  readonly heads: HeadText[]
}

/** Sends HTTP requests to one destination. Rejects with DialFailure only. */
export interface HttpClient {
  send(destination: Destination, request: DialRequest, limits: DialLimits): Promise<DialResponse>
  close(): void
}

// Idle connections of one destination.
const MAX_IDLE = 256
// Without a `Keep-Alive` header: common servers close after 5 s, public services behind TLS terminators after 60 s or
// more.
const IDLE_PLAIN_MS = 4_000
const IDLE_SECURE_MS = 30_000
const IDLE_MOST_MS = 300_000

const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const HEADER_VALUE = /^[\t\x20-\x7e]*$/
/** Characters of path and host. Others would be written as one byte each. */
const ADDRESS = /^[\x21-\x7e]+$/
const CLIENT_HEADERS = new Set(['host', 'content-length', 'transfer-encoding', 'connection'])

/**
 * Requests up to this size are assembled here, the head in front of the body. Each is written to its socket, or copied,
 * before the next one is assembled. Requests of all tenants pass through it: `start` and `end` of `encoded` are set for
 * each request and cover only bytes that were written for it, so bytes of another tenant are never sent.
 */
const SCRATCH = Buffer.allocUnsafe(64 * 1024)
const HEAD_ROOM = 8 * 1024
/** A character takes at most three bytes in UTF-8. */
const MOST_CHARS = Math.floor((SCRATCH.length - HEAD_ROOM) / 3)
/** Room for the line of the length and the end of the head. */
const MOST_LINES_CHARS = 64
const MOST_HEAD_CHARS = HEAD_ROOM - MOST_LINES_CHARS
const encoded = { bytes: SCRATCH, start: 0, end: 0 }
/** The length is set for each request. */
const LENGTH_LINES: [string, number, string] = ['Content-Length: ', 0, '\r\n\r\n']
const NO_LENGTH_LINES = '\r\n'

/** A checked head without its length and end, and what it was made of. */
export interface HeadText {
  readonly method: string
  readonly headers: DialRequest['headers']
  readonly text: string
}
/** Heads of one destination: several keys of one vendor, for whole responses and for streams. */
const MAX_CACHED_HEADS = 16

/**
 * The head of a request. A caller that passes the same (readonly) headers object again has it checked and assembled
 * once (`bench -- tricks`, heads).
 */
export const headText = ({ host, path, heads }: Destination, { method, headers }: DialRequest): string => {
  for (let i = 0; i < heads.length; i++) {
    const known = heads[i]!
    if (known.headers === headers && known.method === method) return known.text
  }
  if (!ADDRESS.test(path) || !ADDRESS.test(host))
    throw new DialFailure('invalid_header', 'the address holds characters that cannot be sent')
  let text = `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n`
  let encoding = 'Accept-Encoding: identity\r\n'
  for (const name in headers) {
    const value = headers[name]!
    if (!HEADER_NAME.test(name) || !HEADER_VALUE.test(value))
      throw new DialFailure('invalid_header', `the header ${name.replace(/[^\w-]/g, '?')} cannot be sent`)
    if (CLIENT_HEADERS.has(name)) continue
    if (name === 'accept-encoding') encoding = ''
    text += `${name}: ${value}\r\n`
  }
  text += encoding
  if (heads.length === MAX_CACHED_HEADS) heads.shift()
  heads.push({ method, headers, text })
  return text
}

/** The result is valid until the next call. */
const encode = (destination: Destination, request: DialRequest): RequestBytes => {
  const { method, body } = request
  const head = headText(destination, request)
  const hasLength = body !== null || (method !== 'GET' && method !== 'HEAD')
  if (head.length > MOST_HEAD_CHARS || (body !== null && body.length > MOST_CHARS)) return large(head, body, hasLength)
  const size = body === null ? 0 : writeUtf8(SCRATCH, HEAD_ROOM, body)
  LENGTH_LINES[1] = size
  const lines = hasLength ? LENGTH_LINES : NO_LENGTH_LINES
  const start = HEAD_ROOM - latin1Length(lines) - head.length
  writeLatin1(SCRATCH, writeLatin1(SCRATCH, start, head), lines)
  encoded.start = start
  encoded.end = HEAD_ROOM + size
  return encoded
}

/**
 * The body is written first, so that `Content-Length` is the number of bytes written. The shared buffer holds bytes of
 * other requests behind `end`; only those from `start` to `end` are sent.
 */
const large = (head: string, body: string | null, hasLength: boolean): RequestBytes => {
  const bodyAt = head.length + MOST_LINES_CHARS
  const bytes = sharedBuffer(bodyAt + (body === null ? 0 : Buffer.byteLength(body)))
  const size = body === null ? 0 : writeUtf8(bytes, bodyAt, body)
  LENGTH_LINES[1] = size
  const lines = hasLength ? LENGTH_LINES : NO_LENGTH_LINES
  const start = bodyAt - latin1Length(lines) - head.length
  writeLatin1(bytes, writeLatin1(bytes, start, head), lines)
  return { bytes, start, end: bodyAt + size }
}

/** Certificates are always verified, against the name or else the address. */
const tlsOptions = (serverName: string | null, ca: string | undefined): Bun.TLSOptions => ({
  rejectUnauthorized: true,
  ...(serverName === null ? {} : { serverName }),
  ...(ca === undefined ? {} : { ca }),
})

/** Idle connections of one client, by destination, newest last. */
const createPool = (nowMs: () => number) => {
  const idle = new Map<string, HttpConnection[]>()
  const sweep = () => {
    const now = nowMs()
    for (const [key, list] of idle) {
      for (const connection of [...list]) if (connection.idleUntilMs <= now) connection.destroy()
      if (list.length === 0) idle.delete(key)
    }
  }
  const timer = setInterval(sweep, 1_000)
  timer.unref()
  const pool: Pool = {
    deadlines: new Deadlines(),
    release(connection, keepAliveS) {
      const list = idle.get(connection.key) ?? []
      const keepMs =
        keepAliveS === null
          ? connection.secure
            ? IDLE_SECURE_MS
            : IDLE_PLAIN_MS
          : Math.min(IDLE_MOST_MS, keepAliveS * 1_000 - 1_000)
      if (keepMs <= 0 || list.length >= MAX_IDLE) return connection.destroy()
      connection.idleUntilMs = nowMs() + keepMs
      idle.set(connection.key, list)
      list.push(connection)
    },
    forget(connection) {
      const list = idle.get(connection.key)
      const at = list?.lastIndexOf(connection) ?? -1
      if (at !== -1) list!.splice(at, 1)
    },
  }
  const take = (key: string): HttpConnection | undefined => {
    const list = idle.get(key)
    for (;;) {
      const connection = list?.pop()
      if (connection === undefined || connection.idleUntilMs > nowMs()) return connection
      connection.destroy()
    }
  }
  const close = () => {
    clearInterval(timer)
    for (const list of idle.values()) for (const connection of [...list]) connection.destroy()
    idle.clear()
  }
  return { pool, take, close }
}

export const pooledClient = (options: { ca?: string | undefined; nowMs?: () => number } = {}): HttpClient => {
  const { pool, take, close } = createPool(options.nowMs ?? (() => performance.now()))

  const limiter = new ConnectLimiter(() => performance.now())

  const connect = async (destination: Destination, limits: DialLimits) => {
    const startedMs = performance.now()
    const entered = limiter.enter(destination.key, limits)
    const waits = entered instanceof Promise
    const attempt = waits ? await entered : entered
    return new HttpConnection(destination.key, destination.secure, pool).open(
      {
        hostname: destination.address,
        port: destination.port,
        tls: destination.secure ? tlsOptions(destination.serverName, options.ca) : null,
      },
      waits ? { ...limits, connectMs: Math.max(1, limits.connectMs - (performance.now() - startedMs)) } : limits,
      attempt,
    )
  }

  const sendNew = async (
    destination: Destination,
    method: string,
    { bytes, start, end }: RequestBytes,
    limits: DialLimits,
  ) => {
    // The next request overwrites the shared bytes.
    const own = { bytes: Buffer.from(bytes.subarray(start, end)), start: 0, end: end - start }
    const connection = await connect(destination, limits)
    await connection.settled()
    const answer = connection.exchange(method, own, limits)
    if (answer === null) throw new DialFailure('reset', 'the connection closed, or sent bytes, before the request')
    return answer
  }

  return {
    // Not an async function: with an idle connection the exchange's promise is the only one.
    send(destination, request, limits) {
      let bytes: RequestBytes
      try {
        bytes = encode(destination, request)
      } catch (error) {
        return Promise.reject(error)
      }
      for (;;) {
        // A connection that was closed before anything was written did not carry the request, so the next one may. Once
        // a byte was written the request is not sent again: the upstream may have acted on it.
        const connection = take(destination.key)
        if (connection === undefined) return sendNew(destination, request.method, bytes, limits)
        const answer = connection.exchange(request.method, bytes, limits)
        if (answer !== null) return answer
      }
    },
    close,
  }
}
