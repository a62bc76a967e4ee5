// The port: taken first, so that a busy one stops the start before anything else is touched. Requests that come early wait for the app.
import type { App } from '../app.ts'
import type { Config } from '../config.ts'
import { CHAT_PATH } from '../http/inference.ts'
import { codeOf } from '../lib/error-code.ts'
import { ConfigError } from '../lib/settings.ts'

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
export const listen = ({ host, port, processes }: Config['server'], shared: boolean): Listener => {
  const app = Promise.withResolvers<App>()
  // A port that may be shared is given to strangers too: only a bind that shares nothing tells that it is free.
  if (processes > 1 && !shared) void bind(host, port, false, app.promise).stop(true)
  const server = bind(host, port, processes > 1, app.promise)
  return {
    url: `http://${shownHost(host)}:${server.port}`,
    serve(ready) {
      // The server finds the path by itself: 2 us less than asking a request for its method and URL, which are made for whoever asks.
      const routes = { [CHAT_PATH]: { POST: ready.chat } }
      server.reload({ ...ready.serve, routes, fetch: ready.fetch })
      app.resolve(ready)
    },
    async stop() {
      // The last bytes of what was ended a moment ago are on their way.
      const deadline = performance.now() + LAST_BYTES_MS
      while (server.pendingRequests > 0 && performance.now() < deadline) await Bun.sleep(5)
      await server.stop(true)
    },
  }
}

const bind = (hostname: string, port: number, reusePort: boolean, app: Promise<App>) => {
  try {
    return Bun.serve({
      hostname,
      port,
      reusePort,
      idleTimeout: 0,
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      fetch: async (request, server) => (await app).fetch(request, server),
    })
  } catch (error) {
    const code = codeOf(error) ?? ''
    if (code === 'EADDRNOTAVAIL')
      throw new ConfigError(`${hostname} is not an address of this machine: correct server.host (GATEWAY_SERVER_HOST)`)
    throw new ConfigError(`port ${port} on ${hostname} ${MENDS[code] ?? `cannot be opened (${code})`}`)
  }
}

const shownHost = (host: string): string => {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}
