// `/admin/v1` in the document: each row of the route table is one operation.
import type { TSchema } from '../../lib/schema/schema.ts'
import { PLANNED } from '../admin/planned.ts'
import type { AdminRoute, Method } from '../admin/route.ts'
import { idOf, parametersOf, templateOf } from './admin-parameters.ts'
import { answerExample } from './answer-examples.ts'
import { EXAMPLES } from './examples.ts'
import { describedFields } from './fields.ts'
import { failure, IDENTITY, json, type Node, open, ref, required, text, WRITTEN } from './parts.ts'

const PREFIX = '/admin/v1'
/** Credentials of the admin surface: a key, or the session of an operator. */
const SECURITY = [{ key: [] }, { session: [] }]

/** Errors that any admin route may return. */
const ALWAYS = [400, 401, 403, 404, 405, 500, 503, 504] as const
const OF_WRITES = [409, 413, 415] as const
/** Routes with a bound on concurrent use, that return a provider's failure, or that read Postgres. */
const FURTHER: Readonly<Record<string, readonly number[]>> = {
  'POST /providers/:id/sync-models': [402, 429, 501, 502],
  'POST /providers/:id/test': [429],
  'POST /providers/:id/detect-capabilities': [429],
  'POST /operators': [429],
  'PUT /operators/:id/password': [429],
  'GET /requests/stream': [429, 502],
  'GET /overview': [502],
  'GET /usage/summary': [502],
  'GET /usage/series': [502],
  'GET /requests': [502],
  'GET /requests/:id': [502],
  'GET /requests/:id/explain': [502],
  'GET /errors': [502],
  'GET /audit': [502],
  'GET /feedback': [502],
}

const AS_OF: Node = {
  'X-Gateway-As-Of': { ...text, description: 'With `as_of`: the decision that the answer is of.' },
}

/** `GET /keys/:id` -> `adminGetKeysById`. */
const operationIdOf = (method: string, path: string): string => {
  const words = path.split(/[/-]/).filter((part) => part !== '')
  const word = (part: string): string => {
    const plain = part.startsWith(':') ? `by_${part.slice(1)}` : part
    return plain.replaceAll(/(?:^|_)(\w)/g, (_, first: string) => first.toUpperCase())
  }
  return `admin${word(method.toLowerCase())}${words.map(word).join('')}`
}

/** The first segment of its path: the resource of the route. */
const subjectOf = (path: string): string => path.split('/')[1]!

const scopesDescription = (scopes: readonly string[]): string => {
  if (scopes.length === 0) return 'Needs a valid key, of any scope.'
  const named = scopes.map((scope) => `\`${scope}\``)
  return scopes.includes('*') ? 'Needs the scope `*`.' : `Needs the scope ${named.join(' or ')} (\`*\` covers all).`
}

/** Fields that a GET returns and this body may hold: they are ignored. */
const ignoredOf = ({ bodySchema, dropped }: AdminRoute): readonly string[] => {
  const known = (bodySchema?.properties ?? {}) as Record<string, unknown>
  return dropped.filter((name) => known[name] === undefined)
}

const descriptionOf = (route: AdminRoute): string => {
  const sentences = [scopesDescription(route.scopes)]
  if (route.past === true) sentences.push('With `as_of` the answer is what it was then.')
  if (route.rows !== null) sentences.push('With `format` the rows are sent as CSV or as one JSON object per line.')
  if (route.method !== 'GET' && route.bodySchema === null) sentences.push('It takes no body, or `{}`.')
  if (route.whileFrozen) sentences.push('Possible while the configuration is frozen.')
  return sentences.join(' ')
}

/** The body as it is checked, with the ignored fields: the result of a GET can be edited and sent back. */
const requestBodyOf = (route: AdminRoute): Node => {
  const { bodySchema } = route
  if (bodySchema === null) return {}
  const ignored = ignoredOf(route)
  const readOnly = ignored.map((name) => [name, { readOnly: true, description: 'Ignored.' }])
  const properties = { ...(bodySchema.properties as Record<string, TSchema>), ...Object.fromEntries(readOnly) }
  const example = EXAMPLES[`${route.method} ${route.path}`]
  const schema = describedFields({ ...bodySchema, properties }, subjectOf(route.path))
  const content = { schema, ...(example === undefined ? {} : { example }) }
  return {
    requestBody: {
      required: !route.bodyOptional,
      description: `An unknown field is 400 and named. Read-only fields are ignored: ${ignored.join(', ')}.`,
      content: { 'application/json': content },
    },
  }
}

const DELETED = {
  type: 'object',
  properties: { deleted: { const: true }, id: { type: 'string' } },
  required: ['deleted'],
}

/** A titled schema is a component of that name. */
const schemaOf = (schema: TSchema, about: string, components: Map<string, Node>): Node => {
  const described = describedFields(schema, about)
  if (schema.title === undefined) return described
  components.set(schema.title, described)
  return ref(schema.title)
}

const EVENTS =
  'Events whose `data` is a `RequestRow`. `Last-Event-ID` goes on where a stream was left, within a day; ' +
  'comments are heartbeats; the event `end` says why it ends.'

const contentOf = (route: AdminRoute, components: Map<string, Node>): Node => {
  const shape = route.answer === null ? open : schemaOf(route.answer, subjectOf(route.path), components)
  const example = answerExample(route)
  if (route.events)
    return { 'text/event-stream': { schema: { type: 'string', description: EVENTS, 'x-event-data': shape } } }
  if (route.rows === null) return json(route.method === 'DELETE' && route.answer === null ? DELETED : shape, example)
  const count = { type: 'integer', minimum: 0 }
  const list = {
    type: 'object',
    properties: { [route.rows]: { type: 'array', items: shape }, total: count, limit: count, offset: count },
    required: [route.rows, 'total', 'limit', 'offset'],
  }
  return { ...json(route.whole ? shape : list, example), 'text/csv': text, 'application/x-ndjson': text }
}

/** Description of the successful response. */
const responseDescription = (route: AdminRoute): string => {
  const title = (route.answer?.title as string | undefined)?.replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase()
  const isWrite = route.method !== 'GET'
  if (route.rows !== null && !route.whole) return `A page of ${route.rows}, and how many there are in all.`
  if (route.method === 'DELETE')
    return 'It is gone, with counts of what went with it; the decision is in `X-Gateway-Revision`.'
  if (route.successStatus === 201)
    return `Made: the ${title ?? 'new row'} as it is now. A repeat with the same \`Idempotency-Key\` gets the same.`
  if (title !== undefined) return isWrite ? `The ${title} as it is now.` : `The ${title}.`
  return isWrite ? 'Done: what came of it.' : 'What is known of it.'
}

const responsesOf = (route: AdminRoute, components: Map<string, Node>): Node => {
  const isWrite = route.method !== 'GET'
  const statuses = [...ALWAYS, ...(isWrite ? OF_WRITES : []), ...(FURTHER[`${route.method} ${route.path}`] ?? [])]
  const isTried = route.querySchema?.properties?.dry_run !== undefined
  const written = isTried ? WRITTEN : required(WRITTEN) // a trial is no decision
  const headers = { ...required(IDENTITY), ...(isWrite ? written : {}), ...(route.past === true ? AS_OF : {}) }
  return {
    [route.successStatus]: { description: responseDescription(route), headers, content: contentOf(route, components) },
    ...Object.fromEntries(statuses.toSorted((a, b) => a - b).map((status) => [status, failure(status)])),
  }
}

const operationOf = (route: AdminRoute, components: Map<string, Node>): Node => ({
  operationId: operationIdOf(route.method, route.path),
  tags: [subjectOf(route.path)],
  summary: route.summary,
  description: descriptionOf(route),
  'x-scopes': route.scopes,
  security: SECURITY,
  parameters: parametersOf(route),
  ...requestBodyOf(route),
  responses: responsesOf(route, components),
})

const plannedOf = (method: Method, path: string): Node => ({
  operationId: operationIdOf(method, path),
  tags: [subjectOf(path)],
  summary: 'Planned: 501 for whoever has a key',
  description: 'Needs a valid key, of any scope. This version does not serve it yet.',
  security: SECURITY,
  parameters: [...path.matchAll(/:(\w+)/g)].map(([, name]) => idOf(path, name!)),
  responses: Object.fromEntries([401, 405, 500, 501, 503].map((status) => [status, failure(status)])),
})

/** The paths, and the schemas that they refer to. A planned route is listed as long as the table does not have it. */
export const adminPaths = (table: readonly AdminRoute[]): { readonly paths: Node; readonly schemas: Node } => {
  const components = new Map<string, Node>()
  const paths: Record<string, Record<string, Node>> = {}
  const add = (method: Method, path: string, operation: Node): void => {
    const template = `${PREFIX}${templateOf(path)}`
    paths[template] = { ...paths[template], [method.toLowerCase()]: operation }
  }
  for (const route of table) add(route.method, route.path, operationOf(route, components))
  for (const { method, path } of PLANNED)
    if (!table.some((route) => route.method === method && route.path === path))
      add(method, path, plannedOf(method, path))
  return { paths, schemas: Object.fromEntries(components) }
}
