import { describe, expect, test } from 'bun:test'
import { type Bootstrap, checkBootstrap } from '../../src/domain/bootstrap.ts'
import { sha256Hex } from '../../src/lib/digest.ts'
import { newApiKey, newId } from '../../src/lib/ids.ts'
import type { ListedModel, ProviderKind } from '../../src/providers/provider.ts'
import { CommitFailure } from '../../src/state/port.ts'
import { modelFacts } from '../../src/upkeep/model-facts.ts'
import { BootstrapRefused } from '../../src/upkeep/seed-keys.ts'
import type { SeedDeps, SeedReport } from '../../src/upkeep/seed-step.ts'
import { openSeeder } from '../../src/upkeep/seeder.ts'
import { GatewayError } from '../../src/wire/errors.ts'
import { type FoldingCommit, foldingCommit } from '../http/admin/folding-commit.ts'
import { KINDS } from '../http/admin/gateway.ts'

const NO_PRICE = { contextWindow: null, input: null, output: null, cachedInput: null }
const ADMIN = 'an-admin-key-of-my-own-choice'
const sandbox: ProviderKind = {
  ...KINDS[1]!,
  kind: 'sandbox',
  listing: undefined,
  script: () => ({ status: 200, headers: {}, headerDelayMs: 0, pieces: [], ending: 'end' }),
}
const azure: ProviderKind = {
  ...KINDS[0]!,
  kind: 'azure_openai',
  defaultBaseUrl: null,
  usualEnv: 'AZURE_OPENAI_API_KEY',
  usualBaseUrlEnv: 'AZURE_OPENAI_ENDPOINT',
  listing: undefined,
}
const kinds = [{ ...KINDS[0]!, usualEnv: 'OPENAI_API_KEY' }, KINDS[1]!, azure, sandbox]

interface Installation {
  readonly log: FoldingCommit
  listed: readonly ListedModel[] | GatewayError
  env: Record<string, string>
  open(): () => Promise<SeedReport>
  seed(bootstrap?: Bootstrap, keys?: { admin?: string; inference?: string }): Promise<SeedReport>
}

const install = (log = foldingCommit(() => Date.UTC(2026, 10, 20))): Installation => {
  const installation: Installation = {
    log,
    listed: [],
    env: {},
    open: () => openSeeder({ bootstrap: {}, adminKey: null, inferenceKey: null }, deps),
    seed: async (bootstrap = {}, { admin, inference } = {}) =>
      openSeeder({ bootstrap, adminKey: admin ?? null, inferenceKey: inference ?? null }, deps)(),
  }
  const deps: SeedDeps = {
    live: log.live,
    commit: log.commit,
    kindTable: {
      resolve: (text) => kinds.find(({ kind }) => kind === text.replaceAll('-', '_')) ?? null,
      names: kinds.map(({ kind }) => kind),
    },
    modelCatalogue: {
      async list() {
        if (installation.listed instanceof GatewayError) throw installation.listed
        return installation.listed
      },
      factsOfListed: async (_, listed) => modelFacts(listed, NO_PRICE, ['chat']),
      factsOf: async () => modelFacts(null, { ...NO_PRICE, input: 3 }, ['chat']),
    },
    env: (name) => installation.env[name],
    minKeyLength: 20,
    newId,
    newApiKey,
    nowMs: () => Date.UTC(2026, 10, 20),
  }
  return installation
}

type Seeded = 'tenants' | 'keys' | 'providers' | 'models' | 'policies'
type Limits = 'budgets' | 'cache_rules' | 'tools' | 'tool_policies'
const rowsOf = <Name extends Seeded | Limits>(at: Installation, name: Name) =>
  [...at.log.state.table(name).rows()].map(([, row]) => row)

describe('the first start', () => {
  test('with nothing set up: a tenant, two keys that are told once, and the sandbox', async () => {
    const at = install()
    const report = await at.seed()
    expect(report.notes).toEqual([])
    expect(report.minted.map(({ scopes }) => scopes)).toEqual([['*'], ['inference']])
    expect(rowsOf(at, 'tenants')).toMatchObject([{ slug: 'default', managed_by: 'bootstrap' }])
    expect(rowsOf(at, 'keys').map(({ digest }) => digest)).toEqual(
      report.minted.map(({ plaintext }) => sha256Hex(plaintext)),
    )
    expect(rowsOf(at, 'providers')).toMatchObject([{ name: 'sandbox', kind: 'sandbox', managed_by: 'bootstrap' }])
    expect(rowsOf(at, 'models')).toMatchObject([{ name: 'sandbox-echo', managed_by: 'bootstrap' }])
    expect(JSON.stringify(at.log.events)).not.toContain(report.minted[0]!.plaintext)
  })

  test('a second start changes nothing and tells nothing', async () => {
    const at = install()
    await at.seed()
    const decided = at.log.events.length
    expect(await at.seed()).toEqual({ minted: [], notes: [] })
    expect(at.log.events.length).toBe(decided)
  })

  test('two instances that start at once tell each key once', async () => {
    const log = foldingCommit(() => 0)
    const reports = await Promise.all([install(log).seed(), install(log).seed()])
    const minted = reports.flatMap((report) => report.minted)
    expect(minted).toHaveLength(2)
    expect(log.state.table('keys').size).toBe(2)
    expect(log.state.table('providers').size).toBe(1)
  })

  test('a key is told although the answer to its decision was lost', async () => {
    const log = foldingCommit(() => 0)
    let lost = 0
    const at = install({
      ...log,
      async commit(request) {
        const result = await log.commit(request)
        if (lost === 0 && result.changes.some(({ table }) => table === 'keys')) {
          lost++
          throw new CommitFailure('unknown', 'no answer')
        }
        return result
      },
    })
    const run = at.open()
    expect(await run().catch((error: unknown) => error)).toBeInstanceOf(CommitFailure)
    const { minted } = await run()
    expect(minted.map(({ plaintext }) => sha256Hex(plaintext))).toEqual(rowsOf(at, 'keys').map(({ digest }) => digest))
  })

  test('keys are not minted again because they were revoked', async () => {
    const at = install()
    await at.seed()
    for (const { id } of rowsOf(at, 'keys')) at.log.apply([{ type: 'api_key.revoked', data: { id } }])
    expect((await at.seed()).minted).toEqual([])
    expect(rowsOf(at, 'keys').map(({ status }) => status)).toEqual(['revoked', 'revoked'])
  })
})

describe('keys from the environment', () => {
  test('are taken as they are and never told; a changed value is a rotation', async () => {
    const at = install()
    const first = await at.seed({}, { admin: ADMIN })
    expect(first.minted.map(({ scopes }) => scopes)).toEqual([['inference']])
    const { id } = rowsOf(at, 'keys').find(({ digest }) => digest === sha256Hex(ADMIN))!
    await at.seed({}, { admin: `${ADMIN}-next` })
    expect(at.log.state.table('keys').get(id)?.digest).toBe(sha256Hex(`${ADMIN}-next`))
    expect(at.log.events.at(-1)).toMatchObject({ type: 'api_key.rotated', data: { id } })
    expect(rowsOf(at, 'keys')).toHaveLength(2)
  })

  test('a rotation by the API stands, and so does its end, while the value stays as it was', async () => {
    const at = install()
    await at.seed({}, { admin: ADMIN })
    const { id } = rowsOf(at, 'keys')[0]!
    const rotated = sha256Hex('a secret that replaced one that leaked')
    at.log.apply([{ type: 'api_key.rotated', data: { id, digest: rotated } }])
    await at.seed({}, { admin: ADMIN })
    expect(rowsOf(at, 'keys').map(({ digest }) => digest)).not.toContain(sha256Hex(ADMIN))
    at.log.apply([{ type: 'api_key.changed', data: { id, scopes: ['keys:admin'], managed_by: 'api' } }])
    await at.seed({}, { admin: ADMIN })
    at.log.apply([{ type: 'api_key.revoked', data: { id } }])
    await at.seed({}, { admin: ADMIN })
    expect(at.log.state.table('keys').get(id)).toMatchObject({ status: 'revoked', digest: rotated })
    expect(rowsOf(at, 'keys').map(({ digest }) => digest)).not.toContain(sha256Hex(ADMIN))
  })

  test('a value that changes after a rotation by the API is a rotation too', async () => {
    const at = install()
    await at.seed({}, { admin: ADMIN })
    const { id } = rowsOf(at, 'keys')[0]!
    at.log.apply([{ type: 'api_key.rotated', data: { id, digest: sha256Hex('another') } }])
    await at.seed({}, { admin: `${ADMIN}-next` })
    expect(at.log.state.table('keys').get(id)?.digest).toBe(sha256Hex(`${ADMIN}-next`))
  })

  test('a revoked one stays revoked with its value, and another value is another key', async () => {
    const at = install()
    await at.seed({}, { admin: ADMIN })
    const { id } = rowsOf(at, 'keys')[0]!
    at.log.apply([{ type: 'api_key.revoked', data: { id } }])
    await at.seed({}, { admin: ADMIN })
    expect(at.log.state.table('keys').get(id)?.status).toBe('revoked')
    await at.seed({}, { admin: `${ADMIN}-next` })
    const [active] = rowsOf(at, 'keys').filter(({ status, scopes }) => status === 'active' && scopes.includes('*'))
    expect(active).toMatchObject({ digest: sha256Hex(`${ADMIN}-next`) })
  })

  test.each([['short'], ['a key with spaces in the middle'], ['a-key,with-a-comma-inside'], ['x'.repeat(513)]])(
    '%p is refused by name, without a part of it',
    async (admin) => {
      const at = install()
      const refused = await at.seed({}, { admin }).catch((error: unknown) => error as Error)
      expect(refused).toBeInstanceOf(BootstrapRefused)
      expect((refused as Error).message).toStartWith('GATEWAY_BOOTSTRAP_ADMIN_KEY')
      expect((refused as Error).message).not.toContain(admin)
      expect(rowsOf(at, 'keys')).toEqual([])
    },
  )
})

describe('providers from the usual variables', () => {
  test('come with the models that they list', async () => {
    const at = install()
    at.env = { OPENAI_API_KEY: 'sk-1' }
    at.listed = [{ name: 'gpt-x', contextWindow: 9, maxOutputTokens: null, capabilities: ['chat', 'vision'] }]
    const report = await at.seed()
    expect(report.notes).toEqual([])
    expect(rowsOf(at, 'providers')).toMatchObject([{ name: 'openai', api_key_env: 'OPENAI_API_KEY' }])
    expect(rowsOf(at, 'models')).toMatchObject([{ name: 'gpt-x', capabilities: ['chat', 'vision'] }])
    expect(JSON.stringify(at.log.events)).not.toContain('sk-1')
  })

  test('come with well-known models when they cannot be asked, and say so', async () => {
    const at = install()
    at.env = { OPENAI_API_KEY: 'sk-1' }
    at.listed = new GatewayError('authentication_error', 'the key is not valid')
    const report = await at.seed()
    expect(report.notes).toEqual(['the provider "openai" did not list its models: the key is not valid'])
    expect(rowsOf(at, 'models').length).toBeGreaterThan(2)
  })

  test('have the address of the variable beside it, where each account has its own', async () => {
    const at = install()
    at.env = { AZURE_OPENAI_API_KEY: 'sk-1', AZURE_OPENAI_ENDPOINT: 'https://res.openai.azure.com' }
    const report = await at.seed()
    expect(rowsOf(at, 'providers')).toMatchObject([{ kind: 'azure_openai', base_url: 'https://res.openai.azure.com' }])
    expect(report.notes).toEqual(['the provider "azure_openai" cannot list what it serves: add its models'])

    const bad = install()
    bad.env = { AZURE_OPENAI_API_KEY: 'sk-1', AZURE_OPENAI_ENDPOINT: 'res.openai.azure.com' }
    expect((await bad.seed()).notes).toEqual([
      'the provider of AZURE_OPENAI_API_KEY: AZURE_OPENAI_ENDPOINT is no address; it must begin with https:// or http://',
    ])
    expect(rowsOf(bad, 'providers').map(({ kind }) => kind)).toEqual(['sandbox'])
  })

  test('do not come twice when the settings use the variable already', async () => {
    const at = install()
    at.env = { OPENAI_API_KEY: 'sk-1' }
    await at.seed({ providers: [{ name: 'mine', kind: 'openai', api_key_env: 'OPENAI_API_KEY' }] })
    expect(rowsOf(at, 'providers').map(({ name }) => name)).toEqual(['mine'])
  })
})

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
    expect(await at.seed(limited)).toEqual({ minted: [], notes: [] })
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
    expect(rowsOf(at, 'models').map(({ name }) => name)).toEqual(['m'])
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
