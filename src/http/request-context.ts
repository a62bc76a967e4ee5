// Who a request is: its own id, the label that the client sees, its trace. Made once for each request.

export interface RequestContext {
  /** Ours and unique, `req_<UUIDv7>`. */
  readonly id: string
  /** The client's label (`X-Request-ID`, sanitised) when sent, else our id. Echoed, never a key for anything. */
  readonly requestId: string
  /** 32 hex digits: of a valid `traceparent`, else made from our id. */
  readonly traceId: string
  /** Arrival: Unix milliseconds and, for durations, the monotonic clock. */
  readonly atMs: number
  readonly startedMs: number
}

const LABEL_LIMIT = 128
const BAD_LABEL = /[^A-Za-z0-9._-]/g
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/

/** Reads the identifying headers; bad characters of the label are dropped, an empty rest counts as not sent. */
export const newRequestContext = (headers: Headers): RequestContext => {
  const uuid = Bun.randomUUIDv7()
  const id = `req_${uuid}`
  const sent = headers.get('x-request-id')
  const label =
    sent === null
      ? ''
      : sent
          .slice(0, 4 * LABEL_LIMIT)
          .replace(BAD_LABEL, '')
          .slice(0, LABEL_LIMIT)
  const parent = headers.get('traceparent')
  const trace = parent === null ? undefined : TRACEPARENT.exec(parent)?.[1]
  return {
    id,
    requestId: label === '' ? id : label,
    traceId: trace === undefined || trace === '0'.repeat(32) ? uuid.replaceAll('-', '') : trace,
    atMs: Date.now(),
    startedMs: performance.now(),
  }
}

const contexts = new WeakMap<Request, RequestContext>()

/** The context of a request, the same one however often it is asked (a handler and the error hook must agree). */
export const contextOf = (request: Request): RequestContext => {
  let context = contexts.get(request)
  if (context === undefined) {
    context = newRequestContext(request.headers)
    contexts.set(request, context)
  }
  return context
}

/** Whole milliseconds since arrival. */
export const elapsedMs = (context: RequestContext): number =>
  Math.max(0, Math.round(performance.now() - context.startedMs))
