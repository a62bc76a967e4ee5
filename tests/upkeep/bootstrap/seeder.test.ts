// What a start seeds by itself: the first tenant, keys that are minted or given, providers of the usual variables.
import { describe, expect, test } from 'bun:test'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { CommitFailure } from '../../../src/state/port.ts'
import { BootstrapRefused } from '../../../src/upkeep/bootstrap/keys.ts'
import { GatewayError } from '../../../src/wire/errors.ts'
import { foldingCommit } from '../../http/admin/world/folding-commit.ts'
import { ADMIN, install, rowsOf } from './installation.ts'

// docs/behaviour.md: "First start and bootstrap"
describe('the first start', () => {
  test('with nothing set up: a tenant, two keys that are told once, and the sandbox', async () => {
    const at = install()
    const report = await at.seed()
    expect(report.notes).toEqual([])
    expect(report.minted.map(({ scopes }) => scopes)).toEqual([['*'], ['inference']])
    expect(rowsOf(at, 'tenants')).toMatchObject([{ slug: 'default', managed_by: 'bootstrap' }])
    expect(rowsOf(at, 'keys').map(({ digest }) => digest)).toEqual(
      report.minted.map(({ plaintext }) => sha256Hex(plaintext)),
    )
    expect(rowsOf(at, 'providers')).toMatchObject([{ name: 'sandbox', kind: 'sandbox', managed_by: 'bootstrap' }])
    expect(rowsOf(at, 'models')).toMatchObject([{ name: 'sandbox-echo', managed_by: 'bootstrap' }])
    expect(JSON.stringify(at.log.events)).not.toContain(report.minted[0]!.plaintext)
  })

  test('a second start changes nothing and tells nothing', async () => {
    const at = install()
    await at.seed()
    const decided = at.log.events.length
    expect(await at.seed()).toEqual({ minted: [], working: [], notes: [] })
    expect(at.log.events.length).toBe(decided)
  })

  test('two instances that start at once tell each key once', async () => {
    const log = foldingCommit(() => 0)
    const reports = await Promise.all([install(log).seed(), install(log).seed()])
    const minted = reports.flatMap((report) => report.minted)
    expect(minted).toHaveLength(2)
    expect(log.state.table('keys').size).toBe(2)
    expect(log.state.table('providers').size).toBe(1)
  })

  test('a key is told although the answer to its decision was lost', async () => {
    const log = foldingCommit(() => 0)
    let lost = 0
    const at = install({
      ...log,
      async commit(request) {
        const result = await log.commit(request)
        if (lost === 0 && result.changes.some(({ table }) => table === 'keys')) {
          lost++
          throw new CommitFailure('unknown', 'no answer')
        }
        return result
      },
    })
    const run = at.open()
    expect(await run().catch((error: unknown) => error)).toBeInstanceOf(CommitFailure)
    const { minted } = await run()
    expect(minted.map(({ plaintext }) => sha256Hex(plaintext))).toEqual(rowsOf(at, 'keys').map(({ digest }) => digest))
  })

  test('keys are not minted again because they were revoked', async () => {
    const at = install()
    await at.seed()
    for (const { id } of rowsOf(at, 'keys')) at.log.apply([{ type: 'api_key.revoked', data: { id } }])
    expect((await at.seed()).minted).toEqual([])
    expect(rowsOf(at, 'keys').map(({ status }) => status)).toEqual(['revoked', 'revoked'])
  })
})

test('a variable that holds what no header can carry is told by its name, and not what it holds', async () => {
  const at = install()
  at.env = { PROVIDER_BAD: 'sk-of\ntwo lines', PROVIDER_GOOD: 'sk-of-a-file\n' }
  const provider = (name: string, api_key_env: string) => ({ name, kind: 'openai', api_key_env })
  const { notes } = await at.seed({ providers: [provider('bad', 'PROVIDER_BAD'), provider('good', 'PROVIDER_GOOD')] })
  expect(notes).toEqual(['bootstrap.providers "bad": what PROVIDER_BAD holds cannot be sent in a header'])
})

describe('keys from the environment', () => {
  test('are taken as they are and never told; a changed value is a rotation', async () => {
    const at = install()
    const first = await at.seed({}, { admin: ADMIN })
    expect(first.minted.map(({ scopes }) => scopes)).toEqual([['inference']])
    const { id } = rowsOf(at, 'keys').find(({ digest }) => digest === sha256Hex(ADMIN))!
    await at.seed({}, { admin: `${ADMIN}-next` })
    expect(at.log.state.table('keys').get(id)?.digest).toBe(sha256Hex(`${ADMIN}-next`))
    expect(at.log.events.at(-1)).toMatchObject({ type: 'api_key.rotated', data: { id } })
    expect(rowsOf(at, 'keys')).toHaveLength(2)
  })

  test('a rotation by the API stands, and so does its end, while the value stays as it was', async () => {
    const at = install()
    await at.seed({}, { admin: ADMIN })
    const { id } = rowsOf(at, 'keys')[0]!
    const rotated = sha256Hex('a secret that replaced one that leaked')
    at.log.apply([{ type: 'api_key.rotated', data: { id, digest: rotated } }])
    await at.seed({}, { admin: ADMIN })
    expect(rowsOf(at, 'keys').map(({ digest }) => digest)).not.toContain(sha256Hex(ADMIN))
    at.log.apply([{ type: 'api_key.changed', data: { id, scopes: ['keys:admin'], managed_by: 'api' } }])
    await at.seed({}, { admin: ADMIN })
    at.log.apply([{ type: 'api_key.revoked', data: { id } }])
    await at.seed({}, { admin: ADMIN })
    expect(at.log.state.table('keys').get(id)).toMatchObject({ status: 'revoked', digest: rotated })
    expect(rowsOf(at, 'keys').map(({ digest }) => digest)).not.toContain(sha256Hex(ADMIN))
  })

  test('a value that changes after a rotation by the API is a rotation too', async () => {
    const at = install()
    await at.seed({}, { admin: ADMIN })
    const { id } = rowsOf(at, 'keys')[0]!
    at.log.apply([{ type: 'api_key.rotated', data: { id, digest: sha256Hex('another') } }])
    await at.seed({}, { admin: `${ADMIN}-next` })
    expect(at.log.state.table('keys').get(id)?.digest).toBe(sha256Hex(`${ADMIN}-next`))
  })

  test('a revoked one stays revoked with its value, and another value is another key', async () => {
    const at = install()
    await at.seed({}, { admin: ADMIN })
    const { id } = rowsOf(at, 'keys')[0]!
    at.log.apply([{ type: 'api_key.revoked', data: { id } }])
    await at.seed({}, { admin: ADMIN })
    expect(at.log.state.table('keys').get(id)?.status).toBe('revoked')
    await at.seed({}, { admin: `${ADMIN}-next` })
    const [active] = rowsOf(at, 'keys').filter(({ status, scopes }) => status === 'active' && scopes.includes('*'))
    expect(active).toMatchObject({ digest: sha256Hex(`${ADMIN}-next`) })
  })

  test.each([['short'], ['a key with spaces in the middle'], ['a-key,with-a-comma-inside'], ['x'.repeat(513)]])(
    '%p is refused by name, without a part of it',
    async (admin) => {
      const at = install()
      const refused = await at.seed({}, { admin }).catch((error: unknown) => error as Error)
      expect(refused).toBeInstanceOf(BootstrapRefused)
      expect((refused as Error).message).toStartWith('GATEWAY_BOOTSTRAP_ADMIN_KEY')
      expect((refused as Error).message).not.toContain(admin)
      expect(rowsOf(at, 'keys')).toEqual([])
    },
  )
})

describe('providers from the usual variables', () => {
  test('come with the models that they list', async () => {
    const at = install()
    at.env = { OPENAI_API_KEY: 'sk-1' }
    at.listed = [{ name: 'gpt-x', contextWindow: 9, maxOutputTokens: null, capabilities: ['chat', 'vision'] }]
    const report = await at.seed()
    expect(report.notes).toEqual([])
    expect(rowsOf(at, 'providers')).toMatchObject([{ name: 'openai', api_key_env: 'OPENAI_API_KEY' }])
    expect(rowsOf(at, 'models')).toMatchObject([{ name: 'gpt-x', capabilities: ['chat', 'vision'] }])
    expect(JSON.stringify(at.log.events)).not.toContain('sk-1')
  })

  test('come without the models whose names are taken, and say so', async () => {
    const at = install()
    await at.seed({ endpoints: [{ slug: 'chat', aliases: ['gpt-x'] }] })
    at.env = { OPENAI_API_KEY: 'sk-1' }
    at.listed = ['gpt-x', 'gpt-y'].map((name) => ({
      name,
      contextWindow: 9,
      maxOutputTokens: null,
      capabilities: null,
    }))
    const { notes } = await at.seed({ endpoints: [{ slug: 'chat', aliases: ['gpt-x'] }] })
    expect(notes).toEqual(['the model "gpt-x" of "openai": "gpt-x" is an alias of the endpoint scope "chat"'])
    expect(rowsOf(at, 'models').map(({ name }) => name)).toEqual(['sandbox-echo', 'gpt-y'])
  })

  test('come with well-known models when they cannot be asked, and say so', async () => {
    const at = install()
    at.env = { OPENAI_API_KEY: 'sk-1' }
    at.listed = new GatewayError('authentication_error', 'the key is not valid')
    const report = await at.seed()
    expect(report.notes).toEqual(['the provider "openai" did not list its models: the key is not valid'])
    expect(rowsOf(at, 'models').length).toBeGreaterThan(2)
  })

  test('have the address of the variable beside it, where each account has its own', async () => {
    const at = install()
    at.env = { AZURE_OPENAI_API_KEY: 'sk-1', AZURE_OPENAI_ENDPOINT: 'https://res.openai.azure.com' }
    const report = await at.seed()
    expect(rowsOf(at, 'providers')).toMatchObject([{ kind: 'azure_openai', base_url: 'https://res.openai.azure.com' }])
    expect(report.notes).toEqual(['the provider "azure_openai" cannot list what it serves: add its models'])

    const bad = install()
    bad.env = { AZURE_OPENAI_API_KEY: 'sk-1', AZURE_OPENAI_ENDPOINT: 'res.openai.azure.com' }
    expect((await bad.seed()).notes).toEqual([
      'the provider of AZURE_OPENAI_API_KEY: AZURE_OPENAI_ENDPOINT is no address; it must begin with https:// or http://',
    ])
    expect(rowsOf(bad, 'providers').map(({ kind }) => kind)).toEqual(['sandbox'])
  })

  test('do not come twice when the settings use the variable already', async () => {
    const at = install()
    at.env = { OPENAI_API_KEY: 'sk-1' }
    await at.seed({ providers: [{ name: 'mine', kind: 'openai', api_key_env: 'OPENAI_API_KEY' }] })
    expect(rowsOf(at, 'providers').map(({ name }) => name)).toEqual(['mine'])
  })
})
