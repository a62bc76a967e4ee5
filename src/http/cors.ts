// Web pages that call the inference surface from a browser. Off unless `server.cors_origins` names their origins; never
// for the admin surface, and never with cookies: pages send a key.
import { type Answer, type HeaderReader, type HotRoute, headLines } from '../lib/http-server/http-server.ts'
import { identityHeaders } from './envelope.ts'
import { contextOf, pathOf } from './request-context.ts'

const LIMITS = ['limit', 'remaining', 'reset'].flatMap((what) => [
  `x-ratelimit-${what}-requests`,
  `x-ratelimit-${what}-tokens`,
])
/** Headers of responses that scripts may read. */
const EXPOSED = [
  ...['x-request-id', 'x-trace-id', 'x-gateway-provider', 'x-gateway-retryable', 'x-should-retry', 'retry-after'],
  ...['x-gateway-upstream-status', 'x-gateway-cache', 'x-gateway-revision'],
  ...LIMITS,
].join(', ')
const METHODS = 'GET, HEAD, POST'
const MAX_AGE_S = '600'
const FIELD_NAMES = /^[\w!#$%&'*+.^`|~-]+(?:[\t ]*,[\t ]*[\w!#$%&'*+.^`|~-]+)*$/
const MOST_NAMES_CHARS = 2_048

const isInference = (path: string): boolean => /^\/+v1(?:\/|$)/.test(path)

export interface Cors {
  /** The response to a preflight of an allowed origin; null for any other request. */
  preflight(request: Request): Response | null
  /** Adds the headers to a response of the inference surface. */
  opened(request: Request, response: Response): Response
  /** A hot route whose responses have the headers. */
  hot(route: HotRoute): HotRoute
}

/** Null: no page may call. */
export const corsFor = (origins: readonly string[]): Cors | null => {
  if (origins.length === 0) return null
  const all = origins.includes('*')
  const known = new Set(origins.map((origin) => origin.toLowerCase()))
  /** Responses differ by origin, so caches must tell them apart, also where the origin is not allowed. */
  const headersFor = (headers: HeaderReader): Record<string, string> => {
    const origin = headers.get('origin')
    if (origin === null || !(all || known.has(origin.toLowerCase()))) return all ? {} : { vary: 'Origin' }
    const allowed = { 'access-control-allow-origin': all ? '*' : origin, 'access-control-expose-headers': EXPOSED }
    return all ? allowed : { ...allowed, vary: 'Origin' }
  }
  return {
    preflight(request) {
      const { headers } = request
      if (request.method !== 'OPTIONS' || !isInference(pathOf(request))) return null
      const { 'access-control-allow-origin': allowed } = headersFor(headers)
      if (allowed === undefined || !headers.has('access-control-request-method')) return null
      const asked = headers.get('access-control-request-headers') ?? ''
      const named = asked.length <= MOST_NAMES_CHARS && FIELD_NAMES.test(asked)
      const answer = {
        ...identityHeaders(contextOf(request)),
        'access-control-allow-origin': allowed,
        'access-control-allow-methods': METHODS,
        ...(named ? { 'access-control-allow-headers': asked } : {}),
        'access-control-max-age': MAX_AGE_S,
        vary: 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers',
      }
      return new Response(null, { status: 204, headers: answer })
    },
    opened(request, response) {
      if (!isInference(pathOf(request))) return response
      for (const [name, value] of Object.entries(headersFor(request.headers))) response.headers.set(name, value)
      return response
    },
    hot: ({ handle, ...route }) => ({
      ...route,
      handle: (request) => {
        const lines = headLines(headersFor(request.headers))
        const withLines = (answer: Answer): Answer => ({
          ...answer,
          head: typeof answer.head === 'string' ? answer.head + lines : [...answer.head, lines],
        })
        const answer = handle(request)
        return answer instanceof Promise ? answer.then(withLines) : withLines(answer)
      },
    }),
  }
}
