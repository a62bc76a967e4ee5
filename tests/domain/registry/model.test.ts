import { describe, expect, test } from 'bun:test'
import { decideModel, type ModelCommand } from '../../../src/domain/registry/model.ts'
import { modelCreated, newWorld, providerCreated, refusal } from '../world.ts'

const create = (
  name: string,
  providerId: string,
  more: Partial<ModelCommand & { do: 'create' }> = {},
): ModelCommand => ({
  ...(modelCreated('mod_new', providerId).data as ModelCommand & { do: 'create' }),
  do: 'create',
  name,
  ...more,
})
const change = (more: Partial<ModelCommand & { do: 'change' }>): ModelCommand => ({
  do: 'change',
  id: 'mod_1',
  managed_by: 'api',
  ...more,
})
const two = () =>
  newWorld([
    providerCreated('prov_a'),
    providerCreated('prov_b'),
    modelCreated('mod_1', 'prov_a', { name: 'gpt-x', aliases: ['Fast'] }),
  ])

describe('model', () => {
  test('is one name at one provider, whatever its case; the same name at another provider is another row', () => {
    const { state } = two()
    expect(refusal(() => decideModel(state, create('GPT-X', 'prov_a')))).toEqual(['conflict', 'name'])
    expect(decideModel(state, create('GPT-X', 'prov_b'))).toHaveLength(1)
    expect(refusal(() => decideModel(state, create('y', 'prov_none')))).toEqual(['not_found', 'provider_id'])
  })

  test('name and provider never change', () => {
    const { state } = two()
    expect(refusal(() => decideModel(state, change({ name: 'y' })))).toEqual(['invalid', 'name'])
    expect(refusal(() => decideModel(state, change({ provider_id: 'prov_b' })))).toEqual(['invalid', 'provider_id'])
    expect(decideModel(state, change({ name: 'gpt-x', provider_id: 'prov_a' }))).toEqual([])
  })

  test('no alias is the name of another model, and no name the alias of one', () => {
    const world = two()
    expect(refusal(() => decideModel(world.state, create('fast', 'prov_b')))).toEqual(['conflict', 'name'])
    world.apply(decideModel(world.state, create('y', 'prov_b')))
    expect(refusal(() => decideModel(world.state, change({ aliases: ['Y'] })))).toEqual(['conflict', 'aliases'])
    expect(refusal(() => decideModel(world.state, create('z', 'prov_b', { aliases: ['gpt-X'] })))).toEqual([
      'conflict',
      'aliases',
    ])
  })

  test('an alias may be shared; repeats and the own name are left out', () => {
    const world = two()
    world.apply(decideModel(world.state, create('y', 'prov_b', { aliases: ['fast', 'FAST', 'Y'] })))
    expect(world.state.table('models').get('mod_new')?.aliases).toEqual(['fast'])
  })

  test('only what changed stands in the event', () => {
    const { state } = two()
    const same = { priority: 100, aliases: ['Fast'], capabilities: ['chat'], input_cost_per_million: null }
    expect(decideModel(state, change(same))).toEqual([])
    expect(decideModel(state, change({ ...same, input_cost_per_million: 0 }))[0]?.data).toEqual({
      id: 'mod_1',
      input_cost_per_million: 0,
    })
    expect(decideModel(state, change({ status: 'disabled' })).map(({ type }) => type)).toEqual(['model.disabled'])
  })

  const tier = (above_prompt_tokens: number) => ({
    above_prompt_tokens,
    input_cost_per_million: 2,
    output_cost_per_million: 4,
    cached_input_cost_per_million: null,
  })

  test('tiers stand in rising order, one for each length', () => {
    const { state } = two()
    expect(decideModel(state, change({ price_tiers: [tier(9), tier(5)] }))[0]?.data.price_tiers).toEqual([
      tier(5),
      tier(9),
    ])
    expect(refusal(() => decideModel(state, change({ price_tiers: [tier(5), tier(5)] })))).toEqual([
      'invalid',
      'price_tiers',
    ])
    expect(decideModel(state, change({ price_tiers: null }))).toEqual([])
    expect(decideModel(state, change({ price_tiers: [] }))).toEqual([])
  })

  test('tiers go with the price that they belong to', () => {
    const world = two()
    const at = (input_cost_per_million: number) => ({ input_cost_per_million, output_cost_per_million: 1 })
    world.apply(decideModel(world.state, change({ ...at(1), price_tiers: [tier(5)] })))
    expect(decideModel(world.state, change({ ...at(1), priority: 1 }))[0]?.data).toEqual({ id: 'mod_1', priority: 1 })
    expect(decideModel(world.state, change({ ...at(3), price_tiers: [tier(5)] }))[0]?.data).toEqual({
      id: 'mod_1',
      input_cost_per_million: 3,
    })
    world.apply(decideModel(world.state, change(at(3))))
    expect(world.state.table('models').get('mod_1')).toMatchObject({ input_cost_per_million: 3, price_tiers: null })
    expect(decideModel(world.state, change(at(4)))[0]?.data).not.toHaveProperty('price_tiers')
  })
})
