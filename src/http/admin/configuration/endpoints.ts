// `/admin/v1/endpoints`: endpoint scopes, of a tenant or global (`tenant_id` null), by slug.
import type { ControlReader } from '../../../domain/control.ts'
import { closed, Nullable } from '../../../domain/kernel/fields.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import { canonicalJson } from '../../../domain/kernel/tables.ts'
import { endpointWarnings, shadowedAliases } from '../../../domain/references.ts'
import { modelOf, storedModels } from '../../../domain/registry/model-row.ts'
import {
  decideEndpoint,
  EndpointFields,
  EndpointOverrides,
  type EndpointOverrides as EndpointOverridesShape,
  type EndpointRow,
  EndpointSlug,
  endpointKey,
  NOTHING_OVERRIDDEN,
} from '../../../domain/steering/endpoint.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import { type Static, t } from '../../../lib/schema/schema.ts'
import type { Commit, LiveState } from '../../../state/port.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { ownerFor, type Principal, seesTenant } from '../../auth.ts'
import { EndpointView } from '../answers/resources.ts'
import { Switch, statusOf, WARNINGS, withWarnings } from '../body-fields.ts'
import { listed, Paging, tenantOfQuery } from '../list.ts'
import { type AdminRoute, route } from '../route.ts'
import { rowAfter, write } from '../write.ts'

export interface EndpointDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly commit: Commit
  newId(prefix: IdPrefix): string
}

const READ = ['usage:read', 'policies:admin'] as const
const WRITE = ['policies:admin'] as const

const { name, description, aliases } = EndpointFields.properties
const EndpointBody = closed(
  t.Composite([
    t.Object({
      slug: EndpointSlug,
      name: t.Optional(name),
      description: t.Optional(description),
      tenant_id: t.Optional(Nullable(t.String({ minLength: 1, maxLength: 64 }))),
      aliases: t.Optional(aliases),
      overrides: t.Optional(t.Partial(EndpointOverrides)),
      ...Switch,
    }),
    t.Partial(EndpointOverrides),
  ]),
)

/** The scope of this id if the caller may see it; another tenant's does not exist. */
const visibleEndpoint = (state: ControlReader, principal: Principal, id: string): EndpointRow => {
  const row = state.table('endpoints').get(id)
  if (row === undefined || !seesTenant(principal, row.tenant_id)) {
    throw new Rejection('not_found', `no endpoint scope has the id "${id}"`)
  }
  return row
}

/** A scope as reads show it, with warnings for aliases that no longer lead to it. Only its owner sees them. */
const shown = (state: ControlReader, row: EndpointRow): EndpointRow =>
  withWarnings(row, shadowedAliases(state, row.aliases))

/** The overrides of a body: below `overrides`, or at top level. Throws 400 for a field with two different values. */
const overridesOf = (body: Static<typeof EndpointBody>): EndpointOverridesShape => {
  const overrides: Record<string, unknown> = { ...NOTHING_OVERRIDDEN, ...body.overrides }
  for (const field of Object.keys(NOTHING_OVERRIDDEN) as (keyof EndpointOverridesShape)[]) {
    const flat = body[field]
    if (flat === undefined) continue
    const nested = body.overrides?.[field]
    if (nested !== undefined && canonicalJson(nested) !== canonicalJson(flat)) {
      throw new GatewayError('invalid_request', `"${field}" and "overrides.${field}" contradict each other`, {
        param: field,
      })
    }
    overrides[field] = flat
  }
  return overrides as EndpointOverridesShape
}

/** The overrides, models as rows store them. `before`: those of the replaced scope. */
const withModels = (
  state: ControlReader,
  overrides: EndpointOverridesShape,
  { forced_model: hadForced, preferred_models: hadPreferred }: EndpointOverridesShape = NOTHING_OVERRIDDEN,
): EndpointOverridesShape => {
  const { forced_model: forced, preferred_models: preferred } = overrides
  return {
    ...overrides,
    forced_model: forced === null || forced === hadForced ? forced : modelOf(state, forced),
    preferred_models: storedModels(state, preferred, hadPreferred, 'overrides.preferred_models'),
  }
}

/** A path `overrides.<field>` in the form of the body: below `overrides`, or at top level. */
const asSentPath = (body: Static<typeof EndpointBody>, text: string): string =>
  text.replace(/^overrides\.(\w+)/, (path, field: keyof EndpointOverridesShape) =>
    body[field] !== undefined && body.overrides?.[field] === undefined ? field : path,
  )

/** Names a rejected field as the body named it. */
const asSent = <Decided>(body: Static<typeof EndpointBody>, decide: () => Decided): Decided => {
  try {
    return decide()
  } catch (error) {
    if (!(error instanceof Rejection) || error.param === null) throw error
    throw new Rejection(error.reason, error.message, asSentPath(body, error.param))
  }
}

const listEndpoints = ({ live }: EndpointDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/endpoints',
    scopes: READ,
    summary: 'List endpoint scopes: global ones and those of the tenants that the key sees',
    rows: 'endpoints',
    query: t.Object({ tenant_id: t.Optional(t.String()), ...Paging }),
    answer: EndpointView,
    handle({ principal, query }) {
      const tenantId = tenantOfQuery(live.control, principal, query.tenant_id)
      const rows = [...live.control.table('endpoints').rows()]
        .map(([, row]) => row)
        .filter((row) => (tenantId === undefined ? seesTenant(principal, row.tenant_id) : row.tenant_id === tenantId))
      return { body: listed('endpoints', rows, query, (row) => shown(live.control, row)) }
    },
  })

const getEndpoint = ({ live }: EndpointDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/endpoints/:id',
    scopes: READ,
    summary: 'One endpoint scope',
    answer: EndpointView,
    handle: ({ principal, params }) => ({
      body: shown(live.control, visibleEndpoint(live.control, principal, params.id)),
    }),
  })

const upsertEndpoint = ({ live, commit, newId }: EndpointDeps): AdminRoute =>
  route({
    method: 'PUT',
    path: '/endpoints',
    scopes: WRITE,
    summary: 'Replace the endpoint scope of this slug, or create it',
    body: EndpointBody,
    dropped: WARNINGS,
    answer: EndpointView,
    async handle(call) {
      const { slug, tenant_id, name = slug, description = null, aliases = [] } = call.body
      const owner = ownerFor(call.principal, tenant_id, live.control)
      const enabled = statusOf(call.body) !== 'disabled'
      const overrides = overridesOf(call.body)
      const fields = { id: newId('end'), slug, tenant_id: owner, name, description, enabled, aliases, overrides }
      const existing = (state: ControlReader): EndpointRow | undefined => {
        const [id] = state.table('endpoints').find('slug', endpointKey(owner, slug))
        return id === undefined ? undefined : state.table('endpoints').get(id)
      }
      let found: EndpointRow | undefined
      const result = await write(commit, call, existing, (state) => {
        found = existing(state)
        return asSent(call.body, () =>
          decideEndpoint(state, { do: 'upsert', ...fields, overrides: withModels(state, overrides, found?.overrides) }),
        )
      })
      // A write that changes nothing returns the row that it found: it may be deleted by now.
      const row = rowAfter(result, 'endpoints') ?? found!
      const sent = (text: string) => asSentPath(call.body, text)
      return {
        body: withWarnings(row, [
          ...shadowedAliases(live.control, row.aliases),
          ...endpointWarnings(live.control, row.overrides).map(sent),
        ]),
        revision: result.revision,
      }
    },
  })

const deleteEndpoint = ({ commit }: EndpointDeps): AdminRoute =>
  route({
    method: 'DELETE',
    path: '/endpoints/:id',
    scopes: ['*'],
    summary: 'Delete an endpoint scope; requests that name it are then 404',
    async handle(call) {
      const id = call.params.id
      const result = await write(
        commit,
        call,
        (state) => state.table('endpoints').get(id),
        (state) => decideEndpoint(state, { do: 'delete', id }),
      )
      return { body: { deleted: true, id }, revision: result.revision }
    },
  })

export const endpointRoutes = (deps: EndpointDeps): AdminRoute[] => [
  listEndpoints(deps),
  getEndpoint(deps),
  upsertEndpoint(deps),
  deleteEndpoint(deps),
]
