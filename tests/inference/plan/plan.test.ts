// Rules of the plan that stand beside its strategies: context windows, tiers, levels, and what it remembers.
import { describe, expect, test } from 'bun:test'
import { makePlan, type PlanInput } from '../../../src/inference/plan/plan.ts'
import { effectivePolicy } from '../../../src/inference/plan/policies.ts'
import { catalogueOf, entry, policyRow } from '../gateway.ts'
import { frameOf, intentOf, overridesOf, planInput, policyOf } from './plans.ts'

const called = (input: PlanInput): string[] =>
  makePlan(input).ordered.map(({ provider, name }) => `${provider}/${name}`)
const words = (bytes: number, fields: Record<string, unknown> = {}) =>
  intentOf({ messages: [{ role: 'user', content: 'x'.repeat(bytes) }], ...fields })

// docs/behaviour.md: "Rejected candidates"
describe('the context window', () => {
  const entries = [
    entry({ contextWindow: 1_000 }),
    entry({ provider: 'beta', contextWindow: 10_000 }),
    entry({ provider: 'gamma', name: 'large', contextWindow: 1_000_000 }),
  ]

  test('a row that is likely too small is left out while another fits, output included', () => {
    expect(called(planInput({ entries, intent: words(3_000) }))).toEqual(['alpha/small', 'beta/small'])
    const plan = makePlan(planInput({ entries, intent: words(6_000) }))
    expect(plan.reasons).toEqual(['context_too_small', null])
    expect(called(planInput({ entries, intent: words(3_000, { max_tokens: 500 }) }))).toEqual(['beta/small'])
  })

  test('the estimate alone refuses nobody; what cannot fit is refused', () => {
    expect(called(planInput({ entries: entries.slice(0, 1), intent: words(6_000) }))).toEqual(['alpha/small'])
    const { refused } = makePlan(planInput({ entries, intent: words(90_000) }))
    expect(refused).toMatchObject({ code: 'context_length_exceeded', status: 400, param: 'messages' })
  })

  test('what fits no row goes to the models that the policy names for that, unless nobody may fail over', () => {
    const policy = policyOf({ fallback: { context_window_models: ['large'] } })
    const plan = makePlan(planInput({ entries, policy, intent: words(90_000) }))
    expect(plan.ordered.map(({ name }) => name)).toEqual(['large'])
    expect(plan.reasons).toEqual(['context_too_small', 'context_too_small', null])
    expect(makePlan(planInput({ entries, policy })).forLongContext.map(({ name }) => name)).toEqual(['large'])
    const alone = intentOf(
      { messages: [{ role: 'user', content: 'x'.repeat(90_000) }] },
      { 'x-gateway-no-fallback': 'true' },
    )
    expect(makePlan(planInput({ entries, policy, intent: alone })).refused).toMatchObject({
      code: 'context_length_exceeded',
    })
  })
})

test('models to fall back to come after the model itself, however cheap or fast they are', () => {
  const entries = [
    entry({ inputCostPerMillion: 50 }),
    entry({ provider: 'beta', inputCostPerMillion: 40 }),
    entry({ name: 'large', inputCostPerMillion: 1, outputCostPerMillion: 1 }),
  ]
  const policy = policyOf({ strategy: 'lowest_cost', fallback: { models: ['mod_alpha_large'] } })
  expect(called(planInput({ entries, policy }))).toEqual(['beta/small', 'alpha/small', 'alpha/large'])
  expect(called(planInput({ entries, policy, intent: intentOf({}, { 'x-gateway-no-fallback': 'true' }) }))).toEqual([
    'beta/small',
  ])
  const forced = overridesOf({ forcedModels: new Map([['*', 'small']]) })
  expect(called(planInput({ entries, policy, overrides: forced }))).toEqual(['beta/small', 'alpha/small'])
})

// docs/behaviour.md: "Policies"
describe('levels of policy', () => {
  const entries = [entry(), entry({ provider: 'beta' }), entry({ provider: 'gamma' })]
  const levels = effectivePolicy([
    {
      source: 'header',
      row: policyRow({
        name: 'own',
        providers: { only: ['alpha', 'beta'] },
        sensitivity: { phi: { providers: ['alpha', 'beta'] } },
        latency_target_ms: 900,
        max_cost_usd: 1,
      }),
    },
    {
      source: 'global',
      row: policyRow({
        providers: { only: ['beta', 'gamma'] },
        sensitivity: { phi: { providers: ['beta', 'gamma'] } },
        latency_target_ms: 500,
        max_cost_usd: 2,
      }),
    },
  ])

  test('lists intersect, and limits are the lowest', () => {
    expect(called(planInput({ entries, policy: levels }))).toEqual(['beta/small'])
    expect(levels).toMatchObject({ latencyTargetMs: 500, maxCostNanoUsd: 1_000_000_000 })
  })

  test('a sensitive payload goes only to whom every level trusts with it', () => {
    const { reasons } = makePlan(
      planInput({
        entries,
        policy: { ...levels, providersOnly: [] },
        intent: intentOf({}, { 'x-gateway-sensitivity': 'phi, pii' }),
      }),
    )
    expect(reasons).toEqual(['sensitivity', null, 'sensitivity'])
  })

  test('a target rejects only whom it is known to be too slow', () => {
    const frame = frameOf({ mod_beta_small: { e2eMs: 501 } })
    const tooSlow = makePlan(planInput({ entries, policy: levels, frame }))
    expect(tooSlow.refused).toMatchObject({
      code: 'invalid_request',
      param: 'model',
      details: { rejected_reason: 'latency_target' },
    })
    expect(
      makePlan(planInput({ entries, policy: levels, frame, intent: intentOf({ stream: true }) })).refused,
    ).toBeNull()
  })
})

test('what is remembered of a name is forgotten when the catalogue changes', () => {
  const policy = policyOf({})
  const catalogue = { ...catalogueOf([entry()]), version: 1 }
  expect(called(planInput({ policy, catalogue }))).toEqual(['alpha/small'])
  const { resolve, all } = catalogueOf([entry({ unroutable: 'disabled' }), entry({ provider: 'beta' })])
  Object.assign(catalogue, { version: 2, resolve, all })
  expect(called(planInput({ policy, catalogue }))).toEqual(['beta/small'])
})
