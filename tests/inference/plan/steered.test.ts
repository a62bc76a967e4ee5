// Policies, endpoint scopes, headers and health together: who is called, and who speaks first.
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { frameOf, overridesOf } from './plans.ts'
import { BOUND_KEY, endpoint, startSteered } from './steered-world.ts'

const { ask, gateway, lastSettled, reset, setFrame, steering, close } = startSteered()
beforeEach(reset)
afterAll(close)

// docs/behaviour.md: "Routing", "Policies"
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
    expect(lastSettled()).toMatchObject({ policy_id: 'pol_header', endpoint: 'soft' })
    expect(gateway.spool.admitted().at(-1)!.plan).toMatchObject({ policy: 'PICKED' })
  })
})

// docs/behaviour.md: "Endpoint scopes"
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
    setFrame(frameOf({ mod_alpha_small: { e2eMs: 900 }, mod_beta_small: { e2eMs: 50 } }))
    expect((await ask('small', endpoint('fast'))).gateway).toMatchObject({ provider: 'beta', fallback_used: false })
    setFrame(frameOf({ mod_alpha_small: { e2eMs: 900 }, mod_beta_small: { e2eMs: 101 } }))
    expect(await ask('small', endpoint('fast'))).toMatchObject({
      status: 400,
      error: { details: { rejected_reason: 'latency_target' } },
    })
    expect((await ask('broken', { 'x-gateway-policy': 'pol_default' })).gateway.provider).toBe('beta')
    expect((await ask('broken', { 'x-gateway-policy': 'pol_default', ...endpoint('stay') })).status).toBe(502)
  })
})

// docs/behaviour.md: "Policies"
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

describe('health', () => {
  const policy = { 'x-gateway-policy': 'pol_default' }

  test('leaves candidates out, and the primary stays the one before it', async () => {
    setFrame(frameOf({ mod_alpha_small: { breaker: 'open' } }))
    const { gateway: block } = await ask('small', policy)
    expect(block).toMatchObject({ provider: 'beta', fallback_used: true })
    expect(block.candidates![0]).toMatchObject({ provider: 'alpha', eligible: false, rejected_reason: 'breaker_open' })
    expect(block.route_reason).toContain('left out now (breaker_open)')
    setFrame(frameOf({ mod_alpha_small: { coolingDown: true } }))
    expect((await ask('small', policy)).gateway.candidates![0]).toMatchObject({ rejected_reason: 'rate_limited' })
    setFrame(frameOf({ mod_alpha_small: { breaker: 'half_open' } }))
    expect((await ask('small', policy)).gateway.provider).toBe('alpha')
    expect(gateway.spool.admitted().at(-1)!.plan.frame).toBe(7)
  })

  test('never leaves out the last one', async () => {
    setFrame(frameOf({ mod_alpha_small: { breaker: 'open' }, mod_beta_small: { ejected: true } }))
    expect((await ask('small', policy)).gateway).toMatchObject({ provider: 'alpha', fallback_used: false })
    setFrame(frameOf({ mod_beta_large: { breaker: 'open' } }))
    expect((await ask('large', policy)).status).toBe(200)
    expect((await ask('large', { ...policy, ...endpoint('stay') })).status).toBe(200)
  })

  test('a primary that is left out is 502 where nobody may take its place', async () => {
    setFrame(frameOf({ mod_alpha_small: { breaker: 'open' } }))
    const refused = await ask('small', { ...policy, 'x-gateway-no-fallback': 'true' })
    expect((await ask('small', { ...policy, ...endpoint('stay') })).status).toBe(502)
    expect(refused).toMatchObject({
      status: 502,
      error: { code: 'provider_unavailable', details: { rejected_reason: 'breaker_open' } },
    })
    expect(lastSettled()).toMatchObject({ outcome: 'error', status: 502, attempts: [], cost_basis: 'none' })
  })
})

// docs/behaviour.md: "Rejected candidates"
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
      plan: { rejected: { killed: 1, cost_cap: 1 }, needs: ['seed'], max_cost_usd: 1e-7, max_tokens: 100 },
      planned_ms: expect.any(Number),
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
