// A tenant's words for its endpoint scopes: they block no other tenant, and no other tenant sees them.
import { expect, test } from 'bun:test'
import { ModelSyncView } from '../../../../src/http/admin/answers/work.ts'
import { type Gateway, startGateway } from '../world/gateway.ts'
import { flawsOf } from '../world/read-world.ts'

const LISTED = { contextWindow: null, maxOutputTokens: null, capabilities: null }

const withScopes = async (): Promise<{ gateway: Gateway; provider: string; owner: string; stranger: string }> => {
  const gateway = startGateway()
  const { body } = await gateway.call('POST', '/providers', { body: { name: 'oa', kind: 'openai' } })
  const owner = gateway.keyWith(['policies:admin'], 'ten_other')
  const stranger = gateway.keyWith(['providers:admin'], 'ten_default')
  await gateway.call('PUT', '/endpoints', {
    body: { slug: 'private-plan', aliases: ['gpt-9', 'claude-9'] },
    key: owner,
  })
  await gateway.call('PUT', '/endpoints', { body: { slug: 'everybody', tenant_id: null, aliases: ['gpt-8'] } })
  return { gateway, provider: body.id as string, owner, stranger }
}

// docs/behaviour.md: "Names and aliases"
test('a model takes a word of a tenant, and who makes it hears nothing of that', async () => {
  const { gateway, provider, stranger } = await withScopes()
  const named = { name: 'GPT-9', provider_id: provider }
  const made = await gateway.call('POST', '/models', { body: named, key: stranger })
  expect(made.status).toBe(201)
  const aliased = await gateway.call('PATCH', `/models/${made.body.id}`, { body: { aliases: ['claude-9'] } })
  expect(aliased.status).toBe(200)
  expect(JSON.stringify([made.body, aliased.body])).not.toContain('private-plan')
  const refused = await gateway.call('POST', '/models', {
    body: { name: 'gpt-8', provider_id: provider },
    key: stranger,
  })
  expect([refused.status, refused.body.error]).toMatchObject([409, { param: 'name' }])
})

test('the tenant reads it at its scope, and may go on changing that', async () => {
  const { gateway, provider, owner } = await withScopes()
  await gateway.call('POST', '/models', { body: { name: 'gpt-9', provider_id: provider } })
  const { body } = await gateway.call('GET', '/endpoints?tenant_id=ten_other', { key: owner })
  const [scope] = body.endpoints as { id: string; warnings: string[] }[]
  expect(scope!.warnings).toEqual([expect.stringContaining('aliases: "gpt-9"')])
  const read = await gateway.call('GET', `/endpoints/${scope!.id}`, { key: owner })
  const written = await gateway.call('PUT', '/endpoints', { body: { ...read.body, name: 'New' }, key: owner })
  expect([written.status, written.body.aliases, written.body.warnings]).toEqual([
    200,
    ['gpt-9', 'claude-9'],
    scope!.warnings,
  ])
})

test('a synchronisation says which names it left out, and why', async () => {
  const { gateway, provider } = await withScopes()
  gateway.listed = ['gpt-9', 'gpt-8', ' bad', 'new'].map((name) => ({ name, ...LISTED }))
  const headers = { 'idempotency-key': 'once' }
  const synced = await gateway.call('POST', `/providers/${provider}/sync-models`, { headers })
  expect(synced.body).toMatchObject({ created: 2, skipped: 2, total: 4 })
  expect(synced.body.left_out).toEqual([
    { name: 'gpt-8', reason: '"gpt-8" is an alias of the endpoint scope "everybody"' },
    { name: null, reason: '1 are no names that a model may have' },
  ])
  expect(flawsOf(ModelSyncView, synced.body)).toEqual([])
  expect((await gateway.call('POST', `/providers/${provider}/sync-models`, { headers })).body).toEqual(synced.body)
})

test('of names beyond what is told by name it counts the rest', async () => {
  const { gateway, provider } = await withScopes()
  const words = (from: number) => Array.from({ length: 32 }, (_, at) => `word-${from + at}`)
  await gateway.call('PUT', '/endpoints', { body: { slug: 'a', tenant_id: null, aliases: words(0) } })
  await gateway.call('PUT', '/endpoints', { body: { slug: 'b', tenant_id: null, aliases: words(32) } })
  gateway.listed = [...words(0), ...words(32)].map((name) => ({ name, ...LISTED }))
  const { body } = await gateway.call('POST', `/providers/${provider}/sync-models`)
  const leftOut = body.left_out as { name: string | null; reason: string }[]
  expect([body.created, body.skipped, leftOut.length]).toEqual([0, 64, 33])
  expect(leftOut.at(-1)).toEqual({ name: null, reason: '32 further names are taken likewise' })
})
