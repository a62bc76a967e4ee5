import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Intent, readIntent } from '../../src/inference/intent.ts'
import { makePlan, type Plan, REJECTED_REASONS } from '../../src/inference/plan.ts'
import { effectivePolicy } from '../../src/inference/policies.ts'
import type { CatalogueEntry } from '../../src/state/port.ts'
import { GatewayError } from '../../src/wire/errors.ts'
import { catalogueOf, entry, policyRow } from './gateway.ts'

const PROVIDERS = ['alpha', 'beta', 'gamma', 'delta']
const CAPABILITIES = ['chat', 'streaming', 'tools', 'seed']
const someProviders = fc.subarray(PROVIDERS)

const anyEntries = fc
  .uniqueArray(
    fc.record({
      provider: fc.constantFrom(...PROVIDERS),
      name: fc.constantFrom('small', 'large'),
      priority: fc.integer({ min: 0, max: 3 }),
      capabilities: fc.subarray(CAPABILITIES),
      unroutable: fc.constantFrom(null, null, 'disabled' as const, 'no_adapter' as const),
      inputCostPerMillion: fc.constantFrom(null, 0, 1, 1_000_000),
      region: fc.constantFrom(null, 'eu', 'us'),
      contextWindow: fc.constantFrom(null, 1, 100_000),
    }),
    { selector: ({ provider, name }) => `${provider}/${name}`, minLength: 1, maxLength: 8 },
  )
  .map((rows) => rows.map((row) => entry(row)))
const anyPolicy = fc
  .record({
    models: fc.subarray(['small', 'LARGE', 'mod_alpha_small']),
    only: someProviders,
    ignore: someProviders,
    order: someProviders,
    regions: fc.subarray(['eu', 'us']),
    max_cost_usd: fc.constantFrom(null, 0.001, 10),
    fallbackModels: fc.subarray(['large']),
    enabled: fc.boolean(),
  })
  .map(({ models, only, ignore, order, regions, max_cost_usd, fallbackModels, enabled }) =>
    effectivePolicy([
      {
        source: 'global',
        row: policyRow({
          models,
          providers: { only, ignore, order },
          regions,
          max_cost_usd,
          fallback: { models: fallbackModels, enabled },
        }),
      },
    ]),
  )
const anyIntent = fc
  .record({
    stream: fc.boolean(),
    seed: fc.boolean(),
    noFallback: fc.boolean(),
    capped: fc.boolean(),
    region: fc.constantFrom(null, 'eu'),
  })
  .map(({ stream, seed, noFallback, capped, region }) => {
    const body = {
      model: 'small',
      messages: [{ role: 'user', content: 'hello there' }],
      stream,
      ...(seed ? { seed: 1 } : {}),
    }
    const headers = new Headers({ 'x-gateway-no-fallback': String(noFallback) })
    if (capped) headers.set('x-gateway-max-cost-usd', '0.5')
    if (region !== null) headers.set('x-gateway-region', region)
    return readIntent(JSON.stringify(body), body, headers)
  })

type Inputs = [CatalogueEntry[], ReturnType<typeof effectivePolicy>, Intent]
const planOf = ([entries, policy, intent]: Inputs): Plan | GatewayError => {
  try {
    return makePlan({ intent, policy, catalogue: catalogueOf(entries), seed: 1 })
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
}
const anyInputs = fc.tuple(anyEntries, anyPolicy, anyIntent)

test('the same inputs give the same plan, whatever the order of the registry', () => {
  fc.assert(
    fc.property(anyInputs, ([entries, policy, intent]) => {
      expect(planOf([[...entries].reverse(), policy, intent])).toEqual(planOf([entries, policy, intent]))
    }),
    { numRuns: 300 },
  )
})

test('nobody is called whom the policy, the request or the registry excludes', () => {
  fc.assert(
    fc.property(anyInputs, (inputs) => {
      const [, policy, intent] = inputs
      const plan = planOf(inputs)
      if (plan instanceof GatewayError) return
      for (const candidate of [...plan.ordered, ...plan.forLongContext]) {
        expect(candidate.unroutable).toBeNull()
        for (const { capability } of intent.requirements) expect(candidate.capabilities).toContain(capability)
        for (const allowed of policy.providersOnly) expect(allowed.has(candidate.provider)).toBe(true)
        expect(policy.providersIgnored.has(candidate.provider)).toBe(false)
        for (const allowed of policy.models) {
          expect(allowed.has(candidate.name) || allowed.has(candidate.modelId)).toBe(true)
        }
        for (const allowed of policy.regions) expect(allowed.has(candidate.region ?? '')).toBe(true)
        if (intent.headers.maxCostUsd !== null) expect(candidate.inputCostPerMillion).not.toBeNull()
      }
    }),
    { numRuns: 300 },
  )
})

test('every candidate is either called in its turn or has a ruled reason', () => {
  fc.assert(
    fc.property(anyInputs, (inputs) => {
      const plan = planOf(inputs)
      if (plan instanceof GatewayError) return
      expect(plan.ordered.length).toBeGreaterThan(0)
      expect(plan.primary).toBe(plan.ordered[0]!)
      const called = plan.candidates.filter(({ rejected }) => rejected === null).map(({ entry: row }) => row)
      expect(plan.ordered).toEqual(
        inputs[2].headers.noFallback || !inputs[1].fallbackEnabled ? called.slice(0, 1) : called,
      )
      for (const { rejected } of plan.candidates) {
        if (rejected !== null) expect(REJECTED_REASONS).toContain(rejected)
      }
    }),
    { numRuns: 300 },
  )
})

test('a refusal names the reason of the candidate that came nearest', () => {
  fc.assert(
    fc.property(anyInputs, (inputs) => {
      const refused = planOf(inputs)
      if (!(refused instanceof GatewayError) || refused.code === 'not_found') return
      const reasons = inputs[0].filter(({ name }) => name === 'small')
      expect(reasons.length).toBeGreaterThan(0)
      const reason = (refused.details as { rejected_reason: string }).rejected_reason
      const routable = reasons.some(({ unroutable }) => unroutable === null)
      if (routable) expect(['disabled', 'no_adapter']).not.toContain(reason)
    }),
    { numRuns: 300 },
  )
})

test('priority decides, then the name of the provider; the policy puts its own order in front', () => {
  const entries = [
    entry({ provider: 'gamma', priority: 1 }),
    entry({ provider: 'beta', priority: 2 }),
    entry({ provider: 'alpha', priority: 2 }),
  ]
  const body = { model: 'SMALL', messages: [{ role: 'user', content: 'x' }] }
  const intent = readIntent(JSON.stringify(body), body, new Headers())
  const order = (policy: ReturnType<typeof effectivePolicy>) =>
    makePlan({ intent, policy, catalogue: catalogueOf(entries), seed: 0 }).ordered.map(({ provider }) => provider)
  expect(order(effectivePolicy([]))).toEqual(['gamma', 'alpha', 'beta'])
  const row = policyRow({ providers: { order: ['Beta', 'prov_alpha'] } })
  expect(order(effectivePolicy([{ source: 'global', row }]))).toEqual(['beta', 'alpha', 'gamma'])
})
