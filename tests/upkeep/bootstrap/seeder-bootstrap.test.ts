// `bootstrap:` of the settings: names resolved, gaps filled, edits of the API left alone, slips told.
import { describe, expect, test } from 'bun:test'
import { type Bootstrap, checkBootstrap } from '../../../src/domain/bootstrap.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { BootstrapRefused } from '../../../src/upkeep/bootstrap/keys.ts'
import { type Installation, install, rowsOf } from './installation.ts'

// docs/behaviour.md: "First start and bootstrap"
describe('bootstrap', () => {
  const settings: Bootstrap = {
    tenants: [{ slug: 'acme', name: 'Acme', plan: 'pro' }],
    policies: [
      { name: 'cheap', strategy: 'cost-based-routing' },
      { name: 'own', tenant: 'acme' },
    ],
    keys: [{ name: 'app', tenant: 'acme', scopes: ['inference'], routing_policy: 'cheap', key_env: 'APP_KEY' }],
    providers: [
      { name: 'local', kind: 'openai-compatible', base_url: 'http://localhost:1/v1', models: [{ name: 'a' }] },
    ],
    models: [{ provider: 'local', name: 'b', aliases: ['fast'], input_cost_per_million: 1, capabilities: ['chat'] }],
  }
  const env = { APP_KEY: 'the-key-of-the-app-0001' }

  test('is seeded whole, names resolved, gaps filled', async () => {
    const at = install()
    at.env = env
    expect((await at.seed(settings)).notes).toEqual([])
    const [acme] = at.log.state.table('tenants').find('slug', 'acme')
    const [cheap] = rowsOf(at, 'policies')
    expect(cheap).toMatchObject({ name: 'cheap', strategy: 'lowest_cost', tenant_id: null, managed_by: 'bootstrap' })
    expect(rowsOf(at, 'keys')).toContainEqual(
      expect.objectContaining({
        name: 'app',
        tenant_id: acme,
        routing_policy_id: cheap!.id,
        digest: sha256Hex(env.APP_KEY),
      }),
    )
    expect(rowsOf(at, 'providers')).toMatchObject([{ name: 'local', kind: 'openai_compatible' }])
    expect(rowsOf(at, 'models')).toMatchObject([
      { name: 'a', input_cost_per_million: 3, capability_source: 'kind' },
      { name: 'b', input_cost_per_million: 1, aliases: ['fast'], capability_source: 'operator' },
    ])
  })

  test('follows the settings until the API edits a row, which is never overwritten', async () => {
    const at = install()
    at.env = env
    await at.seed(settings)
    const changed: Bootstrap = {
      ...settings,
      providers: [{ ...settings.providers![0]!, region: 'eu' }],
      models: [{ ...settings.models![0]!, priority: 3 }],
    }
    await at.seed(changed)
    expect(rowsOf(at, 'providers')[0]).toMatchObject({ region: 'eu', managed_by: 'bootstrap' })
    const [, b] = rowsOf(at, 'models')
    expect(b).toMatchObject({ priority: 3, managed_by: 'bootstrap' })
    const [local] = rowsOf(at, 'providers')
    at.log.apply([
      { type: 'model.changed', data: { id: b!.id, priority: 9, managed_by: 'api' } },
      { type: 'provider.changed', data: { id: local!.id, region: 'us', managed_by: 'api' } },
    ])
    await at.seed(settings)
    expect(at.log.state.table('models').get(b!.id)).toMatchObject({ priority: 9, managed_by: 'api' })
    expect(rowsOf(at, 'providers')[0]).toMatchObject({ region: 'us', managed_by: 'api' })
  })

  const limited: Bootstrap = {
    ...settings,
    budgets: [
      { limit_usd: 50, hard_cap_usd: 0.5 },
      { tenant: 'acme', scope: { type: 'key', id: 'app' }, window: 'day', limit_tokens: 1_000 },
      { tenant: 'acme', scope: { type: 'provider', id: 'local' }, limit_usd: 1 },
    ],
    cache_rules: [
      { name: 'all', ttl_seconds: 60 },
      { name: 'own', tenant: 'acme', ttl_seconds: 5, scopes: ['tenant:acme', 'key:app'] },
    ],
    tools: [{ name: 'weather', description: 'tells it', parameters: { properties: { city: { type: 'string' } } } }],
    tool_policies: [{ name: 'default', tenant: 'acme', max_steps: 99 }],
  }
  const limitRows = (at: Installation) =>
    (['budgets', 'cache_rules', 'tools', 'tool_policies'] as const).flatMap((name) => rowsOf(at, name))

  test('limits and tools are seeded with names for ids, once', async () => {
    const at = install()
    at.env = env
    expect((await at.seed(limited)).notes).toEqual([])
    const [acme] = at.log.state.table('tenants').find('slug', 'acme')
    const [app] = rowsOf(at, 'keys').filter(({ name }) => name === 'app')
    const [local] = rowsOf(at, 'providers')
    expect(rowsOf(at, 'budgets').map(({ scope, managed_by }) => [scope.type, scope.id, managed_by])).toEqual([
      ['tenant', at.log.state.table('tenants').find('slug', 'default')[0]!, 'bootstrap'],
      ['key', app!.id, 'bootstrap'],
      ['provider', local!.id, 'bootstrap'],
    ])
    expect(rowsOf(at, 'cache_rules').map(({ tenant_id, scopes }) => [tenant_id, scopes])).toEqual([
      [null, ['global']],
      [acme!, [`tenant:${acme}`, `key:${app!.id}`]],
    ])
    expect(rowsOf(at, 'tools')).toMatchObject([{ name: 'weather', tenant_id: null, enabled: true, safety: 'safe' }])
    expect(rowsOf(at, 'tool_policies')).toMatchObject([{ tenant_id: acme, max_steps: 10, enabled: true }])
    const decided = at.log.events.length
    expect(await at.seed(limited)).toEqual({ minted: [], working: [], notes: [] })
    expect(at.log.events.length).toBe(decided)
  })

  test('limits and tools follow the settings until the API edits them, and stay when they are no longer named', async () => {
    const at = install()
    at.env = env
    await at.seed(limited)
    const wanted: Bootstrap = {
      ...limited,
      budgets: limited.budgets!.map((entry) => ({ ...entry, enforcement: 'soft' as const })),
      cache_rules: limited.cache_rules!.map((entry) => ({ ...entry, mode: 'prefix' as const })),
      tools: [{ ...limited.tools![0]!, enabled: false }],
      tool_policies: [{ ...limited.tool_policies![0]!, mode: 'automatic' }],
    }
    await at.seed(wanted)
    for (const row of limitRows(at)) expect(row.managed_by).toBe('bootstrap')
    expect(limitRows(at)).toMatchObject([
      ...limited.budgets!.map(() => ({ enforcement: 'soft' })),
      ...limited.cache_rules!.map(() => ({ mode: 'prefix' })),
      { enabled: false },
      { mode: 'automatic' },
    ])
    const edits = { budgets: 'budget', cache_rules: 'cache_rule', tools: 'tool', tool_policies: 'tool_policy' } as const
    for (const name of Object.keys(edits) as (keyof typeof edits)[])
      for (const { id } of rowsOf(at, name))
        at.log.apply([{ type: `${edits[name]}.changed`, data: { id, managed_by: 'api' } }])
    const edited = limitRows(at)
    expect((await at.seed(limited)).notes).toEqual([])
    expect(limitRows(at)).toEqual(edited)
    const other = install()
    other.env = env
    await other.seed(limited)
    const { notes } = await other.seed(settings)
    expect(notes.filter((note) => note.includes('it stays until'))).toHaveLength(7)
    expect(limitRows(other)).toHaveLength(7)
  })

  test('a budget is ended by an entry that says so and no limit', async () => {
    const at = install()
    const budget = { window: 'day', limit_tokens: 5, timezone: 'Europe/Berlin' }
    await at.seed({ budgets: [budget] })
    for (let start = 0; start < 2; start++) {
      expect((await at.seed({ budgets: [{ window: 'day', enabled: false }] })).notes).toEqual([])
      expect(rowsOf(at, 'budgets')).toMatchObject([{ ...budget, enabled: false, managed_by: 'bootstrap' }])
    }
    expect(at.log.events.filter(({ type }) => type === 'budget.changed')).toHaveLength(1)
  })

  test('a limit that names nothing is reported and stops no other; a tenant that nothing has stops the start', async () => {
    const at = install()
    const { notes } = await at.seed({
      budgets: [{ limit_usd: 1, scope: { type: 'model', id: 'none' } }, {}, { limit_usd: 1 }],
      cache_rules: [{ name: 'a', ttl_seconds: 1, scopes: ['planet'] }],
      tools: [{ name: 'clock', kind: 'builtin' }],
    })
    expect(notes.map((note) => note.split(':')[0])).toEqual([
      ...['bootstrap.budgets[0]', 'bootstrap.budgets[1]', 'bootstrap.cache_rules "a"', 'bootstrap.tools "clock"'],
    ])
    expect(rowsOf(at, 'budgets')).toHaveLength(1)
    const nobody = install().seed({ tools: [{ name: 'a', tenant: 'none' }] })
    await expect(nobody).rejects.toThrow('bootstrap.tools[0].tenant: there is no tenant "none"')
  })

  test('an entry that is gone from the settings stays and is reported', async () => {
    const at = install()
    at.env = env
    await at.seed(settings)
    const { notes } = await at.seed({})
    expect(rowsOf(at, 'providers').map(({ name }) => name)).toContain('local')
    expect(notes.filter((note) => note.includes('"local"'))).toHaveLength(1)
    expect(notes.filter((note) => note.includes('"cheap"'))).toHaveLength(1)
  })

  test('what the log refuses is reported and stops no other', async () => {
    const at = install()
    const { notes } = await at.seed({
      providers: [
        { name: 'q', kind: 'openai', api_key_env: 'PATH' },
        { name: 'r', kind: 'openai' },
      ],
      models: [
        { provider: 'r', name: 'm' },
        { provider: 'r', name: 'n', aliases: ['m'] },
      ],
    })
    expect(rowsOf(at, 'providers').map(({ name }) => name)).toEqual(['r'])
    expect(rowsOf(at, 'models').map(({ name, aliases }) => [name, ...aliases])).toEqual([['m'], ['n']])
    for (const word of ['api_key_env', 'alias "m"']) {
      expect(notes.some((note) => note.includes(word))).toBe(true)
    }
  })

  test.each<[Bootstrap, string]>([
    [
      { keys: [{ name: 'x', tenant: 'nobody', scopes: ['inference'] }] },
      'bootstrap.keys[0].tenant: there is no tenant',
    ],
    [{ policies: [{ name: 'p', tenant: 'nobody' }] }, 'bootstrap.policies[0].tenant'],
    [{ keys: [{ name: 'x', scopes: ['inference'], routing_policy: 'none' }] }, 'bootstrap.keys[0].routing_policy'],
    [{ models: [{ provider: 'nobody', name: 'm' }] }, 'bootstrap.models[0].provider: there is no provider "nobody"'],
  ])('a name that nothing has is refused before anything is written: %j', async (bootstrap, words) => {
    const at = install()
    const refused = await at.seed(bootstrap).catch((error: unknown) => error as Error)
    expect(refused).toBeInstanceOf(BootstrapRefused)
    expect((refused as Error).message).toStartWith(words)
    expect(at.log.events).toHaveLength(0)
  })

  test('a name of an earlier start or of the API will do', async () => {
    const at = install()
    await at.seed({ tenants: [{ slug: 'acme', name: 'Acme' }], providers: [{ name: 'r', kind: 'openai' }] })
    await at.seed({
      keys: [{ name: 'x', tenant: 'acme', scopes: ['inference'] }],
      models: [{ provider: 'r', name: 'm' }],
    })
    expect(rowsOf(at, 'models').map(({ name }) => name)).toContain('m')
    expect(rowsOf(at, 'keys').map(({ name }) => name)).toContain('x')
  })

  test.each([
    [{ providers: [{ name: 'x' }] }, 'bootstrap.providers[0].kind'],
    [{ provider: [] }, 'did you mean "providers"'],
    [{ keys: [{ name: 'k', scopes: ['root'] }] }, 'bootstrap.keys[0].scopes[0]'],
    [{ models: [{ provider: 'p', name: 'm', priorty: 1 }] }, 'did you mean "priority"'],
    [[], 'bootstrap: it must be an object'],
  ])('%j is refused with its key', (value, words) => {
    const checked = checkBootstrap(value)
    expect(checked.ok ? '' : checked.error).toContain(words)
  })
})

test.each<[string, object]>([
  ['bootstrap.tenants[0].name', { tenants: [{ slug: 's', name: '\u3164' }] }],
  [
    'bootstrap.tenants[1].plan',
    {
      tenants: [
        { slug: 's', name: 'S' },
        { slug: 't', name: 'T', plan: 'x\u202e' },
      ],
    },
  ],
  ['bootstrap.keys[0].name', { keys: [{ name: 'ci\u2800', scopes: ['inference'] }] }],
  ['bootstrap.keys[0].name', { keys: [{ name: ' ', scopes: ['inference'] }] }],
  [
    'bootstrap.providers[0].models[0].aliases[0]',
    { providers: [{ name: 'p', kind: 'openai', models: [{ name: 'm', aliases: ['a\u{e0061}b'] }] }] },
  ],
  ['bootstrap.models[0].upstream_model', { models: [{ provider: 'p', name: 'm', upstream_model: 'a\ufe0fb' }] }],
  ['bootstrap.policies[0].models[1]', { policies: [{ name: 'p', models: ['m', 'm\u200f'] }] }],
  ['bootstrap.overrides[0].target', { overrides: [{ kind: 'block', target: 'tool:a\u115f' }] }],
])('%s is refused as the API refuses it', (path, bootstrap) => {
  const checked = checkBootstrap(bootstrap)
  const [key, rule] = (checked.ok ? '' : checked.error).split(': ')
  expect(key).toBe(path)
  expect(rule).toMatch(/^it must not (?:consist of blanks|hold control characters)/)
})

test('an emoji in a name of bootstrap is taken', () => {
  expect(checkBootstrap({ tenants: [{ slug: 's', name: 'Team 👩‍💻 ❤️' }] })).toMatchObject({ ok: true })
})
