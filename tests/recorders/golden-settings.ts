// The settings of the installation that a golden log records (`recorders/golden-life.ts`): an entry of every section of
// `bootstrap:`.
import type { Bootstrap } from '../../src/domain/bootstrap.ts'

export const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
export const LIMITS = { rpm: 60, tpm: 1_000, max_parallel: 2 }

const PRICED = { aliases: ['seed'], input_cost_per_million: 1, output_cost_per_million: 2 }

/** What the upstream of the recording serves, besides completions. */
export const UPSTREAM_MODELS = ['listed-1', 'listed-2']

/** The settings of the first start. */
export const firstSettings = (baseUrl: string): Bootstrap => ({
  tenants: [{ slug: 'seeded', name: 'Seeded', plan: 'team', rate_limits: LIMITS }],
  policies: [{ name: 'seeded', tenant: 'seeded', strategy: 'lowest_cost' }],
  keys: [
    { name: 'seeded', tenant: 'seeded', scopes: ['inference'], routing_policy: 'seeded' },
    { name: 'given', tenant: 'seeded', scopes: ['inference'], key_env: 'GOLDEN_KEY' },
  ],
  providers: [
    { name: 'seeded', kind: 'openai_compatible', base_url: baseUrl, models: [{ name: 'seeded', ...PRICED }] },
    {
      name: 'off',
      kind: 'openai_compatible',
      base_url: baseUrl,
      enabled: false,
      models: [{ name: 'off', enabled: false }],
    },
    { name: 'sealed', kind: 'openai_compatible', base_url: baseUrl },
  ],
  endpoints: [{ slug: 'seeded', tenant: 'seeded', overrides: { forced_model: 'seeded' } }],
  overrides: [{ kind: 'cap', target: 'model:seeded', value: { max_cost_usd: 0.5 }, reason: 'settings' }],
  budgets: [{ tenant: 'seeded', scope: { type: 'provider', id: 'seeded' }, limit_usd: 5 }],
  cache_rules: [{ name: 'seeded', tenant: 'seeded', ttl_seconds: 60 }],
  tools: [
    { name: 'seeded', tenant: 'seeded', parameters: PARAMETERS },
    { name: 'off', enabled: false },
  ],
  tool_policies: [{ name: 'seeded', tenant: 'seeded', max_steps: 2 }],
  price_corrections: [
    {
      ...{ provider: 'seeded', model: 'seeded', from: '2026-10-01', to: '2026-11-01', reason: 'settings' },
      ...{ input_cost_per_million: 0.1, output_cost_per_million: 0.2 },
    },
  ],
})

/** Those of the second: something of each section is another. */
export const secondSettings = (baseUrl: string): Bootstrap => {
  const first = firstSettings(baseUrl)
  const [tenant, policy] = [first.tenants![0]!, first.policies![0]!]
  const [provider, endpoint] = [first.providers![0]!, first.endpoints![0]!]
  return {
    ...first,
    tenants: [{ ...tenant, plan: 'gold' }],
    policies: [{ ...policy, max_cost_usd: 0.5 }],
    providers: [{ ...provider, weight: 2, models: [{ name: 'seeded', priority: 7 }] }, ...first.providers!.slice(1)],
    endpoints: [{ ...endpoint, name: 'Renamed' }],
    overrides: [{ ...first.overrides![0]!, value: { max_cost_usd: 0.25 } }],
    budgets: [{ ...first.budgets![0]!, limit_usd: 6 }],
    cache_rules: [{ ...first.cache_rules![0]!, mode: 'prefix' }],
    tools: [{ ...first.tools![0]!, description: 'of the settings' }, first.tools![1]!],
    tool_policies: [{ ...first.tool_policies![0]!, max_steps: 3 }],
    price_corrections: [...first.price_corrections!, { ...first.price_corrections![0]!, to: '2026-10-15' }],
  }
}
