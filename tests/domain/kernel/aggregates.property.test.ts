import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type ApiKeyCommand, apiKey, decideApiKey, SCOPES } from '../../../src/domain/access/api-key.ts'
import { tenant } from '../../../src/domain/access/tenant.ts'
import { budget } from '../../../src/domain/budgets/budget.ts'
import { CONTROL_EVENTS, ControlState, foldDecision } from '../../../src/domain/control.ts'
import type { Aggregate } from '../../../src/domain/kernel/aggregate.ts'
import { Rejection } from '../../../src/domain/kernel/rejection.ts'
import { decideModel, type ModelCommand, model } from '../../../src/domain/registry/model.ts'
import { decideProvider, type ProviderCommand, provider } from '../../../src/domain/registry/provider.ts'
import { tool } from '../../../src/domain/registry/tool.ts'
import { toolPolicy } from '../../../src/domain/registry/tool-policy.ts'
import { cacheRule } from '../../../src/domain/steering/cache-rule.ts'
import {
  decideEndpoint,
  type EndpointCommand,
  endpoint,
  NOTHING_OVERRIDDEN,
} from '../../../src/domain/steering/endpoint.ts'
import { override } from '../../../src/domain/steering/override.ts'
import { policy } from '../../../src/domain/steering/policy.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { modelCreated, newWorld, providerCreated, tenantCreated } from '../world.ts'

const attempt = <Event>(decide: () => readonly Event[]): readonly Event[] => {
  try {
    return decide()
  } catch (error) {
    if (error instanceof Rejection) return []
    throw error
  }
}

const keyId = fc.constantFrom('key_1', 'key_2')
const digest = fc.constantFrom('a', 'b', 'c', 'd').map(sha256Hex)
const scopes = fc.subarray([...SCOPES], { minLength: 1 })
const granter = scopes.map((held) => ({ scopes: held }))
const keyCommand: fc.Arbitrary<ApiKeyCommand> = fc.oneof(
  fc.record({
    do: fc.constant('issue' as const),
    id: keyId,
    tenant_id: fc.constantFrom('ten_a', 'ten_b'),
    name: fc.constantFrom('x', 'y'),
    scopes,
    digest,
    expires_at: fc.constantFrom(null, '2027-01-01T00:00:00.000Z'),
    routing_policy_id: fc.constantFrom(null, 'pol_none'),
    rate_limits: fc.constantFrom(null, { rpm: 1 }),
    managed_by: fc.constantFrom('api' as const, 'bootstrap' as const),
    granter,
  }),
  fc.record(
    {
      do: fc.constant('change' as const),
      id: keyId,
      managed_by: fc.constantFrom('api' as const, 'bootstrap' as const),
      granter,
      name: fc.constantFrom('x', 'y'),
      scopes,
      expires_at: fc.constantFrom(null, '2028-01-01T00:00:00.000Z'),
    },
    { requiredKeys: ['do', 'id', 'managed_by', 'granter'] },
  ),
  fc.record({ do: fc.constant('rotate' as const), id: keyId, digest, granter }),
  fc.record({ do: fc.constant('revoke' as const), id: keyId }),
)

describe('aggregates', () => {
  test('after any commands: revoked is final, no scope beyond the granter’s, a repeat changes nothing', () => {
    fc.assert(
      fc.property(fc.array(keyCommand, { maxLength: 16 }), (commands) => {
        const world = newWorld([tenantCreated('ten_a')])
        const keys = world.state.table('keys')
        for (const command of commands) {
          const before = keys.get(command.id)
          const changes = world.apply([...attempt(() => decideApiKey(world.state, command))])
          const after = keys.get(command.id)
          if (before?.status === 'revoked') expect(after).toEqual(before)
          if (command.do === 'issue' && changes.length > 0 && !command.granter.scopes.includes('*')) {
            expect(command.granter.scopes).toEqual(expect.arrayContaining([...after!.scopes]))
          }
          expect(attempt(() => decideApiKey(world.state, command))).toEqual([])
        }
        const digests = [...keys.rows()].map(([, row]) => row.digest)
        expect(new Set(digests).size).toBe(digests.length)
      }),
    )
  })

  const word = fc.constantFrom('a', 'A', 'b', 'c', 'd')
  const modelCommand: fc.Arbitrary<ModelCommand> = fc.oneof(
    fc
      .record({
        id: fc.uuid(),
        name: word,
        provider: fc.constantFrom('prov_1', 'prov_2'),
        aliases: fc.array(word, { maxLength: 3 }),
      })
      .map(({ id, name, provider: at, aliases }) => ({
        ...(modelCreated(id, at).data as ModelCommand & { do: 'create' }),
        do: 'create' as const,
        name,
        aliases,
      })),
    fc.record({
      do: fc.constant('change' as const),
      id: fc.constantFrom('mod_1', 'mod_2'),
      managed_by: fc.constant('api' as const),
      aliases: fc.array(word, { maxLength: 3 }),
      priority: fc.integer({ min: 0, max: 2 }),
    }),
    fc.record({ do: fc.constant('delete' as const), id: fc.constantFrom('mod_1', 'mod_2') }),
  )
  const providerCommand: fc.Arbitrary<ProviderCommand> = fc.oneof(
    fc.record({ do: fc.constant('delete' as const), id: fc.constantFrom('prov_1', 'prov_2') }),
    fc.record({
      do: fc.constant('change' as const),
      id: fc.constantFrom('prov_1', 'prov_2'),
      managed_by: fc.constant('api' as const),
      status: fc.constantFrom('active' as const, 'disabled' as const),
    }),
  )

  const endpointCommand: fc.Arbitrary<EndpointCommand> = fc
    .record({
      id: fc.uuid(),
      slug: fc.constantFrom('s1', 's2', 'S1'),
      tenant_id: fc.constantFrom(null, 'ten_a'),
      aliases: fc.array(word, { maxLength: 2 }),
    })
    .map((given) => ({
      ...{ do: 'upsert' as const, name: 's', description: null, enabled: true, overrides: NOTHING_OVERRIDDEN },
      ...given,
    }))

  test('after any commands: no model without its provider, one row for a name at a provider, no alias that is another’s name, nor one of both a model and a scope', () => {
    const command = fc.oneof(
      { weight: 6, arbitrary: modelCommand.map((given) => (state: ControlState) => decideModel(state, given)) },
      { weight: 1, arbitrary: providerCommand.map((given) => (state: ControlState) => decideProvider(state, given)) },
      { weight: 4, arbitrary: endpointCommand.map((given) => (state: ControlState) => decideEndpoint(state, given)) },
    )
    fc.assert(
      fc.property(fc.array(command, { maxLength: 16 }), (commands) => {
        const world = newWorld([
          tenantCreated('ten_a'),
          providerCreated('prov_1'),
          providerCreated('prov_2'),
          modelCreated('mod_1', 'prov_1', { name: 'a' }),
          modelCreated('mod_2', 'prov_2', { name: 'b', aliases: ['c'] }),
        ])
        for (const decide of commands) world.apply([...attempt(() => decide(world.state))])
        const models = [...world.state.table('models').rows()].map(([, row]) => row)
        const natural = models.map((row) => `${row.provider_id} ${row.name.toLowerCase()}`)
        expect(new Set(natural).size).toBe(natural.length)
        for (const row of models) {
          expect(world.state.table('providers').get(row.provider_id)).toBeDefined()
          for (const alias of row.aliases) {
            const owners = models.filter(({ name }) => name.toLowerCase() === alias.toLowerCase())
            expect(owners).toEqual([])
          }
        }
        const words = new Set(models.flatMap(({ name, aliases }) => [name, ...aliases].map((one) => one.toLowerCase())))
        const ofScopes = new Set<string>()
        for (const [, { tenant_id, aliases }] of world.state.table('endpoints').rows()) {
          for (const alias of aliases) {
            // A tenant's alias holds up no model.
            if (tenant_id === null) expect(words.has(alias.toLowerCase())).toBe(false)
            expect(ofScopes.has(`${tenant_id} ${alias.toLowerCase()}`)).toBe(false)
            ofScopes.add(`${tenant_id} ${alias.toLowerCase()}`)
          }
        }
      }),
    )
  })

  test('evolve is total: whatever the data of a known event, it answers, and the same twice', () => {
    const limits = [budget, cacheRule, tool, toolPolicy]
    const aggregates = [tenant, apiKey, provider, model, policy, endpoint, override, ...limits] as unknown as Aggregate<
      unknown,
      ControlState
    >[]
    const types = aggregates.flatMap((aggregate) => Object.keys(aggregate.events).map((type) => ({ type, aggregate })))
    const data = fc.record(
      {
        id: fc.constantFrom<unknown>('ten_a', 'prov_1', 'mod_1', 'key_9', 7, null, {}),
        provider_id: fc.constantFrom<unknown>('prov_1', 'none', null),
        name: fc.anything(),
        aliases: fc.anything(),
        scopes: fc.anything(),
      },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(fc.constantFrom(...types), data, ({ type, aggregate }, given) => {
        const { state } = newWorld([tenantCreated('ten_a'), providerCreated('prov_1'), modelCreated('mod_1', 'prov_1')])
        const meta = {
          revision: 'r',
          at: '2026-01-01T00:00:00.000Z',
          logAtMs: 1,
          actor: { type: 'system', id: 't' },
        } as const
        const once = aggregate.evolve(state, { type, data: given }, meta)
        expect(aggregate.evolve(state, { type, data: given }, meta)).toEqual(once)
      }),
    )
  })

  test('a decision with one malformed event changes nothing at all', () => {
    const state = new ControlState()
    const events = [tenantCreated('ten_a'), { type: 'tenant.created', data: { id: 'ten_b' } }]
    const decision = {
      parent: '',
      at: '2026-01-01T00:00:00.000Z',
      actor: { type: 'system', id: 't' },
      cause: null,
      v: 1,
      events,
    } as const
    const folded = foldDecision(state, decision, 'id', 1)
    expect(folded.malformed).toContain('tenant.created')
    expect(state.table('tenants').size).toBe(0)
  })

  test('every event type says what the audit calls it', () => {
    for (const [type, { resource, action, schema }] of Object.entries(CONTROL_EVENTS)) {
      expect(type).toMatch(/^[a-z_]+\.[a-z_]+$/)
      expect(resource).not.toBe('')
      expect(typeof action === 'string' ? action : action({ replaces: true } as never)).toMatch(/^[a-z]+$/)
      expect(schema.additionalProperties).not.toBe(false)
    }
  })
})
