// Policies, endpoint scopes, headers and overrides together: who is called, and who speaks first.
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { NO_OVERRIDES } from '../../src/state/steering.ts'
import { startUpstream } from '../services/upstream.ts'
import { entry, policyRow, testGateway } from './gateway.ts'
import { frameOf, overridesOf, scopeOf, steeringOf } from './plans.ts'

const upstream = startUpstream()
const dead = 'http://127.0.0.1:9/v1'
const at = { baseUrl: upstream.baseUrl }
const BOUND_KEY = 'gw_live_boundboundboundboundboundboundboundboundbo'

const steering = steeringOf(
  [
    scopeOf({ slug: 'app', forcedModel: 'large' }),
    scopeOf({
      slug: 'soft',
      preferredModels: ['mod_beta_large'],
      preferredProviders: ['beta'],
      strategy: 'lowest_cost',
    }),
    scopeOf({ slug: 'beta-first', preferredProviders: ['BETA'] }),
    scopeOf({ slug: 'cheap', maxCostUsd: 0.000_001 }),
    scopeOf({ slug: 'fast', latencyTargetMs: 100 }),
    scopeOf({ slug: 'stay', noFallback: true }),
    scopeOf({ slug: 'off', enabled: false }),
    scopeOf({ slug: 'hollow' }),
    scopeOf({ slug: 'lost', forcedModel: 'nowhere' }),
  ],
  { assistant: 'app', helper: 'soft', empty: 'hollow', retired: 'off' },
)
let frame = frameOf({})
const gateway = testGateway({
  entries: [
    entry({ ...at }),
    entry({ ...at, provider: 'beta', region: 'eu' }),
    entry({ ...at, provider: 'beta', name: 'large' }),
    entry({ ...at, provider: 'gamma', name: 'broken', baseUrl: dead, priority: 1 }),
    entry({ ...at, provider: 'beta', name: 'broken' }),
  ],
  aliases: { tiny: 'small' },
  policies: [
    policyRow({ strategy: 'priority', retry: { attempts: 0 } }),
    policyRow({ id: 'pol_own', name: 'default', tenant_id: 'ten_1', strategy: 'weighted', retry: { attempts: 0 } }),
    policyRow({ id: 'pol_key', name: 'bound', strategy: 'round_robin' }),
    policyRow({ id: 'pol_header', name: 'picked', strategy: 'usage_based' }),
    policyRow({ id: 'pol_plain', name: 'plain' }),
    policyRow({ id: 'pol_narrow', name: 'narrow', models: ['tiny'] }),
    policyRow({ id: 'pol_cap', name: 'capped', max_cost_usd: 0.000_001 }),
  ],
  keys: { [BOUND_KEY]: { routingPolicyId: 'pol_key' } },
  steering,
  frames: { current: () => frame },
})
afterAll(async () => {
  gateway.close()
  await upstream.stop()
})
beforeEach(() => {
  steering.inForce = NO_OVERRIDES
  frame = frameOf({})
})

interface Shown {
  status: number
  error?: { code: string; param: string | null; details: { rejected_reason?: string } | null }
  gateway: {
    provider: string | null
    routed_model: string | null
    strategy: string | null
    policy_id: string | null
    fallback_used: boolean
    endpoint?: string | null
    overrides_applied?: string[]
    required_capabilities?: string[]
    policy?: { source: string; verdict: string }
    candidates?: {
      provider: string
      model: string
      eligible: boolean
      rejected_reason: string | null
      score: number | null
      components: object | null
      projected_cost_usd: number | null
    }[]
    attempts?: { provider: string; outcome: string }[]
    route_reason?: string
  }
}
const ask = async (
  model: string,
  headers: Record<string, string> = {},
  fields: Record<string, unknown> = {},
  key?: string,
): Promise<Shown> => {
  const response = await gateway.send('/v1/chat/completions', {
    body: { model, messages: [{ role: 'user', content: 'hi' }], max_tokens: 100, ...fields },
    headers: { 'x-gateway-debug': 'true', ...headers },
    ...(key && { key }),
  })
  return { status: response.status, ...((await response.json()) as Omit<Shown, 'status'>) }
}
const endpoint = (slug: string) => ({ 'x-gateway-endpoint': slug })
const lastSettled = () => gateway.spool.settled().at(-1)!

describe('who speaks first', () => {
  test('header before scope before key before tenant before global before built in', async () => {
    const strategy = async (...given: Parameters<typeof ask>) => (await ask(...given)).gateway.strategy
    expect(await strategy('small')).toBe('weighted')
    expect(await strategy('small', {}, {}, BOUND_KEY)).toBe('round_robin')
    expect(await strategy('small', endpoint('soft'), {}, BOUND_KEY)).toBe('lowest_cost')
    expect(await strategy('small', { ...endpoint('soft'), 'x-gateway-policy': 'picked' }, {}, BOUND_KEY)).toBe(
      'usage_based',
    )
    expect(await strategy('small', { ...endpoint('soft'), 'x-gateway-policy': 'plain' })).toBe('lowest_cost')
    expect(await strategy('small', { 'x-gateway-policy': 'plain' })).toBe('balanced')
    expect(await strategy('small', { 'x-gateway-policy': 'plain', 'x-gateway-batch': 'true' })).toBe('lowest_cost')
  })

  test('the debug block and the record say who it was', async () => {
    const { gateway: block } = await ask('small', { 'x-gateway-policy': 'PICKED', ...endpoint('Soft') })
    expect(block).toMatchObject({
      policy_id: 'pol_header',
      policy: { source: 'header', verdict: 'allowed' },
      endpoint: 'soft',
    })
    expect(lastSettled()).toMatchObject({ policy_id: 'pol_header', endpoint: 'soft', strategy: 'usage_based' })
    expect(gateway.spool.admitted().at(-1)!.decision).toMatchObject({ source: 'header', policy: 'PICKED' })
  })
})

describe('an endpoint scope', () => {
  test('unknown is 404, disabled 403, both naming the header, or the model whose name is its alias', async () => {
    expect(await ask('small', endpoint('nope'))).toMatchObject({
      status: 404,
      error: { code: 'not_found', param: 'X-Gateway-Endpoint' },
    })
    expect(await ask('small', endpoint('off'))).toMatchObject({
      status: 403,
      error: { code: 'permission_error', param: 'X-Gateway-Endpoint' },
    })
    expect(await ask('retired')).toMatchObject({ status: 403, error: { code: 'permission_error', param: 'model' } })
  })

  test('forces a model, whatever model is named', async () => {
    for (const model of ['small', 'assistant', 'anything'])
      expect((await ask(model, endpoint('app'))).gateway).toMatchObject({
        routed_model: 'large',
        requested_model: model,
      })
    expect((await ask('small')).gateway.routed_model).toBe('small')
  })

  test('is selected by an alias in place of a model; a model of that name goes first', async () => {
    expect((await ask('Assistant')).gateway).toMatchObject({ routed_model: 'large', endpoint: 'app' })
    expect((await ask('helper')).gateway).toMatchObject({
      routed_model: 'large',
      endpoint: 'soft',
      strategy: 'lowest_cost',
    })
    expect((await ask('helper', endpoint('soft'))).gateway).toMatchObject({ routed_model: 'large', endpoint: 'soft' })
    expect((await ask('tiny')).gateway).toMatchObject({ routed_model: 'small', endpoint: null })
  })

  test('an alias of a scope that names no model, and a forced model that is not there, are 404', async () => {
    expect(await ask('empty')).toMatchObject({ status: 404, error: { code: 'not_found', param: 'model' } })
    expect(await ask('small', endpoint('lost'))).toMatchObject({
      status: 404,
      error: { code: 'not_found', param: 'model' },
    })
    expect(await ask('nobody', endpoint('soft'))).toMatchObject({ status: 404, error: { param: 'model' } })
  })

  test('prefers models and providers before any strategy', async () => {
    const { gateway: block } = await ask('small', endpoint('soft'))
    expect(block.candidates!.map(({ provider, model }) => `${provider}/${model}`)).toEqual([
      'beta/large',
      'beta/small',
      'alpha/small',
    ])
    expect(block).toMatchObject({ provider: 'beta', routed_model: 'large' })
    expect((await ask('small', { ...endpoint('beta-first'), 'x-gateway-policy': 'plain' })).gateway.provider).toBe(
      'beta',
    )
  })

  test('caps cost and latency, and forbids failing over', async () => {
    expect(await ask('small', endpoint('cheap'))).toMatchObject({ status: 402, error: { code: 'quota_exceeded' } })
    expect((await ask('small', endpoint('fast'))).status).toBe(200)
    frame = frameOf({ mod_alpha_small: { e2eMs: 900 }, mod_beta_small: { e2eMs: 50 } })
    expect((await ask('small', endpoint('fast'))).gateway).toMatchObject({ provider: 'beta', fallback_used: false })
    frame = frameOf({ mod_alpha_small: { e2eMs: 900 }, mod_beta_small: { e2eMs: 101 } })
    expect(await ask('small', endpoint('fast'))).toMatchObject({
      status: 400,
      error: { details: { rejected_reason: 'latency_target' } },
    })
    expect((await ask('broken', { 'x-gateway-policy': 'pol_default' })).gateway.provider).toBe('beta')
    expect((await ask('broken', { 'x-gateway-policy': 'pol_default', ...endpoint('stay') })).status).toBe(502)
  })
})

describe('limits of every level hold together', () => {
  test('the lowest cap', async () => {
    const refusal = { status: 402, error: { code: 'quota_exceeded', details: { rejected_reason: 'cost_cap' } } }
    expect(await ask('small', { 'x-gateway-policy': 'capped', 'x-gateway-max-cost-usd': '5' })).toMatchObject(refusal)
    expect(await ask('small', { 'x-gateway-max-cost-usd': '0.0000001' })).toMatchObject(refusal)
  })

  test('a list of models names aliases too', async () => {
    expect((await ask('small', { 'x-gateway-policy': 'narrow' })).status).toBe(200)
    expect(await ask('large', { 'x-gateway-policy': 'narrow' })).toMatchObject({
      status: 400,
      error: { param: 'model', details: { rejected_reason: 'not_in_policy' } },
    })
  })
})

describe('overrides in force', () => {
  test('a killed provider is not called; with every one killed it is 502', async () => {
    steering.inForce = overridesOf({ ids: ['ovr_k'], killedProviderIds: new Set(['prov_alpha']) })
    const { gateway: block } = await ask('small')
    expect(block).toMatchObject({ provider: 'beta', fallback_used: false, overrides_applied: ['ovr_k'] })
    expect(block.candidates).toMatchObject([
      { provider: 'alpha', eligible: false, rejected_reason: 'killed', score: null },
      { provider: 'beta', eligible: true },
    ])
    steering.inForce = overridesOf({ killedProviderIds: new Set(['prov_alpha', 'prov_beta']) })
    expect(await ask('small')).toMatchObject({
      status: 502,
      error: { code: 'provider_unavailable', details: { rejected_reason: 'killed' } },
    })
  })

  test('a blocked model, key, endpoint or tool is 403', async () => {
    const blocked = { status: 403, error: { code: 'permission_error' } }
    steering.inForce = overridesOf({ blockedModels: new Set(['small']) })
    expect(await ask('tiny')).toMatchObject({ ...blocked, error: { param: 'model' } })
    steering.inForce = overridesOf({ blockedModels: new Set(['tiny']) })
    expect(await ask('Tiny')).toMatchObject(blocked)
    expect((await ask('small')).status).toBe(200)
    steering.inForce = overridesOf({ blockedKeyIds: new Set(['key_1']) })
    expect(await ask('small')).toMatchObject(blocked)
    steering.inForce = overridesOf({ blockedEndpoints: new Set(['soft']) })
    expect(await ask('small', endpoint('soft'))).toMatchObject({ ...blocked, error: { param: 'X-Gateway-Endpoint' } })
    expect(await ask('helper')).toMatchObject({ ...blocked, error: { param: 'model' } })
    expect((await ask('small')).status).toBe(200)
    const tools = [{ type: 'function', function: { name: 'search' } }]
    steering.inForce = overridesOf({ blockedTools: new Set(['search']) })
    expect(await ask('small', {}, { tools })).toMatchObject({ ...blocked, error: { param: 'tools' } })
    steering.inForce = overridesOf({ disabled: new Set(['tools']) })
    expect(await ask('small', {}, { tools })).toMatchObject({ ...blocked, error: { param: 'tools' } })
    expect((await ask('small')).status).toBe(200)
  })

  test('tools that are switched off for a model are off by whichever name it is reached', async () => {
    const tools = [{ type: 'function', function: { name: 'search' } }]
    const refused = { status: 403, error: { code: 'permission_error', details: { rejected_reason: 'blocked' } } }
    const off = (...models: string[]) => {
      const disabledOf = new Map(models.map((model) => [`model:${model}`, new Set(['tools' as const])]))
      steering.inForce = overridesOf({ disabledOf })
    }
    off('small')
    expect(await ask('tiny', {}, { tools })).toMatchObject(refused)
    expect((await ask('tiny')).status).toBe(200)
    expect((await ask('large', {}, { tools })).status).toBe(200)
    off('large')
    expect(await ask('small', endpoint('app'), { tools })).toMatchObject(refused)
    expect((await ask('small', {}, { tools })).status).toBe(200)
  })

  test('a cap on everything, a provider, a model, a key or an endpoint holds for what it is about', async () => {
    const tiny = 0.000_001
    steering.inForce = overridesOf({ maxCostUsd: tiny })
    expect((await ask('small')).status).toBe(402)
    steering.inForce = overridesOf({ maxCostUsdOf: new Map([['provider:prov_alpha', tiny]]) })
    expect((await ask('small')).gateway.provider).toBe('beta')
    for (const [subject, slug, status] of [
      ['model:small', 'beta-first', 402],
      ['model:tiny', 'beta-first', 200],
      ['key:key_1', 'beta-first', 402],
      ['endpoint:beta-first', 'beta-first', 402],
      ['endpoint:stay', 'beta-first', 200],
    ] as const) {
      steering.inForce = overridesOf({ maxCostUsdOf: new Map([[subject, tiny]]) })
      expect([subject, (await ask('small', endpoint(slug))).status]).toEqual([subject, status])
    }
  })

  test('a budget caps what one request may cost, by what it is about: 402 before anybody is called, and it is recorded', async () => {
    const capped = (all: number | null, ...of: [string, number][]) => {
      steering.inForce = { ...NO_OVERRIDES, hardCaps: { budgetIds: ['bud_1'], all, of: new Map(of) } }
    }
    const calls = upstream.received.length
    capped(1_000)
    expect(await ask('small')).toMatchObject({
      status: 402,
      error: { code: 'quota_exceeded', details: { rejected_reason: 'budget' } },
    })
    expect(upstream.received.length).toBe(calls)
    expect(gateway.spool.settled().at(-1)).toMatchObject({
      outcome: 'denied',
      status: 402,
      decision: { budgets: ['bud_1'] },
      candidates: [
        ['prov_alpha', 'mod_alpha_small', 'budget'],
        ['prov_beta', 'mod_beta_small', 'budget'],
      ],
    })
    capped(1e9, ['provider:prov_alpha', 1_000])
    expect((await ask('small')).gateway.provider).toBe('beta')
    expect(gateway.spool.admitted().at(-1)?.decision?.budgets).toEqual(['bud_1'])
    for (const [subject, slug, status] of [
      ['model:small', 'beta-first', 402],
      ['model:tiny', 'beta-first', 200],
      ['key:key_1', 'beta-first', 402],
      ['key:key_2', 'beta-first', 200],
      ['endpoint:beta-first', 'beta-first', 402],
      ['endpoint:stay', 'beta-first', 200],
    ] as const) {
      capped(null, [subject, 1_000])
      expect([subject, (await ask('small', endpoint(slug))).status]).toEqual([subject, status])
    }
  })

  test('a forced model replaces every other, for the named model before the key, the endpoint and everybody', async () => {
    steering.inForce = overridesOf({
      forcedModels: new Map([
        ['*', 'broken'],
        ['endpoint:app', 'small'],
        ['small', 'large'],
      ]),
    })
    expect((await ask('tiny')).gateway).toMatchObject({ routed_model: 'large', fallback_used: false })
    expect((await ask('anything', endpoint('app'))).gateway.routed_model).toBe('small')
    steering.inForce = overridesOf({
      forcedModels: new Map([
        ['key:key_1', 'large'],
        ['*', 'small'],
      ]),
    })
    expect((await ask('broken')).gateway.routed_model).toBe('large')
  })

  test('fallback can be switched off for everything and for single subjects', async () => {
    const policy = { 'x-gateway-policy': 'pol_default' }
    expect((await ask('broken', policy)).gateway).toMatchObject({ provider: 'beta', fallback_used: true })
    const off = new Set(['fallback' as const])
    steering.inForce = overridesOf({ disabled: off })
    expect((await ask('broken', policy)).status).toBe(502)
    for (const [subject, status] of [
      ['key:key_1', 502],
      ['model:broken', 502],
      ['provider:prov_gamma', 502],
      ['provider:prov_beta', 200],
    ] as const) {
      steering.inForce = overridesOf({ disabledOf: new Map([[subject, off]]) })
      expect([subject, (await ask('broken', policy)).status]).toEqual([subject, status])
    }
  })
})

describe('health', () => {
  const policy = { 'x-gateway-policy': 'pol_default' }

  test('leaves candidates out, and the primary stays the one before it', async () => {
    frame = frameOf({ mod_alpha_small: { breaker: 'open' } })
    const { gateway: block } = await ask('small', policy)
    expect(block).toMatchObject({ provider: 'beta', fallback_used: true })
    expect(block.candidates![0]).toMatchObject({ provider: 'alpha', eligible: false, rejected_reason: 'breaker_open' })
    expect(block.route_reason).toContain('left out now (breaker_open)')
    frame = frameOf({ mod_alpha_small: { coolingDown: true } })
    expect((await ask('small', policy)).gateway.candidates![0]).toMatchObject({ rejected_reason: 'rate_limited' })
    frame = frameOf({ mod_alpha_small: { breaker: 'half_open' } })
    expect((await ask('small', policy)).gateway.provider).toBe('alpha')
    expect(gateway.spool.admitted().at(-1)!.frame).toBe(7)
  })

  test('never leaves out the last one', async () => {
    frame = frameOf({ mod_alpha_small: { breaker: 'open' }, mod_beta_small: { ejected: true } })
    expect((await ask('small', policy)).gateway).toMatchObject({ provider: 'alpha', fallback_used: false })
    frame = frameOf({ mod_beta_large: { breaker: 'open' } })
    expect((await ask('large', policy)).status).toBe(200)
    expect((await ask('large', { ...policy, ...endpoint('stay') })).status).toBe(200)
  })

  test('a primary that is left out is 502 where nobody may take its place', async () => {
    frame = frameOf({ mod_alpha_small: { breaker: 'open' } })
    const refused = await ask('small', { ...policy, 'x-gateway-no-fallback': 'true' })
    expect((await ask('small', { ...policy, ...endpoint('stay') })).status).toBe(502)
    expect(refused).toMatchObject({
      status: 502,
      error: { code: 'provider_unavailable', details: { rejected_reason: 'breaker_open' } },
    })
    expect(lastSettled()).toMatchObject({ outcome: 'error', status: 502, attempts: [], cost_basis: 'none' })
  })
})

describe('what nobody may answer', () => {
  test('is refused with every candidate and its reason in the debug block and in the record', async () => {
    steering.inForce = overridesOf({ killedProviderIds: new Set(['prov_alpha']) })
    const refused = await ask('small', { 'x-gateway-max-cost-usd': '0.0000001' }, { seed: 4 })
    expect(refused).toMatchObject({ status: 402, error: { code: 'quota_exceeded' } })
    expect(refused.gateway.policy).toMatchObject({ source: 'tenant', verdict: 'refused' })
    expect(refused.gateway.required_capabilities).toEqual(['seed'])
    expect(refused.gateway.candidates).toMatchObject([
      { provider: 'alpha', model: 'small', eligible: false, rejected_reason: 'killed' },
      {
        provider: 'beta',
        model: 'small',
        eligible: false,
        rejected_reason: 'cost_cap',
        projected_cost_usd: expect.any(Number),
      },
    ])
    expect(lastSettled()).toMatchObject({
      outcome: 'denied',
      candidates: [
        ['prov_alpha', 'mod_alpha_small', 'killed'],
        ['prov_beta', 'mod_beta_small', 'cost_cap'],
      ],
      decision: { source: 'tenant', needs: ['seed'], max_cost_usd: 1e-7, max_tokens: 100, overrides: ['ovr_1'] },
      timings: { planned_ms: expect.any(Number) },
    })
  })
})

test('round_robin takes each provider in its turn, for each model by itself', async () => {
  const policy = { 'x-gateway-policy': 'bound' }
  const provider = async (model: string) => (await ask(model, policy)).gateway.provider
  const small = [await provider('small'), await provider('small')]
  await provider('large')
  small.push(await provider('small'))
  expect(new Set(small.slice(0, 2))).toEqual(new Set(['alpha', 'beta']))
  expect(small[2]).toBe(small[0]!)
})
