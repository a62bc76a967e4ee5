// Tenants own keys and budgets. Names and fields of the events are stored for ever: CONTRIBUTING, "Change an event".
import { type Static, t } from '../lib/schema.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from './aggregate.ts'
import type { ControlReader } from './control.ts'
import type { EventRecord } from './decision.ts'
import { Rejection } from './rejection.ts'

const Slug = t.String({ minLength: 1, maxLength: 64, pattern: '^[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?$' })
const Name = t.String({ minLength: 1, maxLength: 256 })
const Plan = t.Union([t.String({ minLength: 1, maxLength: 64 }), t.Null()])
/** Requests and tokens a minute, and requests at once; absent or null: no limit. */
export const RateLimits = t.Object({
  rpm: t.Optional(t.Union([t.Integer({ minimum: 1 }), t.Null()])),
  tpm: t.Optional(t.Union([t.Integer({ minimum: 1 }), t.Null()])),
  max_parallel: t.Optional(t.Union([t.Integer({ minimum: 1 }), t.Null()])),
})
export type RateLimits = Static<typeof RateLimits>

export const TenantCreated = t.Object({
  id: t.String(),
  slug: Slug,
  name: Name,
  plan: Plan,
  rate_limits: t.Optional(t.Union([RateLimits, t.Null()])),
  managed_by: t.Union([t.Literal('api'), t.Literal('bootstrap')]),
})
export const TenantReplaced = t.Object({
  id: t.String(),
  name: Name,
  plan: Plan,
  rate_limits: t.Optional(t.Union([RateLimits, t.Null()])),
})
export const TenantDeleted = t.Object({ id: t.String() })

export interface TenantRow extends Stamps {
  readonly id: string
  readonly slug: string
  readonly name: string
  readonly plan: string | null
  readonly rate_limits: RateLimits | null
  readonly managed_by: 'api' | 'bootstrap'
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
  },
  evolve(state, { type, data }, meta) {
    const before = state.table('tenants').get(data.id as string)
    if (type === 'tenant.created') {
      const created = data as Static<typeof TenantCreated>
      return before === undefined
        ? rows.created(created.id, { ...created, rate_limits: created.rate_limits ?? null }, meta)
        : []
    }
    if (type === 'tenant.replaced') {
      const { id, name, plan, rate_limits } = data as Static<typeof TenantReplaced>
      return rows.changed(id, before, { name, plan, rate_limits: rate_limits ?? null }, meta)
    }
    const keys = state.table('keys')
    return [
      ...rows.removed(data.id as string, before),
      ...keys
        .find('tenant', data.id as string)
        .map((id) => ({ table: 'keys', id, before: keys.get(id)!, after: null })),
    ]
  },
}

export type TenantCommand =
  | ({ do: 'create' } & Static<typeof TenantCreated>)
  | { do: 'replace'; id: string; slug?: string; name: string; plan: string | null; rate_limits?: RateLimits | null }
  | { do: 'delete'; id: string; force: boolean }

export const decideTenant = (state: ControlReader, command: TenantCommand): EventRecord[] => {
  const tenants = state.table('tenants')
  if (command.do === 'create') {
    const { do: _, ...data } = command
    if (tenants.find('slug', data.slug).length > 0)
      throw new Rejection('conflict', `a tenant with the slug "${data.slug}" exists already`, 'slug')
    return [{ type: 'tenant.created', data }]
  }
  const row = tenants.get(command.id)
  if (row === undefined) throw new Rejection('not_found', `no tenant has the id "${command.id}"`)
  if (command.do === 'replace') {
    const { id, slug, name, plan, rate_limits = null } = command
    if (slug !== undefined && slug !== row.slug)
      throw new Rejection('invalid', 'the slug of a tenant cannot be changed', 'slug')
    const same =
      row.name === name && row.plan === plan && JSON.stringify(row.rate_limits) === JSON.stringify(rate_limits)
    return same ? [] : [{ type: 'tenant.replaced', data: { id, name, plan, rate_limits } }]
  }
  const keys = state.table('keys')
  const active = keys.find('tenant', row.id).filter((id) => keys.get(id)!.status === 'active').length
  if (active > 0 && !command.force) {
    throw new Rejection(
      'invalid',
      `the tenant holds ${active} active key${active === 1 ? '' : 's'}; revoke them or repeat with force=true`,
      'force',
    )
  }
  return [{ type: 'tenant.deleted', data: { id: row.id } }]
}
