// The writer of an override, and what keys without the scope `*` may do: they cannot change an override that was set
// with `*`, and the number of their rows is bounded.
import { describe, expect, test } from 'bun:test'
import { type ControlState, foldDecision } from '../../../src/domain/control.ts'
import type { Actor } from '../../../src/domain/kernel/decision.ts'
import { SEEDER_ACTOR } from '../../../src/domain/kernel/seeder.ts'
import { decideOverride, type OverrideCommand } from '../../../src/domain/steering/override.ts'
import { inForce } from '../../../src/domain/steering/override-row.ts'
import { keyIssued, modelCreated, newWorld, providerCreated, refusal, tenantCreated } from '../world.ts'

const NOW = Date.UTC(2026, 5, 1)
type Write = Partial<OverrideCommand & { do: 'write' }>

const world = () =>
  newWorld([
    ...['ten_a', 'ten_b'].map((id) => tenantCreated(id)),
    providerCreated('prov_1'),
    modelCreated('mod_1', 'prov_1', { name: 'gpt' }),
    keyIssued('key_a', 'ten_a', { scopes: ['providers:admin'] }),
    keyIssued('key_b', 'ten_b', { scopes: ['providers:admin'] }),
    keyIssued('key_all', 'ten_a', { scopes: ['*'] }),
  ]).state

const KEY_A = { type: 'key', id: 'key_a' } as const
const KEY_ALL = { type: 'key', id: 'key_all' } as const
const OPERATOR = { type: 'operator', id: 'op_1' } as const
const WITH_EVERY_SCOPE: readonly (readonly [string, Actor])[] = [
  ['a key with *', KEY_ALL],
  ['an operator', OPERATOR],
  ['the settings', SEEDER_ACTOR],
]

let made = 0
const command = (more: Write): OverrideCommand => ({
  ...{ do: 'write', id: `ovr_${made++}`, kind: 'block', target: 'model:gpt', tenant_id: null, value: null },
  ...{ enabled: true, reason: null, expires_at: null, writer_tenant_id: null, nowMs: NOW, ...more },
})
const kill = (on: boolean, writer_tenant_id: string | null): OverrideCommand => ({
  ...{ do: 'kill', ids: [`ovr_${made++}`, `ovr_${made++}`], provider_id: 'prov_1', kill: on, reason: null },
  ...{ tenant_id: 'ten_a', writer_tenant_id, nowMs: NOW },
})
const by = (state: ControlState, actor: Actor, given: OverrideCommand) => {
  const events = decideOverride(state, given)
  const decision = { parent: '', at: new Date(NOW).toISOString(), actor, cause: null, v: 1, events } as const
  foldDecision(state, decision, `r${made++}`, NOW)
}
const imposed = (actor: Actor, more: Write = {}) => {
  const state = world()
  by(state, actor, command(more))
  return state
}

test('who killed a provider for everybody revives it, though it stays killed for a tenant by who has every scope', () => {
  const state = world()
  by(state, KEY_A, kill(true, 'ten_a'))
  by(state, KEY_ALL, command({ kind: 'kill', target: 'prov_1', tenant_id: 'ten_a' }))
  by(state, KEY_A, kill(false, 'ten_a'))
  const killedOf = (tenantId: string | null) => inForce(state, 'kill', 'provider:prov_1', tenantId, NOW)?.enabled
  expect([killedOf(null) ?? false, killedOf('ten_a')]).toEqual([false, true])
})

test('a freeze of everybody that a key of a tenant wrote under a former build is taken back by that tenant, and not set again', () => {
  const state = world()
  by(state, KEY_A, command({ kind: 'freeze', target: null }))
  const freeze = (enabled: boolean, writer: string) =>
    command({ kind: 'freeze', target: null, enabled, writer_tenant_id: writer })
  expect(refusal(() => decideOverride(state, freeze(true, 'ten_a')))).toEqual(['forbidden', 'tenant_id'])
  expect(refusal(() => decideOverride(state, freeze(false, 'ten_b')))).toEqual(['forbidden', 'tenant_id'])
  expect(decideOverride(state, freeze(false, 'ten_a'))).toHaveLength(1)
})

describe('what was imposed with every scope', () => {
  test.each(WITH_EVERY_SCOPE)(
    'by %s, a key without * neither takes back nor writes over; who has every scope does',
    (_, actor) => {
      for (const about of [
        { target: 'key:key_a' },
        { kind: 'kill', target: 'prov_1' },
        { kind: 'freeze', target: null, tenant_id: 'ten_a' },
        { kind: 'cap', target: '*', tenant_id: 'ten_a', value: { max_cost_usd: 0 } },
        {
          kind: 'cap',
          target: '*',
          tenant_id: 'ten_a',
          value: { max_cost_usd: 0 },
          expires_at: '2027-01-01T00:00:00.000Z',
        },
      ]) {
        const state = imposed(actor, about)
        for (const enabled of [false, true]) {
          const again = command({ ...about, enabled, writer_tenant_id: 'ten_a' })
          expect([about, refusal(() => decideOverride(state, again))]).toEqual([about, ['forbidden', 'target']])
        }
        expect(decideOverride(state, command({ ...about, enabled: false }))).toHaveLength(1)
      }
    },
  )

  test('holds until it expires or is taken back with every scope; then anybody who may writes it', () => {
    const state = imposed(OPERATOR, { expires_at: new Date(NOW + 1_000).toISOString() })
    const later = command({ writer_tenant_id: 'ten_a', nowMs: NOW + 1_000 })
    expect(decideOverride(state, later)).toHaveLength(1)
    by(state, KEY_ALL, command({ enabled: false }))
    by(state, KEY_A, command({ writer_tenant_id: 'ten_a' }))
    by(state, KEY_A, command({ writer_tenant_id: 'ten_a', enabled: false }))
    expect(inForce(state, 'block', 'model:gpt', null, NOW)).toBeNull()
  })

  test('stays so when its key has lost its scopes, and is known of logs that were written before', () => {
    const state = imposed(KEY_ALL)
    const data = { id: 'key_all', scopes: ['providers:admin'] }
    const events = [{ type: 'api_key.changed', data }]
    foldDecision(state, { parent: '', at: '', actor: OPERATOR, cause: null, v: 1, events }, 'r', NOW)
    const lift = command({ enabled: false, writer_tenant_id: 'ten_a' })
    expect(refusal(() => decideOverride(state, lift))).toEqual(['forbidden', 'target'])
  })

  test('leaves a kill where it is: neither the switch of the provider revives it, nor a second kill takes it over', () => {
    const state = world()
    by(state, OPERATOR, kill(true, null))
    for (const on of [false, true])
      expect(refusal(() => decideOverride(state, kill(on, 'ten_a')))).toEqual(['forbidden', 'kill'])
    by(state, OPERATOR, kill(false, null))
    by(state, KEY_A, kill(true, 'ten_a'))
    by(state, KEY_A, kill(false, 'ten_a'))
    expect(inForce(state, 'kill', 'provider:prov_1', null, NOW)).toBeNull()
    by(state, OPERATOR, command({ kind: 'kill', target: 'prov_1', tenant_id: 'ten_a' }))
    expect(refusal(() => decideOverride(state, kill(false, 'ten_a')))).toEqual(['forbidden', 'kill'])
  })
})

test('everybody is frozen and thawed with every scope alone, a tenant by its own keys too', () => {
  const state = world()
  const freeze = (tenant_id: string | null, enabled: boolean) =>
    command({ kind: 'freeze', target: null, tenant_id, enabled, writer_tenant_id: 'ten_a' })
  for (const enabled of [true, false])
    expect(refusal(() => decideOverride(state, freeze(null, enabled)))).toEqual(['forbidden', 'tenant_id'])
  by(state, KEY_A, freeze('ten_a', true))
  by(state, KEY_A, freeze('ten_a', false))
  expect(inForce(state, 'freeze', '*', 'ten_a', NOW)).toBeNull()
})

describe('the overrides that may stand', () => {
  const caps = (state: ControlState, actor: Actor, writer_tenant_id: string | null, count: number, word: string) => {
    for (let n = 0; n < count; n++)
      by(state, actor, command({ ...cap, target: `model:${word}${n}`, tenant_id: writer_tenant_id, writer_tenant_id }))
  }
  const cap = { kind: 'cap', value: { max_cost_usd: 1 } }

  test('are bounded for each tenant: one that has used up its own hinders nobody else', () => {
    const state = world()
    caps(state, KEY_A, 'ten_a', 1_000, 'x')
    const more = (writer_tenant_id: string | null, rest: Write = {}) =>
      decideOverride(state, command({ ...cap, target: 'model:more', writer_tenant_id, ...rest }))
    expect(refusal(() => more('ten_a'))).toEqual(['conflict', null])
    expect(refusal(() => more('ten_a', { target: 'model:gpt', kind: 'block', value: null }))).toEqual([
      'conflict',
      null,
    ])
    // What makes room or takes none.
    expect(more('ten_a', { target: 'model:x1', tenant_id: 'ten_a' })).toHaveLength(1)
    expect(more('ten_a', { target: 'model:x1', tenant_id: 'ten_a', enabled: false, value: null })).toHaveLength(1)
    for (const kind of ['kill', 'freeze'])
      expect(
        more('ten_a', { kind, target: kind === 'kill' ? 'prov_1' : null, tenant_id: 'ten_a', value: null }),
      ).toHaveLength(1)
    for (const writer of ['ten_b', null]) expect(more(writer)).toHaveLength(1)
    expect(decideOverride(state, kill(true, 'ten_a'))).toHaveLength(1)
  })

  test('and all together; who has every scope blocks, kills and freezes whatever stands', () => {
    const state = world()
    caps(state, KEY_ALL, null, 10_000, 'x')
    expect(refusal(() => decideOverride(state, command(cap)))).toEqual(['conflict', null])
    for (const urgent of [{}, { target: 'key:key_a' }, { kind: 'kill', target: '*' }, { kind: 'freeze', target: null }])
      expect(decideOverride(state, command(urgent))).toHaveLength(1)
    const own = { tenant_id: 'ten_b', writer_tenant_id: 'ten_b' }
    expect(decideOverride(state, command({ ...cap, ...own }))).toHaveLength(1)
  })
})
