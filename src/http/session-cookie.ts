// The cookie of a console session, and what a request that carries it must be: the same page's own doing.
import { GatewayError } from '../wire/errors.ts'
import type { Client } from './clients.ts'

const NAME = 'gateway_session'
const TOKEN = /^[A-Za-z0-9_-]{43}$/

/** The token of the one session cookie; null when there is none, or more than one could be meant. */
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

/** `Set-Cookie` with the token; null takes the cookie away. */
export const sessionCookie = (token: string | null, secure: boolean): string => {
  const value = token === null ? `${NAME}=; Max-Age=0` : `${NAME}=${token}`
  return `${value}; Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`
}

/**
 * Whether a request is the doing of our own page, or of no page at all. Browsers say so in `Sec-Fetch-Site`, older ones and those on plain HTTP in `Origin`,
 * which they send with every write; what says neither is no browser.
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

const saysWhere = ({ headers }: Request): boolean => headers.has('sec-fetch-site') || headers.has('origin')

/** Throws 403 for a write with the powers of a session that does not say that our own page caused it: browsers always do. */
export const requireSaidOwn = (request: Request, client: Client): void => {
  if (isRead(request)) return
  if (!saysWhere(request)) {
    throw new GatewayError('permission_error', 'with a session a write must say in `Origin` where it comes from', {
      param: 'Origin',
    })
  }
  requireOwnPage(request, client)
}

/** Throws 403 for a request with the powers of a cookie that another site may have caused. A read changes nothing and shows nothing to others. */
export const requireOwnPage = (request: Request, client: Client): void => {
  if (isRead(request)) return
  if (!isSameOrigin(request, client)) {
    throw new GatewayError('permission_error', 'a session of the console changes nothing from another site', {
      param: request.headers.has('sec-fetch-site') ? 'Sec-Fetch-Site' : 'Origin',
    })
  }
  if (hasBody(request) && !isJson(request.headers.get('content-type'))) {
    throw new GatewayError('permission_error', 'with a session the body must be `application/json`', {
      param: 'Content-Type',
    })
  }
}
