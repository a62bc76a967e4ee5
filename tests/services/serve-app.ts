// An app of a test behind a listener of the gateway, on a free port.
import type { App } from '../../src/app.ts'
import { LISTENERS } from '../../src/composition/listener.ts'
import type { HttpServer } from '../../src/lib/http-server/server.ts'

const HEAD_MS = 10_000

/** The values of `server.listener`: what clients are promised is tried on each. */
export const EACH_LISTENER = Object.keys(LISTENERS) as readonly Listener[]
export type Listener = keyof typeof LISTENERS

export const serveApp = (
  { handlers, idleMs }: Pick<App, 'handlers' | 'idleMs'>,
  listener: Listener = 'own',
): HttpServer =>
  LISTENERS[listener]({ hostname: '127.0.0.1', port: 0, reusePort: false, handlers, idleMs, headMs: HEAD_MS })
