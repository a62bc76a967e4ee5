// The cookie of a console session: its token is read here; `upkeep/console/sessions.ts` decides whether it is valid.
// Also the check that a request with it comes from the page of the console.
import { GatewayError } from '../wire/errors.ts'
import type { Client } from './clients.ts'

const NAME = 'gateway_session'
const TOKEN = /^[A-Za-z0-9_-]{43}$/

/** The token of the one session cookie; null when there is none, or several. */
export const sessionToken = (headers: Headers): string | null => {
  const cookies = headers.get('cookie')
  if (cookies === null) return null
  const values = cookies
    .split(';')
    .map((cookie) => cookie.trim())
    .filter((cookie) => cookie.startsWith(`${NAME}=`))
    .map((cookie) => cookie.slice(NAME.length + 1))
  return values.length === 1 && TOKEN.test(values[0]!) ? values[0]! : null
}

/** `Set-Cookie` with the token; null removes the cookie. */
export const sessionCookie = (token: string | null, secure: boolean): string => {
  const value = token === null ? `${NAME}=; Max-Age=0` : `${NAME}=${token}`
  return `${value}; Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`
}

/**
 * Whether a request comes from the console's own page, or from no page at all. Browsers send `Sec-Fetch-Site`; older
 * ones and those on plain HTTP send `Origin` with every write. A client that sends neither is no browser.
 */
export const isSameOrigin = ({ headers }: Request, { hosts }: Client): boolean => {
  const site = headers.get('sec-fetch-site')
  if (site !== null) return site === 'same-origin' || site === 'none'
  const origin = headers.get('origin')
  return origin === null || (URL.canParse(origin) && hosts.includes(new URL(origin).host))
}

const isRead = ({ method }: Request): boolean => method === 'GET' || method === 'HEAD'

const hasBody = ({ headers, body }: Request): boolean => body !== null && headers.get('content-length') !== '0'

const isJson = (type: string | null): boolean => /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type?.trim() ?? '')

const namesItsOrigin = ({ headers }: Request): boolean => headers.has('sec-fetch-site') || headers.has('origin')

/**
 * Throws 403 for a write with a session that does not prove, by `Sec-Fetch-Site` or `Origin`, that the own page caused
 * it. Browsers always send one of them.
 */
export const requireProvenOwnPage = (request: Request, client: Client): void => {
  if (isRead(request)) return
  if (!namesItsOrigin(request)) {
    throw new GatewayError('permission_error', 'with a session a write must say in `Origin` where it comes from', {
      param: 'Origin',
    })
  }
  requireOwnPage(request, client)
}

const otherSite = ({ headers }: Request, message: string): GatewayError =>
  new GatewayError('permission_error', message, {
    param: headers.has('sec-fetch-site') ? 'Sec-Fetch-Site' : 'Origin',
  })

/**
 * Throws 403 for a request with a session cookie that another site may have caused. A read changes nothing and shows
 * nothing to other sites.
 */
const requireOwnPage = (request: Request, client: Client): void => {
  if (!isSameOrigin(request, client))
    throw otherSite(request, 'a session of the console changes nothing from another site')
  if (hasBody(request) && !isJson(request.headers.get('content-type'))) {
    throw new GatewayError('permission_error', 'with a session the body must be `application/json`', {
      param: 'Content-Type',
    })
  }
}

/**
 * Throws 403 for a set-up or a login that another site may have caused, and 415 for a body that is not declared as
 * JSON: a form of another site can send no other.
 */
export const requireOwnForm = (request: Request, client: Client): void => {
  if (!isSameOrigin(request, client)) throw otherSite(request, 'only the own page of the gateway signs in or sets up')
  if (!hasBody(request) || isJson(request.headers.get('content-type'))) return
  throw new GatewayError('invalid_request', 'the body must be `application/json`', {
    status: 415,
    param: 'Content-Type',
  })
}
