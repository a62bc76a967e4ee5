// Why a request does not use the cache. Pure.
import type { PolicyRow } from '../../domain/steering/policy.ts'
import type { PartitionValue } from './key.ts'
import type { AppliedRule, PartitionName, RuleChoice } from './rule.ts'

/** Counted, so the set is closed. In the order in which they are tested: the first that holds is reported. */
export const BYPASS_REASONS = [
  'no_rule',
  'rule_disabled',
  'override',
  'sensitivity',
  'tools',
  'not_cacheable',
  'no_cache_header',
  'store_unavailable',
] as const
export type BypassReason = (typeof BYPASS_REASONS)[number]

/** What decides beside the body whether a request uses the cache. */
export interface BypassFacts {
  readonly choice: RuleChoice
  /** An operator has switched caching off for it. */
  readonly isOverridden: boolean
  /** Labels of the request. */
  readonly sensitivity: readonly string[]
  readonly policySensitivity: PolicyRow['sensitivity']
  /** `X-Gateway-No-Cache`. */
  readonly noCache: boolean
  /** `tools` or `not_cacheable` by its body (`cacheable.ts`). */
  readonly body: 'tools' | 'not_cacheable' | null
  /** Null: a dimension of the rule's partition has no value here. */
  readonly partition: readonly PartitionValue[] | null
}

export type Passage =
  | { readonly applied: AppliedRule; readonly partition: readonly PartitionValue[]; readonly reason: null }
  /** It is not looked up, and its answer takes the entry's place. */
  | {
      readonly applied: AppliedRule
      readonly partition: readonly PartitionValue[]
      readonly reason: 'no_cache_header'
    }
  /** It is neither looked up nor stored. */
  | { readonly applied: null; readonly reason: BypassReason }

/** Labels whose payloads are never stored. */
const NEVER_STORED: ReadonlySet<string> = new Set(['pii', 'phi'])

/** Whether a request may use the cache, and under which rule. */
export const passage = (facts: BypassFacts): Passage => {
  const { choice, partition } = facts
  if (typeof choice === 'string') return { applied: null, reason: choice }
  if (facts.isOverridden) return { applied: null, reason: 'override' }
  if (isSensitive(facts)) return { applied: null, reason: 'sensitivity' }
  if (facts.body !== null) return { applied: null, reason: facts.body }
  // Requests without a value would share the entries of all others without one.
  if (partition === null) return { applied: null, reason: 'not_cacheable' }
  return { applied: choice, partition, reason: facts.noCache ? 'no_cache_header' : null }
}

const isSensitive = ({ sensitivity, policySensitivity }: BypassFacts): boolean =>
  sensitivity.some(
    (label) =>
      NEVER_STORED.has(label) ||
      (Object.hasOwn(policySensitivity, label) &&
        policySensitivity[label as keyof PolicyRow['sensitivity']]?.cache === false),
  )

/** The values of a rule's partition; null when one is absent. */
export const partitionOf = (
  names: readonly PartitionName[],
  values: Readonly<Record<PartitionName, string | null>>,
): readonly PartitionValue[] | null => {
  const found: PartitionValue[] = []
  for (const name of names) {
    const value = values[name]
    if (value === null) return null
    found.push([name, value])
  }
  return found.sort(([left], [right]) => (left < right ? -1 : 1))
}
