// Shared cache rules about endpoint scopes: which keys may write them, and to which keys they are shown.
import { expect, test } from 'bun:test'
import { startGateway } from '../world/gateway.ts'

const furnished = () => {
  const gateway = startGateway()
  const key = gateway.keyWith(['policies:admin'])
  const about = (...slugs: string[]) => ({
    ...{ name: slugs.join(), ttl_seconds: 60, tenant_id: null },
    scopes: slugs.map((slug) => `endpoint:${slug}`),
  })
  const list = async () => {
    const { body } = await gateway.call('GET', '/cache/policies', { key })
    return (body.policies as { name: string; scopes: string[] }[]).map(({ name, scopes }) => [name, ...scopes])
  }
  return {
    ...{ gateway, key, about, list },
    rule: (body: object, as?: string) => gateway.call('PUT', '/cache/policies', { body, key: as }),
    scope: (slug: string, tenant_id: string | null, as?: string) =>
      gateway.call('PUT', '/endpoints', { body: { slug, tenant_id }, key: as }),
  }
}
const NEEDS_ALL = {
  code: 'permission_error',
  message: 'a cache rule for everybody about an endpoint scope needs a key with the scope "*"',
}

test('a key without * writes none, whichever tenant has the slug', async () => {
  const { key, about, rule, scope, gateway } = furnished()
  await scope('theirs', 'ten_other')
  await scope('mine', 'ten_default', key)
  await scope('shared', null, key)
  for (const slug of ['theirs', 'mine', 'shared', 'nobodys']) {
    const { status, body } = await rule(about(slug), key)
    expect([slug, status, body.error]).toMatchObject([slug, 403, { ...NEEDS_ALL, param: 'scopes' }])
  }
  const both = { ...about('shared'), tenant_id: undefined, scopes: ['global', 'endpoint:shared'] }
  expect((await rule(both, key)).status).toBe(403)
  expect((await rule({ ...about('shared'), scopes: [' endpoint:shared '] }, key)).status).toBe(403)
  expect(gateway.state.table('cache_rules').size).toBe(0)
  for (const slug of ['mine', 'shared'])
    expect((await rule({ ...about(slug), tenant_id: undefined }, key)).body.tenant_id as string).toBe('ten_default')
})

test('it neither changes nor deletes one, also when it makes a scope of the slug for itself or for everybody', async () => {
  const { key, about, rule, scope, gateway } = furnished()
  await scope('hid', 'ten_other')
  const { body: made } = await rule(about('hid'))
  const mixed = { ...about('hid'), name: 'mixed', scopes: ['tenant:ten_default', 'endpoint:hid'] }
  const { body: half } = await rule(mixed)
  const expectKept = async (deletion: number) => {
    for (const body of [about('hid'), mixed, { ...about('hid'), scopes: ['global'] }]) {
      const { status, body: answer } = await rule({ ...body, ttl_seconds: 1, enabled: false }, key)
      expect([status, answer.error]).toMatchObject([403, NEEDS_ALL])
    }
    const remove = async (id: unknown) => (await gateway.call('DELETE', `/cache/policies/${id}`, { key })).status
    expect([await remove(made.id), await remove(half.id)]).toEqual([deletion, 403])
    for (const { id } of [made, half])
      expect((await gateway.call('GET', `/cache/policies/${id}`)).body).toMatchObject({
        ttl_seconds: 60,
        enabled: true,
      })
  }
  await expectKept(404)
  for (const tenant_id of ['ten_default', null]) {
    expect((await scope('hid', tenant_id, key)).status).toBe(200)
    await expectKept(403)
  }
  expect((await gateway.call('DELETE', `/cache/policies/${made.id}`)).status).toBe(200)
})

test('it is shown one by what it has itself and what is everybody’s: what other tenants make or delete changes nothing', async () => {
  const { key, about, rule, scope, gateway, list } = furnished()
  const { body: ghost } = await scope('ghost', null)
  await scope('shared', null)
  await rule(about('ghost', 'shared'))
  await rule(about('ghost'))
  const remove = (id: unknown) => gateway.call('DELETE', `/endpoints/${id}`)
  await remove(ghost.id)
  const shown = [['ghost,shared', 'endpoint:shared']]
  expect(await list()).toEqual(shown)
  const { body: theirs } = await scope('ghost', 'ten_other')
  expect(await list()).toEqual(shown)
  await remove(theirs.id)
  expect(await list()).toEqual(shown)
  await scope('ghost', 'ten_default', key)
  expect(await list()).toEqual([
    ['ghost,shared', 'endpoint:ghost', 'endpoint:shared'],
    ['ghost', 'endpoint:ghost'],
  ])
})
