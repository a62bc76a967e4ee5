import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { EventRecord } from '../../../src/domain/kernel/decision.ts'
import { NOTHING_OVERRIDDEN } from '../../../src/domain/steering/endpoint.ts'
import { createSteering } from '../../../src/state/indexes/live-steering.ts'
import { NO_OVERRIDES, type OverridesInForce } from '../../../src/state/indexes/steering.ts'
import type { FoldedBatch } from '../../../src/state/port.ts'
import { keyIssued, newWorld, providerCreated, tenantCreated } from '../../domain/world.ts'

const NOW = Date.UTC(2026, 5, 1)
const at = (ms: number) => new Date(ms).toISOString()

const setUp = (events: readonly EventRecord[] = []) => {
  const world = newWorld([tenantCreated('ten_a'), tenantCreated('ten_b'), providerCreated('prov_1'), ...events])
  const listeners: ((batch: FoldedBatch) => void)[] = []
  const refused = new Set<string>()
  const live = {
    control: world.state,
    refused,
    subscribe(listener: (batch: FoldedBatch) => void) {
      listeners.push(listener)
      return () => {}
    },
  }
  const steering = createSteering(live)
  return {
    steering,
    live,
    does(...more: EventRecord[]) {
      const changes = world.apply(more)
      for (const listener of listeners) listener({ changes, refused: [] })
    },
    /** As a key decides it. */
    by(keyId: string, event: EventRecord) {
      const changes = world.apply([event], { type: 'key', id: keyId })
      for (const listener of listeners) listener({ changes, refused: [] })
    },
    refuse(id: string) {
      refused.add(id)
      for (const listener of listeners) listener({ changes: [], refused: [id] })
    },
  }
}

let made = 0
const override = (kind: string, target: string, more: Record<string, unknown> = {}): EventRecord => ({
  type: 'override.written',
  data: {
    id: `ovr_${made++}`,
    kind,
    target,
    tenant_id: null,
    value: null,
    enabled: true,
    reason: null,
    expires_at: null,
    ...more,
  },
})
const scope = (slug: string, more: Record<string, unknown> = {}): EventRecord => ({
  type: 'endpoint.created',
  data: {
    id: `end_${slug}_${more.tenant_id ?? ''}`,
    slug,
    tenant_id: null,
    name: slug,
    description: null,
    enabled: true,
    aliases: [],
    overrides: NOTHING_OVERRIDDEN,
    ...more,
  },
})

describe('overrides in force', () => {
  test('are sorted by what they do, the tenant’s own on top of everybody’s', () => {
    const { steering } = setUp([
      override('kill', 'provider:prov_1'),
      override('block', 'model:gpt'),
      override('block', 'key:key_1', { tenant_id: 'ten_a' }),
      override('block', 'tool:search'),
      override('block', 'endpoint:support'),
      override('cap', '*', { value: { max_cost_usd: 2 } }),
      override('cap', '*', { value: { max_cost_usd: 1 }, tenant_id: 'ten_a' }),
      override('cap', 'model:gpt', { value: { max_cost_usd: 1 } }),
      override('cap', 'model:gpt', { value: { max_cost_usd: 3 }, tenant_id: 'ten_a' }),
      override('force', '*', { value: { model: 'own' }, tenant_id: 'ten_a' }),
      override('force', '*', { value: { model: 'all' } }),
      override('force', 'model:gpt', { value: { model: 'other' } }),
      override('force', 'key:key_1', { value: { model: 'keyed' } }),
      override('disable', '*', { value: { features: ['cache'] } }),
      override('disable', '*', { value: { features: ['tools'] }, tenant_id: 'ten_a' }),
      override('disable', 'endpoint:support', { value: { features: ['fallback'] } }),
      override('freeze', '*'),
    ])
    const { ids, hardCaps, ...own } = steering.overrides('ten_a', NOW)
    expect(hardCaps).toBeNull()
    expect(own).toEqual({
      killedProviderIds: new Set(['prov_1']),
      blockedModels: new Set(['gpt']),
      blockedKeyIds: new Set(['key_1']),
      blockedEndpoints: new Set(['support']),
      blockedTools: new Set(['search']),
      maxCostUsd: 1,
      maxCostUsdOf: new Map([['model:gpt', 1]]),
      forcedModels: new Map([
        ['*', 'own'],
        ['gpt', 'other'],
        ['key:key_1', 'keyed'],
      ]),
      forcedByTenants: new Map(),
      disabled: new Set(['cache', 'tools']),
      disabledOf: new Map([['endpoint:support', new Set(['fallback'])]]),
    })
    expect(ids).toHaveLength(17)
    expect(ids).toEqual(ids.toSorted((a, b) => Number(a.slice(4)) - Number(b.slice(4))))
    const shared = steering.overrides('ten_b', NOW)
    expect([shared.maxCostUsd, shared.forcedModels.get('*'), shared.blockedKeyIds.size]).toEqual([2, 'all', 0])
  })

  test('tell models that keys of tenants force without * from those that are imposed with it', () => {
    const { steering, by } = setUp([
      keyIssued('key_a', 'ten_a', { scopes: ['providers:admin'] }),
      keyIssued('key_all', 'ten_a', { scopes: ['*'] }),
    ])
    by('key_all', override('force', '*', { value: { model: 'imposed' } }))
    by('key_a', override('force', 'model:gpt', { value: { model: 'chosen' }, tenant_id: 'ten_a' }))
    const { forcedModels, forcedByTenants } = steering.overrides('ten_a', NOW)
    expect([[...forcedModels], [...forcedByTenants]]).toEqual([[['*', 'imposed']], [['gpt', 'chosen']]])
    expect(steering.overrides('ten_b', NOW).forcedByTenants.size).toBe(0)
  })

  test('are one frozen object until something changes or expires, forward and backward in time', () => {
    const { steering, does } = setUp()
    const nothing = steering.overrides('ten_a', NOW)
    expect(nothing).toEqual({ ...NO_OVERRIDES })
    expect(Object.isFrozen(nothing)).toBe(true)
    // Members of a frozen list cost ten times as much, at every request.
    expect(Object.isFrozen(nothing.ids)).toBe(false)
    expect(steering.overrides('ten_b', NOW + 1)).toBe(nothing)
    does(override('kill', 'provider:prov_1', { expires_at: at(NOW + 10) }))
    const killed = steering.overrides('ten_a', NOW)
    expect(killed.killedProviderIds).toEqual(new Set(['prov_1']))
    expect(steering.overrides('ten_a', NOW + 9)).toBe(killed)
    expect(steering.overrides('ten_a', NOW + 10).killedProviderIds.size).toBe(0)
    expect(steering.overrides('ten_a', NOW + 9).killedProviderIds.size).toBe(1) // a clock that was set back
    does(tenantCreated('ten_c'))
    const before = steering.overrides('ten_b', NOW)
    expect(steering.overrides('ten_b', NOW)).toBe(before)
  })

  test('the kill of everything takes in providers that come later', () => {
    const { steering, does } = setUp([override('kill', '*')])
    expect(steering.overrides('ten_a', NOW).killedProviderIds).toEqual(new Set(['prov_1']))
    does(providerCreated('prov_2'))
    expect(steering.overrides('ten_a', NOW).killedProviderIds).toEqual(new Set(['prov_1', 'prov_2']))
    does(override('kill', '*', { enabled: false }))
    expect(steering.overrides('ten_a', NOW).killedProviderIds.size).toBe(0)
  })

  test('an index that followed is as one that is opened anew, at every time', () => {
    const step = fc.record({
      kind: fc.constantFrom('kill', 'cap'),
      subject: fc.constantFrom('a', 'b'),
      tenant_id: fc.constantFrom(null, 'ten_a', 'ten_b'),
      enabled: fc.boolean(),
      expires: fc.constantFrom(null, 1, 2, 3),
      ask: fc.integer({ min: 0, max: 4 }),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const { steering, live, does } = setUp()
        for (const { kind, subject, tenant_id, enabled, expires, ask } of steps) {
          const expires_at = expires === null ? null : at(NOW + expires)
          const value = kind === 'cap' ? { max_cost_usd: subject === 'a' ? 1 : 2 } : null
          does(override(kind, `provider:${subject}`, { tenant_id, enabled, expires_at, value }))
          const opened = createSteering(live)
          for (const tenant of ['ten_a', 'ten_b', 'ten_none']) {
            const same = (one: OverridesInForce) => ({ ...one, ids: one.ids.toSorted() })
            expect(same(steering.overrides(tenant, NOW + ask))).toEqual(same(opened.overrides(tenant, NOW + ask)))
          }
        }
      }),
    )
  })
})

describe('hard caps of budgets', () => {
  const budget = (id: string, tenant_id: string, more: Record<string, unknown> = {}): EventRecord => ({
    type: 'budget.created',
    data: {
      ...{ id, tenant_id, scope: { type: 'tenant', id: tenant_id }, window: 'month', managed_by: 'api' },
      ...{ limit_nano_usd: null, soft_limit_nano_usd: null, limit_tokens: null, hard_cap_nano_usd: 5 },
      ...{ calendar_aligned: true, timezone: 'UTC', alert_thresholds: [], enforcement: 'hard', enabled: true },
      ...more,
    },
  })
  const changed = (id: string, more: object): EventRecord => ({ type: 'budget.changed', data: { id, ...more } })

  test('the lowest of each subject holds, of this tenant, while the budget is in use', () => {
    const { steering, does } = setUp([
      budget('bud_1', 'ten_a'),
      budget('bud_2', 'ten_a', { window: 'day', hard_cap_nano_usd: 3 }),
      budget('bud_3', 'ten_a', { scope: { type: 'model', id: 'Gpt' } }),
      budget('bud_4', 'ten_a', { scope: { type: 'provider', id: 'prov_1' }, hard_cap_nano_usd: 7 }),
      budget('bud_5', 'ten_a', { window: '1h', enabled: false, hard_cap_nano_usd: 0 }),
      budget('bud_6', 'ten_a', { window: '2h', enforcement: 'shadow', hard_cap_nano_usd: 0 }),
      budget('bud_7', 'ten_b', { hard_cap_nano_usd: null, limit_nano_usd: 1 }),
    ])
    const caps = (tenant: string) => steering.overrides(tenant, NOW).hardCaps
    expect(caps('ten_a')).toEqual({
      budgetIds: ['bud_1', 'bud_2', 'bud_3', 'bud_4'],
      all: 3,
      of: new Map([
        ['model:gpt', 5],
        ['provider:prov_1', 7],
      ]),
    })
    // A hard limit caps no single request, but what has no price cannot be reserved.
    const unpriced = { budgetIds: ['bud_7'], all: Number.POSITIVE_INFINITY, of: new Map() }
    expect([caps('ten_b'), caps('ten_none')]).toEqual([unpriced, null])
    expect(steering.overrides('ten_a', NOW)).toBe(steering.overrides('ten_a', NOW + 1))
    does(changed('bud_2', { enabled: false }), changed('bud_7', { hard_cap_nano_usd: 1 }))
    expect([caps('ten_a')?.all, caps('ten_b')?.all]).toEqual([5, 1])
    does({ type: 'tenant.deleted', data: { id: 'ten_a' } }, { type: 'budget.deleted', data: { id: 'bud_7' } })
    expect([caps('ten_a'), caps('ten_b')]).toEqual([null, null])
  })

  test('an index that followed is as one that is opened anew', () => {
    const step = fc.record({
      id: fc.constantFrom('bud_1', 'bud_2', 'bud_3'),
      tenant: fc.constantFrom('ten_a', 'ten_b'),
      cap: fc.constantFrom(null, 1, 2),
      enabled: fc.boolean(),
      gone: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const { steering, live, does } = setUp()
        for (const { id, tenant, cap, enabled, gone } of steps) {
          if (gone) does({ type: 'budget.deleted', data: { id } })
          else if (live.control.table('budgets').get(id) === undefined)
            does(budget(id, tenant, { enabled, hard_cap_nano_usd: cap }))
          else does(changed(id, { enabled, hard_cap_nano_usd: cap }))
          const opened = createSteering(live)
          for (const owner of ['ten_a', 'ten_b'])
            expect(steering.overrides(owner, NOW)).toEqual(opened.overrides(owner, NOW))
        }
      }),
    )
  })
})

describe('endpoint scopes', () => {
  test('are found by slug, the tenant’s own first, disabled ones too; another tenant’s never', () => {
    const { steering } = setUp([
      scope('support', { overrides: { ...NOTHING_OVERRIDDEN, forced_model: 'gpt', no_fallback: true } }),
      scope('support', { tenant_id: 'ten_a', enabled: false }),
      scope('secret', { tenant_id: 'ten_a' }),
    ])
    expect(steering.endpoint('ten_a', 'SUPPORT')).toMatchObject({ tenantId: 'ten_a', enabled: false })
    expect(steering.endpoint('ten_b', 'support')).toMatchObject({
      tenantId: null,
      enabled: true,
      forcedModel: 'gpt',
      noFallback: true,
      strategy: null,
    })
    expect(steering.endpoint('ten_b', 'secret')).toBeNull()
    expect(steering.endpoint('ten_a', 'none')).toBeNull()
  })

  test('follow each change: repointed, renamed aliases, disabled, deleted', () => {
    const { steering, does } = setUp([scope('support', { aliases: ['Desk'] })])
    expect(steering.endpointOfAlias('ten_a', 'dESK')?.slug).toBe('support')
    does({ type: 'endpoint.changed', data: { id: 'end_support_', aliases: ['helper'] } })
    expect(steering.endpointOfAlias('ten_a', 'desk')).toBeNull()
    expect(steering.endpointOfAlias('ten_a', 'helper')?.slug).toBe('support')
    does({
      type: 'endpoint.changed',
      data: { id: 'end_support_', overrides: { ...NOTHING_OVERRIDDEN, max_cost_usd: 1 } },
    })
    expect(steering.endpoint('ten_a', 'support')?.maxCostUsd).toBe(1)
    expect(steering.endpointOfAlias('ten_a', 'helper')?.maxCostUsd).toBe(1)
    does({ type: 'endpoint.changed', data: { id: 'end_support_', enabled: false } })
    expect(steering.endpointOfAlias('ten_a', 'helper')).toMatchObject({ slug: 'support', enabled: false })
    does({ type: 'endpoint.deleted', data: { id: 'end_support_' } })
    expect([steering.endpoint('ten_a', 'support'), steering.endpointOfAlias('ten_a', 'helper')]).toEqual([null, null])
  })

  test('a tenant’s own alias comes first, and a disabled one does not make way for everybody’s', () => {
    const { steering, does } = setUp([
      scope('all', { aliases: ['desk'] }),
      scope('own', { aliases: ['desk'], tenant_id: 'ten_a' }),
    ])
    expect(steering.endpointOfAlias('ten_a', 'desk')?.slug).toBe('own')
    expect(steering.endpointOfAlias('ten_b', 'desk')?.slug).toBe('all')
    does({ type: 'endpoint.changed', data: { id: 'end_own_ten_a', enabled: false } })
    expect(steering.endpointOfAlias('ten_a', 'desk')).toMatchObject({ slug: 'own', enabled: false })
  })

  test('are listed as they were written: a tenant’s own in place of everybody’s, none of another tenant', () => {
    const { steering } = setUp([
      scope('all', { aliases: ['Desk', 'Shared'] }),
      scope('own', { aliases: ['desk'], tenant_id: 'ten_a' }),
    ])
    const listed = (tenantId: string) => [...steering.aliases(tenantId)].map(([alias, { slug }]) => `${alias} ${slug}`)
    expect(listed('ten_a')).toEqual(['desk own', 'Shared all'])
    expect(listed('ten_b')).toEqual(['Desk all', 'Shared all'])
  })

  test('one that a newer build changed is refused, and nothing takes its place', () => {
    const { steering, refuse } = setUp([
      scope('all', { aliases: ['desk'] }),
      scope('own', { aliases: ['desk'], tenant_id: 'ten_a' }),
    ])
    refuse('end_own_ten_a')
    expect(steering.endpoint('ten_a', 'own')?.enabled).toBe(false)
    expect(steering.endpointOfAlias('ten_a', 'desk')).toMatchObject({ slug: 'own', enabled: false })
    expect(steering.endpointOfAlias('ten_b', 'desk')?.slug).toBe('all')
  })
})
