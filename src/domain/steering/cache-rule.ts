// Cache rules: which answers may be cached, how long, and how they are found. Names and fields of the events are stored
// for ever.
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changeAction, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { changedFields, closed, Id, ManagedBy, Nullable, opened } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'
import { tenantOfScope } from './cache-scope.ts'
import { EndpointSlug, endpointKey } from './endpoint.ts'

export const CacheRuleName = t.String({ minLength: 1, maxLength: 128, pattern: '^\\S(?:.*\\S)?$' })

/** The fields of a rule that clients may send, beside its name. */
export const CacheRuleFields = closed(
  t.Object({
    /** 0: answers are not cached. */
    ttl_seconds: t.Integer({ minimum: 0, maximum: 31_536_000 }),
    enabled: t.Boolean(),
    /** The requests it applies to: `global`, `tenant:<id>`, `endpoint:<slug>`, `key:<id>`. */
    scopes: t.Array(t.String({ minLength: 1, maxLength: 320 }), { minItems: 1, maxItems: 64 }),
    mode: t.Union([t.Literal('exact'), t.Literal('prefix'), t.Literal('semantic')]),
    /** For the mode `semantic`: the required similarity of two prompts, 1 is the same. */
    similarity_threshold: Nullable(t.Number({ minimum: 0, maximum: 1 })),
  }),
)
export type CacheRuleFields = Static<typeof CacheRuleFields>

export const CacheRuleCreated = opened(
  t.Composite([
    t.Object({ id: Id, tenant_id: Nullable(Id), name: CacheRuleName, managed_by: ManagedBy }),
    CacheRuleFields,
  ]),
)
/** Only the fields that changed. */
export const CacheRuleChanged = opened(
  t.Composite([t.Object({ id: Id, managed_by: t.Optional(ManagedBy) }), t.Partial(CacheRuleFields)]),
)
export const CacheRuleDeleted = t.Object({ id: Id })

export interface CacheRuleRow extends Stamps, Readonly<CacheRuleFields> {
  readonly id: string
  /** Null: it belongs to no tenant, and may have any scope. */
  readonly tenant_id: string | null
  readonly name: string
  readonly managed_by: ManagedBy
}

/** Defaults of the fields that a rule leaves out, but for its scopes. */
export const CACHE_RULE_DEFAULTS = {
  enabled: true,
  mode: 'exact',
  similarity_threshold: null,
} as const

/** Index key of a name within a tenant (null: global). Names are compared without case. */
export const cacheRuleKey = (tenantId: string | null, name: string): string => `${tenantId ?? ''}/${name.toLowerCase()}`

const rows = changesOf<CacheRuleRow>('cache_rules')
const subject = (data: { id: string }): string => data.id
const shared = { since: 3, resource: 'cache_rule', subject } as const

export const cacheRule: Aggregate<CacheRuleRow, ControlReader> = {
  table: 'cache_rules',
  indexes: { tenant: (row) => row.tenant_id ?? '', name: (row) => cacheRuleKey(row.tenant_id, row.name) },
  events: {
    'cache_rule.created': eventType({ schema: CacheRuleCreated, action: 'create', ...shared }),
    'cache_rule.changed': eventType({ schema: CacheRuleChanged, action: changeAction, ...shared }),
    'cache_rule.deleted': eventType({ schema: CacheRuleDeleted, action: 'delete', ...shared }),
  },
  evolve(state, { type, data }, meta) {
    const id = data.id as string
    const before = state.table('cache_rules').get(id)
    if (type === 'cache_rule.created')
      return before === undefined ? rows.created(id, data as Static<typeof CacheRuleCreated>, meta) : []
    if (type === 'cache_rule.deleted') return rows.removed(id, before)
    return rows.changed(id, before, data as Static<typeof CacheRuleChanged>, meta)
  },
}

const LEVELS = ['key', 'endpoint', 'tenant', 'global'] as const

/**
 * Rank of a rule by its narrowest scope: 0 for a key, then endpoint scope, tenant, everything. The narrower rule
 * decides.
 */
export const narrowness = ({ scopes }: Pick<CacheRuleRow, 'scopes'>): number =>
  Math.min(...scopes.map((scope) => LEVELS.findIndex((level) => scope === level || scope.startsWith(`${level}:`))))

export type CacheRuleCommand =
  /** Replaces the rule of that name; `id` is used only when there is none. */
  ({ do: 'upsert' } & Static<typeof CacheRuleCreated> & CacheRuleFields) | { do: 'delete'; id: string }

const SLUG = new RegExp(EndpointSlug.pattern!)

const wrongScope = (scope: string): Rejection =>
  new Rejection(
    'invalid',
    `"${scope}" is no scope: they are "global", "tenant:<id>", "endpoint:<slug>" and "key:<id>"`,
    'scopes',
  )

/** A scope as it is stored. Throws 400 for a text that is none. */
const scopeOf = (given: string): string => {
  const text = given.trim()
  if (text === 'global') return text
  const [, word, rest] = /^(tenant|endpoint|key):(\S+)$/.exec(text) ?? []
  if (word === undefined || rest === undefined) throw wrongScope(given)
  if (word !== 'endpoint') return text
  if (rest.length > 64 || !SLUG.test(rest)) throw wrongScope(given)
  return `endpoint:${rest.toLowerCase()}`
}

/**
 * The fields of a rule as they are stored. `isGlobal`: it belongs to no tenant. Throws 400 for fields that are invalid
 * for that owner.
 */
export const soundRule = (given: CacheRuleFields, isGlobal: boolean): CacheRuleFields => {
  if (given.similarity_threshold !== null && given.mode !== 'semantic')
    throw new Rejection('invalid', '"similarity_threshold" is for the mode "semantic" only', 'similarity_threshold')
  const scopes = [...new Set(given.scopes.map(scopeOf))]
  if (isGlobal || !scopes.includes('global')) return { ...given, scopes }
  const message = 'a rule of a tenant cannot be global: send "tenant_id" null, or the scope "tenant:<id>"'
  throw new Rejection('invalid', message, 'scopes')
}

/** Throws 400 for a scope without a target, or beyond the rule's owner. */
const requireScope = (state: ControlReader, tenantId: string | null, scope: string): void => {
  const refuse = (message: string): never => {
    throw new Rejection('invalid', message, 'scopes')
  }
  if (scope === 'global') return
  const rest = scope.slice(scope.indexOf(':') + 1)
  if (scope.startsWith('endpoint:')) {
    const slugs = state.table('endpoints')
    const owners =
      tenantId === null ? [null, ...[...state.table('tenants').rows()].map(([id]) => id)] : [tenantId, null]
    if (!owners.some((owner) => slugs.find('slug', endpointKey(owner, rest)).length > 0))
      refuse(`no endpoint scope has the slug "${rest}"`)
    return
  }
  const isTenant = scope.startsWith('tenant:')
  const row = isTenant ? state.table('tenants').get(rest) : state.table('keys').get(rest)
  const owner = isTenant ? rest : tenantOfScope(state, scope)
  if (row === undefined || (tenantId !== null && owner !== tenantId))
    refuse(`no ${isTenant ? 'tenant' : 'key'}${tenantId === null ? '' : ' of this tenant'} has the id "${rest}"`)
}

export const decideCacheRule = (state: ControlReader, command: CacheRuleCommand): EventRecord[] => {
  const rules = state.table('cache_rules')
  if (command.do === 'delete') {
    if (rules.get(command.id) === undefined)
      throw new Rejection('not_found', `no cache rule has the id "${command.id}"`)
    return [{ type: 'cache_rule.deleted', data: { id: command.id } }]
  }
  const { do: _, id, tenant_id, name, managed_by, ...given } = command
  if (tenant_id !== null && state.table('tenants').get(tenant_id) === undefined)
    throw new Rejection('not_found', `no tenant has the id "${tenant_id}"`, 'tenant_id')
  const fields = soundRule(given, tenant_id === null)
  const [existing] = rules.find('name', cacheRuleKey(tenant_id, name))
  const row = existing === undefined ? undefined : rules.get(existing)
  // A scope that was valid when it was written does not block other changes.
  for (const scope of fields.scopes) if (!row?.scopes.includes(scope)) requireScope(state, tenant_id, scope)
  if (row === undefined) return [{ type: 'cache_rule.created', data: { id, tenant_id, name, managed_by, ...fields } }]
  const changed = changedFields<CacheRuleRow>(row, fields)
  if (Object.keys(changed).length === 0) return []
  const owner = row.managed_by === managed_by ? {} : { managed_by }
  return [{ type: 'cache_rule.changed', data: { id: row.id, ...changed, ...owner } }]
}
