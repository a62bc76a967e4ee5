import { describe, expect, test } from 'bun:test'
import { decideTool, TOOL_DEFAULTS, type ToolCommand, toolView } from '../../../src/domain/registry/tool.ts'
import {
  decideToolPolicy,
  TOOL_POLICY_DEFAULTS,
  type ToolPolicyCommand,
} from '../../../src/domain/registry/tool-policy.ts'
import { newWorld, refusal, tenantCreated, type World } from '../world.ts'

type Register = ToolCommand & { do: 'register' }
const register = (more: Partial<Register> = {}): Register => ({
  ...TOOL_DEFAULTS,
  do: 'register',
  id: 'tool_1',
  name: 'weather',
  kind: 'function',
  tenant_id: null,
  enabled: true,
  managed_by: 'api',
  ...more,
})
const change = (more: Partial<ToolCommand & { do: 'change' }>): ToolCommand => ({
  do: 'change',
  id: 'tool_1',
  managed_by: 'api',
  ...more,
})
const world = () => newWorld([tenantCreated('ten_a')])
const does = ({ state, apply }: World, command: ToolCommand) => apply(decideTool(state, command))
const deep = (levels: number): Record<string, unknown> =>
  levels === 0 ? { type: 'string' } : { properties: { a: deep(levels - 1) } }

describe('a tool', () => {
  test('has its name within its tenant, whatever the case; a partial change keeps the rest', () => {
    const w = world()
    does(w, register({ description: 'tells the weather' }))
    expect(refusal(() => decideTool(w.state, register({ id: 'x', name: 'Weather' })))).toEqual(['conflict', 'name'])
    does(w, register({ id: 'tool_2', tenant_id: 'ten_a' }))
    does(w, change({ safety: 'dangerous', enabled: false }))
    const row = w.state.table('tools').get('tool_1')!
    expect(row).toMatchObject({ description: 'tells the weather', safety: 'dangerous', enabled: false })
    expect(toolView(row)).toMatchObject({ owner: 'global', executable: false })
    expect(toolView(w.state.table('tools').get('tool_2')!)).toMatchObject({ owner: 'tenant', tenant_id: 'ten_a' })
    expect(decideTool(w.state, change({ safety: 'dangerous', name: 'weather', kind: 'function' }))).toEqual([])
    w.apply([{ type: 'tenant.deleted', data: { id: 'ten_a' } }])
    does(w, { do: 'delete', id: 'tool_1' })
    expect(w.state.table('tools').size).toBe(0)
  })

  test('a switch is an event of its own', () => {
    const w = world()
    does(w, register())
    expect(decideTool(w.state, change({ enabled: false }))).toEqual([{ type: 'tool.disabled', data: { id: 'tool_1' } }])
    expect(decideTool(w.state, change({ enabled: true }))).toEqual([])
  })

  test('what cannot be changed, and what does not exist, is named', () => {
    const w = world()
    does(w, register())
    const refused = (command: ToolCommand) => refusal(() => decideTool(w.state, command))
    expect(refused(change({ name: 'other' }))).toEqual(['invalid', 'name'])
    expect(refused(change({ kind: 'builtin' }))).toEqual(['invalid', 'kind'])
    expect(refused(change({ tenant_id: 'ten_a' }))).toEqual(['invalid', 'tenant_id'])
    expect(refused(change({ id: 'none' }))).toEqual(['not_found', null])
    expect(refused({ do: 'delete', id: 'none' })).toEqual(['not_found', null])
    expect(refused(register({ tenant_id: 'none' }))).toEqual(['not_found', 'tenant_id'])
    expect(refused(register({ name: 'clock', kind: 'builtin' }))).toEqual(['invalid', 'kind'])
  })

  test.each([
    [{ type: 'string' }, 'parameters.type'],
    [{ $schema: 'https://example.com/mine' }, 'parameters.$schema'],
    [{ propertees: {} }, 'parameters.propertees'],
    [{ properties: { city: { type: 'string', minLenght: 2 } } }, 'parameters.properties.city.minLenght'],
    [{ properties: { 'a/b': { nullable: true } } }, 'parameters.properties.a/b.nullable'],
    [{ $defs: { unused: { foo: 1 } } }, 'parameters.$defs.unused.foo'],
    [{ properties: { a: { anyOf: [{}, { bar: 1 }] } } }, 'parameters.properties.a.anyOf.1.bar'],
    [{ properties: { a: { items: { baz: 1 } } } }, 'parameters.properties.a.items.baz'],
    [{ dependencies: {} }, 'parameters.dependencies'],
    [{ properties: { a: { type: 'text' } } }, 'parameters.properties.a.type'],
    [{ properties: { a: { pattern: '(' } } }, 'parameters.properties.a.pattern'],
    [{ properties: { a: { $ref: '#/$defs/none' } } }, 'parameters.properties.a.$ref'],
    [{ required: 'city' }, 'parameters.required'],
    [{ properties: { a: 5 } }, 'parameters.properties.a'],
    [{ allOf: [{ $ref: '#' }] }, 'parameters'],
    [deep(20), 'parameters'],
    [{ description: 'x'.repeat(60_000) }, 'parameters'],
  ] as [Record<string, unknown>, string | null][])('with the parameters %j is refused for %p', (parameters, param) => {
    const w = world()
    expect(refusal(() => decideTool(w.state, register({ parameters })))).toEqual(['invalid', param])
    does(w, register())
    expect(refusal(() => decideTool(w.state, change({ parameters })))).toEqual(['invalid', param])
  })

  test.each([
    {},
    { type: 'object', properties: { type: { enum: ['a'] }, foo: {}, properties: { type: 'string' } } },
    { $schema: 'http://json-schema.org/draft-07/schema#', dependencies: { a: ['b'], c: { required: ['d'] } } },
    {
      properties: {
        a: { const: { anything: { goes: 1 } }, default: { x: 1 }, examples: [{ y: 1 }], enum: [{ z: 1 }] },
      },
    },
    { patternProperties: { '^x-': true }, additionalProperties: false, unevaluatedProperties: false },
  ])('may have the parameters %j', (parameters) => {
    expect(decideTool(world().state, register({ parameters }))).toHaveLength(1)
  })
})

describe('a tool policy', () => {
  type Upsert = ToolPolicyCommand & { do: 'upsert' }
  const upsert = (more: Partial<Upsert> = {}): Upsert => ({
    ...TOOL_POLICY_DEFAULTS,
    do: 'upsert',
    id: 'tpol_1',
    tenant_id: null,
    name: 'default',
    managed_by: 'api',
    ...more,
  })
  const apply = ({ state, apply }: World, command: ToolPolicyCommand) => apply(decideToolPolicy(state, command))

  test('has bounds that are clamped, and is enabled until somebody says otherwise', () => {
    const w = world()
    const row = () => w.state.table('tool_policies').get('tpol_1')
    apply(w, upsert({ max_steps: 0, max_tool_calls: 65, max_run_seconds: 1e300, mode: 'automatic' }))
    expect(row()).toMatchObject({ max_steps: 1, max_tool_calls: 64, max_run_seconds: 600, enabled: true })
    apply(w, upsert({ enabled: false, max_steps: 11 }))
    expect(row()).toMatchObject({ max_steps: 10, enabled: false, mode: 'manual' })
    apply(w, upsert({ name: 'DEFAULT', max_steps: -5, max_run_seconds: -1 }))
    expect(row()).toMatchObject({ max_steps: 1, max_run_seconds: 1, enabled: false })
    expect(decideToolPolicy(w.state, upsert({ max_steps: 0, max_run_seconds: 0 }))).toEqual([])
  })

  test('is one for each name and tenant, and goes with its tenant', () => {
    const w = world()
    apply(w, upsert())
    apply(w, upsert({ id: 'tpol_2', tenant_id: 'ten_a' }))
    expect(w.state.table('tool_policies').size).toBe(2)
    w.apply([{ type: 'tenant.deleted', data: { id: 'ten_a' } }])
    apply(w, { do: 'delete', id: 'tpol_1' })
    expect(w.state.table('tool_policies').size).toBe(0)
    expect(refusal(() => decideToolPolicy(w.state, upsert({ tenant_id: 'none' })))).toEqual(['not_found', 'tenant_id'])
    expect(refusal(() => decideToolPolicy(w.state, { do: 'delete', id: 'none' }))).toEqual(['not_found', null])
  })
})
