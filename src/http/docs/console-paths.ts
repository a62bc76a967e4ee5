// `/admin/v1/auth` in the document, made from the table of the console's routes.
import { t } from '../../lib/schema/schema.ts'
import type { AuthRoute } from '../console-auth.ts'
import { recordedAnswer } from './answer-examples.ts'
import { EXAMPLES } from './examples.ts'
import { describedFields } from './fields.ts'
import { failure, header, IDENTITY, json, type Node, open, required, text, WRITTEN } from './parts.ts'

const PREFIX = '/admin/v1/auth'

const Session = t.Object({
  username: t.Union([t.String(), t.Null()]),
  expires_at: t.String(),
  operator_id: t.String(),
})
const State = t.Object({
  setup_required: t.Boolean(),
  setup_token_required: t.Boolean({ description: 'whether set-up takes the token that the start prints' }),
  authenticated: t.Boolean(),
  username: t.Optional(t.String()),
  policy: t.Object(
    {
      description: t.String({ description: 'all of it in words' }),
      min_length: t.Integer({ minimum: 1, description: 'characters, at least' }),
      max_length: t.Integer({ minimum: 1, description: 'characters, at most' }),
      not_username: t.Boolean({ description: 'whether it must be another text than the name' }),
    },
    { description: 'what a password must be' },
  ),
})

interface About {
  readonly answer?: Node
  readonly failures: readonly number[]
  readonly cookie?: true
}

/** What the table does not hold: responses, failures, and whether the cookie is needed. */
const ABOUT: Readonly<Record<string, About>> = {
  '/state': {
    answer: State,
    failures: [503],
  },
  '/setup': { answer: Session, failures: [400, 403, 409, 413, 415, 429, 503, 504] },
  '/login': { answer: Session, failures: [400, 401, 403, 409, 413, 415, 429, 503, 504] },
  '/logout': { failures: [503, 504], cookie: true },
  '/me': { answer: Session, failures: [400, 401, 503, 504], cookie: true },
}

const TOKEN_USE = 'From another machine, or under another name, set-up needs the token that the start prints.'
/** Either of them. */
const SETUP_TOKEN: readonly Node[] = [
  header('X-Gateway-Setup-Token', t.String(), TOKEN_USE),
  { name: 'token', in: 'query', required: false, description: TOKEN_USE, schema: t.String() },
]

const COOKIE: Node = {
  'Set-Cookie': { ...text, description: '`gateway_session`: HttpOnly, SameSite=Lax, `Secure` over TLS.' },
}

const operationOf = ({ method, path, summary, bodySchema, successStatus }: AuthRoute): Node => {
  const about: About = ABOUT[path] ?? { failures: [400, 401, 403, 503, 504] }
  const { answer = open, failures, cookie } = about
  const example = EXAMPLES[`${method} /auth${path}`]
  // A logout without a session makes no decision.
  const written = path === '/logout' ? WRITTEN : required(WRITTEN)
  const headers = { ...required(IDENTITY), ...(method === 'POST' ? { ...COOKIE, ...written } : {}) }
  const body =
    bodySchema === null
      ? {}
      : { 'application/json': { schema: describedFields(bodySchema, 'auth'), ...(example ? { example } : {}) } }
  return {
    operationId: `console${path[1]!.toUpperCase()}${path.slice(2)}`,
    tags: ['auth'],
    summary,
    description: cookie === true ? 'For the session cookie.' : 'Needs no credential.',
    security: cookie === true ? [{ session: [] }] : [],
    parameters: [{ $ref: '#/components/parameters/RequestId' }, ...(path === '/setup' ? SETUP_TOKEN : [])],
    ...(bodySchema === null ? {} : { requestBody: { required: true, content: body } }),
    responses: {
      [successStatus]: {
        description: summary,
        headers,
        ...(successStatus === 204 ? {} : { content: json(answer, recordedAnswer(method, `${PREFIX}${path}`)) }),
      },
      ...Object.fromEntries(
        [...failures, 405, 500].toSorted((a, b) => a - b).map((status) => [status, failure(status)]),
      ),
    },
  }
}

export const consolePaths = (table: readonly AuthRoute[]): Node =>
  Object.fromEntries(
    table.map((route) => [`${PREFIX}${route.path}`, { [route.method.toLowerCase()]: operationOf(route) }]),
  )
