// Which variables of the environment a provider may name: its secret goes to the address of the provider.
import { describe, expect, test } from 'bun:test'
import { KIND_TABLE } from '../../../src/composition/settings.ts'
import { envIsAllowed, envProblem, usualBindings } from '../../../src/upkeep/models/kind-table.ts'

const table = { ...KIND_TABLE, envBindings: ['LITELLM_MASTER_KEY'] }

// docs/behaviour.md: "Providers and secrets"
describe('api_key_env', () => {
  test.each(['OPENAI_API_KEY', 'OPENAI_API_KEY_EU', 'ANTHROPIC_API_KEY_2', 'PROVIDER_x', 'LITELLM_MASTER_KEY'])(
    '%s may be named',
    (name) => {
      expect(envProblem(name, table)).toBeNull()
    },
  )

  test.each([
    ...['GITHUB_TOKEN', 'AWS_SECRET_ACCESS_KEY', 'PATH', 'DATABASE_URL', 'NPM_TOKEN', 'MY_API_KEY', 'API_KEY_FILE'],
    ...['GATEWAY_MASTER_KEY', 'gateway_api_key', 'MASTER_KEY', 'Master_Key'],
    ...[
      'OPENAI_API_KEY_',
      'OPENAI_API_KEYS',
      'openai_api_key',
      'XOPENAI_API_KEY',
      'PROVIDER_',
      'provider_x',
      'A B',
      '',
    ],
  ])('S7: %p may not be named', (name) => {
    expect(envIsAllowed(name, table)).toBe(false)
    expect(envProblem(name, table)).toMatchObject({ param: 'api_key_env' })
  })

  test('a variable of the gateway is not allowed by a list either', () => {
    const listed = { ...KIND_TABLE, envBindings: ['GATEWAY_SECURITY_MASTER_KEY', 'MASTER_KEY'] }
    for (const name of listed.envBindings) expect(envIsAllowed(name, listed)).toBe(false)
  })

  test('a usual variable goes to its kind at the address of that kind', () => {
    const openai = { kind: 'openai', origins: ['https://api.openai.com'] }
    expect(usualBindings(table)('OPENAI_API_KEY')).toEqual([openai])
    expect(usualBindings(table)('OPENAI_API_KEY_EU')).toEqual([openai])
    expect(usualBindings(table)('PROVIDER_X')).toEqual([])
    expect(usualBindings(table)('AZURE_OPENAI_API_KEY')).toEqual([])
  })
})
