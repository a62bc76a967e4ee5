import { describe, expect, test } from 'bun:test'
import { type ApiKeyCommand, decideApiKey } from '../../../src/domain/access/api-key.ts'
import { POLICY_DEFAULTS } from '../../../src/domain/steering/policy.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { keyIssued, newWorld, refusal, tenantCreated } from '../world.ts'

const root = { scopes: ['*'] }
const limited = { scopes: ['keys:admin', 'inference'] }

const issue = (more: Partial<ApiKeyCommand & { do: 'issue' }> = {}): ApiKeyCommand => ({
  do: 'issue',
  id: 'key_new',
  tenant_id: 'ten_a',
  name: 'new',
  scopes: ['inference'],
  digest: sha256Hex('secret'),
  expires_at: null,
  routing_policy_id: null,
  rate_limits: null,
  managed_by: 'api',
  granter: root,
  ...more,
})

const policyCreated = (id: string, tenantId: string | null) => ({
  type: 'policy.created',
  data: { id, tenant_id: tenantId, name: id, managed_by: 'api', ...POLICY_DEFAULTS },
})

describe('API key', () => {
  test('is issued for a tenant that exists, with scopes that exist and that its granter holds', () => {
    const { state } = newWorld([tenantCreated('ten_a')])
    expect(decideApiKey(state, issue({ scopes: ['inference', 'inference'] }))[0]?.data.scopes).toEqual(['inference'])
    expect(refusal(() => decideApiKey(state, issue({ tenant_id: 'ten_b' })))).toEqual(['not_found', 'tenant_id'])
    expect(refusal(() => decideApiKey(state, issue({ scopes: ['root'] })))).toEqual(['invalid', 'scopes'])
    const beyond = issue({ scopes: ['usage:read'], granter: limited })
    expect(refusal(() => decideApiKey(state, beyond))).toEqual(['forbidden', 'scopes'])
  })

  test('no two keys share a secret, nor an id', () => {
    const world = newWorld([tenantCreated('ten_a'), keyIssued('key_1', 'ten_a')])
    expect(refusal(() => decideApiKey(world.state, issue({ digest: sha256Hex('key_1') })))[0]).toBe('conflict')
    expect(refusal(() => decideApiKey(world.state, issue({ id: 'key_1' })))[0]).toBe('conflict')
    const rotate = { do: 'rotate', id: 'key_2', digest: sha256Hex('key_1'), granter: root } as const
    world.apply([keyIssued('key_2', 'ten_a')])
    expect(refusal(() => decideApiKey(world.state, rotate))[0]).toBe('conflict')
  })

  test('a routing policy must be one that the tenant can use', () => {
    const { state } = newWorld([
      tenantCreated('ten_a'),
      tenantCreated('ten_b'),
      policyCreated('pol_a', 'ten_a'),
      policyCreated('pol_b', 'ten_b'),
      policyCreated('pol_global', null),
    ])
    expect(decideApiKey(state, issue({ routing_policy_id: 'pol_a' }))).toHaveLength(1)
    expect(decideApiKey(state, issue({ routing_policy_id: 'pol_global' }))).toHaveLength(1)
    for (const id of ['pol_b', 'pol_none']) {
      const refused = refusal(() => decideApiKey(state, issue({ routing_policy_id: id })))
      expect(refused).toEqual(['invalid', 'routing_policy_id'])
    }
  })

  test('who rotates a key gets its secret, so must hold all that it may do', () => {
    const world = newWorld([tenantCreated('ten_a'), keyIssued('key_1', 'ten_a', { scopes: ['*'] })])
    const rotate = { do: 'rotate', id: 'key_1', digest: sha256Hex('next') } as const
    expect(refusal(() => decideApiKey(world.state, { ...rotate, granter: limited }))).toEqual(['forbidden', 'scopes'])
    world.apply(decideApiKey(world.state, { ...rotate, granter: root }))
    expect(world.state.table('keys').find('digest', sha256Hex('key_1'))).toEqual([])
    expect(world.state.table('keys').find('digest', sha256Hex('next'))).toEqual(['key_1'])
  })

  test('a change may keep scopes that the granter lacks, but not add one', () => {
    const { state } = newWorld([tenantCreated('ten_a'), keyIssued('key_1', 'ten_a', { scopes: ['usage:read'] })])
    const change = { do: 'change', id: 'key_1', managed_by: 'api', granter: limited } as const
    expect(decideApiKey(state, { ...change, scopes: ['usage:read', 'inference'] })).toHaveLength(1)
    const beyond = { ...change, scopes: ['usage:read', 'policies:admin'] }
    expect(refusal(() => decideApiKey(state, beyond))).toEqual(['forbidden', 'scopes'])
  })

  test('an expiry is set and cleared', () => {
    const world = newWorld([tenantCreated('ten_a'), keyIssued('key_1', 'ten_a')])
    const change = { do: 'change', id: 'key_1', managed_by: 'api', granter: root } as const
    world.apply(decideApiKey(world.state, { ...change, expires_at: '2027-01-01T00:00:00.000Z' }))
    expect(world.state.table('keys').get('key_1')?.expires_at).toBe('2027-01-01T00:00:00.000Z')
    world.apply(decideApiKey(world.state, { ...change, expires_at: null }))
    expect(world.state.table('keys').get('key_1')?.expires_at).toBeNull()
  })

  test('nobody asks for an end that is past; one that stands, or that settings say, may be', () => {
    const past = '2026-01-01T00:00:00.000Z'
    const nowMs = Date.parse(past)
    const world = newWorld([tenantCreated('ten_a'), keyIssued('key_1', 'ten_a')])
    const change = { do: 'change', id: 'key_1', managed_by: 'api', granter: root } as const
    const late: [string, string] = ['invalid', 'expires_at']
    expect(refusal(() => decideApiKey(world.state, issue({ id: 'key_2', expires_at: past, nowMs })))).toEqual(late)
    expect(refusal(() => decideApiKey(world.state, { ...change, expires_at: past, nowMs }))).toEqual(late)
    expect(decideApiKey(world.state, { ...change, expires_at: past, nowMs: nowMs - 1 })).toHaveLength(1)
    world.apply(decideApiKey(world.state, { ...change, expires_at: past }))
    expect(decideApiKey(world.state, { ...change, name: 'named anew', expires_at: past, nowMs })).toHaveLength(1)
    expect(decideApiKey(world.state, { ...change, expires_at: null, nowMs })).toHaveLength(1)
  })
})
