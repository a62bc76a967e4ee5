import { describe, expect, test } from 'bun:test'
import {
  CACHE_RULE_DEFAULTS,
  type CacheRuleCommand,
  decideCacheRule,
  narrowness,
} from '../../../src/domain/steering/cache-rule.ts'
import { endpointCreated, keyIssued, newWorld, refusal, tenantCreated, type World } from '../world.ts'

type Upsert = CacheRuleCommand & { do: 'upsert' }
const upsert = (more: Partial<Upsert> = {}): Upsert => ({
  ...CACHE_RULE_DEFAULTS,
  do: 'upsert',
  id: `rule_${more.name ?? 'r'}_${more.tenant_id ?? ''}`,
  tenant_id: null,
  name: 'r',
  managed_by: 'api',
  ttl_seconds: 60,
  scopes: ['global'],
  ...more,
})
const world = () =>
  newWorld([
    tenantCreated('ten_a'),
    tenantCreated('ten_b'),
    keyIssued('key_a', 'ten_a'),
    keyIssued('key_b', 'ten_b'),
    endpointCreated('end_b', 'desk', 'ten_b'),
    endpointCreated('end_g', 'shared', null),
  ])
const does = ({ state, apply }: World, command: CacheRuleCommand) => apply(decideCacheRule(state, command))
const rulesOf = ({ state }: World) => [...state.table('cache_rules').rows()].map(([, row]) => row)

describe('a cache rule', () => {
  test('is known by its name and tenant, whatever the case; the same again is nothing', () => {
    const w = world()
    does(w, upsert())
    const longer = upsert({ id: 'x', name: 'R', ttl_seconds: 90, mode: 'semantic', similarity_threshold: 0.9 })
    does(w, longer)
    expect(rulesOf(w)).toMatchObject([{ id: 'rule_r_', name: 'r', ttl_seconds: 90, similarity_threshold: 0.9 }])
    expect(decideCacheRule(w.state, longer)).toEqual([])
    does(w, upsert({ tenant_id: 'ten_a', scopes: ['tenant:ten_a'] }))
    expect(rulesOf(w)).toHaveLength(2)
    does(w, { do: 'delete', id: 'rule_r_' })
    expect(rulesOf(w)).toHaveLength(1)
  })

  test.each([
    [null, ['global']],
    [null, ['tenant:ten_a', 'tenant:ten_b', 'key:key_a']],
    [null, ['endpoint:desk', 'endpoint:SHARED']],
    ['ten_a', ['tenant:ten_a', 'key:key_a', 'endpoint:shared']],
    ['ten_b', ['endpoint:desk']],
  ] as const)('of %p may name %j', (tenant_id, scopes) => {
    const w = world()
    does(w, upsert({ tenant_id, scopes: [...scopes, ...scopes] }))
    expect(rulesOf(w)[0]?.scopes).toEqual(
      scopes.map((scope) => (scope.startsWith('end') ? scope.toLowerCase() : scope)),
    )
  })

  test.each([
    [null, 'everything'],
    [null, 'global:'],
    [null, 'tenant:'],
    [null, 'tenant:none'],
    [null, 'key:none'],
    [null, 'model:gpt'],
    [null, 'endpoint:none'],
    [null, 'endpoint:with space'],
    [null, 'key:key_a extra'],
    ['ten_a', 'global'],
    ['ten_a', 'tenant:ten_b'],
    ['ten_a', 'key:key_b'],
    ['ten_a', 'endpoint:desk'],
  ])('of %p may not name %p', (tenant_id, scope) => {
    const { state } = world()
    expect(refusal(() => decideCacheRule(state, upsert({ tenant_id, scopes: [scope] })))).toEqual(['invalid', 'scopes'])
  })

  test('has a threshold only where prompts are compared, and an owner that exists', () => {
    const { state } = world()
    const odd = upsert({ similarity_threshold: 0.9 })
    expect(refusal(() => decideCacheRule(state, odd))).toEqual(['invalid', 'similarity_threshold'])
    expect(refusal(() => decideCacheRule(state, upsert({ tenant_id: 'none' })))).toEqual(['not_found', 'tenant_id'])
    expect(refusal(() => decideCacheRule(state, { do: 'delete', id: 'none' }))).toEqual(['not_found', null])
  })

  test('of a tenant goes with it; what others say of the tenant and its keys goes too, and never becomes global', () => {
    const w = world()
    does(w, upsert({ name: 'own', tenant_id: 'ten_a', scopes: ['tenant:ten_a'] }))
    does(w, upsert({ name: 'both', scopes: ['tenant:ten_a', 'tenant:ten_b', 'key:key_a'] }))
    does(w, upsert({ name: 'only', scopes: ['key:key_a', 'tenant:ten_a'] }))
    does(w, upsert({ name: 'all', scopes: ['global'] }))
    w.apply([{ type: 'tenant.deleted', data: { id: 'ten_a' } }])
    expect(rulesOf(w).map(({ name, scopes }) => [name, scopes])).toEqual([
      ['both', ['tenant:ten_b']],
      ['all', ['global']],
    ])
  })

  test('about an endpoint scope that was deleted can still be changed', () => {
    const w = world()
    does(w, upsert({ scopes: ['endpoint:shared'] }))
    w.apply([{ type: 'endpoint.deleted', data: { id: 'end_g' } }])
    does(w, upsert({ scopes: ['endpoint:shared'], enabled: false }))
    expect(rulesOf(w)).toMatchObject([{ enabled: false, scopes: ['endpoint:shared'] }])
  })

  test('goes before the wider ones: key, endpoint scope, tenant, everything', () => {
    const all = ['global', 'tenant:a', 'endpoint:a', 'key:a']
    expect(all.map((scope) => narrowness({ scopes: [scope] }))).toEqual([3, 2, 1, 0])
    expect(narrowness({ scopes: ['global', 'endpoint:a'] })).toBe(1)
  })
})
