import { describe, expect, test } from 'bun:test'
import { eventIsValid } from '../../../src/domain/control.ts'
import {
  decidePolicy,
  POLICY_DEFAULTS,
  type PolicyCommand,
  STRATEGIES,
  strategyOf,
} from '../../../src/domain/steering/policy.ts'
import { newWorld, refusal, tenantCreated } from '../world.ts'

const save = (verb: 'create' | 'upsert', more: Partial<PolicyCommand & { do: 'create' }> = {}): PolicyCommand => ({
  id: 'pol_1',
  tenant_id: null,
  name: 'default',
  managed_by: 'api',
  ...POLICY_DEFAULTS,
  ...more,
  do: verb,
})

// docs/behaviour.md: "Strategies"
describe('policy', () => {
  test.each([
    ['simple-shuffle', 'weighted'],
    ['loadbalance', 'weighted'],
    ['fallback', 'priority'],
    ['failover', 'priority'],
    ['cost-based-routing', 'lowest_cost'],
    ['latency-based-routing', 'lowest_latency'],
    ['least-connections', 'least_busy'],
    ['lowest-usage', 'usage_based'],
    ['Round-Robin', 'round_robin'],
    ...STRATEGIES.map((name): [string, string] => [name, name]),
  ])('the strategy %s is %s', (said, meant) => {
    expect(strategyOf(said)).toBe(meant as never)
  })

  test.each(['nope', 'toString', '__proto__', ''])('the strategy %p is refused with the list', (said) => {
    expect(refusal(() => strategyOf(said))).toEqual(['invalid', 'strategy'])
    expect(() => strategyOf(said)).toThrow('lowest_cost')
  })

  test('a name is given once in a tenant, whatever its case; other tenants and the global level are apart', () => {
    const world = newWorld([tenantCreated('ten_a'), tenantCreated('ten_b')])
    world.apply(decidePolicy(world.state, save('create')))
    expect(refusal(() => decidePolicy(world.state, save('create', { name: 'Default' })))).toEqual(['conflict', 'name'])
    for (const tenant_id of ['ten_a', 'ten_b']) {
      world.apply(decidePolicy(world.state, save('create', { id: `pol_${tenant_id}`, tenant_id })))
    }
    expect(world.state.table('policies').size).toBe(3)
    expect(refusal(() => decidePolicy(world.state, save('create', { tenant_id: 'ten_c' })))).toEqual([
      'not_found',
      'tenant_id',
    ])
  })

  test('an upsert replaces what has the name, keeps its id, and is nothing the second time', () => {
    const world = newWorld()
    world.apply(decidePolicy(world.state, save('upsert', { strategy: 'failover', max_cost_usd: 1 })))
    const next = save('upsert', { id: 'pol_unused', strategy: 'loadbalance' })
    world.apply(decidePolicy(world.state, next))
    const row = world.state.table('policies').get('pol_1')
    expect(row).toMatchObject({ strategy: 'weighted', max_cost_usd: null })
    expect(world.state.table('policies').get('pol_unused')).toBeUndefined()
    expect(decidePolicy(world.state, next)).toEqual([])
  })

  test('what no record could hold is refused', () => {
    const names = Array.from({ length: 64 }, (_, i) => `${i}`.padEnd(256, 'x'))
    const huge = save('create', { models: names, providers: { only: names, order: names, ignore: names } })
    expect(refusal(() => decidePolicy(newWorld().state, huge))[0]).toBe('invalid')
  })

  test('an event of a newer build, with more fields and other words, is still one of ours', () => {
    const [event] = decidePolicy(newWorld().state, save('create', { fallback: { on: ['timeout'] } }))
    const newer = { ...event!.data, fallback: { on: ['a_new_code'], hedge: true }, quota: {} }
    expect(eventIsValid({ type: 'policy.created', data: newer })).toBe(true)
    expect(eventIsValid({ type: 'policy.created', data: { ...newer, fallback: { max_attempts: 'x' } } })).toBe(false)
  })
})
