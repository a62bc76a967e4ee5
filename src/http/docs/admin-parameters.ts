// Parameters that many admin routes share: components of the document, by name.
import { type TSchema, t } from '../../lib/schema/schema.ts'
import type { AdminRoute } from '../admin/route.ts'
import { header, type Node, REQUEST_ID } from './parts.ts'

const query = (name: string, schema: TSchema | Node, description: string): Node => ({
  name,
  in: 'query',
  required: false,
  description,
  schema,
})

const Revision = t.String({ pattern: '^[0-9a-f]{64}$' })

const KEEP = header(
  'X-Gateway-Keep-Credential',
  { type: 'string', enum: ['true', 'false'], default: 'false' },
  'The secrets of the provider go along to another kind or address; needs `*`.',
)
/** A change of a provider's kind or address. */
const moves = ({ method, path }: AdminRoute): boolean =>
  path === '/providers/:id' && (method === 'PUT' || method === 'PATCH')

/** The shared parameters by the names of their components. */
export const SHARED_PARAMETERS: Readonly<Record<string, Node>> = {
  RequestId: REQUEST_ID,
  MinRevision: header(
    'X-Gateway-Min-Revision',
    Revision,
    'Wait up to 2 s until this instance has folded the decision (what a write answered as ' +
      '`X-Gateway-Revision`), else 504.',
  ),
  IdempotencyKey: header(
    'Idempotency-Key',
    t.String({ minLength: 1, maxLength: 255 }),
    'Kept for 24 h for each caller: a repeat answers with the first result, secrets as null with a `warning`; ' +
      'with another body it is 409.',
  ),
  IfMatch: header(
    'If-Match',
    t.String({ minLength: 1 }),
    'The `revision` that you have seen, or several (`"a", "b"`); `*` is any. 409 when it is none of them now.',
  ),
  Limit: query(
    'limit',
    t.Integer({ minimum: 1 }),
    'Rows of one page, 50 by default (overrides: 100). More than 1,000 is clamped.',
  ),
  Offset: query('offset', t.Integer({ minimum: 0, default: 0 }), 'Rows to leave out.'),
  Format: query(
    'format',
    { type: 'string', enum: ['json', 'csv', 'ndjson'], default: 'json' },
    'How the list is sent; of `csv` and `ndjson` the rows alone, as a file. In CSV a text that begins like a ' +
      "formula (`=`, `+`, `-`, `@`) has a `'` before it.",
  ),
  TenantId: query('tenant_id', t.String(), 'Of this tenant. Keys without `*` see their own alone; another is 404.'),
  From: query(
    'from',
    t.String(),
    'RFC 3339, a date (`2026-01-31`, UTC) or a duration back from now (`24h`). 24 h by default.',
  ),
  To: query('to', t.String(), 'As `from`; exclusive. Now by default.'),
  AsOf: query(
    'as_of',
    t.String({ maxLength: 64 }),
    'The configuration as it was: an RFC 3339 time, or a revision. What only the present knows (health, last ' +
      'uses) is null.',
  ),
}

const BY_QUERY_NAME: Readonly<Record<string, string>> = {
  limit: 'Limit',
  offset: 'Offset',
  format: 'Format',
  tenant_id: 'TenantId',
  from: 'From',
  to: 'To',
}

/** Descriptions of parameters of single routes, where the name is not enough. */
const ABOUT: Readonly<Record<string, string>> = {
  provider: 'A provider, by name or id.',
  model: 'A model, by name or id.',
  provider_id: 'One provider; its recent probes are shown too.',
  outcome: 'How requests ended.',
  error_code: 'A code of the error table.',
  search: 'Part of an id, a label or a message.',
  status_min: 'HTTP status, 100 to 599: this and above.',
  force: '`true`: even while it holds active keys.',
  dry_run: '`true`: only say what would be done.',
  in_force: 'Those that are, or are not, in force now.',
  kind: 'Those of this kind.',
  before: 'Records before this offset; `next_before` of the last page.',
  resource: 'Kind of what was changed: `provider`, `api_key` ...',
  action: 'What was done: `create`, `update`, `delete`, `rotate` ...',
  subject_id: 'Id of what was changed.',
  actor_id: 'Id of the key or operator who did it.',
  request_id: 'Id of a request.',
  model_id: 'Id of a model.',
  metric: 'Name of what was judged.',
}

const parameter = (name: string): Node => ({ $ref: `#/components/parameters/${name}` })

const queryParameters = (route: AdminRoute): Node[] => {
  const known = (route.querySchema?.properties ?? {}) as Record<string, TSchema>
  const required = (route.querySchema?.required ?? []) as readonly string[]
  const names = new Set([...Object.keys(known), ...(route.rows === null ? [] : ['format'])])
  return [...names].map((name) => {
    if (name === 'as_of' && route.past === true) return parameter('AsOf')
    const schema = known[name]
    const shared = BY_QUERY_NAME[name]
    if (shared !== undefined && schema?.description === undefined) return parameter(shared)
    const description = schema?.description ?? ABOUT[name] ?? ''
    return {
      name,
      in: 'query',
      required: required.includes(name),
      ...(description === '' ? {} : { description }),
      schema,
    }
  })
}

/** The resource that an id in a path names: the path segment before it, in the singular. */
export const idOf = (path: string, name: string): Node => {
  const [, before = ''] = new RegExp(`/([\\w-]+)/:${name}`).exec(path) ?? []
  const noun = before.replace(/ies$/, 'y').replace(/s$/, '').replaceAll('-', ' ')
  const of = path.startsWith('/log/') ? 'The decision, by its id; a record by its offset, too.' : `Id of the ${noun}.`
  return { name, in: 'path', required: true, description: of, schema: { type: 'string', minLength: 1 } }
}

/** `/keys/:id` in the form of the document: `/keys/{id}`. */
export const templateOf = (path: string): string => path.replaceAll(/:(\w+)/g, '{$1}')

/** Parameters of the path and the query, and the headers of a read or a write. */
export const parametersOf = (route: AdminRoute): readonly Node[] => {
  const inPath = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => idOf(route.path, name!))
  const writing = route.method === 'GET' ? [] : ['IdempotencyKey', 'IfMatch']
  const own = moves(route) ? [KEEP] : []
  return [...inPath, ...queryParameters(route), ...own, ...['MinRevision', ...writing, 'RequestId'].map(parameter)]
}
