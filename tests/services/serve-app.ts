// An app of a test behind the gateway's own server, on a free port.
import type { App } from '../../src/app.ts'
import { type HttpServer, serveHttp } from '../../src/lib/http-server/server.ts'

const HEAD_MS = 10_000

export const serveApp = ({ handlers, idleMs }: Pick<App, 'handlers' | 'idleMs'>, headMs = HEAD_MS): HttpServer =>
  serveHttp({ hostname: '127.0.0.1', port: 0, reusePort: false, handlers, idleMs, headMs })
