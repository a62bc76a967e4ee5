// Overrides for every tenant about a word that clients send as their model. When the word names a model of the
// registry, the override applies to every tenant; when it names an endpoint scope, each tenant may have an override of
// its own.
import { expect, test } from 'bun:test'
import { startGateway } from '../world/gateway.ts'

const furnished = async () => {
  const gateway = startGateway()
  const key = gateway.keyWith(['providers:admin', 'policies:admin'], 'ten_default')
  const other = gateway.keyWith(['providers:admin', 'policies:admin'], 'ten_other')
  const { body: provider } = await gateway.call('POST', '/providers', { body: { name: 'vendor', kind: 'openai' } })
  const model = { name: 'GPT', aliases: ['Clever'], provider_id: provider.id }
  const { body: made } = await gateway.call('POST', '/models', { body: model })
  return {
    ...{ gateway, key, other, modelId: made.id as string },
    impose: (target: string, more: object = {}, as?: string) =>
      gateway.call('POST', '/overrides', {
        body: { kind: 'block', target: `model:${target}`, tenant_id: null, ...more },
        key: as,
      }),
    scope: (slug: string, alias: string, tenant_id: string | null, as?: string) =>
      gateway.call('PUT', '/endpoints', { body: { slug, tenant_id, aliases: [alias] }, key: as }),
    shown: async (as: string) => {
      const { body } = await gateway.call('GET', '/overrides', { key: as })
      return (body.overrides as { target: string }[]).map(({ target }) => target)
    },
  }
}

test('a key without * imposes them on models of the registry, by name, alias and id', async () => {
  const { key, impose, modelId } = await furnished()
  for (const word of ['gpt', 'CLEVER', modelId]) expect((await impose(word, {}, key)).status).toBe(201)
})

test('and on no other word, whoever has it: neither imposes nor takes back', async () => {
  const { gateway, key, other, impose, scope } = await furnished()
  await scope('mine', 'secret', 'ten_default', key)
  await scope('theirs', 'own', 'ten_other')
  await scope('shared', 'common', null)
  const words = ['Secret', 'own', 'common', 'nobodys']
  const expectRefused = async (word: string, enabled: boolean, kind = 'block') => {
    const value = kind === 'force' && enabled ? { value: { model: 'gpt' } } : {}
    const { status, body } = await impose(word, { kind, enabled, ...value }, key)
    const message =
      `no model has the name "${word.toLowerCase()}": an override for ` +
      'everybody about it needs a key with the scope "*"'
    expect([status, body.error]).toMatchObject([403, enabled ? { param: 'tenant_id', message } : { param: 'target' }])
  }
  for (const word of words) await expectRefused(word, true)
  await expectRefused('secret', true, 'force')
  expect(gateway.state.table('overrides').size).toBe(0)
  for (const word of words) expect((await impose(word)).status).toBe(201)
  for (const word of words) await expectRefused(word, false)
  for (const word of words)
    expect((await impose(word, { tenant_id: undefined }, other)).body.tenant_id).toBe('ten_other' as never)
})

test('what its tenant imposed on a model that is gone it takes back, and what another did not', async () => {
  const { gateway, key, impose, modelId } = await furnished()
  await impose('gpt', {}, key)
  await impose('clever')
  expect((await gateway.call('DELETE', `/models/${modelId}`)).status).toBe(200)
  expect((await impose('gpt', {}, key)).status).toBe(403)
  expect((await impose('gpt', { enabled: false }, key)).status).toBe(201)
  expect((await impose('clever', { enabled: false }, key)).status).toBe(403)
})

test('a key without * is shown those about models and about aliases that it has itself: what other tenants have changes nothing', async () => {
  const { other: key, impose, scope, shown } = await furnished()
  for (const word of ['gpt', 'secret', 'common']) await impose(word)
  await scope('shared', 'common', null)
  expect(await shown(key)).toEqual(['model:common', 'model:gpt'])
  await scope('theirs', 'secret', 'ten_default')
  expect(await shown(key)).toEqual(['model:common', 'model:gpt'])
  await scope('mine', 'Secret', 'ten_other', key)
  expect(await shown(key)).toEqual(['model:common', 'model:secret', 'model:gpt'])
})
