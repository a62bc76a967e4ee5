// `Bun.serve` behind the interface of the own server, for installations that want no other HTTP server than the
// runtime's (docs/decisions/0057-listener-own-or-bun.md). Every request goes to `fetch`.
import { responseOf } from './answer.ts'
import type { Inbound } from './inbound.ts'
import { MalformedRequest } from './request-head.ts'
import type { HttpServer, ServerOptions } from './server.ts'

/** Beyond this the runtime responds 413 itself, or stops reading: far more than any body that a handler accepts. */
const MOST_BODY_BYTES = 64 * 1024 * 1024
/** The runtime counts in whole seconds, up to this many. */
const MOST_IDLE_S = 255

/**
 * Throws the runtime's error about the address or the port, with its `code`. `headMs` has no effect: the runtime gives
 * a head twelve seconds.
 */
export const serveWithBun = ({ hostname, port, reusePort, ...options }: ServerOptions): HttpServer => {
  let { handlers, idleMs } = options
  const server = Bun.serve({
    hostname,
    port,
    reusePort,
    development: false,
    // The handler has its own deadlines.
    idleTimeout: 0,
    maxRequestBodySize: MOST_BODY_BYTES,
    fetch: async (request, peers) => {
      let isHeld = false
      const resumeDeadlines = () => peers.timeout(request, Math.min(MOST_IDLE_S, Math.ceil(idleMs / 1_000)))
      Object.assign<Inbound, Pick<Inbound, 'suspendDeadlines' | 'resumeDeadlines'>>(request, {
        suspendDeadlines() {
          isHeld = true
        },
        resumeDeadlines,
      })
      const response = namesTwoHosts(request)
        ? responseOf({ ...handlers.malformed(twoHosts()), closes: true })
        : await handlers.fetch(request, peers)
      if (!isHeld) resumeDeadlines()
      return response
    },
    error: (error) => responseOf({ ...handlers.failed(error), closes: true }),
  })
  return {
    // Set for every listener but a Unix socket.
    port: server.port!,
    get pendingRequests() {
      return server.pendingRequests
    },
    reload(next) {
      ;({ handlers, idleMs } = next)
    },
    stop() {
      // Connections are closed at once; the promise only reports it.
      void server.stop(true)
    },
  }
}

/** Two lines arrive joined by a comma, which no host has. A proxy may have routed by the other one (RFC 9112, 3.2). */
const namesTwoHosts = ({ headers }: Request): boolean => headers.get('host')?.includes(',') ?? false
const twoHosts = () => new MalformedRequest('send one Host header', 400, 'host')
