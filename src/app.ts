// The application: mounts `http/*` on one set of dependencies. It does no I/O of its own. `main.ts` serves it, tests
// call it.
import { Elysia } from 'elysia'
import { type AdminDeps, adminRoutes, adminTable } from './http/admin/runner.ts'
import { notePeer, samePeer } from './http/clients.ts'
import { authTable, type ConsoleDeps, consoleAuthRoutes } from './http/console-auth.ts'
import { type Cors, corsFor } from './http/cors.ts'
import type { DocumentOptions } from './http/docs/document.ts'
import { docsRoutes } from './http/docs/routes.ts'
import { schemaRoutes } from './http/docs/schema-routes.ts'
import { errorResponse } from './http/envelope.ts'
import { failureHandlers } from './http/failure-handlers.ts'
import { requireAllowedHost } from './http/host-check.ts'
import { chatHandler, hotRoutes, inferenceRoutes } from './http/inference.ts'
import { gatewayMetrics, type MetricsDeps } from './http/metrics/metrics.ts'
import { type OperationsDeps, operationsRoutes } from './http/operations.ts'
import { admitWhileRoom } from './http/overload.ts'
import { contextOf, elapsedMs, pathOf } from './http/request-context.ts'
import { withSingleSlashes } from './http/slashes.ts'
import { unknownRoute } from './http/unknown.ts'
import { chatCompletions } from './inference/chat.ts'
import type { InferenceDeps } from './inference/request/deps.ts'
import { LoadGate } from './lib/event-loop/load-gate.ts'
import type { Answer, Inbound, Peers, ServerHandlers } from './lib/http-server/http-server.ts'
import { stopping } from './wire/errors.ts'

/** The dependencies of all routes: those of each part, joined; parts that share a thing share its name. */
export type AppDeps = Omit<InferenceDeps, 'observe'> &
  AdminDeps &
  ConsoleDeps &
  OperationsDeps &
  Pick<MetricsDeps, 'instanceCounts' | 'telemetry'> & {
    readonly adminEnabled: boolean
    readonly setup: ConsoleDeps['setup']
    /** `server.cors_origins`. */
    readonly corsOrigins: readonly string[]
    /** Admits chat completions while there is room. Without it, all are admitted. */
    readonly gate?: LoadGate
    /** Whether the code of the request path is compiled; until then `/ready` is 503. Without it, it is. */
    readonly isWarm?: () => boolean
  }

/** What a process that ends does with requests, in this order. */
type Phase = 'serving' | 'leaving' | 'stopping'

export interface App {
  /**
   * Handles any request. Never throws and never rejects. `peers` looks up the address of a connection's other end;
   * without it, no request has an address.
   */
  readonly fetch: (request: Request, peers?: Peers) => Response | Promise<Response>
  /** What a server mounts: `fetch`, and the hot routes, which it may serve without the runtime's `Request`. */
  readonly handlers: ServerHandlers
  /** How long a connection may stay silent after the response to its request. */
  readonly idleMs: number
  /** Requests in progress. */
  inFlight(): number
  /** `/ready` is 503 and every response closes its connection, so that clients go elsewhere. Requests are taken. */
  leave(): void
  /** As `leave`, but writes are refused with 503 and `Retry-After`; reads are still served. */
  prepareToStop(): void
  /** Admits no more requests, waits for those in flight, then ends and settles the rest. */
  drain(timeoutMs: number): Promise<void>
}

export const createApp = (deps: AppDeps): App => {
  let phase: Phase = 'serving'
  const isWarm = deps.isWarm ?? (() => true)
  const inFlight = (): number => chat.active.size
  const gate = deps.gate ?? new LoadGate({ everyMs: 0, maxDelayMs: null, maxMemoryBytes: null, nowMs: () => 0 })
  const metrics = gatewayMetrics({
    live: deps.live,
    spool: deps.spool,
    health: deps.health,
    limits: deps.limits,
    instanceCounts: deps.instanceCounts,
    build: deps.build,
    telemetry: deps.telemetry,
    inFlight,
    gate,
  })
  const inference: InferenceDeps = { ...deps, observe: metrics.observe }
  const chat = chatCompletions(inference)
  const complete = admitWhileRoom(chatHandler(chat, inference), gate)
  const lastChat = async (request: Inbound): Promise<Answer> => ({ ...(await complete(request)), closes: true })
  const cors = corsFor(deps.corsOrigins)
  const plain = hotRoutes((request) => (phase === 'serving' ? complete(request) : lastChat(request)))
  const hot = cors === null ? plain : plain.map(cors.hot)
  // Otherwise Elysia looks for the path from the eleventh character of the URL on: with a host of three letters the
  // path begins before it.
  const routes = new Elysia({ name: 'gatelog', handler: { standardHostname: false } })
    .onError({ as: 'global' }, ({ error, request }) => {
      const thrown = isNotFound(error) ? unknown(request.method, pathOf(request)) : error
      const context = contextOf(request)
      return errorResponse(thrown, { ...context, latencyMs: elapsedMs(context) })
    })
    .use(inferenceRoutes(hot, inference))
    .use(operationsRoutes(deps, metrics, { inFlight, isStopping: () => phase !== 'serving', isWarm }))
  if (deps.adminEnabled) routes.use(consoleAuthRoutes(deps, metrics.countAuth)).use(adminRoutes(deps))
  if (deps.docsEnabled) routes.use(docsRoutes(() => documentOptions(deps))).use(schemaRoutes())
  const unknown = unknownRoute(routes.routes)
  routes.compile()

  const answer = entrance(deps, cors, routes.fetch)
  /** A chat completion is refused by the chat handler itself, so that it leaves an outcome. */
  const closingAnswer = async (request: Request, peers?: Peers): Promise<Response> => {
    const path = pathOf(request)
    const isHot = hot.some((route) => request.method === route.method && path === route.path)
    const isRefused = phase === 'stopping' && !READS.has(request.method) && !isHot
    const refusal = () => errorResponse(stopping(), contextOf(request))
    const response = isRefused ? (cors?.opened(request, refusal()) ?? refusal()) : await answer(request, peers)
    response.headers.set('connection', 'close')
    return response
  }
  const fetch: App['fetch'] = (request, peers) =>
    phase === 'serving' ? answer(request, peers) : closingAnswer(request, peers)
  return {
    fetch,
    handlers: { fetch, hot, ...failureHandlers(deps) },
    idleMs: deps.inference.idleS * 1_000,
    inFlight,
    leave() {
      phase = 'leaving'
    },
    prepareToStop() {
      phase = 'stopping'
      chat.active.close()
    },
    drain: (timeoutMs) => chat.active.drain(timeoutMs),
  }
}

/** What every request passes before its route is looked for: its host, its slashes, and of a page its origin. */
const entrance = (
  deps: AppDeps,
  cors: Cors | null,
  route: (request: Request) => Response | Promise<Response>,
): App['fetch'] => {
  const routed = (request: Request): Response | Promise<Response> => {
    try {
      if (deps.adminEnabled) requireAllowedHost(request, deps.clients, deps.setup.hosts)
      const meant = withSingleSlashes(request, deps)
      return meant.method === 'HEAD' ? head(meant, route) : route(meant)
    } catch (error) {
      return errorResponse(error, contextOf(request))
    }
  }
  return (request, peers) => {
    notePeer(request, peers)
    if (cors === null) return routed(request)
    const response = cors.preflight(request) ?? routed(request)
    return response instanceof Promise
      ? response.then((whole) => cors.opened(request, whole))
      : cors.opened(request, response)
  }
}

const READS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** What the document is made of: the tables of the mounted routes. */
const documentOptions = (deps: AppDeps): DocumentOptions => ({
  name: deps.build.name,
  version: deps.build.version,
  authHeader: deps.inference.authHeader,
  metrics: deps.prometheusEnabled,
  admin: deps.adminEnabled ? { table: adminTable(deps), auth: authTable(deps, () => {}) } : null,
})

const isNotFound = (error: unknown): boolean =>
  error !== null && typeof error === 'object' && 'code' in error && error.code === 'NOT_FOUND'

/** A HEAD is the GET without its body. */
const head = async (
  request: Request,
  answer: (request: Request) => Response | Promise<Response>,
): Promise<Response> => {
  const made = new Request(request.url, { headers: request.headers })
  samePeer(request, made)
  const { status, headers, body } = await answer(made)
  await body?.cancel()
  return new Response(null, { status, headers })
}
