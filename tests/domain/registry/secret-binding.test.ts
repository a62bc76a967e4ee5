// Where the secret of a provider may be sent, by the fold and by the decisions.
import { describe, expect, test } from 'bun:test'
import { decideProvider } from '../../../src/domain/registry/provider.ts'
import { bindingOf, isBoundTo, originOf, withheldSecret } from '../../../src/domain/registry/secret-binding.ts'
import { newWorld, providerCreated } from '../world.ts'

test.each([
  ['https://Api.Example.com/v1', 'https://api.example.com'],
  ['https://api.example.com:443/v1', 'https://api.example.com'],
  ['http://api.example.com:80', 'http://api.example.com'],
  ['http://api.example.com:443/', 'http://api.example.com:443'],
  ['https://bedrock-runtime.{region}.amazonaws.com', 'https://bedrock-runtime.{region}.amazonaws.com'],
  ['https://[::1]:9/v1', 'https://[::1]:9'],
  ['https:\\\\evil.example/v1', 'https:\\\\evil.example/v1'],
])('the origin of %s is %s', (url, origin) => {
  expect(originOf(url)).toBe(origin)
})

const at = (base_url: string, more: object = {}) => ({ kind: 'openai', base_url, options: {}, ...more })

test('a binding covers what the provider calls, or not', () => {
  const bound = bindingOf(
    at('https://a.example/v1', { options: { control_url: 'https://b.example', referer: 'https://c.example' } }),
  )
  expect(bound).toEqual({ kind: 'openai', origins: ['https://a.example', 'https://b.example'] })
  expect(isBoundTo(bound, at('https://a.example/other'))).toBe(true)
  expect(isBoundTo(bound, at('https://b.example'))).toBe(true)
  for (const other of [
    'https://a.example:8443',
    'http://a.example',
    'https://a.example.evil',
    'https://a.example@evil.example',
  ])
    expect([other, isBoundTo(bound, at(other))]).toEqual([other, false])
  expect(isBoundTo(bound, at('https://a.example', { kind: 'vllm' }))).toBe(false)
  expect(isBoundTo(bound, at('https://a.example', { options: { control_url: 'https://evil.example' } }))).toBe(false)
  expect(isBoundTo(null, at('https://a.example'))).toBe(false)
})

const GOOD = 'https://good.example/v1'
const created = () => {
  const { type, data } = providerCreated('prov_1')
  return { type, data: { ...data, kind: 'openai', base_url: GOOD, api_key_env: 'PROVIDER_X' } }
}
const sealed = { provider_id: 'prov_1', key_id: 'dek_1', sealed: 'x', name: null, hint: null, replaces: false }

// docs/behaviour.md: "Providers and secrets"
describe('records without bindings, as earlier versions wrote them', () => {
  test('bind a secret to the address of the decision that gave it', () => {
    const { state, apply } = newWorld([created(), { type: 'credential.sealed', data: sealed }])
    const row = () => state.table('providers').get('prov_1')!
    const none = () => false
    const here = { kind: 'openai', origins: ['https://good.example'] }
    expect([row().env_bound_to, row().credential?.bound_to, withheldSecret(row(), none)]).toEqual([here, here, null])
    apply([{ type: 'provider.changed', data: { id: 'prov_1', base_url: 'https://evil.example/v1' } }])
    expect([row().env_bound_to, row().credential?.bound_to]).toEqual([here, here])
    expect(withheldSecret(row(), none)).toContain('https://good.example')
    expect(withheldSecret(row(), () => true)).toContain('https://good.example')
    apply([{ type: 'provider.changed', data: { id: 'prov_1', api_key_env: 'PROVIDER_Y' } }])
    expect(row().env_bound_to).toEqual({ kind: 'openai', origins: ['https://evil.example'] })
    expect(row().credential?.bound_to).toEqual(here)
    // The variable is used; without a value the credential would be, were it not out of use.
    expect(withheldSecret(row(), (name) => name === 'PROVIDER_Y')).toBeNull()
    expect(withheldSecret(row(), none)).toContain('the credential is out of use')
    apply([{ type: 'provider.changed', data: { id: 'prov_1', api_key_env: null } }])
    expect(row().env_bound_to).toBeNull()
  })
})

describe('decisions', () => {
  const none = { usualBindings: () => [] }
  const change = (more: object) => {
    const { state } = newWorld([created()])
    return decideProvider(state, { do: 'change', id: 'prov_1', managed_by: 'api', ...more })
  }

  test('state a binding only where it does not follow from the event', () => {
    expect(change({ base_url: 'https://b.example' })[0]!.data).not.toHaveProperty('env_bound_to')
    expect(change({ api_key_env: 'PROVIDER_Y' })[0]!.data).not.toHaveProperty('env_bound_to')
    const both = { base_url: 'https://b.example', api_key_env: 'PROVIDER_X' }
    expect(change(both)[0]!.data).toMatchObject({ env_bound_to: { origins: ['https://b.example'] } })
    expect(change({ ...both, full: true })[0]!.data).not.toHaveProperty('env_bound_to')
    expect(change({ ...both, keepsCredential: true })[0]!.data).toMatchObject({ keeps_credential: true })
    expect(change({ keepsCredential: true })).toEqual([])
  })

  test('give a variable to another address only for a writer that may', () => {
    const both = { base_url: 'https://b.example', api_key_env: 'PROVIDER_X', ...none }
    expect(change(both)[0]!.data).not.toHaveProperty('env_bound_to')
    expect(change({ api_key_env: 'PROVIDER_Y', ...none })[0]!.data).toMatchObject({ env_bound_to: null })
    expect(change({ api_key_env: 'PROVIDER_X', ...none })).toEqual([])
    const { state } = newWorld([created()])
    const { data } = created()
    const create = (more: object) =>
      decideProvider(state, { do: 'create', ...data, id: 'prov_2', name: 'second', ...none, ...more } as never)[0]!.data
    expect(create({})).not.toHaveProperty('env_bound_to')
    expect(create({ base_url: 'https://evil.example' })).toMatchObject({ env_bound_to: null })
    expect(create({ kind: 'vllm' })).toMatchObject({ env_bound_to: null })
  })
})
