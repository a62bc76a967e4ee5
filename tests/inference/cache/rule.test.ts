import { describe, expect, test } from 'bun:test'
import { type AppliedRule, type CacheRule, ruleIndex } from '../../../src/inference/cache/rule.ts'

const rule = (id: string, scopes: string[], more: Partial<CacheRule> = {}): CacheRule => ({
  id,
  tenant_id: null,
  ttl_seconds: 60,
  enabled: true,
  scopes,
  mode: 'exact',
  similarity_threshold: null,
  created_at: '2026-01-01T00:00:00.000Z',
  ...more,
})
const SUBJECT = { tenantId: 'ten_a', keyId: 'key_1', endpoint: 'chat' }
const LEVELS = ['global', 'tenant:ten_a', 'endpoint:chat', 'key:key_1']
const chosen = (rules: CacheRule[], subject = SUBJECT, policy = {}) => {
  const choice = ruleIndex(rules).choose(subject, policy)
  return typeof choice === 'string' ? choice : choice.rule.id
}

describe('the rule of a request', () => {
  test('is the most specific one: key over endpoint scope over tenant over global', () => {
    for (let levels = 1; levels <= LEVELS.length; levels++) {
      const rules = LEVELS.slice(0, levels).map((scope) => rule(scope, [scope]))
      expect(chosen(rules)).toBe(LEVELS[levels - 1]!)
      expect(chosen([...rules].reverse())).toBe(LEVELS[levels - 1]!)
    }
  })

  test('is found by the scope that covers the request, not by the narrowest of its scopes', () => {
    expect(chosen([rule('wide', ['global', 'key:key_other']), rule('mine', ['tenant:ten_a'])])).toBe('mine')
  })

  test('is the newest among equals', () => {
    const [older, newer] = ['2026-01-01T00:00:00.000Z', '2026-02-01T00:00:00.000Z']
    const rules = [
      rule('rule_1', ['global'], { created_at: older }),
      rule('rule_2', ['global'], { created_at: newer }),
      rule('rule_0', ['global'], { created_at: newer }),
    ]
    expect(chosen(rules)).toBe('rule_2')
  })

  test('is in force: a disabled one leaves the request to a wider one, or to none', () => {
    const narrow = rule('narrow', ['key:key_1'], { enabled: false })
    expect(chosen([narrow, rule('wide', ['global'])])).toBe('wide')
    expect(chosen([narrow])).toBe('rule_disabled')
    expect(chosen([])).toBe('no_rule')
    expect(chosen([rule('other', ['key:key_2', 'endpoint:images', 'tenant:ten_b'])])).toBe('no_rule')
  })

  test('is never that of another tenant, whatever its scopes say', () => {
    const foreign = rule('foreign', LEVELS, { tenant_id: 'ten_b' })
    expect(chosen([foreign])).toBe('no_rule')
    expect(chosen([foreign, rule('own', ['endpoint:chat'], { tenant_id: 'ten_a' })])).toBe('own')
  })

  test('a request without an endpoint scope is under no rule of one', () => {
    const choice = ruleIndex([rule('x', ['endpoint:chat'])]).choose({ ...SUBJECT, endpoint: null }, null)
    expect(choice).toBe('no_rule')
  })
})

describe('a policy', () => {
  const choose = (policy: object, more: Partial<CacheRule> = {}) =>
    ruleIndex([rule('r', ['global'], more)]).choose(SUBJECT, policy) as AppliedRule

  test('overrides mode and time, and leaves what it does not name', () => {
    expect(choose({ mode: 'prefix' })).toMatchObject({ mode: 'prefix', ttlMs: 60_000 })
    expect(choose({ ttl_seconds: 5 })).toMatchObject({ mode: 'exact', ttlMs: 5_000 })
    expect(choose({})).toMatchObject({ mode: 'exact', ttlMs: 60_000, similarity: 0.85 })
    expect(choose({}, { mode: 'semantic', similarity_threshold: 0.95 })).toMatchObject({ similarity: 0.95 })
  })

  test('switches caching off, and never on without a rule', () => {
    expect(choose({ mode: 'off' })).toEqual('rule_disabled' as never)
    expect(choose({ ttl_seconds: 0 })).toEqual('rule_disabled' as never)
    expect(choose({}, { ttl_seconds: 0 })).toEqual('rule_disabled' as never)
    expect(ruleIndex([]).choose(SUBJECT, { mode: 'exact', ttl_seconds: 60 })).toBe('no_rule')
  })
})
