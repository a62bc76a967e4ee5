// Settings that the API refuses without a look at the state stop a start with the same message and the path of the
// field: if they were skipped with a note, an expected limit would not be in force. A refusal that depends on the state
// stays a note.
import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadSettings } from '../../../src/composition/settings.ts'
import { Bootstrap, checkBootstrap } from '../../../src/domain/bootstrap.ts'
import { bootstrapProblem } from '../../../src/upkeep/bootstrap/check.ts'
import { KINDS, startGateway } from '../../http/admin/world/gateway.ts'
import { install, rowsOf } from './installation.ts'

const kinds = {
  resolve: (text: string) => KINDS.find(({ kind }) => kind === text) ?? null,
  names: KINDS.map(({ kind }) => kind),
}
const flawOf = (bootstrap: object): string | null => {
  const checked = checkBootstrap(bootstrap)
  if (!checked.ok) throw new Error(`the schema refuses it already: ${checked.error}`)
  return bootstrapProblem(checked.value, kinds)
}

const gateway = startGateway()
const [tenantId] = gateway.state.table('tenants').find('slug', 'default')
const provider = await gateway.call('POST', '/providers', { body: { name: 'p', kind: 'openai' } })
await gateway.call('POST', '/models', { body: { name: 'm', provider_id: provider.body.id } })
const inDefault = (body: object) => ({ tenant_id: tenantId, ...body })
const ofProvider = (body: object) => ({ provider_id: provider.body.id, ...body })
const ownedBy = ({ tenant, ...body }: { readonly tenant?: string }) => ({
  ...body,
  ...(tenant === undefined ? { tenant_id: null } : { tenant_id: tenantId }),
})
const global = (body: object) => ({ owner: 'global', ...body })

/** Section -> the write of the API, and what becomes of an entry there. */
const WRITES: Readonly<Record<string, readonly [method: string, path: string, bodyOf: (entry: object) => object]>> = {
  keys: ['POST', '/keys', inDefault],
  providers: ['POST', '/providers', (entry) => entry],
  models: ['POST', '/models', ({ provider: _, ...entry }: { provider?: string }) => ofProvider(entry)],
  policies: ['PUT', '/policies', (entry) => entry],
  endpoints: ['PUT', '/endpoints', (entry) => entry],
  overrides: ['POST', '/overrides', (entry) => entry],
  budgets: ['PUT', '/budgets', inDefault],
  cache_rules: ['PUT', '/cache/policies', ownedBy],
  tools: ['POST', '/tools', global],
  price_corrections: ['POST', '/prices/corrections', (entry) => entry],
}

const LONG = Array.from({ length: 64 }, (_, i) => `${i}-${'x'.repeat(240)}`)
const deep = (levels: number): object => (levels === 0 ? { type: 'string' } : { properties: { a: deep(levels - 1) } })
const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)])
const KEY = { name: 'k', scopes: ['inference'] }
const OPENAI = { name: 'x', kind: 'openai' }
const MODEL = { provider: 'p', name: 'x' }
const RULE = { name: 'r', ttl_seconds: 60 }
const TIER = {
  ...{ above_prompt_tokens: 10, input_cost_per_million: 1 },
  ...{ output_cost_per_million: 1, cached_input_cost_per_million: null },
}
const OCTOBER = { provider: 'p', model: 'm', from: '2026-10-01', to: '2026-11-01' }
const PRICES = { input_cost_per_million: 1, output_cost_per_million: 2 }

/** Section, field, entry that says what cannot be meant of it. */
const UNSOUND: readonly (readonly [section: string, field: string, entry: object])[] = [
  ['keys', 'expires_at', { ...KEY, expires_at: '2027-02-30T00:00:00Z' }],
  ['providers', 'kind', { ...OPENAI, kind: 'magic' }],
  ['providers', 'base_url', { name: 'x', kind: 'openai_compatible' }],
  ['providers', 'base_url', { ...OPENAI, base_url: 'not a url' }],
  ['providers', 'base_url', { ...OPENAI, base_url: 'https://h.example/v1/chat/completions' }],
  ['providers', 'base_url', { ...OPENAI, base_url: 'https://h.example/v1?key=x' }],
  ['providers', 'base_url', { ...OPENAI, base_url: 'http://169.254.169.254/v1' }],
  ['providers', 'api_key_env', { ...OPENAI, api_key_env: 'GATEWAY_X_KEY' }],
  ['providers', 'api_key_env', { ...OPENAI, api_key_env: 'PATH' }],
  ['providers', 'options.organisation', { ...OPENAI, options: { organisation: 'o' } }],
  ['providers', 'options.organization', { ...OPENAI, options: { organization: 5 } }],
  ['providers', 'options.organization', { ...OPENAI, options: { organization: nested(40) } }],
  ['models', 'price_tiers', { ...MODEL, price_tiers: [TIER, TIER] }],
  ['policies', 'strategy', { name: 'x', strategy: 'fastest' }],
  ['policies', 'max_cost_usd', { name: 'x', max_cost_usd: 1e-10 }],
  [
    'policies',
    'fallback',
    {
      name: 'x',
      models: LONG.slice(1),
      fallback: { models: LONG, context_window_models: LONG, on: ['timeout'] },
      providers: { only: LONG },
    },
  ],
  ['endpoints', 'overrides.strategy', { slug: 'x', overrides: { strategy: 'fastest' } }],
  ['endpoints', 'overrides.max_cost_usd', { slug: 'x', overrides: { max_cost_usd: 1e-10 } }],
  [
    'endpoints',
    'overrides',
    {
      slug: 'x',
      description: 'é'.repeat(2_048),
      overrides: {
        preferred_models: LONG,
        preferred_providers: LONG.map((name) => name.replaceAll('x', 'é')),
      },
    },
  ],
  ['overrides', 'target', { kind: 'kill' }],
  ['overrides', 'target', { kind: 'kill', target: 'model:m' }],
  ['overrides', 'target', { kind: 'block' }],
  ['overrides', 'target', { kind: 'block', target: 'm' }],
  ['overrides', 'target', { kind: 'block', target: 'key:' }],
  ['overrides', 'target', { kind: 'block', target: `tool:${'x'.repeat(257)}` }],
  ['overrides', 'target', { kind: 'freeze', target: 'provider:p' }],
  ['overrides', 'value', { kind: 'cap' }],
  ['overrides', 'value.max_cost_usd', { kind: 'cap', value: { model: 'm' } }],
  ['overrides', 'value.max_cost_usd', { kind: 'cap', value: { max_cost_usd: 1e-10 } }],
  ['overrides', 'value.model', { kind: 'cap', value: { max_cost_usd: 1, model: 'm' } }],
  ['overrides', 'value', { kind: 'force' }],
  ['overrides', 'value.features', { kind: 'disable', value: { features: ['flight'] } }],
  ['overrides', 'value.features', { kind: 'disable', value: { features: [] } }],
  ['overrides', 'value', { kind: 'freeze', value: { features: ['cache'] } }],
  ['overrides', 'expires_at', { kind: 'freeze', expires_at: '2027-02-30T00:00:00Z' }],
  ['budgets', 'scope.id', { limit_usd: 1, scope: { type: 'key' } }],
  ['budgets', 'window', { limit_usd: 1, window: '8785h' }],
  ['budgets', 'timezone', { limit_tokens: 1, window: 'day', enforcement: 'hard', timezone: 'Europe/Berln' }],
  ['budgets', 'timezone', { enabled: false, timezone: 'Europe/Berln' }],
  ['budgets', 'limit_usd', {}],
  ['budgets', 'limit_usd', { limit_usd: 1e-10 }],
  ['budgets', 'soft_limit_usd', { limit_usd: 1, soft_limit_usd: 2 }],
  ['budgets', 'soft_limit_usd', { limit_usd: 1, soft_limit_usd: 1e-10 }],
  ['budgets', 'hard_cap_usd', { hard_cap_usd: 1e-10 }],
  ['budgets', 'alert_thresholds', { limit_usd: 1, alert_thresholds: [0.8, 0.5] }],
  ['budgets', 'alert_thresholds', { hard_cap_usd: 1, alert_thresholds: [0.5] }],
  ['cache_rules', 'similarity_threshold', { ...RULE, similarity_threshold: 0.9 }],
  ['cache_rules', 'scopes', { ...RULE, scopes: ['planet:mars'] }],
  ['cache_rules', 'scopes', { ...RULE, scopes: ['endpoint:a b'] }],
  ['cache_rules', 'scopes', { ...RULE, scopes: ['key:'] }],
  ['cache_rules', 'scopes', { ...RULE, tenant: 'default', scopes: ['global'] }],
  ['tools', 'kind', { name: 'x', kind: 'builtin' }],
  ['tools', 'parameters', { name: 'x', parameters: deep(30) }],
  ['tools', 'parameters.$schema', { name: 'x', parameters: { $schema: 'http://h.example' } }],
  ['tools', 'parameters.type', { name: 'x', parameters: { type: 'array' } }],
  ['tools', 'parameters.typo', { name: 'x', parameters: { typo: 1 } }],
  ['tools', 'parameters', { name: 'x', parameters: { description: 'x'.repeat(50_000) } }],
  ['price_corrections', 'from', { ...OCTOBER, ...PRICES, to: '2026-10-01' }],
  ['price_corrections', 'to', { ...OCTOBER, ...PRICES, to: '2026-10-02T00:00:30Z' }],
  ['price_corrections', 'input_cost_per_million', { ...OCTOBER, ...PRICES, input_cost_per_million: 1e-7 }],
  [
    'price_corrections',
    'cached_input_cost_per_million',
    { ...OCTOBER, ...PRICES, cached_input_cost_per_million: 1e-7 },
  ],
]

test.each(
  UNSOUND.map(([section, field, entry]) => [section, field, JSON.stringify(entry).slice(0, 120), entry] as const),
)('of %s: %s of %s', async (section, field, _, entry) => {
  const [method, path, bodyOf] = WRITES[section]!
  const { status, body } = await gateway.call(method, path, { body: bodyOf(entry) })
  const { message, param } = body.error as { message: string; param: string }
  expect([status, param]).toEqual([400, field])
  expect(flawOf({ [section]: [entry] })).toBe(`bootstrap.${section}[0].${field}: ${message}`)
})

test('of a model below a provider, and of an entry behind good ones', () => {
  const models = [{ name: 'a' }, { name: 'b', price_tiers: [TIER, TIER] }]
  const message = 'two tiers are for prompts above 10 tokens'
  expect(flawOf({ providers: [OPENAI, { name: 'y', kind: 'openai', models }] })).toBe(
    `bootstrap.providers[1].models[1].price_tiers: ${message}`,
  )
})

test('a wrong value stops every command that reads the settings', () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-sound-'))
  const GATEWAY_CONFIG = join(folder, 'gateway.yaml')
  const load = (bootstrap: object) => {
    writeFileSync(GATEWAY_CONFIG, Bun.YAML.stringify({ bootstrap }, null, 2))
    return loadSettings({ GATEWAY_CONFIG })
  }
  try {
    const budget = { tenant: 'default', limit_tokens: 1, window: 'day', enforcement: 'hard' }
    expect(() => load({ budgets: [{ ...budget, timezone: 'Europe/Berln' }] })).toThrow(
      'gateway.yaml, line 7, column 7: bootstrap.budgets[0].timezone: "Europe/Berln" is not the IANA name of a time zone, such as Europe/Berlin',
    )
    expect(() => load({ budgets: [{ ...budget, timezone: 'Europe/Berlin' }] })).not.toThrow()
    // Without a word in front it looks like a scheme.
    expect(() => load({ providers: [{ ...OPENAI, base_url: 'localhost:11434' }] })).toThrow(
      'gateway.yaml, line 5, column 7: bootstrap.providers[0].base_url: base_url must be an http or https URL',
    )
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('every section has entries that are refused, but for those of which the schema says all', () => {
  const whole = ['tenants', 'tool_policies', 'recreate']
  const { properties } = Bootstrap as unknown as { properties: object }
  expect([...new Set([...UNSOUND.map(([section]) => section), ...whole])].toSorted()).toEqual(
    Object.keys(properties).toSorted(),
  )
})

describe('what depends on the state is no flaw', () => {
  test.each<[string, object]>([
    ['names that others may have', { budgets: [{ limit_usd: 1, scope: { type: 'key', id: 'nobody' } }] }],
    ['a budget that is only ended', { budgets: [{ window: 'day', enabled: false }] }],
    ['a bare word that may be a provider', { overrides: [{ kind: 'cap', target: 'p', value: { max_cost_usd: 1 } }] }],
    ['a key by slug and name', { overrides: [{ kind: 'block', target: `key:acme/${'x'.repeat(256)}` }] }],
    ['a model that may come', { overrides: [{ kind: 'force', value: { model: 'nobody' } }] }],
    ['the end of a key, which comes', { keys: [{ ...KEY, expires_at: '2020-01-01T00:00:00Z' }] }],
    ['a key with blanks in its name', { cache_rules: [{ ...RULE, scopes: ['key:my app', 'tenant:default'] }] }],
    ['a rule of a tenant', { cache_rules: [{ ...RULE, tenant: 'default' }] }],
    [
      'long names of rows, which become ids',
      {
        policies: [
          {
            name: 'x',
            fallback: { models: LONG.map((name) => `provider:p/${name}`), context_window_models: LONG },
            models: LONG,
          },
        ],
      },
    ],
  ])('%s', (_, bootstrap) => {
    expect(flawOf(bootstrap)).toBeNull()
  })

  test('the budget that an entry only ends keeps what the entry does not say', async () => {
    const at = install()
    await at.seed({ budgets: [{ window: 'day', limit_usd: 5 }] })
    expect((await at.seed({ budgets: [{ window: 'day', enabled: false, soft_limit_usd: 6 }] })).notes).toEqual([
      'bootstrap.budgets[0]: "soft_limit_usd" must not be above "limit_usd"',
    ])
    expect(rowsOf(at, 'budgets')).toMatchObject([{ enabled: true }])
  })
})
