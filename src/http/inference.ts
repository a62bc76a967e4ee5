// The inference surface. Thin: the stations are in `inference/`, the routes only turn results into responses.
import { Elysia } from 'elysia'
import { authenticate, requireScope } from '../entry/authenticate.ts'
import { failureMembers } from '../inference/answer/shape.ts'
import type { ChatCompletions, Replies } from '../inference/chat.ts'
import type { InferenceDeps } from '../inference/request/deps.ts'
import { Exchange, type Identity } from '../inference/request/exchange.ts'
import type { Called } from '../inference/request/progress.ts'
import { giveFeedback } from '../inference/surface/feedback.ts'
import { listModels, showModel } from '../inference/surface/models.ts'
import {
  type Answer,
  type HeaderReader,
  type HotRoute,
  type Inbound,
  isText,
  responseOf,
} from '../lib/http-server/http-server.ts'
import type { TextPieces } from '../lib/text/text-pieces.ts'
import type { CatalogueEntry, KeyEntry } from '../state/port.ts'
import { GatewayError } from '../wire/errors.ts'
import { errorAnswer, headerText, identityHeaders } from './envelope.ts'
import { contextOf, newIdentity } from './request-context.ts'
import { MIN_REVISION, reachMinRevision } from './revision.ts'

const PLANNED = ['completions', 'embeddings', 'responses'] as const
/** What a client of a planned route may do. */
const INSTEAD: Readonly<Partial<Record<(typeof PLANNED)[number], string>>> = {
  responses: ': switch the client to /v1/chat/completions (docs/clients.md names the switch of each)',
}
const MODELS_PATH = '/v1/models/'
const CHAT_PATH = '/v1/chat/completions'

const JSON_LINES = 'content-type: application/json\r\nx-content-type-options: nosniff\r\nx-request-id: '
const STREAM_LINES =
  'content-type: text/event-stream; charset=utf-8\r\n' +
  'cache-control: no-cache, no-transform\r\nx-accel-buffering: no\r\nx-content-type-options: nosniff\r\nx-request-id: '

const providerTexts = new WeakMap<CatalogueEntry, string>()

/** Built once for each entry. */
const providerLine = (entry: CatalogueEntry): string => {
  let line = providerTexts.get(entry)
  if (line === undefined) {
    line = `\r\nx-gateway-provider: ${headerText(entry.provider)}\r\n`
    providerTexts.set(entry, line)
  }
  return line
}

/**
 * The response head of a chat completion, as text. Its names are constants, and its values have no character that could
 * end their line: request ids are sanitised at arrival, limit lines hold numbers and constants only.
 */
const answerHead = (
  { identity, entry, limitLines }: Pick<Called, 'identity' | 'entry' | 'limitLines'>,
  stream: boolean,
): TextPieces => [
  stream ? STREAM_LINES : JSON_LINES,
  identity.requestId,
  '\r\nx-trace-id: ',
  identity.traceId,
  providerLine(entry),
  limitLines,
]

/** Handles `POST /v1/chat/completions`. Never throws: every failure is the envelope already. */
export type ChatHandler = (request: Inbound) => Answer | Promise<Answer>

export const chatHandler =
  (chat: ChatCompletions, deps: InferenceDeps): ChatHandler =>
  (request) => {
    const { headers } = request
    const exchange = new Exchange(newIdentity(headers))
    // While the request is in flight, its own deadlines hold; `resumeDeadlines` ends that before the last bytes go out.
    // From then on the server disconnects a client that neither reads nor sends a request.
    exchange.client = request
    if (deps.traces) exchange.trace = deps.traces.begin(headers, exchange.identity)
    return headers.has(MIN_REVISION)
      ? onceReached(request, exchange, chat, deps)
      : chat.handle(request, exchange, REPLIES)
  }

const onceReached = async (request: Inbound, exchange: Exchange, chat: ChatCompletions, deps: InferenceDeps) => {
  try {
    await awaitRevision(request.headers, exchange.identity, deps)
  } catch (error) {
    return REPLIES.failed(exchange, error)
  }
  return chat.handle(request, exchange, REPLIES)
}

const REPLIES: Replies<Answer> = {
  answered(exchange, stream, body) {
    return { status: 200, head: answerHead(exchange, stream), body, closes: false }
  },
  failed(exchange, error) {
    exchange.client?.resumeDeadlines?.()
    const { identity, limitLines } = exchange
    const more = failureMembers(exchange, error)
    return errorAnswer(error, { ...exchange.facts(), traceId: identity.traceId, more }, limitLines)
  },
}

/**
 * Waits for `X-Gateway-Min-Revision`, since that revision may contain the key. An unauthenticated caller gets 401 and
 * learns nothing of revisions.
 */
const awaitRevision = async (headers: HeaderReader, { atMs }: Identity, deps: InferenceDeps): Promise<void> => {
  try {
    await reachMinRevision(headers, deps.live)
  } catch (error) {
    authenticate(headers, deps, atMs)
    throw error
  }
}

/** The table of the hot path: the own server serves these routes directly, Elysia mounts them for `App.fetch`. */
export const hotRoutes = (complete: ChatHandler): readonly HotRoute[] => [
  { method: 'POST', path: CHAT_PATH, handle: complete },
]

/** A hot route behind the runtime's `Request` and `Response`. */
const mounted =
  ({ handle }: HotRoute) =>
  async ({ request }: { request: Request }): Promise<Response> => {
    const inbound: Inbound = request
    const answer = await handle(inbound)
    if (!isText(answer.body)) inbound.suspendDeadlines?.()
    return responseOf(answer)
  }

export const inferenceRoutes = (hot: readonly HotRoute[], deps: InferenceDeps) => {
  const authorised = async ({ headers }: Request, identity: Identity): Promise<KeyEntry> => {
    if (headers.has(MIN_REVISION)) await awaitRevision(headers, identity, deps)
    const key = authenticate(headers, deps, identity.atMs)
    requireScope(key, 'inference')
    return key
  }
  const app = new Elysia({ name: 'inference' })
    .post(
      '/v1/feedback',
      async ({ request }) => {
        const identity = contextOf(request)
        if (request.headers.has(MIN_REVISION)) await awaitRevision(request.headers, identity, deps)
        const given = await giveFeedback(request, identity.atMs, deps)
        return Response.json(given, { status: 201, headers: identityHeaders(identity) })
      },
      { parse: 'none', detail: { tags: ['inference'], summary: 'Say what you think of an answer' } },
    )
    .get(
      '/v1/models',
      async ({ request }) => {
        const identity = contextOf(request)
        const { tenantId } = await authorised(request, identity)
        const overrides = deps.steering.overrides(tenantId, identity.atMs)
        const listed = listModels(deps.catalogue, deps.steering.aliases(tenantId), overrides)
        return Response.json(listed, { headers: identityHeaders(identity) })
      },
      { detail: { tags: ['inference'], summary: 'List the models that can be routed' } },
    )
    .get(
      `${MODELS_PATH}*`,
      async ({ request }) => {
        const identity = contextOf(request)
        const { tenantId } = await authorised(request, identity)
        const scopes = deps.steering.aliases(tenantId)
        return Response.json(showModel(deps.catalogue, scopes, modelNameIn(request.url)), {
          headers: identityHeaders(identity),
        })
      },
      { detail: { tags: ['inference'], summary: 'Show one model, by name or alias' } },
    )
  for (const route of hot)
    app.route(route.method, route.path, mounted(route), { parse: 'none', detail: { tags: ['inference'] } })
  for (const name of PLANNED) {
    app.post(
      `/v1/${name}`,
      ({ request }) => {
        authenticate(request.headers, deps, contextOf(request).atMs)
        throw new GatewayError('not_implemented', `/v1/${name} is not served by this gateway${INSTEAD[name] ?? ''}`)
      },
      { parse: 'none', detail: { tags: ['inference'], summary: 'Not implemented: always 501' } },
    )
  }
  return app
}

/** Everything after `/v1/models/`, decoded once: ids hold slashes, sent as they are or encoded. */
const modelNameIn = (url: string): string => {
  const { pathname } = new URL(url)
  try {
    return decodeURIComponent(pathname.slice(MODELS_PATH.length))
  } catch {
    throw new GatewayError('invalid_request', 'the model in the path is not encoded correctly', { param: 'model' })
  }
}
