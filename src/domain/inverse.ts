// How the change of one row is reverted, by table: a command to the aggregate that owns it, so that its rules hold.
// Changes of a table that is not listed here are never reverted. A key or secret that was disabled for safety is never
// enabled again this way.
import { type ApiKeyRow, decideApiKey, type Granter, hasExpired } from './access/api-key.ts'
import { activeKeys, decideTenant, type TenantRow } from './access/tenant.ts'
import { type BudgetCommand, type BudgetRow, decideBudget, moneyOf } from './budgets/budget.ts'
import type { ControlReader } from './control.ts'
import type { EventRecord } from './kernel/decision.ts'
import { Rejection } from './kernel/rejection.ts'
import type { RowChange } from './kernel/tables.ts'
import { decideModel, type ModelRow } from './registry/model.ts'
import { decidePriceCorrection, type PriceCorrectionRow } from './registry/price-correction.ts'
import { decideProvider, type ProviderRow } from './registry/provider.ts'
import { decideProviderTest, type ProviderTestRow } from './registry/provider-test.ts'
import { bindingOf, sameBinding } from './registry/secret-binding.ts'
import { decideTool, type ToolCommand, type ToolRow } from './registry/tool.ts'
import { decideToolPolicy, type ToolPolicyRow } from './registry/tool-policy.ts'
import { type CacheRuleRow, decideCacheRule } from './steering/cache-rule.ts'
import { decideEndpoint, type EndpointRow } from './steering/endpoint.ts'
import { decideOverride } from './steering/override.ts'
import { isInForce, type OverrideRow } from './steering/override-row.ts'
import { decidePolicy, type PolicyRow } from './steering/policy.ts'

export interface InverseContext {
  readonly granter: Granter
  readonly dataKeyIds: ReadonlySet<string>
  readonly newId: string
  readonly nowMs: number
  /** All changes of the decision. */
  readonly changes: readonly RowChange[]
}

interface Inverse {
  /** The events, on the state with the changes reverted so far; [] when nothing is needed. Throws Rejection. */
  invert(state: ControlReader, change: RowChange, context: InverseContext): readonly EventRecord[]
  /**
   * The table's rows are only ever added: an inverse is one more row. Whether a change that it causes in another row
   * removes nothing.
   */
  harmless?(effect: RowChange): boolean
  /** Whether the row need not be as the decision left it, since it has no effect any more. */
  standsAlone?(change: RowChange): boolean
  /** The row that must result, where it is not the row before. `now`: the present row. */
  restored?(change: RowChange, now: unknown): unknown
}

const never = (message: string): never => {
  throw new Rejection('conflict', message)
}

/** The fields without those that no command takes: the id and the stamps. */
const fieldsOf = <Row extends object, Left extends keyof Row>(row: Row, ...left: readonly Left[]): Omit<Row, Left> => {
  const copy: Partial<Row> = { ...row }
  for (const name of left) delete copy[name]
  return copy as Omit<Row, Left>
}

const API = { managed_by: 'api' } as const
const STAMPS = ['created_at', 'updated_at', 'revision'] as const

const tenants: Inverse = {
  invert(state, { id, before, after }, { nowMs }) {
    const row = before as TenantRow | null
    if (row === null) {
      const [key, ...others] = activeKeys(state, id, nowMs).toSorted() // ids sort by time
      const more = others.length === 0 ? '' : ` and ${others.length} more`
      if (key !== undefined)
        return never(`tenants ${id} has the active key ${key}${more}: revoke what was issued since`)
      return decideTenant(state, { do: 'delete', id, force: false, nowMs })
    }
    const { slug, name, plan, rate_limits } = row
    if (after !== null && row.content_erasures !== (after as TenantRow).content_erasures)
      return never(`the captured content of the tenant ${slug} was erased: nothing opens it again`)
    if (after === null) return decideTenant(state, { do: 'create', id, slug, name, plan, rate_limits, ...API })
    return decideTenant(state, { do: 'replace', id, name, plan, rate_limits, ...API })
  },
}

const keys: Inverse = {
  invert(state, { id, before, after }, { granter, nowMs }) {
    const [was, is] = [before as ApiKeyRow | null, after as ApiKeyRow | null]
    if (was === null) return decideApiKey(state, { do: 'revoke', id })
    if (is === null)
      return never(`the key ${id} was removed: a key that stopped working never works again; issue another`)
    if (was.status !== is.status)
      return never(`the key ${id} was revoked: a revoked key never works again; issue another`)
    if (was.digest !== is.digest)
      return never(`the key ${id} was rotated: its former secret never works again; rotate it once more`)
    if (hasExpired(is, nowMs) && !hasExpired(was, nowMs))
      return never(`the key ${id} has expired: a key that stopped working does not work again so; set its "expires_at"`)
    const { name, scopes, expires_at, routing_policy_id, rate_limits } = was
    const wanted = { name, scopes: [...scopes], expires_at, routing_policy_id, rate_limits }
    return decideApiKey(state, { do: 'change', id, granter, ...wanted, ...API })
  },
  // Keys are not deleted: one that was issued is revoked.
  restored: ({ before, after }, now) =>
    before !== null || now === null
      ? before
      : { ...(after as ApiKeyRow), status: 'revoked', revoked_at: (now as ApiKeyRow).revoked_at },
}

/** A secret that is sealed again belongs to the address of that moment, unless an event states where it belonged. */
const boundElsewhere = (row: ProviderRow): readonly EventRecord[] => {
  const { id, credential } = row
  if (credential === null || sameBinding(credential.bound_to, bindingOf(row))) return []
  return [{ type: 'provider.changed', data: { id, credential_bound_to: credential.bound_to } }]
}

const sealedAgain = (
  state: ControlReader,
  row: ProviderRow,
  { dataKeyIds }: InverseContext,
): readonly EventRecord[] => {
  const { id, credential } = row
  if (credential === null) return decideProvider(state, { do: 'unseal', provider_id: id })
  const { key_id, sealed, name, hint } = credential
  if (!dataKeyIds.has(key_id))
    return never(`the former secret of the provider ${row.name} was erased with its data key: write it again`)
  const resealed = decideProvider(state, { do: 'seal', provider_id: id, key_id, sealed, name, hint })
  return [...resealed, ...boundElsewhere(row)]
}

/** The former bindings: what comes back is what was in use. A secret that was replaced is sealed again with its own. */
const boundBefore = ({ env_bound_to, credential }: ProviderRow, secretChanged: boolean) => ({
  env: env_bound_to,
  credential: secretChanged ? null : (credential?.bound_to ?? null),
})

const providers: Inverse = {
  invert(state, { id, before, after }, context) {
    const [was, is] = [before as ProviderRow | null, after as ProviderRow | null]
    if (was === null) return decideProvider(state, { do: 'delete', id })
    const secretChanged = was.credential?.key_id !== is?.credential?.key_id
    const { env_bound_to, ...fields } = fieldsOf(was, ...STAMPS, 'credential')
    if (is === null && was.credential !== null && !context.dataKeyIds.has(was.credential.key_id))
      return never(`the secret of the provider ${was.name} was erased with its data key: make the provider anew`)
    const rest =
      is === null
        ? decideProvider(state, { do: 'create', ...fields, env_bound_to, ...API })
        : decideProvider(state, { do: 'change', ...fields, bound: boundBefore(was, secretChanged), ...API })
    if (!secretChanged || (is === null && was.credential === null)) return rest
    if (is === null) {
      const { key_id, sealed, name, hint } = was.credential!
      const data = { provider_id: id, key_id, sealed, name, hint, replaces: false }
      return [...rest, { type: 'credential.sealed', data }, ...boundElsewhere(was)]
    }
    return [...rest, ...sealedAgain(state, was, context)]
  },
}

const models: Inverse = {
  invert(state, { id, before, after }) {
    const was = before as ModelRow | null
    if (was === null) return decideModel(state, { do: 'delete', id })
    const fields = fieldsOf(was, ...STAMPS)
    const tiers = { price_tiers: was.price_tiers ?? null }
    return decideModel(state, { do: after === null ? 'create' : 'change', ...fields, ...tiers, ...API })
  },
}

const policies: Inverse = {
  invert(state, { id, before, after }) {
    const was = before as PolicyRow | null
    if (was === null) return decidePolicy(state, { do: 'delete', id })
    return decidePolicy(state, { do: after === null ? 'create' : 'upsert', ...fieldsOf(was, ...STAMPS), ...API })
  },
}

const endpoints: Inverse = {
  invert(state, { id, before }) {
    const was = before as EndpointRow | null
    if (was === null) return decideEndpoint(state, { do: 'delete', id })
    return decideEndpoint(state, { do: 'upsert', ...fieldsOf(was, ...STAMPS, 'managed_by') })
  },
}

/** The row that is written again is the newest copy of its limits: its height is greater. */
const budgets: Inverse = {
  invert(state, { id, before }) {
    const was = before as BudgetRow | null
    if (was === null) return decideBudget(state, { do: 'delete', id })
    const heights = ['height', 'limits_height'] as const
    const rest = fieldsOf(was, ...STAMPS, 'limit_nano_usd', 'soft_limit_nano_usd', 'hard_cap_nano_usd', ...heights)
    const scope = was.scope as (BudgetCommand & { do: 'upsert' })['scope']
    return decideBudget(state, { do: 'upsert', ...rest, scope, ...moneyOf(was), ...API })
  },
  restored({ before }, now) {
    const { height, limits_height } = (now ?? {}) as Partial<BudgetRow>
    return before === null ? null : { ...(before as BudgetRow), height, limits_height }
  },
}

const cacheRules: Inverse = {
  invert(state, { id, before }) {
    const was = before as CacheRuleRow | null
    if (was === null) return decideCacheRule(state, { do: 'delete', id })
    return decideCacheRule(state, { do: 'upsert', ...fieldsOf(was, ...STAMPS), ...API })
  },
}

const tools: Inverse = {
  invert(state, { id, before, after }) {
    const was = before as ToolRow | null
    if (was === null) return decideTool(state, { do: 'delete', id })
    const kind = was.kind as (ToolCommand & { do: 'register' })['kind']
    const fields = { ...fieldsOf(was, ...STAMPS), kind, ...API }
    return after === null
      ? decideTool(state, { do: 'register', ...fields })
      : decideTool(state, { do: 'change', ...fields })
  },
}

const toolPolicies: Inverse = {
  invert(state, { id, before }) {
    const was = before as ToolPolicyRow | null
    if (was === null) return decideToolPolicy(state, { do: 'delete', id })
    return decideToolPolicy(state, { do: 'upsert', ...fieldsOf(was, ...STAMPS), ...API })
  },
}

/** The row that is written again counts as decided now: it has a new number. */
const priceCorrections: Inverse = {
  invert(state, { id, before }) {
    const was = before as PriceCorrectionRow | null
    if (was === null) return decidePriceCorrection(state, { do: 'withdraw', id })
    return decidePriceCorrection(state, { do: 'restore', ...fieldsOf(was, ...STAMPS, 'number', 'managed_by') })
  },
  restored: ({ before }, now) =>
    before === null ? null : { ...(before as PriceCorrectionRow), number: (now as PriceCorrectionRow | null)?.number },
}

/**
 * Records of findings: they stay when a decision is reverted, and those that were removed with a provider come back
 * with it.
 */
const tests: Inverse = {
  harmless: () => true,
  standsAlone: () => true,
  invert(state, { before, after }) {
    const revisions = (after as ProviderTestRow | null)?.results[0]?.sync?.revisions ?? []
    if (before === null && revisions.length > 0)
      never(`this decision is the record of a synchronisation; what created its models is ${revisions.join(', ')}`)
    if (before === null || after !== null) return []
    return decideProviderTest(state, fieldsOf(before as ProviderTestRow, ...STAMPS, 'number'))
  },
}

/**
 * The value that decided before is written again; where there was none, or it has expired, the override is taken back.
 */
const overrides: Inverse = {
  harmless: ({ before, after }) =>
    after !== null || (before as OverrideRow).superseded || !(before as OverrideRow).enabled,
  standsAlone: ({ before }) => before !== null,
  invert(state, { before, after }, { newId, nowMs, changes }) {
    const was = before as OverrideRow | null
    const write = ({ kind, target, tenant_id, value, reason, expires_at }: OverrideRow, enabled: boolean) => {
      const row = { id: newId, kind, target, tenant_id, value, reason, expires_at, enabled }
      // A caller that reverts decisions has `*`.
      return decideOverride(state, { do: 'write', ...row, writer_tenant_id: null, nowMs })
    }
    // It was removed with its tenant.
    if (was !== null) return after === null && isInForce(was, nowMs) ? write(was, true) : []
    const written = after as OverrideRow
    const former = changes.find((change) => change.table === 'overrides' && isReplaced(change, written))?.before
    return former !== undefined && isInForce(former as OverrideRow, nowMs)
      ? write(former as OverrideRow, true)
      : write(written, false)
  },
}

const isReplaced = ({ before, after }: RowChange, written: OverrideRow): boolean => {
  const [was, is] = [before as OverrideRow | null, after as OverrideRow | null]
  if (was === null || is === null || was.superseded || !is.superseded) return false
  return is.kind === written.kind && is.target === written.target && is.tenant_id === written.tenant_id
}

/** The inverse of a change, by the name of its table. */
export const INVERSES: Readonly<Record<string, Inverse | undefined>> = {
  tenants,
  keys,
  providers,
  models,
  policies,
  endpoints,
  overrides,
  tests,
  budgets,
  cache_rules: cacheRules,
  tools,
  tool_policies: toolPolicies,
  price_corrections: priceCorrections,
}
