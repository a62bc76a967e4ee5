import { describe, expect, test } from 'bun:test'
import { decideTenant } from '../../../src/domain/access/tenant.ts'
import { keyIssued, modelCreated, newWorld, providerCreated, refusal, tenantCreated } from '../world.ts'

const replace = { do: 'replace', id: 'ten_a', managed_by: 'api', name: 'a', plan: null, rate_limits: null } as const

describe('tenant', () => {
  test('a slug is given once', () => {
    const { state } = newWorld([tenantCreated('ten_a', 'acme')])
    const again = { id: 'ten_b', slug: 'acme', name: 'B', plan: null, managed_by: 'api' } as const
    expect(refusal(() => decideTenant(state, { do: 'create', ...again }))).toEqual(['conflict', 'slug'])
  })

  test('a replacement keeps the slug, clears an absent plan, and is nothing the second time', () => {
    const world = newWorld([tenantCreated('ten_a')])
    const command = { ...replace, plan: 'pro', rate_limits: { rpm: 5 } }
    world.apply(decideTenant(world.state, command))
    expect(world.state.table('tenants').get('ten_a')).toMatchObject({ plan: 'pro', rate_limits: { rpm: 5 } })
    expect(decideTenant(world.state, command)).toEqual([])
    world.apply(decideTenant(world.state, { do: 'replace', id: 'ten_a', managed_by: 'api', name: 'a' }))
    expect(world.state.table('tenants').get('ten_a')).toMatchObject({ slug: 'ten_a', plan: null, rate_limits: null })
    expect(refusal(() => decideTenant(world.state, { ...replace, slug: 'other' }))).toEqual(['invalid', 'slug'])
  })

  test('active keys hold a tenant; expired and revoked ones do not; force takes all of them with it', () => {
    const world = newWorld([
      tenantCreated('ten_a'),
      tenantCreated('ten_b'),
      keyIssued('key_1', 'ten_a'),
      keyIssued('key_2', 'ten_a', { expires_at: '2026-01-01T00:00:00.000Z' }),
      keyIssued('key_3', 'ten_b'),
    ])
    const remove = { do: 'delete', id: 'ten_a', force: false, nowMs: Date.UTC(2026, 5, 1) } as const
    expect(refusal(() => decideTenant(world.state, remove))).toEqual(['invalid', 'force'])
    world.apply([{ type: 'api_key.revoked', data: { id: 'key_1' } }])
    expect(decideTenant(world.state, remove)).toHaveLength(1)
    world.apply(decideTenant(world.state, { ...remove, force: true }))
    expect([...world.state.table('keys').rows()].map(([id]) => id)).toEqual(['key_3'])
    expect(refusal(() => decideTenant(world.state, remove))).toEqual(['not_found', null])
  })

  test('an erasure of captured content is counted, kept by replacements, and absent where there was none', () => {
    const world = newWorld([tenantCreated('ten_a'), tenantCreated('ten_b')])
    for (let n = 0; n < 2; n++) world.apply(decideTenant(world.state, { do: 'erase_content', id: 'ten_a' }))
    world.apply(decideTenant(world.state, { ...replace, name: 'renamed' }))
    expect(world.state.table('tenants').get('ten_a')).toMatchObject({ name: 'renamed', content_erasures: 2 })
    expect(world.state.table('tenants').get('ten_b')).not.toHaveProperty('content_erasures')
    expect(refusal(() => decideTenant(world.state, { do: 'erase_content', id: 'ten_x' }))).toEqual(['not_found', null])
  })

  test('what falls with a tenant or a provider comes in the order of ids, however the rows came to be', () => {
    const created = [tenantCreated('ten_a'), keyIssued('key_2', 'ten_a'), keyIssued('key_1', 'ten_a')]
    const provider = [providerCreated('prov_a'), modelCreated('mod_2', 'prov_a'), modelCreated('mod_1', 'prov_a')]
    const world = newWorld([...created, ...provider])
    const fell = world.apply([
      { type: 'tenant.deleted', data: { id: 'ten_a' } },
      { type: 'provider.deleted', data: { id: 'prov_a' } },
    ])
    expect(fell.map(({ id }) => id)).toEqual(['ten_a', 'key_1', 'key_2', 'prov_a', 'mod_1', 'mod_2'])
  })

  test('what the API edits becomes its own, what the seeder repeats stays the seeder’s', () => {
    const created = tenantCreated('ten_a')
    const world = newWorld([{ ...created, data: { ...created.data, managed_by: 'bootstrap' } }])
    world.apply(decideTenant(world.state, { ...replace, name: 'new', managed_by: 'bootstrap' }))
    expect(world.state.table('tenants').get('ten_a')?.managed_by).toBe('bootstrap')
    world.apply(decideTenant(world.state, { ...replace, name: 'newer' }))
    expect(world.state.table('tenants').get('ten_a')?.managed_by).toBe('api')
  })
})
