// Identity of a request: its own id, the label that the client sees, its trace. Created once for each request.

import type { Identity } from '../inference/request/exchange.ts'
import { newId } from '../lib/crypto/ids.ts'
import { readTraceParent } from '../lib/http/trace-context.ts'
import type { HeaderReader } from '../lib/http-server/http-server.ts'
import { wallMs } from '../lib/time/wall-clock.ts'

const LABEL_LIMIT = 128
const BAD_LABEL = /[^A-Za-z0-9._-]/g

/** Reads the identifying headers. Invalid characters of the label are dropped; an empty rest counts as absent. */
export const newIdentity = (headers: HeaderReader): Identity => {
  const atMs = wallMs()
  const id = newId('req', atMs)
  const sent = headers.get('x-request-id')
  const label =
    sent === null
      ? ''
      : sent
          .slice(0, 4 * LABEL_LIMIT)
          .replace(BAD_LABEL, '')
          .slice(0, LABEL_LIMIT)
  const parent = headers.get('traceparent')
  return {
    id,
    requestId: label === '' ? id : label,
    traceId: (parent === null ? null : readTraceParent(parent)?.traceId) ?? ownTraceId(id),
    atMs,
    startedMs: performance.now(),
  }
}

/** The digits of a request's id: 32 lower-case hex digits, as in a trace id. */
const ownTraceId = (id: string): string => id.slice('req_'.length).replaceAll('-', '')

const contexts = new WeakMap<Request, Identity>()

/** The identity of a request. Every call returns the same one: a handler and the error hook must agree. */
export const contextOf = (request: Request): Identity => {
  let identity = contexts.get(request)
  if (identity === undefined) {
    identity = newIdentity(request.headers)
    contexts.set(request, identity)
  }
  return identity
}

/** Gives a request that is made of another one its identity. */
export const sameContext = (request: Request, made: Request): void => {
  contexts.set(made, contextOf(request))
}

/** Whole milliseconds since arrival. */
export const elapsedMs = (identity: Identity): number => Math.max(0, Math.round(performance.now() - identity.startedMs))

/** The path of a request's URL, undecoded. Elysia's own `path` is wrong for short hosts. */
export const pathOf = (request: Request): string => {
  const { url } = request
  const start = url.indexOf('/', url.indexOf('://') + 3)
  if (start < 0) return '/'
  const query = url.indexOf('?', start)
  const end = query < 0 ? url.indexOf('#', start) : query
  return end < 0 ? url.slice(start) : url.slice(start, end)
}
