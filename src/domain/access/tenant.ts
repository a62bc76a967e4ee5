// Tenants own keys and budgets. Names and fields of the events are stored for ever: CONTRIBUTING, "Change an event".
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { changedFields, Id, ManagedBy, Nullable } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'
import type { RowChange } from '../kernel/tables.ts'
import { rulesWithout } from '../steering/cache-scope.ts'

export const TenantSlug = t.String({
  minLength: 1,
  maxLength: 64,
  pattern: '^[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?$',
  description: 'lower-case letters, digits, hyphens and underscores, with a letter or digit at both ends',
})
const Name = t.String({ minLength: 1, maxLength: 256 })
const Plan = Nullable(t.String({ minLength: 1, maxLength: 64 }))
const Limit = t.Optional(Nullable(t.Integer({ minimum: 1, maximum: 1_000_000_000_000 })))
/** Requests and tokens a minute, and requests at once; absent or null: no limit. */
export const RateLimits = t.Object({ rpm: Limit, tpm: Limit, max_parallel: Limit })
export type RateLimits = Static<typeof RateLimits>

/** What clients may send of a tenant besides its slug. */
export const TenantFields = t.Object({
  name: Name,
  plan: t.Optional(Plan),
  rate_limits: t.Optional(Nullable(RateLimits)),
})

export const TenantCreated = t.Object({
  id: Id,
  slug: TenantSlug,
  name: Name,
  plan: Plan,
  rate_limits: t.Optional(Nullable(RateLimits)),
  managed_by: ManagedBy,
})
export const TenantReplaced = t.Object({
  id: Id,
  name: Name,
  plan: Plan,
  rate_limits: t.Optional(Nullable(RateLimits)),
  managed_by: t.Optional(ManagedBy),
})
export const TenantDeleted = t.Object({ id: Id })
/** Content of its requests that was captured so far can no longer be opened. */
export const TenantContentErased = t.Object({ id: Id })

export interface TenantRow extends Stamps {
  readonly id: string
  readonly slug: string
  readonly name: string
  readonly plan: string | null
  readonly rate_limits: RateLimits | null
  readonly managed_by: ManagedBy
  /** How often its captured content was erased; absent: never. */
  readonly content_erasures?: number
}

const rows = changesOf<TenantRow>('tenants')

export const tenant: Aggregate<TenantRow, ControlReader> = {
  table: 'tenants',
  indexes: { slug: (row) => row.slug },
  events: {
    'tenant.created': eventType({
      schema: TenantCreated,
      action: 'create',
      resource: 'tenant',
      subject: (data) => data.id,
    }),
    'tenant.replaced': eventType({
      schema: TenantReplaced,
      action: 'update',
      resource: 'tenant',
      subject: (data) => data.id,
    }),
    'tenant.deleted': eventType({
      schema: TenantDeleted,
      action: 'delete',
      resource: 'tenant',
      subject: (data) => data.id,
    }),
    'tenant.content_erased': eventType({
      schema: TenantContentErased,
      since: 4,
      action: 'erase',
      resource: 'tenant',
      subject: (data) => data.id,
    }),
  },
  evolve(state, { type, data }, meta) {
    const before = state.table('tenants').get(data.id as string)
    if (type === 'tenant.created') {
      const created = data as Static<typeof TenantCreated>
      return before === undefined
        ? rows.created(created.id, { ...created, rate_limits: created.rate_limits ?? null }, meta)
        : []
    }
    if (before === undefined) return []
    if (type === 'tenant.content_erased') {
      return rows.changed(before.id, before, { content_erasures: (before.content_erasures ?? 0) + 1 }, meta)
    }
    if (type === 'tenant.replaced') {
      const { id, name, plan, rate_limits, managed_by } = data as Static<typeof TenantReplaced>
      const owner = managed_by ?? before.managed_by
      return rows.changed(id, before, { name, plan, rate_limits: rate_limits ?? null, managed_by: owner }, meta)
    }
    return [
      ...rows.removed(before.id, before),
      ...removedOf(state, 'keys', before.id),
      ...removedOf(state, 'policies', before.id),
      ...removedOf(state, 'endpoints', before.id),
      ...removedOf(state, 'overrides', before.id),
      ...removedOf(state, 'budgets', before.id),
      ...removedOf(state, 'tools', before.id),
      ...removedOf(state, 'tool_policies', before.id),
      ...rulesWithout(state, before.id, meta),
    ]
  },
}

/** The rows of another table that are removed with a tenant, by id. An index has no order that a fold may depend on. */
const removedOf = (
  state: ControlReader,
  name: 'keys' | 'policies' | 'endpoints' | 'overrides' | 'budgets' | 'tools' | 'tool_policies',
  tenantId: string,
): RowChange[] => {
  const table = state.table(name)
  const ids = table.find('tenant', tenantId).toSorted()
  return ids.map((id) => ({ table: name, id, before: table.get(id)!, after: null }))
}

export type TenantCommand =
  | ({ do: 'create' } & Static<typeof TenantCreated>)
  | ({ do: 'replace'; id: string; slug?: string; managed_by: ManagedBy } & Static<typeof TenantFields>)
  /** `nowMs`: a key that has expired by then is not active. */
  | { do: 'delete'; id: string; force: boolean; nowMs: number }
  | { do: 'erase_content'; id: string }

/** Ids of the keys of a tenant that work at `nowMs`. */
export const activeKeys = (state: ControlReader, tenantId: string, nowMs: number): readonly string[] => {
  const keys = state.table('keys')
  return keys.find('tenant', tenantId).filter((id) => {
    const { status, expires_at } = keys.get(id)!
    return status === 'active' && (expires_at === null || Date.parse(expires_at) > nowMs)
  })
}

export const decideTenant = (state: ControlReader, command: TenantCommand): EventRecord[] => {
  const tenants = state.table('tenants')
  if (command.do === 'create') {
    const { do: _, ...data } = command
    if (tenants.find('slug', data.slug).length > 0) {
      throw new Rejection('conflict', `a tenant with the slug "${data.slug}" exists already`, 'slug')
    }
    return [{ type: 'tenant.created', data }]
  }
  const row = tenants.get(command.id)
  if (row === undefined) throw new Rejection('not_found', `no tenant has the id "${command.id}"`)
  if (command.do === 'replace') {
    const { id, slug, name, plan = null, rate_limits = null, managed_by } = command
    if (slug !== undefined && slug !== row.slug) {
      throw new Rejection('invalid', 'the slug of a tenant cannot be changed', 'slug')
    }
    const wanted = { name, plan, rate_limits }
    if (Object.keys(changedFields<TenantRow>(row, wanted)).length === 0) return []
    return [
      { type: 'tenant.replaced', data: { id, ...wanted, ...(row.managed_by === managed_by ? {} : { managed_by }) } },
    ]
  }
  if (command.do === 'erase_content') return [{ type: 'tenant.content_erased', data: { id: row.id } }]
  const active = command.force ? 0 : activeKeys(state, row.id, command.nowMs).length
  if (active > 0) {
    const keys = `${active} active key${active === 1 ? '' : 's'}`
    throw new Rejection('invalid', `the tenant holds ${keys}; revoke them or repeat with force=true`, 'force')
  }
  return [{ type: 'tenant.deleted', data: { id: row.id } }]
}
