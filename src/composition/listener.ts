// The port: taken first, so that a busy one stops the start before anything else is touched. Requests that come early
// wait for the app.
import type { App } from '../app.ts'
import type { Config } from '../config/schema.ts'
import { failureHandlers } from '../http/failure-handlers.ts'
import {
  type HttpServer,
  type ServerHandlers,
  type ServerOptions,
  serveHttp,
  serveWithBun,
} from '../lib/http-server/http-server.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { codeOf } from '../lib/process/error-code.ts'
import { ConfigError } from '../lib/settings/settings.ts'

export interface Listener {
  /** `http://127.0.0.1:8080`: where this machine reaches it. */
  readonly url: string
  serve(app: App): void
  stop(): Promise<void>
}

const LAST_BYTES_MS = 500

const MENDS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is in use: stop the other program or set another server.port (GATEWAY_SERVER_PORT)',
  EACCES: 'may not be opened by this user: set a server.port above 1023 (GATEWAY_SERVER_PORT)',
}

/** Throws ConfigError when the port or the address cannot be had. */
export const listen = (
  { host, port, processes, listener }: Config['server'],
  shared: boolean,
  diagnostics: Pick<Diagnostics, 'error'>,
): Listener => {
  const app = Promise.withResolvers<App>()
  // A port that may be shared is also given to other programs: only a bind that shares nothing proves that it is free.
  const options = { hostname: host, port, handlers: early(app.promise, diagnostics) }
  if (processes > 1 && !shared) bind(listener, { ...options, reusePort: false }).stop()
  const server = bind(listener, { ...options, reusePort: processes > 1 })
  return {
    url: `http://${shownHost(host)}:${server.port}`,
    serve(ready) {
      server.reload(ready)
      app.resolve(ready)
    },
    async stop() {
      // The last bytes of what was ended a moment ago are on their way.
      const deadline = performance.now() + LAST_BYTES_MS
      while (server.pendingRequests > 0 && performance.now() < deadline) await Bun.sleep(5)
      server.stop()
    },
  }
}

/** How long a head may take. */
const HEAD_MS = 10_000
const EARLY_IDLE_MS = 75_000

/** Requests that come early wait for the app. */
const early = (app: Promise<App>, diagnostics: Pick<Diagnostics, 'error'>): ServerHandlers => ({
  fetch: async (request, peers) => (await app).fetch(request, peers),
  hot: [],
  ...failureHandlers({ diagnostics }),
})

/** `server.listener`. Both serve the same handlers. */
export const LISTENERS: Readonly<Record<Config['server']['listener'], (options: ServerOptions) => HttpServer>> = {
  own: serveHttp,
  bun: serveWithBun,
}

const bind = (
  listener: Config['server']['listener'],
  options: Omit<ServerOptions, 'idleMs' | 'headMs'>,
): HttpServer => {
  const { hostname, port } = options
  try {
    return LISTENERS[listener]({ ...options, idleMs: EARLY_IDLE_MS, headMs: HEAD_MS })
  } catch (error) {
    const code = codeOf(error) ?? ''
    // A name that does not resolve has this code or none.
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === '')
      throw new ConfigError(`${hostname} is not an address of this machine: correct server.host (GATEWAY_SERVER_HOST)`)
    throw new ConfigError(`port ${port} on ${hostname} ${MENDS[code] ?? `cannot be opened (${code})`}`)
  }
}

const shownHost = (host: string): string => {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}
