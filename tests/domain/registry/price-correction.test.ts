import { describe, expect, test } from 'bun:test'
import { INVERSES } from '../../../src/domain/inverse.ts'
import { Rejection } from '../../../src/domain/kernel/rejection.ts'
import {
  correctionsOf,
  decidePriceCorrection,
  type PriceCorrectionCommand,
} from '../../../src/domain/registry/price-correction.ts'
import { modelCreated, newWorld, providerCreated } from '../world.ts'

const OCTOBER_MS = Date.UTC(2026, 9, 1)
const NOVEMBER_MS = Date.UTC(2026, 10, 1)

const command = (more: Partial<PriceCorrectionCommand & { do: 'correct' }> = {}) =>
  ({
    ...{ do: 'correct', id: 'pcor_1', provider: 'vendor', model: 'small', fromMs: OCTOBER_MS, toMs: NOVEMBER_MS },
    ...{ input_cost_per_million: 0.12, output_cost_per_million: 0.6, cached_input_cost_per_million: null },
    reason: 'contract',
    ...more,
  }) as PriceCorrectionCommand & { do: 'correct' }

const world = () =>
  newWorld([
    providerCreated('prov_1', 'Vendor'),
    providerCreated('prov_2', 'other'),
    modelCreated('mod_1', 'prov_1', { name: 'Small' }),
    modelCreated('mod_2', 'prov_2', { name: 'large' }),
  ])

const corrected = {
  type: 'price.corrected',
  data: {
    ...{ id: 'pcor_1', provider_id: 'prov_1', provider: 'Vendor', model_id: 'mod_1', model: 'Small' },
    ...{ from: '2026-10-01T00:00:00.000Z', to: '2026-11-01T00:00:00.000Z', reason: 'contract' },
    ...{ input_cost_per_million: 0.12, output_cost_per_million: 0.6, cached_input_cost_per_million: null },
  },
}

const refusal = (given: PriceCorrectionCommand, on = world()) => {
  try {
    decidePriceCorrection(on.state, given)
  } catch (error) {
    if (error instanceof Rejection) return [error.reason, error.param]
    throw error
  }
  return null
}

describe('a price correction', () => {
  test('names provider and model as usage knows them, by id or by name in any case', () => {
    for (const [provider, model] of [
      ['vendor', 'small'],
      ['prov_1', 'mod_1'],
      ['VENDOR', 'mod_1'],
    ] as const)
      expect(decidePriceCorrection(world().state, command({ provider, model }))).toEqual([corrected])
  })

  test('is refused for what there is not, for ranges that are none, and for prices that cannot be reckoned with exactly', () => {
    expect(refusal(command({ provider: 'nobody' }))).toEqual(['not_found', 'provider'])
    expect(refusal(command({ model: 'large' }))).toEqual(['not_found', 'model'])
    expect(refusal(command({ model: 'mod_2' }))).toEqual(['not_found', 'model'])
    expect(refusal(command({ toMs: OCTOBER_MS }))).toEqual(['invalid', 'from'])
    expect(refusal(command({ fromMs: OCTOBER_MS + 30_000 }))).toEqual(['invalid', 'from'])
    expect(refusal(command({ toMs: NOVEMBER_MS + 1 }))).toEqual(['invalid', 'to'])
    expect(refusal(command({ output_cost_per_million: 1e-7 }))).toEqual(['invalid', 'output_cost_per_million'])
    expect(refusal(command({ cached_input_cost_per_million: 0.1234567 }))).toEqual([
      'invalid',
      'cached_input_cost_per_million',
    ])
    expect(refusal(command({ input_cost_per_million: 0.123456 }))).toBeNull()
  })

  test('is added to those before, in the order of the chain, and outlives its provider', () => {
    const w = world()
    for (const id of ['pcor_9', 'pcor_1', 'pcor_5']) w.apply(decidePriceCorrection(w.state, command({ id })))
    expect(correctionsOf(w.state).map(({ id, number }) => [id, number])).toEqual([
      ['pcor_9', 1],
      ['pcor_1', 2],
      ['pcor_5', 3],
    ])
    expect(w.apply([corrected])).toEqual([])
    w.apply([{ type: 'provider.deleted', data: { id: 'prov_1' } }])
    expect(correctionsOf(w.state)).toHaveLength(3)
  })

  test('is taken back by its inverse; what is written again counts as decided last', () => {
    const w = world()
    const [added] = w.apply(decidePriceCorrection(w.state, command()))
    w.apply(decidePriceCorrection(w.state, command({ id: 'pcor_2' })))
    const { invert } = INVERSES.price_corrections!
    const [removed] = w.apply(invert(w.state, added!, {} as never))
    expect(correctionsOf(w.state).map(({ id }) => id)).toEqual(['pcor_2'])
    expect(invert(w.state, removed!, {} as never)).toEqual([corrected])
    w.apply(invert(w.state, removed!, {} as never))
    expect(correctionsOf(w.state).map(({ id }) => id)).toEqual(['pcor_2', 'pcor_1'])
  })

  test('that is not there cannot be withdrawn', () => {
    expect(refusal({ do: 'withdraw', id: 'pcor_1' })).toEqual(['not_found', null])
  })
})
