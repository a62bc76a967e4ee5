// The rate limits of a request: of its key, of its tenant, and of the policies that apply to it.
import type { ApiKeyRow } from '../../domain/access/api-key.ts'
import type { RateLimits, TenantRow } from '../../domain/access/tenant.ts'
import type { KeyEntry, LiveState } from '../port.ts'

/** The limits of one subject. All rules that name the subject share them. */
export interface LimitRule {
  readonly scope: 'key' | 'tenant' | 'policy'
  /** `<scope>:<id>`. */
  readonly subject: string
  /** Requests in any 60 s; null: no limit. */
  readonly rpm: number | null
  /** Tokens in any 60 s. */
  readonly tpm: number | null
  /** Requests at once. */
  readonly maxParallel: number | null
}

/** A row's limits as a rule; null when it has none. */
export const limitRule = (scope: LimitRule['scope'], id: string, limits: RateLimits | null): LimitRule | null => {
  if (limits === null) return null
  const { rpm = null, tpm = null, max_parallel = null } = limits
  if (rpm === null && tpm === null && max_parallel === null) return null
  return { scope, subject: `${scope}:${id}`, rpm, tpm, maxParallel: max_parallel }
}

/**
 * The rules of a request: of its key, of its tenant, then those handed in. The list handed in itself when there are no
 * others.
 */
export type RulesOf = (key: KeyEntry, ofPolicies: readonly LimitRule[]) => readonly LimitRule[]

/** The rules of the last request: requests of a key come in runs. */
interface Together {
  readonly own: LimitRule | undefined
  readonly ofTenant: LimitRule | undefined
  readonly ofPolicies: readonly LimitRule[]
  readonly rules: readonly LimitRule[]
}

/** Follows the fold. Only rows with limits are retained, so that a lookup without limits costs nothing. */
export const openLimitRules = (live: Pick<LiveState, 'control' | 'subscribe'>): RulesOf => {
  const keys = new Map<string, LimitRule>()
  const tenants = new Map<string, LimitRule>()
  const put = (
    rules: Map<string, LimitRule>,
    scope: LimitRule['scope'],
    id: string,
    row: { rate_limits: RateLimits | null } | null,
  ): void => {
    const rule = row === null ? null : limitRule(scope, id, row.rate_limits)
    if (rule === null) rules.delete(id)
    else rules.set(id, rule)
  }
  const active = (row: ApiKeyRow | null) => (row?.status === 'active' ? row : null)
  for (const [id, row] of live.control.table('keys').rows()) put(keys, 'key', id, active(row))
  for (const [id, row] of live.control.table('tenants').rows()) put(tenants, 'tenant', id, row)
  live.subscribe(({ changes }) => {
    for (const { table, id, after } of changes) {
      if (table === 'keys') put(keys, 'key', id, active(after as ApiKeyRow | null))
      else if (table === 'tenants') put(tenants, 'tenant', id, after as TenantRow | null)
    }
  })
  let last: Together | null = null
  return (key, ofPolicies) => {
    const own = keys.size === 0 ? undefined : keys.get(key.id)
    const ofTenant = tenants.size === 0 ? undefined : tenants.get(key.tenantId)
    if (own === undefined && ofTenant === undefined) return ofPolicies
    if (last !== null && last.own === own && last.ofTenant === ofTenant && last.ofPolicies === ofPolicies)
      return last.rules
    const rules = [...(own === undefined ? [] : [own]), ...(ofTenant === undefined ? [] : [ofTenant]), ...ofPolicies]
    last = { own, ofTenant, ofPolicies, rules }
    return rules
  }
}
