// `/admin/v1`: the table of all routes, and the one runner that gives each the same order: 401, 404 and 405, 403,
// validation, handler.
import { Elysia } from 'elysia'
import { closed } from '../../domain/kernel/fields.ts'
import { requireThawed } from '../../domain/steering/freeze.ts'
import { readJsonBody } from '../../entry/body.ts'
import { t } from '../../lib/schema/schema.ts'
import { isStorable } from '../../lib/text/storable-text.ts'
import type { LastUses } from '../../state/indexes/last-uses.ts'
import type { LiveState } from '../../state/port.ts'
import type { ModelCatalogue } from '../../upkeep/models/model-listing.ts'
import { GatewayError } from '../../wire/errors.ts'
import {
  adminPrincipalOf,
  type Principal,
  principalNow,
  requireForAll,
  requireOneOf,
  requireOwnPageWrite,
  type SessionDeps,
} from '../auth.ts'
import { identityHeaders } from '../envelope.ts'
import { contextOf, pathOf } from '../request-context.ts'
import { type AppliedDeps, MIN_REVISION, reachMinRevision, revisionHeaders } from '../revision.ts'
import type { ProviderDeps } from './answers/provider-view.ts'
import { momentOf, pastResponse, withPast } from './as-of.ts'
import { checked, requireStorable, requireValidBody } from './check.ts'
import { checkedCommit, keepsAdministrator, notFrozen } from './checked-commit.ts'
import { type BudgetDeps, budgetRoutes } from './configuration/budgets.ts'
import { type CacheRuleDeps, cacheRuleRoutes } from './configuration/cache-rules.ts'
import { type EndpointDeps, endpointRoutes } from './configuration/endpoints.ts'
import { type KeyDeps, keyRoutes } from './configuration/keys.ts'
import { type ModelDeps, modelRoutes } from './configuration/models.ts'
import { type OperatorDeps, operatorRoutes } from './configuration/operators.ts'
import { type OverrideDeps, overrideRoutes } from './configuration/overrides.ts'
import { type PolicyDeps, policyRoutes } from './configuration/policies.ts'
import { type PriceDeps, priceRoutes } from './configuration/prices.ts'
import { providerRoutes } from './configuration/providers.ts'
import { type TenantDeps, tenantRoutes } from './configuration/tenants.ts'
import { type ToolPolicyDeps, toolPolicyRoutes } from './configuration/tool-policies.ts'
import { type ToolDeps, toolRoutes } from './configuration/tools.ts'
import { streamOf } from './export.ts'
import { CONTENT_TYPES, fileHeaders, formatOf, formatted, type ListFormat } from './format.ts'
import { PLANNED } from './planned.ts'
import { type InstanceDeps, instanceRoutes } from './reads/instances.ts'
import { type LogDeps, logRoutes } from './reads/log.ts'
import type { AdminResponse, AdminRoute } from './route.ts'
import { writeIntent } from './write.ts'

// The override `freeze` refuses writes of the admin surface twice: here, before any work is done for them, and again
// where they are decided (`checked-commit.ts`).

export interface FreezeDeps {
  readonly live: Pick<LiveState, 'control'>
  nowMs(): number
}

/**
 * Throws 403 while the caller may not write: before a secret is sealed or a provider called for a change that would
 * then be refused.
 */
export const refuseWhileFrozen = (route: AdminRoute, principal: Principal, { live, nowMs }: FreezeDeps): void => {
  if (route.method === 'GET' || route.whileFrozen) return
  // An operator belongs to no tenant; its default tenant does not count here.
  requireThawed(live.control, principal.actor.type === 'key' ? [principal.tenantId] : [], nowMs())
}

const PREFIX = '/admin/v1'
const BODY_LIMIT_BYTES = 1_048_576
/** The body of a write without a body schema. */
const Nothing = closed(t.Object({}))

export interface RunnerDeps extends SessionDeps, AppliedDeps {
  nowMs(): number
  /** Key of the digests that idempotency leaves in the log; derived from the master key, the same on every instance. */
  readonly causeKey: Uint8Array
}

export interface AdminDeps
  extends RunnerDeps,
    Omit<TenantDeps, 'live'>,
    Omit<KeyDeps, 'live' | 'lastUses'>,
    Omit<ProviderDeps, 'live' | 'dataKeys'>,
    Omit<ModelDeps, 'live'>,
    Omit<PolicyDeps, 'live'>,
    Omit<EndpointDeps, 'live'>,
    Omit<OverrideDeps, 'live'>,
    Omit<BudgetDeps, 'live'>,
    Omit<CacheRuleDeps, 'live'>,
    Omit<ToolDeps, 'live'>,
    Omit<ToolPolicyDeps, 'live'>,
    Omit<PriceDeps, 'live'>,
    Omit<InstanceDeps, 'live'>,
    Omit<OperatorDeps, 'live'>,
    Omit<LogDeps, 'live' | 'dataKeys'> {
  readonly dataKeys: ProviderDeps['dataKeys'] & LogDeps['dataKeys']
  readonly lastUses: LastUses
  readonly modelCatalogue: ModelCatalogue
  /** Routes of read models and of later parts, in the same table. */
  readonly furtherRoutes: readonly AdminRoute[]
}

/**
 * The routes of the configuration. Their reads take `as_of`, and then run with the same code on a state of the past
 * (`past.ts`).
 */
export const configurationRoutes = (deps: AdminDeps): readonly AdminRoute[] => {
  const nowMs = () => deps.nowMs()
  const freezable = { ...deps, commit: checkedCommit(deps.commit, nowMs, notFrozen, keepsAdministrator) }
  const routes = [
    ...tenantRoutes(freezable),
    ...keyRoutes(freezable),
    ...providerRoutes(freezable),
    ...modelRoutes(freezable),
    ...policyRoutes(freezable),
    ...endpointRoutes(freezable),
    ...operatorRoutes(freezable),
    ...overrideRoutes(deps),
    ...budgetRoutes(freezable),
    ...cacheRuleRoutes(freezable),
    ...toolRoutes(freezable),
    ...toolPolicyRoutes(freezable),
    ...priceRoutes(freezable),
    ...instanceRoutes(deps),
  ]
  return routes.map(withPast)
}

/** Every admin route. The scope tests and the OpenAPI document are made from it. */
export const adminTable = (deps: AdminDeps): readonly AdminRoute[] => [
  ...configurationRoutes(deps),
  ...logRoutes(deps),
  ...deps.furtherRoutes,
]

/** Waits for `X-Gateway-Min-Revision` after authentication, or before it when the key itself may not be folded yet. */
const authenticated = async (request: Request, deps: RunnerDeps): Promise<Principal> => {
  let principal: Principal | null = null
  try {
    principal = adminPrincipalOf(request.headers, deps, deps.nowMs())
  } catch (error) {
    if (!request.headers.has(MIN_REVISION)) throw error
    await reachMinRevision(request.headers, deps.live).catch(() => {
      throw error // an unauthenticated caller learns nothing of revisions
    })
    return adminPrincipalOf(request.headers, deps, deps.nowMs())
  }
  await reachMinRevision(request.headers, deps.live)
  return principal
}

const withoutDropped = (body: Record<string, unknown>, route: AdminRoute): Record<string, unknown> => {
  const known = route.bodySchema?.properties as Record<string, unknown> | undefined
  const dropped = route.dropped.filter((name) => known?.[name] === undefined)
  return Object.fromEntries(Object.entries(body).filter(([name]) => !dropped.includes(name)))
}

const responseOf = async (
  route: AdminRoute,
  answer: AdminResponse,
  format: ListFormat,
  request: Request,
  deps: RunnerDeps,
): Promise<Response> => {
  const headers: Record<string, string> = {
    'content-type': route.events ? 'text/event-stream' : CONTENT_TYPES[format],
    ...fileHeaders(route.path, format),
    ...identityHeaders(contextOf(request)),
    ...answer.headers,
  }
  if (answer.pieces !== undefined) return new Response(await streamOf(answer.pieces), { headers })
  if (answer.revision !== undefined)
    Object.assign(headers, await revisionHeaders(answer.revision, deps, answer.applied))
  const text =
    route.rows === null ? JSON.stringify(answer.body) : formatted(answer.body, route.rows, format, answer.columns)
  return new Response(text, { status: answer.status ?? route.successStatus, headers })
}

type RawParams = Readonly<Record<string, string | null>>

/** A parameter that cannot be decoded arrives as null, and no id holds text that cannot be stored: both are 404. */
const decodedParams = (params: RawParams): Record<string, string> => {
  for (const value of Object.values(params)) {
    if (value === null || !isStorable(value)) throw new GatewayError('not_found', 'there is nothing at this path')
  }
  return params as Record<string, string>
}

/** The checked body of a write and its exact text; of a write without a body schema always ''. */
const bodyOf = async (route: AdminRoute, request: Request): Promise<{ body: unknown; raw: string }> => {
  if (route.bodySchema === null) {
    if (request.body === null || request.headers.get('content-length') === '0') return { body: null, raw: '' }
    const { body, raw } = await readJsonBody(request, BODY_LIMIT_BYTES, true)
    requireValidBody(body, raw)
    checked(Nothing, withoutDropped(body, route))
    return { body: null, raw: '' }
  }
  const { body, raw } = await readJsonBody(request, BODY_LIMIT_BYTES, route.bodyOptional)
  requireValidBody(body, raw)
  return { body: checked(route.bodySchema, withoutDropped(body, route)), raw }
}

/**
 * Throws 400 for a repeated parameter, since it is ambiguous, and on writes for an unknown one: a misspelt `dry_run`
 * would write.
 */
const queryOf = (search: URLSearchParams, { method, querySchema }: AdminRoute): Record<string, string> => {
  const query = Object.fromEntries(search)
  const refuse = (param: string, why: string) => new GatewayError('invalid_request', `"${param}" ${why}`, { param })
  for (const name of Object.keys(query)) {
    if (search.getAll(name).length > 1) throw refuse(name, 'stands twice in the query')
    if (method !== 'GET' && !Object.hasOwn(querySchema?.properties ?? {}, name))
      throw refuse(name, 'is not known in the query of this route')
  }
  return query
}

const usernamesFor = ({ path }: AdminRoute, { live, operators }: AdminDeps): Record<string, string | null> =>
  path.startsWith('/operators')
    ? Object.fromEntries(
        [...live.control.table('operators').rows()].map(([id, row]) => [id, operators.usernameOf(row)]),
      )
    : {}

const run = async (route: AdminRoute, request: Request, rawParams: RawParams, deps: AdminDeps): Promise<Response> => {
  const principal = await authenticated(request, deps)
  requireOwnPageWrite(principal, request, deps)
  requireOneOf(principal, route.scopes)
  if (route.forAll) requireForAll(principal, deps.live.control)
  refuseWhileFrozen(route, principal, deps)
  const url = new URL(request.url)
  const params = decodedParams(rawParams)
  const query = queryOf(url.searchParams, route)
  requireStorable(query)
  if (route.querySchema !== null) checked(route.querySchema, query)
  const format = route.rows === null ? 'json' : formatOf(query.format)
  // A broker's clock may be ahead of this one: its log times are not in the future.
  const latestMs = Math.max(deps.nowMs(), deps.live.status().logAtMs)
  const moment = momentOf(route, query.as_of, latestMs)
  if (moment !== null) {
    const asked = { path: route.path, params, query, principal, format }
    const read = { ...asked, usernames: usernamesFor(route, deps), given: Object.keys(deps) }
    const { status, text, revision } = await pastResponse(deps.history, moment, read)
    const headers = { 'content-type': CONTENT_TYPES[format], ...fileHeaders(route.path, format) }
    const about = { ...identityHeaders(contextOf(request)), 'x-gateway-as-of': revision }
    return new Response(text, { status, headers: { ...headers, ...about } })
  }
  const { body, raw } = route.method === 'GET' ? { body: null, raw: '' } : await bodyOf(route, request)
  const intent = writeIntent(request, url, raw, principal, deps.causeKey)
  const now = () => principalNow(request.headers, route.scopes, deps, deps.nowMs())
  const answer = await route.handle({ request, principal, params, query, body, intent, principalNow: now })
  return responseOf(route, answer, format, request, deps)
}

/**
 * Refuses a request that no route of the table matches: 401 first, then 501 for a planned route, 405 with `Allow` when
 * the path exists, else 404.
 */
const refuseUnknown = async (table: readonly AdminRoute[], request: Request, deps: RunnerDeps): Promise<never> => {
  await authenticated(request, deps)
  const asked = pathOf(request).slice(PREFIX.length).replace(/\/$/, '')
  const parts = asked.split('/')
  const all: readonly { readonly method: string; readonly path: string }[] = [...table, ...PLANNED]
  const fitting = all.filter(({ path }) => {
    const pattern = path.split('/')
    return (
      pattern.length === parts.length &&
      pattern.every((part, i) => (part.startsWith(':') ? parts[i] !== '' : part === parts[i]))
    )
  })
  // `/policies/reload` is a path of its own, though it has the form of `/policies/:id`.
  const exact = fitting.filter(({ path }) => path === asked)
  const allowed = exact.length > 0 ? exact : fitting
  if (allowed.length === 0) throw new GatewayError('not_found', 'there is nothing at this path')
  if (PLANNED.some((planned) => planned.method === request.method && allowed.includes(planned)))
    throw new GatewayError('not_implemented', 'this is planned, and not served by this version')
  const allow = [...new Set(allowed.map(({ method }) => method))].join(', ')
  throw new GatewayError('invalid_request', `${request.method} is not possible here; possible: ${allow}`, {
    status: 405,
    headers: { allow },
  })
}

/** The admin surface, mounted below an error hook that turns errors into the envelope. */
export const adminRoutes = (deps: AdminDeps) => {
  const table = adminTable(deps)
  const app = new Elysia({ name: 'admin', prefix: PREFIX })
  for (const route of table) {
    // `parse: 'none'`: the body is read after authorisation, or an unauthenticated caller with a malformed one would
    // get 400.
    app.route(
      route.method,
      route.path,
      ({ request, params }) => run(route, request, (params ?? {}) as RawParams, deps),
      {
        parse: 'none',
        detail: { summary: route.summary },
      },
    )
  }
  const unknown = ({ request }: { request: Request }) => refuseUnknown(table, request, deps)
  return app
    .all('/', unknown, { parse: 'none', detail: { hide: true } })
    .all('/*', unknown, { parse: 'none', detail: { hide: true } })
}
