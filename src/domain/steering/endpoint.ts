// Endpoint scopes: named routing that applications select by slug or alias, and that operators repoint. Names and
// fields of the events are stored for ever.
import { type Static, t } from '../../lib/schema/schema.ts'
import { capUsd } from '../budgets/cap.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changeAction, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { changedFields, distinct, Id, ManagedBy, Nullable, opened, requireSmall } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'
import { unknownNameText } from '../references.ts'
import { aliasKeys, isModel, requireNoModelName } from '../registry/alias.ts'
import { ModelName } from '../registry/model.ts'
import { strategyOf } from './policy.ts'

/** Compared without case, stored in lower case. */
export const EndpointSlug = t.String({
  minLength: 1,
  maxLength: 64,
  pattern: '^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$',
  description: 'letters, digits, dots, hyphens and underscores, with a letter or digit at both ends',
})

/**
 * Values of the scope that replace those of the policy. Null and []: no replacement. Models and providers by name or
 * id.
 */
export const EndpointOverrides = t.Object({
  forced_model: Nullable(ModelName),
  preferred_models: t.Array(ModelName, { maxItems: 64 }),
  preferred_providers: t.Array(t.String({ minLength: 1, maxLength: 256 }), { maxItems: 64 }),
  strategy: Nullable(t.String({ minLength: 1, maxLength: 32 })),
  max_cost_usd: Nullable(t.Number({ minimum: 0, maximum: 1_000_000 })),
  latency_target_ms: Nullable(t.Integer({ minimum: 1, maximum: 3_600_000 })),
  no_fallback: t.Boolean(),
})
export type EndpointOverrides = Static<typeof EndpointOverrides>

const Mutable = {
  name: t.String({ minLength: 1, maxLength: 256 }),
  description: Nullable(t.String({ maxLength: 2_048 })),
  enabled: t.Boolean(),
  /** Aliases: a request that sends one as its model selects this scope. */
  aliases: t.Array(ModelName, { maxItems: 32 }),
  overrides: EndpointOverrides,
}
export const EndpointFields = t.Object(Mutable)
export type EndpointFields = Static<typeof EndpointFields>

/** `managed_by` absent: the API. */
export const EndpointCreated = opened(
  t.Object({ id: Id, slug: EndpointSlug, tenant_id: Nullable(Id), managed_by: t.Optional(ManagedBy), ...Mutable }),
)
/** Only the fields that changed; `overrides` as a whole. */
export const EndpointChanged = opened(
  t.Composite([t.Object({ id: Id, managed_by: t.Optional(ManagedBy) }), t.Partial(EndpointFields)]),
)
export const EndpointDeleted = t.Object({ id: Id })

export interface EndpointRow extends Stamps, Readonly<EndpointFields> {
  readonly id: string
  readonly slug: string
  /** Null: every tenant may use it. */
  readonly tenant_id: string | null
  /** Absent: `api`. */
  readonly managed_by?: ManagedBy
}

/** Overrides of a scope that sets none. */
export const NOTHING_OVERRIDDEN: EndpointOverrides = {
  forced_model: null,
  preferred_models: [],
  preferred_providers: [],
  strategy: null,
  max_cost_usd: null,
  latency_target_ms: null,
  no_fallback: false,
}

/** Index key of a slug within a tenant (null: global). */
export const endpointKey = (tenantId: string | null, slug: string): string => `${tenantId ?? ''}/${slug.toLowerCase()}`

const rows = changesOf<EndpointRow>('endpoints')
const subject = (data: { id: string }): string => data.id
const SINCE = 2

export const endpoint: Aggregate<EndpointRow, ControlReader> = {
  table: 'endpoints',
  indexes: {
    tenant: (row) => row.tenant_id ?? '',
    slug: (row) => endpointKey(row.tenant_id, row.slug),
    alias: aliasKeys,
  },
  events: {
    'endpoint.created': eventType({
      schema: EndpointCreated,
      since: SINCE,
      action: 'create',
      resource: 'endpoint',
      subject,
    }),
    'endpoint.changed': eventType({
      schema: EndpointChanged,
      since: SINCE,
      action: changeAction,
      resource: 'endpoint',
      subject,
    }),
    'endpoint.deleted': eventType({
      schema: EndpointDeleted,
      since: SINCE,
      action: 'delete',
      resource: 'endpoint',
      subject,
    }),
  },
  evolve(state, { type, data }, meta) {
    const id = data.id as string
    const before = state.table('endpoints').get(id)
    if (type === 'endpoint.created')
      return before === undefined ? rows.created(id, data as Static<typeof EndpointCreated>, meta) : []
    if (type === 'endpoint.deleted') return rows.removed(id, before)
    return rows.changed(id, before, data as Static<typeof EndpointChanged>, meta)
  },
}

export type EndpointCommand =
  /** Replaces the scope of that slug; `id` is used only when there is none. */
  ({ do: 'upsert' } & Static<typeof EndpointCreated>) | { do: 'delete'; id: string }

/** Throws a conflict when another scope of the same owner has one of the aliases: the alias would be ambiguous. */
const requireOwnAliases = (state: ControlReader, tenantId: string | null, slug: string, aliases: readonly string[]) => {
  const wanted = new Set(aliases.map((alias) => alias.toLowerCase()))
  const endpoints = state.table('endpoints')
  for (const id of endpoints.find('tenant', tenantId ?? '').toSorted()) {
    const other = endpoints.get(id)!
    const taken = other.slug === slug ? undefined : other.aliases.find((alias) => wanted.has(alias.toLowerCase()))
    if (taken !== undefined) {
      throw new Rejection('conflict', `"${taken}" is an alias of the endpoint scope "${other.slug}"`, 'aliases')
    }
  }
}

/** An endpoint scope as it is stored. Throws 400 for fields that are invalid for every scope. */
export const soundEndpoint = (given: Static<typeof EndpointCreated>): Static<typeof EndpointCreated> => {
  const data = {
    ...given,
    slug: given.slug.toLowerCase(),
    aliases: distinct(given.aliases),
    overrides: soundOverrides(given.overrides),
  }
  requireSmall('the endpoint scope', data)
  return data
}

/** As it is stored: canonical names, whole nano-USD, no repeats. */
const soundOverrides = (given: EndpointOverrides): EndpointOverrides => ({
  ...given,
  preferred_models: distinct(given.preferred_models),
  preferred_providers: distinct(given.preferred_providers),
  strategy: given.strategy === null ? null : strategyOf(given.strategy, 'overrides.strategy'),
  max_cost_usd: capUsd(given.max_cost_usd, 'overrides.max_cost_usd'),
})

/**
 * A forced model must exist when it is set: a typo in a repointed scope would fail every caller. A model that was
 * deleted later does not block other changes.
 */
const requireForced = (state: ControlReader, forced: string | null, row: EndpointRow | undefined): void => {
  if (forced === null || forced === row?.overrides.forced_model || isModel(state, forced)) return
  throw new Rejection('invalid', unknownNameText(state, 'model', forced), 'overrides.forced_model')
}

export const decideEndpoint = (state: ControlReader, command: EndpointCommand): EventRecord[] => {
  const endpoints = state.table('endpoints')
  if (command.do === 'delete') {
    if (endpoints.get(command.id) === undefined)
      throw new Rejection('not_found', `no endpoint scope has the id "${command.id}"`)
    return [{ type: 'endpoint.deleted', data: { id: command.id } }]
  }
  const { do: _, ...given } = command
  const { tenant_id } = given
  if (tenant_id !== null && state.table('tenants').get(tenant_id) === undefined) {
    throw new Rejection('not_found', `no tenant has the id "${tenant_id}"`, 'tenant_id')
  }
  const data = soundEndpoint(given)
  const [existing] = endpoints.find('slug', endpointKey(tenant_id, data.slug))
  const row = existing === undefined ? undefined : endpoints.get(existing)
  requireForced(state, data.overrides.forced_model, row)
  // An alias that a model has taken since does not block other changes of the scope; settings may contain one, as an
  // export of such a scope does.
  const hadWords = row?.aliases.map((alias) => alias.toLowerCase()) ?? []
  const newWords = data.aliases.filter((alias) => !hadWords.includes(alias.toLowerCase()))
  if (tenant_id === null || data.managed_by !== 'bootstrap') requireNoModelName(state, newWords, 'aliases')
  requireOwnAliases(state, tenant_id, data.slug, data.aliases)
  if (row === undefined) return [{ type: 'endpoint.created', data }]
  const { id: __, slug: ___, tenant_id: ____, managed_by = 'api', ...fields } = data
  const changed = changedFields<EndpointRow>(row, fields)
  const owner = (row.managed_by ?? 'api') === managed_by ? {} : { managed_by }
  return Object.keys(changed).length === 0
    ? []
    : [{ type: 'endpoint.changed', data: { id: row.id, ...changed, ...owner } }]
}
