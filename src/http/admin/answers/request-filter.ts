// Translates the query of a read of the request log into the filter of the read model.
import type { RequestFilter } from '../../../../projections/requests/query.ts'
import type { ControlReader } from '../../../domain/control.ts'
import { Outcome } from '../../../domain/events/request.ts'
import { type Static, t } from '../../../lib/schema/schema.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { isSuperuser, type Principal, tenantFor } from '../../auth.ts'
import { ExportPaging } from '../export.ts'
import { pageOf } from '../list.ts'
import { Window, windowOf } from '../window.ts'

export interface FilterDeps {
  /** Current names of policies and endpoint scopes. */
  readonly live: { readonly control: ControlReader }
  nowMs(): number
  /** The stored digest of an end user. */
  userDigest(tenantId: string, user: string): string
}

const Text = t.Optional(t.String({ minLength: 1, maxLength: 256 }))
const text = (description: string) => t.Optional(t.String({ minLength: 1, maxLength: 256, description }))

/** Parameters that select requests. */
export const Conditions = {
  tenant_id: Text,
  outcome: t.Optional(Outcome),
  provider: Text,
  model: Text,
  error_code: Text,
  search: Text,
  status_min: t.Optional(t.String()),
  key: text('An API key, by its id.'),
  key_id: text('The same as `key`.'),
  policy: text('A policy, by name or id.'),
  policy_id: text('The same as `policy`.'),
  endpoint: text('An endpoint scope, by slug or id.'),
  user: text('An end user: the digest that rows show, or with one tenant the identifier that was sent.'),
}

export const RequestQuery = t.Object({ ...ExportPaging, ...Window, ...Conditions })

/**
 * Whose rows are read: those of the named tenant, else the caller's own, else (with `*`) those of all tenants. Another
 * tenant is 404.
 */
export const tenantFilter = (principal: Principal, tenantId: string | undefined): string | null =>
  tenantId === undefined && isSuperuser(principal) ? null : tenantFor(principal, tenantId)

const statusMinOf = (text: string | undefined): number | null => {
  if (text === undefined) return null
  if (/^[1-5]\d\d$/.test(text)) return Number(text)
  throw new GatewayError('invalid_request', '"status_min" must be an HTTP status, 100 to 599', { param: 'status_min' })
}

/** A deleted policy can still be given by its id. */
const policiesOf = (idOrName: string, { live }: FilterDeps): readonly string[] => {
  const named = [...live.control.table('policies').rows()].filter(
    ([, { name }]) => name.toLowerCase() === idOrName.toLowerCase(),
  )
  return [idOrName, ...named.map(([id]) => id)]
}

/** The filter of a query. Throws 400 or 404 naming the parameter. */
export const filterOf = (query: Static<typeof RequestQuery>, principal: Principal, deps: FilterDeps): RequestFilter => {
  const tenantId = tenantFilter(principal, query.tenant_id)
  const { endpoint, user, key = query.key_id, policy = query.policy_id } = query
  const digests = user === undefined || tenantId === null ? [] : [deps.userDigest(tenantId, user)]
  return {
    tenantId,
    ...windowOf(query, deps.nowMs()),
    outcome: query.outcome ?? null,
    provider: query.provider ?? null,
    model: query.model ?? null,
    errorCode: query.error_code ?? null,
    statusMin: statusMinOf(query.status_min),
    search: query.search ?? null,
    key: key ?? null,
    policies: policy === undefined ? null : policiesOf(policy, deps),
    endpoint: endpoint === undefined ? null : (deps.live.control.table('endpoints').get(endpoint)?.slug ?? endpoint),
    users: user === undefined ? null : [user, ...digests],
    ...pageOf(query),
  }
}

/**
 * The page of a response. `searched_from` is null when the whole window was searched; otherwise the search went back to
 * that time, and `total` counts from there on.
 */
export const pageView = ({ limit, offset, fromMs }: RequestFilter, searchedFromMs: number) => ({
  limit,
  offset,
  searched_from: searchedFromMs === fromMs ? null : new Date(searchedFromMs).toISOString(),
})
