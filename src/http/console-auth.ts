// `/admin/v1/auth`: set-up, login, logout. Outside the admin surface: unauthenticated callers may use it, so responses
// reveal as little as possible.
import { Elysia } from 'elysia'
import { decideOperator, setupClosed } from '../domain/access/operator.ts'
import { nameOf, PASSWORD_POLICY, Password, requirePassword, Username } from '../domain/access/password-policy.ts'
import { setupIsOpen } from '../domain/access/setup.ts'
import type { ControlReader } from '../domain/control.ts'
import { closed } from '../domain/kernel/fields.ts'
import { Rejection } from '../domain/kernel/rejection.ts'
import { inForce } from '../domain/steering/override-row.ts'
import { requireConfirmed, requireState } from '../entry/authenticate.ts'
import { readJsonBody } from '../entry/body.ts'
import type { IdPrefix } from '../lib/crypto/ids.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { type Static, type TSchema, t } from '../lib/schema/schema.ts'
import type { Operators } from '../upkeep/console/operators.ts'
import type { OpenedSession, Sessions } from '../upkeep/console/sessions.ts'
import { GatewayError } from '../wire/errors.ts'
import { checked, requireValidBody } from './admin/check.ts'
import { type SessionDeps, sessionOf } from './auth.ts'
import type { Client } from './clients.ts'
import { identityHeaders } from './envelope.ts'
import { contextOf } from './request-context.ts'
import { type AppliedDeps, MIN_REVISION, reachMinRevision, revisionHeaders } from './revision.ts'
import { isSameOrigin, requireOwnForm, sessionCookie } from './session-cookie.ts'
import { needsToken, requireSetupToken, type SetupDoor } from './setup-door.ts'

const PREFIX = '/admin/v1/auth'
const BODY_LIMIT_BYTES = 16_384

/** Events counted in `gateway_dashboard_auth_events_total`. */
export const AUTH_EVENTS = [
  'setup',
  'setup_refused',
  'login',
  'login_failed',
  'login_refused',
  'lockout',
  'logout',
] as const
export type AuthEvent = (typeof AUTH_EVENTS)[number]

export interface ConsoleDeps extends SessionDeps, AppliedDeps {
  readonly sessions: Sessions
  readonly operators: Operators
  /** Mark every session cookie `Secure`. */
  readonly cookieSecure: boolean
  readonly setup: SetupDoor
  readonly diagnostics: Diagnostics
  newId(prefix: IdPrefix): string
  nowMs(): number
}

interface AuthCall<Body> {
  readonly request: Request
  readonly client: Client
  readonly body: Body
}

interface AuthResult {
  readonly status?: number
  /** Absent: no body. */
  readonly body?: unknown
  /** The token of a new session; null removes the browser's cookie. Absent: the cookie stays as it is. */
  readonly token?: string | null
  readonly revision?: string | null
}

export interface AuthRoute {
  readonly method: 'GET' | 'POST'
  /** Below `/admin/v1/auth`. */
  readonly path: string
  readonly summary: string
  readonly bodySchema: TSchema | null
  readonly successStatus: number
  /** Throws before the body is read. */
  refuse?(call: AuthCall<null>): void
  handle(call: AuthCall<unknown>): AuthResult | Promise<AuthResult>
}

const SetupBody = closed(t.Object({ username: Username, password: Password, confirm: t.String({ maxLength: 2_048 }) }))
/** `confirm` is accepted and ignored, so that one form serves both. */
const LoginBody = closed(t.Object({ username: Username, password: Password, confirm: t.Optional(t.Unknown()) }))

type Counted = (event: AuthEvent) => void

const opened = (username: string | null, operatorId: string, { token, expiresAt, revision }: OpenedSession) => ({
  body: { username, expires_at: expiresAt, operator_id: operatorId },
  token,
  revision,
})

const state = (deps: ConsoleDeps): AuthRoute => ({
  method: 'GET',
  path: '/state',
  summary: 'Whether somebody has to set up, and whether the browser is signed in',
  bodySchema: null,
  successStatus: 200,
  refuse() {
    requireState(deps.live)
    if (setupIsOpen(deps.live.control)) requireConfirmed(deps.live)
  },
  handle({ request, client }) {
    const session = sessionOf(request.headers, deps)
    const row = session === null ? undefined : deps.live.control.table('operators').get(session.operator_id)
    const username = row === undefined ? null : deps.operators.usernameOf(row)
    const shown = username === null ? {} : { username }
    const isOpen = !deps.setup.isOff && setupIsOpen(deps.live.control)
    const setup = { setup_required: isOpen, setup_token_required: isOpen && needsToken(client, deps.setup) }
    return { body: { ...setup, authenticated: session !== null, ...shown, policy: PASSWORD_POLICY } }
  },
})

const setUp = (deps: ConsoleDeps, count: Counted): AuthRoute => {
  /**
   * Set-up grants every permission, so a freeze refuses it. The message does not give an unauthenticated caller the
   * reason.
   */
  const requireNotFrozen = (control: ControlReader): void => {
    if (inForce(control, 'freeze', '*', null, deps.nowMs()) === null) return
    throw new Rejection('forbidden', 'the console cannot be set up now')
  }
  return {
    method: 'POST',
    path: '/setup',
    summary: 'Make the first operator, once for all time, and sign in',
    bodySchema: SetupBody,
    successStatus: 201,
    refuse({ request, client }) {
      requireState(deps.live)
      try {
        if (deps.setup.isOff) throw setupIsOff()
        if (!setupIsOpen(deps.live.control)) throw setupClosed()
        requireSetupToken(request, client, deps.setup)
      } catch (error) {
        count('setup_refused')
        throw error
      }
      requireConfirmed(deps.live) // it may have been done since
      requireNotFrozen(deps.live.control)
      requireOwnForm(request, client)
    },
    async handle({ body }) {
      const { username, password, confirm } = body as Static<typeof SetupBody>
      const name = nameOf(username)
      requirePassword(password, name, confirm)
      const id = deps.newId('op')
      try {
        const session = await deps.operators.sealed(id, name, password, async (secrets) => {
          const made = await deps.sessions.open(id, null, null, (control) => {
            requireNotFrozen(control)
            return decideOperator(control, { do: 'set_up', id, ...secrets })
          })
          return { ...made, repeated: false }
        })
        count('setup')
        deps.diagnostics.warn('console_set_up', { operator_id: id })
        return opened(name, id, session)
      } catch (error) {
        if (error instanceof Rejection) count('setup_refused')
        throw error
      }
    },
  }
}

const setupIsOff = (): Rejection => new Rejection('forbidden', 'set-up is switched off by the setting "setup"')

/** Error of a failed login: one text for an unknown username and a wrong password. */
const wrongCredentials = (): GatewayError =>
  new GatewayError('authentication_error', 'the username or the password is not right')

const logIn = (deps: ConsoleDeps, count: Counted): AuthRoute => ({
  method: 'POST',
  path: '/login',
  summary: 'Sign in',
  bodySchema: LoginBody,
  successStatus: 200,
  refuse({ request, client }) {
    requireConfirmed(deps.live) // an operator that is not found may exist, and no session can be recorded now
    requireOwnForm(request, client)
  },
  async handle({ request, client, body }) {
    const { username, password } = body as Static<typeof LoginBody>
    const { operator, locked } = await deps.operators.check(username, password, client.address).catch((error) => {
      if (error instanceof GatewayError) count('login_refused')
      throw error
    })
    if (operator === null) {
      count('login_failed')
      if (locked) count('lockout')
      throw wrongCredentials()
    }
    const before = sessionOf(request.headers, deps)
    const session = await deps.sessions.open(operator.id, operator.key_id, before?.id ?? null).catch((error) => {
      throw error instanceof Rejection ? wrongCredentials() : error // the operator was changed or erased meanwhile
    })
    count('login')
    return opened(deps.operators.usernameOf(operator), operator.id, session)
  },
})

const logOut = (deps: ConsoleDeps, count: Counted): AuthRoute => ({
  method: 'POST',
  path: '/logout',
  summary: 'Sign out; always 204',
  bodySchema: null,
  successStatus: 204,
  async handle({ request, client }) {
    // A request from another site ends no session, and gets the same response.
    if (!isSameOrigin(request, client)) return {}
    const session = deps.live.status().serves ? sessionOf(request.headers, deps) : null
    if (session === null) return { token: null }
    count('logout')
    return { token: null, revision: await deps.sessions.close(session) }
  },
})

const me = (deps: ConsoleDeps): AuthRoute => ({
  method: 'GET',
  path: '/me',
  summary: 'The operator who is signed in',
  bodySchema: null,
  successStatus: 200,
  async handle({ request }) {
    const { headers } = request
    let session = sessionOf(headers, deps)
    if (headers.has(MIN_REVISION)) {
      // Waits before the response, also because the session itself may not be folded yet. An unauthenticated caller
      // learns nothing of revisions.
      const reached = await reachMinRevision(headers, deps.live).catch((error: unknown) => error)
      session = sessionOf(headers, deps)
      if (session !== null && reached !== undefined) throw reached
    }
    const row = session === null ? undefined : deps.live.control.table('operators').get(session.operator_id)
    if (session === null || row === undefined) throw new GatewayError('authentication_error', 'nobody is signed in')
    deps.sessions.used(session)
    const username = deps.operators.usernameOf(row)
    return { body: { username, expires_at: session.expires_at, operator_id: row.id } }
  },
})

/** The routes as data. */
export const authTable = (deps: ConsoleDeps, count: Counted): readonly AuthRoute[] => [
  state(deps),
  setUp(deps, count),
  logIn(deps, count),
  logOut(deps, count),
  me(deps),
]

const run = async (route: AuthRoute, request: Request, deps: ConsoleDeps): Promise<Response> => {
  const client = deps.clients(request)
  // `/me` waits by itself: there an unauthenticated caller learns nothing of revisions.
  if (route.path !== '/me' && deps.live.status().serves) await reachMinRevision(request.headers, deps.live)
  route.refuse?.({ request, client, body: null })
  let body: unknown = null
  if (route.bodySchema !== null) {
    const read = await readJsonBody(request, BODY_LIMIT_BYTES)
    // Passwords are never stored and have checks of their own.
    requireValidBody({ ...read.body, password: null, confirm: null }, read.raw)
    body = checked(route.bodySchema, read.body)
  }
  const answer = await route.handle({ request, client, body })
  const written = answer.revision ? await revisionHeaders(answer.revision, deps) : {}
  const headers = new Headers({ ...identityHeaders(contextOf(request)), ...written, 'cache-control': 'no-store' })
  if (answer.token !== undefined)
    headers.set('set-cookie', sessionCookie(answer.token, client.tls || deps.cookieSecure))
  const status = answer.status ?? route.successStatus
  if (answer.body === undefined) return new Response(null, { status, headers })
  headers.set('content-type', 'application/json')
  return new Response(JSON.stringify(answer.body), { status, headers })
}

/** Mounted beside the admin surface, below the same error hook. */
export const consoleAuthRoutes = (deps: ConsoleDeps, count: Counted) => {
  const app = new Elysia({ name: 'console-auth', prefix: PREFIX })
  for (const route of authTable(deps, count)) {
    const { method, path, summary } = route
    app.route(method, path, ({ request }) => run(route, request, deps), { parse: 'none', detail: { summary } })
    const allow = method === 'GET' ? 'GET, HEAD' : method
    const wrong = ({ request }: { request: Request }): never => {
      throw new GatewayError('invalid_request', `${request.method} is not possible here; possible: ${allow}`, {
        status: 405,
        headers: { allow },
      })
    }
    app.all(path, wrong, { parse: 'none', detail: { hide: true } })
  }
  return app
}
