// An HTTP/1.1 server on bare sockets: strict about where requests begin and end, with a response of the caller's for
// all input, and hot routes without the runtime's `Request` and `Response`. Why:
// docs/decisions/0041-a-server-of-our-own.md.
import type { SocketHandler } from 'bun'
import { IndexSet } from '../collections/index-set.ts'
import type { Answer } from './answer.ts'
import { type ConnectionOwner, ServerConnection } from './connection.ts'
import type { Inbound } from './inbound.ts'
import type { Reply } from './reply.ts'
import type { ServerRequest } from './request.ts'
import { MalformedRequest } from './request-head.ts'

/** The peers of connections. */
export interface Peers {
  requestIP(request: Request): { readonly address: string } | null
}

/** A route that is handled without the runtime's `Request` and `Response`. */
export interface HotRoute {
  readonly method: string
  /** Without parameters and wildcards. */
  readonly path: string
  /** Must not throw or reject. */
  readonly handle: (request: Inbound) => Answer | Promise<Answer>
}

export interface ServerHandlers {
  /** Any request. Must not throw or reject. */
  readonly fetch: (request: Request, peers: Peers) => Response | Promise<Response>
  /** Requests with exactly this method and target skip `fetch`. A server may pass them to `fetch` all the same. */
  readonly hot: readonly HotRoute[]
  /** Malformed or ambiguous input. */
  readonly malformed: (error: MalformedRequest) => Answer
  /** Receives faults of the program; its response is sent if no head was sent yet. */
  readonly failed: (error: unknown) => Answer
}

export interface ServerOptions {
  readonly hostname: string
  /** 0: a free port. */
  readonly port: number
  /** Other processes may listen on the port too. */
  readonly reusePort: boolean
  readonly handlers: ServerHandlers
  /**
   * A connection is closed after this time without a request, or without progress of a client that reads a response.
   */
  readonly idleMs: number
  /** Longest time of a head. */
  readonly headMs: number
}

export interface HttpServer {
  readonly port: number
  /** Requests whose response is not complete. */
  readonly pendingRequests: number
  reload(options: Pick<ServerOptions, 'handlers' | 'idleMs'>): void
  /** Closes the port and every connection. */
  stop(): void
}

const SWEEP_MS = 500

const HANDLERS: SocketHandler<ServerConnection> = {
  data: (socket, bytes) => socket.data.data(bytes),
  drain: (socket) => socket.data.output.drain(),
  // The client sends no more; it may still read (RFC 9112, 9.6).
  end: (socket) => socket.data.ended(),
  close: (socket) => socket.data.closed(),
  // An exception in one of these handlers: a fault of the program.
  error(socket, error) {
    socket.data.fail(error)
  },
}

/** Throws the system's error about the address or the port, with its `code`. */
export const serveHttp = (options: ServerOptions): HttpServer => {
  const server = new Server(options)
  const listener = listenOn(server, options)
  return {
    port: listener.port,
    get pendingRequests() {
      return server.pending()
    },
    reload: (next) => server.reload(next),
    stop() {
      server.resetUnfinished()
      listener.stop(true)
      server.stop()
    },
  }
}

const listenOn = (server: Server, options: ServerOptions) => {
  try {
    return Bun.listen<ServerConnection>({
      hostname: options.hostname,
      port: options.port,
      ...({ reusePort: options.reusePort } as object),
      allowHalfOpen: true,
      // Replaced when the connection opens.
      data: null as unknown as ServerConnection,
      socket: {
        ...HANDLERS,
        open(socket) {
          const connection = new ServerConnection(server)
          socket.data = connection
          connection.opened(socket)
          server.opened(connection)
        },
      },
    })
  } catch (error) {
    server.stop()
    throw error
  }
}

/** A hot route with the bytes that its requests begin with. */
interface HotLine {
  readonly line: Buffer
  readonly handle: HotRoute['handle']
}

const hotLines = (routes: readonly HotRoute[]): readonly HotLine[] =>
  routes.map(({ method, path, handle }) => ({ line: Buffer.from(`${method} ${path}`), handle }))

class Server implements ConnectionOwner, Peers {
  idleMs: number
  readonly headMs: number
  #handlers: ServerHandlers
  #hot: readonly HotLine[]
  readonly #connections = new IndexSet<ServerConnection>()
  readonly #connectionOf = new WeakMap<Request, ServerConnection>()
  readonly #sweep: ReturnType<typeof setInterval>

  constructor({ handlers, idleMs, headMs }: ServerOptions) {
    this.#handlers = handlers
    this.#hot = hotLines(handlers.hot)
    this.idleMs = idleMs
    this.headMs = headMs
    this.#sweep = setInterval(() => this.#endOverdue(), SWEEP_MS)
    this.#sweep.unref()
  }

  opened(connection: ServerConnection): void {
    this.#connections.add(connection)
  }

  closed(connection: ServerConnection): void {
    this.#connections.delete(connection)
  }

  reload({ handlers, idleMs }: Pick<ServerOptions, 'handlers' | 'idleMs'>): void {
    this.#handlers = handlers
    this.#hot = hotLines(handlers.hot)
    this.idleMs = idleMs
  }

  pending(): number {
    let count = 0
    this.#connections.each(({ request, share }) => {
      if (request !== null || share.isWaiting) count++
    })
    return count
  }

  /**
   * Resets HTTP/1.0 connections with an unfinished response, since its end would look like a complete one. All others
   * are closed, and what is with the kernel is still sent.
   */
  resetUnfinished(): void {
    this.#connections.each((connection) => {
      if (connection.request?.headers.isOne === false) connection.destroy()
    })
  }

  stop(): void {
    clearInterval(this.#sweep)
    this.#connections.each((connection) => connection.destroy())
  }

  requestIP(request: Request): { address: string } | null {
    const address = this.#connectionOf.get(request)?.socket.address ?? null
    return address === null ? null : { address }
  }

  malformed(error: MalformedRequest): Answer {
    return this.#handlers.malformed(error)
  }

  failed(error: unknown): Answer {
    return this.#handlers.failed(error)
  }

  answer(request: ServerRequest, connection: ServerConnection): Reply | Promise<Reply> {
    const hot = this.#hot
    for (let i = 0; i < hot.length; i++) {
      if (!request.headers.isFor(hot[i]!.line)) continue
      connection.suspendDeadlines()
      return hot[i]!.handle(request)
    }
    let runtimeRequest: Request
    try {
      runtimeRequest = requestOf(request, connection)
    } catch (error) {
      if (error instanceof MalformedRequest) return this.malformed(error)
      return this.malformed(new MalformedRequest('the path, or a header, is not one that can be read'))
    }
    this.#connectionOf.set(runtimeRequest, connection)
    return this.#handlers.fetch(runtimeRequest, this)
  }

  #endOverdue(): void {
    const nowMs = performance.now()
    this.#connections.each((connection) => {
      const { socket, output } = connection
      // The kernel reports room only when a third of its buffer of megabytes is free. A slow reader may take longer, so
      // progress is read from the kernel.
      if (output.isBlocked && socket.hasProgress())
        connection.deadlineMs = Math.max(connection.deadlineMs, nowMs + this.idleMs)
      if (socket.isPaused || connection.hasEnded) connection.lookAtPeer(nowMs)
      if (!output.dead && nowMs >= connection.deadlineMs) connection.overdue()
    })
  }
}

/** The runtime's `Request` turns other methods into GET, or refuses them. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
const BODILESS: ReadonlySet<string> = new Set(['GET', 'HEAD'])
const ABSOLUTE = /^https?:\/\/([^/?#]*)(.*)$/i

/** Makes the runtime's `Request`. Throws MalformedRequest, or a TypeError for an invalid URL. */
const requestOf = (request: ServerRequest, connection: ServerConnection): Request => {
  const { method, host, target } = request.headers
  const controller = new AbortController()
  request.onabort = () => controller.abort()
  const authority = host === '' ? `localhost:${connection.socket.localPort}` : host
  const isUsual = METHODS.has(method)
  const runtimeRequest = new Request(`http://${authority}${pathOf(target, host)}`, {
    method: isUsual ? method : 'OPTIONS',
    headers: request.headers.entries(),
    signal: controller.signal,
    ...(BODILESS.has(method) || !request.hasBody ? {} : { body: request.body, duplex: 'half' }),
  })
  return isUsual ? runtimeRequest : Object.defineProperty(runtimeRequest, 'method', { value: method })
}

/**
 * The path of a target. A target with a host must name that of the Host header: a proxy in front may have routed by
 * either.
 */
const pathOf = (target: string, host: string): string => {
  if (target.startsWith('/')) return target
  const absolute = ABSOLUTE.exec(target)
  if (absolute === null) throw new MalformedRequest('the path must begin with a slash')
  const [, authority = '', path = ''] = absolute
  if (authority.toLowerCase() !== host.toLowerCase())
    throw new MalformedRequest('the URL of the first line names another host than the Host header', 400, 'host')
  return path.startsWith('/') ? path : `/${path}`
}
