// Overrides in force, and hard caps of budgets: what they refuse, cap and force, and for whom.
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { NO_OVERRIDES } from '../../../src/state/indexes/steering.ts'
import { overridesOf } from './plans.ts'
import { endpoint, startSteered } from './steered-world.ts'

const { ask, gateway, reset, steering, upstream, close } = startSteered()
beforeEach(reset)
afterAll(close)

// docs/behaviour.md: "Overrides"
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
      plan: { rejected: { budget: 2 } },
    })
    capped(1e9, ['provider:prov_alpha', 1_000])
    expect((await ask('small')).gateway.provider).toBe('beta')
    expect(gateway.spool.admitted().at(-1)?.plan.rejected).toEqual({ budget: 1 })
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

  test('a model that a tenant forces for itself replaces none that is imposed on it, however near it is', async () => {
    const forcedByTenants = new Map([['small', 'broken']])
    steering.inForce = overridesOf({ forcedModels: new Map([['*', 'large']]), forcedByTenants })
    expect((await ask('small')).gateway.routed_model).toBe('large')
    steering.inForce = overridesOf({ forcedByTenants: new Map([['tiny', 'large']]) })
    expect((await ask('tiny')).gateway.routed_model).toBe('large')
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
