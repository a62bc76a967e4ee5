// A server of ours with handlers of a test, and clients of it that are bytes.
import { Buffer } from 'node:buffer'
import type { Answer } from '../../../src/lib/http-server/answer.ts'
import {
  type HotRoute,
  type HttpServer,
  type ServerHandlers,
  type ServerOptions,
  serveHttp,
} from '../../../src/lib/http-server/server.ts'

const HOT_ROUTE = { method: 'POST', path: '/hot' }
export const HOT = `${HOT_ROUTE.method} ${HOT_ROUTE.path}`

/** What the handlers of `serving` say of bytes that are no request, and of failures. */
export const answerOf = (status: number, body: Answer['body'], closes = false, head = ''): Answer => ({
  status,
  head,
  body,
  closes,
})

export interface Serving extends HttpServer {
  /** What `failed` was told. */
  readonly failures: unknown[]
}

const servers: HttpServer[] = []

/** `hot` answers requests for `HOT`. */
type ServingHandlers = Partial<Omit<ServerHandlers, 'hot'>> & { readonly hot?: HotRoute['handle'] }

/** On a free port, until `stopServing`. */
export const serving = (
  { hot = () => answerOf(200, 'hot'), ...handlers }: ServingHandlers = {},
  options: Partial<Omit<ServerOptions, 'handlers'>> = {},
  serve: (options: ServerOptions) => HttpServer = serveHttp,
): Serving => {
  const failures: unknown[] = []
  const server = serve({
    hostname: '127.0.0.1',
    port: 0,
    reusePort: false,
    idleMs: 60_000,
    headMs: 60_000,
    ...options,
    handlers: {
      fetch: () => new Response('fetched'),
      hot: [{ ...HOT_ROUTE, handle: hot }],
      malformed: (flaw) => answerOf(flaw.status, `malformed: ${flaw.message}`, true),
      failed(error) {
        failures.push(error)
        return answerOf(500, 'failed')
      },
      ...handlers,
    },
  })
  servers.push(server)
  const known = Object.getOwnPropertyDescriptors(server)
  return Object.defineProperties({ failures }, known) as unknown as Serving
}

export const stopServing = (): void => {
  for (const server of servers.splice(0)) server.stop()
}

export interface RawClient {
  /** Everything that came, a character for each byte; resolves when the connection has ended. */
  readonly closed: Promise<string>
  received(): string
  /** Sends all of it, as fast as it is taken. */
  write(bytes: string | Uint8Array): void
  /** Resolves when all that was written is with the kernel. */
  written(): Promise<void>
  /** When what came fits; rejects when the connection ends before that. */
  until(fits: (received: string) => boolean): Promise<string>
  /** Reads nothing more, and all again. */
  pause(): void
  resume(): void
  leave(): void
  /** Leaves without a farewell. */
  reset(): void
}

interface Waiting {
  fits(received: string): boolean
  resolve(received: string): void
  reject(error: unknown): void
}

/** `text`: a character for each byte. */
export const connect = async (port: number, text?: string): Promise<RawClient> => {
  const parts: string[] = []
  let whole = ''
  const received = (): string => {
    whole += parts.splice(0).join('')
    return whole
  }
  const closed = Promise.withResolvers<string>()
  const waiting = new Set<Waiting>()
  let unsent: Uint8Array[] = []
  const whenWritten: (() => void)[] = []
  const ended = (): void => {
    closed.resolve(received())
    for (const { reject } of waiting) reject(new Error(`the connection ended after: ${received().slice(-400)}`))
    waiting.clear()
    for (const resolve of whenWritten.splice(0)) resolve()
  }
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: {
      data(_, bytes) {
        parts.push(bytes.toString('latin1'))
        for (const one of waiting)
          if (one.fits(received())) {
            waiting.delete(one)
            one.resolve(received())
          }
      },
      drain: () => send(),
      close: ended,
      error: ended,
    },
  })
  const send = (): void => {
    while (unsent.length > 0) {
      const first = unsent[0]!
      const written = Math.max(0, socket.write(first))
      if (written < first.length) {
        unsent[0] = first.subarray(written)
        return
      }
      unsent = unsent.slice(1)
    }
    for (const resolve of whenWritten.splice(0)) resolve()
  }
  const client: RawClient = {
    closed: closed.promise,
    received,
    write(bytes) {
      unsent.push(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
      if (unsent.length === 1) send()
    },
    written: () => (unsent.length === 0 ? Promise.resolve() : new Promise((resolve) => whenWritten.push(resolve))),
    until: (fits) =>
      fits(received())
        ? Promise.resolve(received())
        : new Promise((resolve, reject) => waiting.add({ fits, resolve, reject })),
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    leave: () => void socket.end(),
    reset: () => void socket.terminate(),
  }
  if (text !== undefined) client.write(text)
  return client
}

/** Sends these bytes; what came until the server ended the connection. */
export const exchanged = async (port: number, text: string): Promise<string> => (await connect(port, text)).closed

export interface RawAnswer {
  readonly status: number
  /** In order, with lower-case names, without `date`. */
  readonly headers: [string, string][]
  readonly body: string
}

/** A body in chunks, and how long it was with them; null when its end is missing. */
const unchunked = (text: string): { body: string; length: number } | null => {
  let body = ''
  let at = 0
  for (;;) {
    const end = text.indexOf('\r\n', at)
    if (end < 0) return null
    const size = Number.parseInt(text.slice(at, end), 16)
    if (text.slice(end + 2 + size, end + 4 + size) !== '\r\n') return null
    at = end + 4 + size
    if (size === 0) return { body, length: at }
    body += text.slice(end + 2, end + 2 + size)
  }
}

/** The answers in what came back, to requests of these methods; throws when the last one is not whole. */
export const answersIn = (received: string, methods: readonly string[] = []): RawAnswer[] => {
  const answers: RawAnswer[] = []
  let rest = received
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n')
    const [line = '', ...lines] = rest.slice(0, end).split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(line)?.[1])
    if (end < 0 || Number.isNaN(status)) throw new Error(`no answer: ${JSON.stringify(rest.slice(0, 200))}`)
    rest = rest.slice(end + 4)
    const headers = lines.map((text): [string, string] => {
      const colon = text.indexOf(': ')
      return [text.slice(0, colon).toLowerCase(), text.slice(colon + 2)]
    })
    if (status === 100) continue
    const named = (name: string) => headers.find(([other]) => other === name)?.[1]
    const isBodiless = methods[answers.length] === 'HEAD' || status === 204 || status === 304
    let length = isBodiless ? 0 : Number(named('content-length') ?? rest.length)
    let body = rest.slice(0, length)
    if (!isBodiless && named('transfer-encoding') === 'chunked') {
      const chunked = unchunked(rest)
      if (chunked === null) throw new Error(`the end is missing: ${JSON.stringify(rest.slice(-200))}`)
      ;({ body, length } = chunked)
    }
    if (rest.length < length) throw new Error(`${rest.length} of ${length} bytes`)
    answers.push({ status, headers: headers.filter(([name]) => name !== 'date'), body })
    rest = rest.slice(length)
  }
  return answers
}

/** Whether so many whole answers came. */
export const isWhole =
  (count = 1, methods: readonly string[] = []) =>
  (received: string): boolean => {
    try {
      return answersIn(received, methods).length >= count
    } catch {
      return false
    }
  }

export const get = (path = '/', lines = ''): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n${lines}\r\n`
export const post = (path: string, body: string, lines = ''): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n${lines}\r\n${body}`
export const chunked = (path: string, body: string, lines = ''): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n${lines}\r\n${body}`
/** In chunks of this many bytes. */
export const inChunks = (body: string, size: number): string => {
  let text = ''
  for (let at = 0; at < body.length; at += size) {
    const data = body.slice(at, at + size)
    text += `${data.length.toString(16)}\r\n${data}\r\n`
  }
  return `${text}0\r\n\r\n`
}
