// Which cache rule applies to a request, and what it means there. Pure.
import type { CacheRuleRow } from '../../domain/steering/cache-rule.ts'
import type { PolicyRow } from '../../domain/steering/policy.ts'

export type CacheMode = CacheRuleRow['mode']

/** What separates the entries of a rule further. */
export const PARTITIONS = ['key', 'user', 'session'] as const
export type PartitionName = (typeof PARTITIONS)[number]

/** A provider's model whose embeddings compare messages. */
export interface EmbeddingSource {
  readonly provider: string
  readonly model: string
}

/** The fields of a rule that requests depend on. */
export interface CacheRule
  extends Pick<CacheRuleRow, 'id' | 'tenant_id' | 'ttl_seconds' | 'enabled' | 'scopes' | 'mode' | 'created_at'> {
  readonly similarity_threshold: number | null
  readonly partition?: readonly PartitionName[]
  readonly observe?: boolean
  readonly shadow?: boolean
  readonly embedding?: EmbeddingSource | null
}

export const DEFAULT_SIMILARITY = 0.85

/** Whom a request comes from. */
export interface RuleSubject {
  readonly tenantId: string
  readonly keyId: string
  /** Slug of the endpoint scope, lower-cased. */
  readonly endpoint: string | null
}

/** A rule as it applies to one request, with what the policy overrides. */
export interface AppliedRule {
  readonly rule: CacheRule
  readonly mode: CacheMode
  readonly ttlMs: number
  readonly similarity: number
}

export type RuleChoice = AppliedRule | 'no_rule' | 'rule_disabled'

/** The rules by scope, for many requests. */
export interface RuleIndex {
  /**
   * The most specific rule in force: key over endpoint scope over tenant over global, the newest among equals.
   * `rule_disabled`: only rules that are disabled apply, or the rule or the policy switches caching off.
   */
  choose(subject: RuleSubject, policy: PolicyRow['cache'] | null): RuleChoice
}

export const ruleIndex = (rules: Iterable<CacheRule>): RuleIndex => {
  const byScope = new Map<string, CacheRule[]>()
  for (const rule of [...rules].sort(newestFirst))
    for (const scope of rule.scopes) {
      const same = byScope.get(scope)
      if (same === undefined) byScope.set(scope, [rule])
      else same.push(rule)
    }
  return {
    choose(subject, policy) {
      if (byScope.size === 0) return 'no_rule'
      let disabled = false
      for (const scope of scopesOf(subject)) {
        for (const rule of byScope.get(scope) ?? []) {
          if (rule.tenant_id !== null && rule.tenant_id !== subject.tenantId) continue
          if (rule.enabled) return applied(rule, policy)
          disabled = true
        }
      }
      return disabled ? 'rule_disabled' : 'no_rule'
    },
  }
}

const newestFirst = (left: CacheRule, right: CacheRule): number =>
  left.created_at === right.created_at ? compared(right.id, left.id) : compared(right.created_at, left.created_at)
const compared = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0)

/** The scopes that cover a request, the narrowest first. */
function* scopesOf({ tenantId, keyId, endpoint }: RuleSubject): Generator<string> {
  yield `key:${keyId}`
  if (endpoint !== null) yield `endpoint:${endpoint}`
  yield `tenant:${tenantId}`
  yield 'global'
}

const applied = (rule: CacheRule, policy: PolicyRow['cache'] | null): RuleChoice => {
  const mode = policy?.mode ?? rule.mode
  const ttlMs = (policy?.ttl_seconds ?? rule.ttl_seconds) * 1_000
  if (mode === 'off' || ttlMs === 0) return 'rule_disabled'
  return { rule, mode, ttlMs, similarity: rule.similarity_threshold ?? DEFAULT_SIMILARITY }
}
