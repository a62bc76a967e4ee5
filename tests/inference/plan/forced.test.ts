// A refusal names the model that was refused: the target of a scope, an override or an alias, not the name in the
// client's request.
import { describe, expect, test } from 'bun:test'
import { makePlan } from '../../../src/inference/plan/plan.ts'
import { withScope } from '../../../src/inference/plan/policies.ts'
import { entry } from '../gateway.ts'
import { intentOf, overridesOf, planInput, policyOf, scopeOf } from './plans.ts'

const entries = [entry(), entry({ name: 'large', capabilities: ['chat'] })]
const refusalOf = (input: Parameters<typeof planInput>[0]) =>
  makePlan(planInput({ entries, ...input })).refused?.message
const narrow = policyOf({ models: ['small'] })

describe('the message of a refusal names the model that is refused', () => {
  test('forced by a scope, outside the policy', () => {
    expect(refusalOf({ policy: withScope(narrow, scopeOf({ forcedModel: 'large' })) })).toBe(
      'the policy does not allow this model or its providers (model "large" for "small")',
    )
  })

  test('forced by an operator', () => {
    const overrides = overridesOf({ forcedModels: new Map([['*', 'large']]) })
    expect(refusalOf({ policy: narrow, overrides })).toEndWith('(model "large" for "small")')
  })

  test('forced, and lacking a capability', () => {
    const policy = withScope(policyOf({}), scopeOf({ forcedModel: 'large' }))
    expect(refusalOf({ policy, intent: intentOf({ seed: 1 }) })).toBe(
      'the model "large" for "small" does not have the capability "seed" that `seed` needs',
    )
  })

  test('reached by an alias', () => {
    const intent = intentOf({ model: 'quick' })
    expect(refusalOf({ policy: narrow, intent, aliases: { quick: 'large' } })).toEndWith('(model "large" for "quick")')
  })

  test('asked for by its own name, however it is spelt', () => {
    expect(refusalOf({ policy: narrow, intent: intentOf({ model: 'LARGE' }) })).toEndWith('(model "large")')
  })
})
