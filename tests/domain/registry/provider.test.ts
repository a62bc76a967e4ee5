import { describe, expect, test } from 'bun:test'
import { apiKeyEnvIsAllowed, decideProvider, type ProviderCommand } from '../../../src/domain/registry/provider.ts'
import { modelCreated, newWorld, providerCreated, refusal } from '../world.ts'

const create = (more: Partial<ProviderCommand & { do: 'create' }> = {}): ProviderCommand => ({
  ...(providerCreated('prov_new').data as ProviderCommand & { do: 'create' }),
  do: 'create',
  ...more,
})
const change = (more: Partial<ProviderCommand & { do: 'change' }>): ProviderCommand => ({
  do: 'change',
  id: 'prov_a',
  managed_by: 'api',
  ...more,
})
const seal = (keyId: string): ProviderCommand => ({
  do: 'seal',
  provider_id: 'prov_a',
  key_id: keyId,
  sealed: 'c2VhbGVk',
  name: null,
  hint: 'abcd',
})

// docs/behaviour.md: "Providers and secrets"
describe('provider', () => {
  test('a name is given once, whatever its case, and never changes', () => {
    const { state } = newWorld([providerCreated('prov_a', 'OpenAI')])
    expect(refusal(() => decideProvider(state, create({ name: 'openai' })))).toEqual(['conflict', 'name'])
    expect(refusal(() => decideProvider(state, change({ name: 'other' })))).toEqual(['invalid', 'name'])
    expect(decideProvider(state, change({ name: 'OpenAI' }))).toEqual([])
  })

  test.each(['OPENAI_API_KEY', 'LITELLM_MASTER_KEY', 'PROVIDER_x'])('%s may name a secret', (name) => {
    expect(apiKeyEnvIsAllowed(name)).toBe(true)
  })
  test.each(['MASTER_KEY', 'Master_Key', 'GATEWAY_MASTER_KEY', 'gateway_api_key', 'A B_KEY', ''])(
    'S7: %p may not name a secret',
    (name) => {
      expect(apiKeyEnvIsAllowed(name)).toBe(false)
      const { state } = newWorld()
      expect(refusal(() => decideProvider(state, create({ api_key_env: name })))).toEqual(['invalid', 'api_key_env'])
    },
  )

  test.each([
    'ftp://x',
    'not a url',
    'https://user:secret@host/v1',
    'https://host/v1#x',
    'http://host:25/v1',
    'http://169.254.169.254/v1',
    'http://0xa9fea9fe/v1',
    'http://[::ffff:a9fe:a9fe]/v1',
    'http://metadata.google.internal/v1',
  ])('%s is no base URL', (base_url) => {
    expect(refusal(() => decideProvider(newWorld().state, create({ base_url })))).toEqual(['invalid', 'base_url'])
  })

  test('options are bounded in size and in depth: a decision beyond the limits could never be read', () => {
    const deep = JSON.parse(`${'{"a":'.repeat(17)}1${'}'.repeat(17)}`)
    for (const options of [deep, { text: 'x'.repeat(9_000) }]) {
      expect(refusal(() => decideProvider(newWorld().state, create({ options })))).toEqual(['invalid', 'options'])
    }
  })

  test('switching is an event of its own, apart from what else changed', () => {
    const { state } = newWorld([providerCreated('prov_a')])
    const events = decideProvider(state, change({ status: 'disabled', weight: 2 }))
    expect(events.map(({ type }) => type)).toEqual(['provider.changed', 'provider.disabled'])
    expect(events[0]?.data).toEqual({ id: 'prov_a', weight: 2 })
  })

  test('a credential is created, rotated, removed; the row holds the last one only', () => {
    const world = newWorld([providerCreated('prov_a')])
    const first = decideProvider(world.state, seal('dek_1'))
    expect(first[0]?.data.replaces).toBe(false)
    world.apply(first)
    expect(decideProvider(world.state, seal('dek_1'))).toEqual([])
    const second = decideProvider(world.state, seal('dek_2'))
    expect(second[0]?.data.replaces).toBe(true)
    world.apply(second)
    expect(world.state.table('providers').get('prov_a')?.credential?.key_id).toBe('dek_2')
    world.apply(decideProvider(world.state, { do: 'unseal', provider_id: 'prov_a' }))
    expect(world.state.table('providers').get('prov_a')?.credential).toBeNull()
    expect(decideProvider(world.state, { do: 'unseal', provider_id: 'prov_a' })).toEqual([])
  })

  test('its models go with it, others stay', () => {
    const world = newWorld([
      providerCreated('prov_a'),
      providerCreated('prov_b'),
      modelCreated('mod_1', 'prov_a'),
      modelCreated('mod_2', 'prov_a'),
      modelCreated('mod_3', 'prov_b'),
    ])
    const changes = world.apply(decideProvider(world.state, { do: 'delete', id: 'prov_a' }))
    expect(changes.map(({ table, id }) => [table, id])).toEqual([
      ['providers', 'prov_a'],
      ['models', 'mod_1'],
      ['models', 'mod_2'],
    ])
    expect([...world.state.table('models').rows()].map(([id]) => id)).toEqual(['mod_3'])
  })
})
