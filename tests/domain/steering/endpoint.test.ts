import { describe, expect, test } from 'bun:test'
import { decideModel, type ModelCommand } from '../../../src/domain/registry/model.ts'
import {
  decideEndpoint,
  type EndpointCommand,
  endpointKey,
  NOTHING_OVERRIDDEN,
} from '../../../src/domain/steering/endpoint.ts'
import { modelCreated, newWorld, providerCreated, refusal, tenantCreated, type World } from '../world.ts'

const upsert = (
  more: Partial<EndpointCommand & { do: 'upsert' }> = {},
  overrides: Partial<typeof NOTHING_OVERRIDDEN> = {},
): EndpointCommand & { do: 'upsert' } => ({
  do: 'upsert',
  id: `end_${more.slug ?? 'support'}_${more.tenant_id ?? ''}`,
  slug: 'support',
  tenant_id: null,
  name: 'Support',
  description: null,
  enabled: true,
  aliases: [],
  ...more,
  overrides: { ...NOTHING_OVERRIDDEN, ...overrides },
})
const world = () =>
  newWorld([
    tenantCreated('ten_a'),
    tenantCreated('ten_b'),
    providerCreated('prov_1'),
    modelCreated('mod_1', 'prov_1', { name: 'Gpt', aliases: ['Fast'] }),
  ])
const does = ({ state, apply }: World, command: EndpointCommand) => apply(decideEndpoint(state, command))
const newModel = (name: string, aliases: string[] = []): ModelCommand => ({
  ...(modelCreated(`mod_${name}`, 'prov_1', { name, aliases }).data as ModelCommand & { do: 'create' }),
  do: 'create',
})

describe('an endpoint scope', () => {
  test('is upserted by its slug, whatever the case; the same again is nothing; a tenant’s own is another', () => {
    const w = world()
    does(w, upsert({ slug: 'Support' }, { strategy: 'cost-based-routing', max_cost_usd: 0.1234567891 }))
    expect(w.state.table('endpoints').get('end_Support_')).toMatchObject({
      slug: 'support',
      overrides: { strategy: 'lowest_cost', max_cost_usd: 0.123456789 },
    })
    const repointed = upsert({ id: 'end_2', slug: 'SUPPORT' }, { forced_model: 'gpt' })
    does(w, repointed)
    expect(w.state.table('endpoints').size).toBe(1)
    expect(w.state.table('endpoints').get('end_Support_')?.overrides).toEqual({
      ...NOTHING_OVERRIDDEN,
      forced_model: 'gpt',
    })
    expect(decideEndpoint(w.state, repointed)).toEqual([])
    does(w, upsert({ tenant_id: 'ten_a' }))
    expect(w.state.table('endpoints').size).toBe(2)
  })

  test('what is wrong with it is named', () => {
    const { state } = world()
    const refused = (more: Parameters<typeof upsert>[0], overrides: Parameters<typeof upsert>[1] = {}) =>
      refusal(() => decideEndpoint(state, upsert(more, overrides)))
    expect(refused({ tenant_id: 'ten_none' })).toEqual(['not_found', 'tenant_id'])
    expect(refused({}, { strategy: 'best' })).toEqual(['invalid', 'overrides.strategy'])
    expect(refused({}, { forced_model: 'nothing' })).toEqual(['invalid', 'overrides.forced_model'])
    expect(refused({ aliases: ['GPT'] })).toEqual(['conflict', 'aliases'])
    expect(refused({ aliases: ['fast'] })).toEqual(['conflict', 'aliases'])
    expect(refusal(() => decideEndpoint(state, { do: 'delete', id: 'none' }))).toEqual(['not_found', null])
  })

  test('a forced model may be named by name, alias or id, and one that was deleted does not hold up other changes', () => {
    const w = world()
    for (const forced_model of ['GPT', 'fast', 'mod_1']) does(w, upsert({}, { forced_model }))
    w.apply([{ type: 'model.deleted', data: { id: 'mod_1' } }])
    does(w, upsert({ enabled: false }, { forced_model: 'mod_1' }))
    expect(w.state.table('endpoints').get('end_support_')?.enabled).toBe(false)
  })

  test('no alias is said twice: not by two scopes of an owner, not by a scope and a model', () => {
    const w = world()
    does(w, upsert({ aliases: ['Desk', 'desk'] }))
    expect(w.state.table('endpoints').get('end_support_')?.aliases).toEqual(['Desk'])
    const again = (tenant_id: string | null) => upsert({ slug: 'other', tenant_id, aliases: ['DESK'] })
    expect(refusal(() => decideEndpoint(w.state, again(null)))).toEqual(['conflict', 'aliases'])
    does(w, again('ten_a'))
    expect(refusal(() => decideModel(w.state, newModel('desk')))).toEqual(['conflict', 'name'])
    expect(refusal(() => decideModel(w.state, newModel('new', ['desk'])))).toEqual(['conflict', 'aliases'])
    const aliased: ModelCommand = { do: 'change', id: 'mod_1', managed_by: 'api', aliases: ['desk'] }
    expect(refusal(() => decideModel(w.state, aliased))).toEqual(['conflict', 'aliases'])
    does(w, { do: 'delete', id: 'end_support_' })
    expect(decideModel(w.state, newModel('desk'))).toHaveLength(1)
  })

  test("a tenant's alias holds up no model, whose name is found first; the scope keeps it, and may be changed, but nobody takes it anew", () => {
    const w = world()
    const own = (more: Parameters<typeof upsert>[0] = {}) => upsert({ tenant_id: 'ten_a', aliases: ['Desk'], ...more })
    does(w, own())
    expect(decideModel(w.state, newModel('new', ['desk']))).toHaveLength(1)
    w.apply(decideModel(w.state, newModel('desk')))
    does(w, own({ name: 'Changed' }))
    const [scope] = w.state.table('endpoints').findRows('slug', endpointKey('ten_a', own().slug))
    expect(scope).toMatchObject({ name: 'Changed', aliases: ['Desk'] })
    const other = own({ id: 'end_other', slug: 'other', aliases: ['DESK'], tenant_id: null })
    expect(refusal(() => decideEndpoint(w.state, other))).toEqual(['conflict', 'aliases'])
    does(w, own({ aliases: [] }))
    expect(refusal(() => decideEndpoint(w.state, own()))).toEqual(['conflict', 'aliases'])
  })
})
