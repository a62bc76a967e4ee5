import { describe, expect, test } from 'bun:test'
import {
  BUDGET_DEFAULTS,
  type BudgetCommand,
  budgetView,
  decideBudget,
  MOST_OF_TARGET,
} from '../../../src/domain/budgets/budget.ts'
import { MOST_ACCOUNTS } from '../../../src/domain/budgets/budget-events.ts'
import { BUDGET_SCOPES } from '../../../src/domain/budgets/budget-scope.ts'
import {
  endpointCreated,
  keyIssued,
  modelCreated,
  newWorld,
  providerCreated,
  refusal,
  tenantCreated,
  type World,
} from '../world.ts'

type Upsert = BudgetCommand & { do: 'upsert' }
const upsert = (more: Partial<Upsert> = {}): Upsert => ({
  ...BUDGET_DEFAULTS,
  do: 'upsert',
  id: 'bud_1',
  tenant_id: 'ten_a',
  scope: { type: 'tenant' },
  managed_by: 'api',
  limit_usd: 100,
  ...more,
})
/** Of a command what a budget is known by, and nothing of its terms. */
const bare = ({ id, tenant_id, scope, window }: Upsert): Upsert => ({
  ...{ do: 'upsert', id, tenant_id, scope, window, managed_by: 'api' },
})
const world = () =>
  newWorld([
    tenantCreated('ten_a'),
    tenantCreated('ten_b'),
    keyIssued('key_a', 'ten_a'),
    keyIssued('key_b', 'ten_b'),
    providerCreated('prov_1', 'OpenAI'),
    modelCreated('mod_1', 'prov_1', { name: 'Gpt', aliases: ['fast'] }),
    endpointCreated('end_a', 'desk', 'ten_a'),
    endpointCreated('end_b', 'secret', 'ten_b'),
    endpointCreated('end_g', 'shared', null),
  ])
const does = ({ state, apply }: World, command: BudgetCommand) => apply(decideBudget(state, command))
const budgetsOf = ({ state }: World) => [...state.table('budgets').rows()].map(([, row]) => row)

describe('a budget', () => {
  test('is known by tenant, scope and window; money is whole nano-USD; the same again is nothing', () => {
    const w = world()
    does(w, upsert({ limit_usd: 0.1234567891, soft_limit_usd: 0.1, hard_cap_usd: 0.01 }))
    expect(budgetsOf(w)).toMatchObject([
      {
        scope: { type: 'tenant', id: 'ten_a' },
        limit_nano_usd: 123_456_789,
        soft_limit_nano_usd: 100_000_000,
        hard_cap_nano_usd: 10_000_000,
      },
    ])
    const larger = upsert({ id: 'bud_2', limit_usd: 200, timezone: 'Europe/Berlin' })
    does(w, larger)
    expect(budgetsOf(w)).toMatchObject([
      { id: 'bud_1', limit_nano_usd: 200e9, hard_cap_nano_usd: null, timezone: 'Europe/Berlin' },
    ])
    expect(decideBudget(w.state, larger)).toEqual([])
    does(w, upsert({ id: 'bud_3', window: 'day' }))
    does(w, upsert({ id: 'bud_4', tenant_id: 'ten_b' }))
    does(w, upsert({ id: 'bud_5', scope: { type: 'key', id: 'key_a' } }))
    expect(budgetsOf(w)).toHaveLength(4)
  })

  test('limits are set by a change of them or of how they hold; by the same again only where it is closed; by no other edit', () => {
    const w = world()
    const heights = () => budgetsOf(w).map(({ height, limits_height }) => [height, limits_height])[0]!
    does(w, upsert())
    const made = heights()[0]!
    expect(heights()).toEqual([made, made])
    does(w, upsert({ alert_thresholds: [0.5], timezone: 'Europe/Berlin' }))
    expect(heights()).toEqual([made + 1, made])
    const now = upsert({ alert_thresholds: [0.5], timezone: 'Europe/Berlin' })
    expect(decideBudget(w.state, now)).toEqual([])
    const again = { id: 'bud_1', limit_nano_usd: 100e9, limit_tokens: null }
    expect(decideBudget(w.state, { ...now, reopen: true })).toEqual([{ type: 'budget.changed', data: again }])
    does(w, { ...now, reopen: true })
    expect(heights()).toEqual([made + 2, made + 2])
    does(w, { ...now, alert_thresholds: [], reopen: true })
    expect(heights()).toEqual([made + 3, made + 2])
    does(w, { ...now, alert_thresholds: [], enforcement: 'soft' })
    expect(heights()).toEqual([made + 4, made + 4])
    does(w, { ...now, alert_thresholds: [], enforcement: 'soft', limit_tokens: 5 })
    expect(heights()).toEqual([made + 5, made + 5])
    expect(budgetView(budgetsOf(w)[0]!, 0)).not.toContainKeys(['height', 'limits_height'])
  })

  test('of one thing so many may be in use that no request falls under more than its records may name', () => {
    const w = world()
    const hours = (n: number, more: Partial<Upsert> = {}) => upsert({ id: `bud_${n}`, window: `${n}h`, ...more })
    for (let n = 1; n <= 12; n++) does(w, hours(n))
    expect(refusal(() => decideBudget(w.state, hours(13)))).toEqual(['invalid', 'scope'])
    does(w, hours(13, { enabled: false }))
    expect(refusal(() => decideBudget(w.state, hours(13)))).toEqual(['invalid', 'scope'])
    does(w, hours(14, { scope: { type: 'key', id: 'key_a' } }))
    does(w, hours(12, { limit_usd: 7 }))
    does(w, hours(12, { limit_usd: 7, enabled: false }))
    does(w, hours(13))
    expect(MOST_OF_TARGET * BUDGET_SCOPES.length).toBeLessThanOrEqual(MOST_ACCOUNTS)
  })

  test('is ended and revived by `enabled`, and stays', () => {
    const w = world()
    does(w, upsert())
    const ended = decideBudget(w.state, upsert({ enabled: false }))
    expect(ended).toEqual([{ type: 'budget.changed', data: { id: 'bud_1', enabled: false } }])
    w.apply(ended)
    expect(budgetsOf(w)).toMatchObject([{ enabled: false, limit_nano_usd: 100e9 }])
  })

  test('is ended by `enabled` false alone: what is not said stays; who says a limit replaces all of it', () => {
    const w = world()
    const terms = { limit_tokens: 5, soft_limit_usd: 80, hard_cap_usd: 0.1, alert_thresholds: [0.5] }
    does(w, upsert({ ...terms, limit_usd: 8_765_432.123456789, timezone: 'Europe/Berlin', enforcement: 'soft' }))
    const end: Upsert = { ...bare(upsert()), enabled: false }
    expect(decideBudget(w.state, end)).toEqual([{ type: 'budget.changed', data: { id: 'bud_1', enabled: false } }])
    does(w, end)
    expect(decideBudget(w.state, end)).toEqual([])
    does(w, { ...end, timezone: 'UTC' })
    expect(budgetsOf(w)).toMatchObject([{ enabled: false, timezone: 'UTC', enforcement: 'soft', limit_tokens: 5 }])
    expect(refusal(() => decideBudget(w.state, { ...end, enabled: true }))).toEqual(['invalid', 'limit_usd'])
    does(w, { ...end, limit_usd: 7 })
    expect(budgetsOf(w)).toMatchObject([{ limit_nano_usd: 7e9, limit_tokens: null, enforcement: 'hard' }])
  })

  test('that is not there, or is to be left without a limit, cannot be ended so: what is missing is named', () => {
    const w = world()
    const end: Upsert = { ...bare(upsert()), enabled: false }
    expect(refusal(() => decideBudget(w.state, end))).toEqual(['invalid', 'limit_usd'])
    does(w, upsert())
    expect(refusal(() => decideBudget(w.state, { ...end, window: 'day' }))).toEqual(['invalid', 'limit_usd'])
    expect(refusal(() => decideBudget(w.state, { ...end, limit_usd: null }))).toEqual(['invalid', 'limit_usd'])
    expect(refusal(() => decideBudget(w.state, { ...end, soft_limit_usd: 101 }))).toEqual(['invalid', 'soft_limit_usd'])
  })

  test.each([
    [
      { type: 'provider', id: 'openai' },
      { type: 'provider', id: 'prov_1' },
    ],
    [
      { type: 'provider', id: 'prov_1' },
      { type: 'provider', id: 'prov_1' },
    ],
    [
      { type: 'model', id: 'mod_1' },
      { type: 'model', id: 'Gpt' },
    ],
    [
      { type: 'model', id: 'GPT' },
      { type: 'model', id: 'Gpt' },
    ],
    [
      { type: 'key', id: 'key_a' },
      { type: 'key', id: 'key_a' },
    ],
    [
      { type: 'endpoint', id: 'DESK' },
      { type: 'endpoint', id: 'desk' },
    ],
    [
      { type: 'endpoint', id: 'end_a' },
      { type: 'endpoint', id: 'desk' },
    ],
    [
      { type: 'endpoint', id: 'shared' },
      { type: 'endpoint', id: 'shared' },
    ],
    [
      { type: 'tenant', id: 'ten_a' },
      { type: 'tenant', id: 'ten_a' },
    ],
  ] as const)('of %j is one of %j', (scope, stored) => {
    const w = world()
    does(w, upsert({ scope }))
    expect(budgetsOf(w)[0]?.scope).toEqual(stored)
  })

  test.each([
    [{ tenant_id: 'ten_none' }, ['not_found', 'tenant_id']],
    [{ scope: { type: 'tenant', id: 'ten_b' } }, ['invalid', 'scope.id']],
    [{ scope: { type: 'key' } }, ['invalid', 'scope.id']],
    [{ scope: { type: 'key', id: 'key_b' } }, ['invalid', 'scope.id']],
    [{ scope: { type: 'key', id: 'none' } }, ['invalid', 'scope.id']],
    [{ scope: { type: 'endpoint', id: 'secret' } }, ['invalid', 'scope.id']],
    [{ scope: { type: 'model', id: 'fast' } }, ['invalid', 'scope.id']],
    [{ scope: { type: 'provider', id: 'none' } }, ['invalid', 'scope.id']],
    [{ window: '0h' }, ['invalid', 'window']],
    [{ window: '8785h' }, ['invalid', 'window']],
    [{ window: 'year' }, ['invalid', 'window']],
    [{ timezone: 'Europe/Atlantis' }, ['invalid', 'timezone']],
    [{ timezone: '+02:00' }, ['invalid', 'timezone']],
    [{ limit_usd: null }, ['invalid', 'limit_usd']],
    [{ soft_limit_usd: 100.01 }, ['invalid', 'soft_limit_usd']],
    [{ alert_thresholds: [0.5, 0.5] }, ['invalid', 'alert_thresholds']],
    [{ alert_thresholds: [0.9, 0.5] }, ['invalid', 'alert_thresholds']],
    [{ limit_usd: null, hard_cap_usd: 1, alert_thresholds: [0.5] }, ['invalid', 'alert_thresholds']],
  ] as [Partial<Upsert>, [string, string]][])('%j is refused as %j', (more, expected) => {
    const { state } = world()
    expect(refusal(() => decideBudget(state, upsert(more)))).toEqual(expected as [string, string])
  })

  test('one limit of any kind is enough', () => {
    for (const more of [{ limit_tokens: 1 }, { hard_cap_usd: 0 }, { limit_usd: 0 }])
      expect(decideBudget(world().state, upsert({ limit_usd: null, ...more }))).toHaveLength(1)
  })

  test('goes with its tenant and with its provider; what is named by a name stays, and can still be changed', () => {
    const w = world()
    does(w, upsert({ id: 'of_provider', scope: { type: 'provider', id: 'openai' } }))
    does(w, upsert({ id: 'of_model', scope: { type: 'model', id: 'gpt' } }))
    does(w, upsert({ id: 'of_endpoint', scope: { type: 'endpoint', id: 'desk' } }))
    does(w, upsert({ id: 'of_other', tenant_id: 'ten_b' }))
    const changes = w.apply([{ type: 'provider.deleted', data: { id: 'prov_1' } }])
    expect(changes.filter(({ table }) => table === 'budgets').map(({ id }) => id)).toEqual(['of_provider'])
    w.apply([{ type: 'endpoint.deleted', data: { id: 'end_a' } }])
    does(w, upsert({ scope: { type: 'model', id: 'GPT' }, limit_usd: 5 }))
    does(w, upsert({ scope: { type: 'endpoint', id: 'desk' }, limit_usd: 6 }))
    expect(budgetsOf(w)).toMatchObject([{ limit_nano_usd: 5e9 }, { limit_nano_usd: 6e9 }, { id: 'of_other' }])
    w.apply([{ type: 'tenant.deleted', data: { id: 'ten_a' } }])
    expect(budgetsOf(w).map(({ id }) => id)).toEqual(['of_other'])
  })

  test('is shown in USD with the window of the moment; what was spent is not known', () => {
    const w = world()
    does(w, upsert({ window: 'month', timezone: 'Europe/Berlin', hard_cap_usd: 0.5 }))
    expect(budgetView(budgetsOf(w)[0]!, Date.parse('2026-03-31T21:59:59Z'))).toMatchObject({
      ...{ limit_usd: 100, hard_cap_usd: 0.5, soft_limit_usd: null },
      ...{ spent_usd: null, reserved_usd: null, remaining_usd: null },
      window_start: '2026-02-28T23:00:00.000Z',
      resets_at: '2026-03-31T22:00:00.000Z',
    })
    does(w, upsert({ id: 'bud_2', window: 'lifetime' }))
    const created_at = budgetsOf(w)[1]!.created_at
    expect(budgetView(budgetsOf(w)[1]!, Date.now())).toMatchObject({ window_start: created_at, resets_at: null })
  })
})
