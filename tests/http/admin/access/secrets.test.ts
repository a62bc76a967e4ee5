// Foreign texts: a secret that no header can carry, names of a provider's listing that no client can write.
import { expect, test } from 'bun:test'
import { startGateway } from '../world/gateway.ts'

const withProvider = async () => {
  const gateway = startGateway([])
  const { body } = await gateway.call('POST', '/providers', { body: { name: 'alpha', kind: 'openai' } })
  return { gateway, id: body.id as string }
}

test('a secret that could never be sent is 400 and named, and what was there stays', async () => {
  const { gateway, id } = await withProvider()
  const put = (secret: string) => gateway.call('PUT', `/providers/${id}/credential`, { body: { secret } })
  expect((await put('sk one two')).status).toBe(200)
  const events = gateway.events.length
  for (const secret of [
    'sk-a\nb',
    'sk-a\r',
    'sk-\u0007',
    'sk-\tb',
    'sk-clé',
    'sk-\u007f',
    '   ',
    '密钥',
    `${' '.repeat(16_000)}é`,
  ]) {
    const { status, body } = await put(secret)
    expect([secret, status, body.error]).toMatchObject([secret, 400, { param: 'secret' }])
    expect(JSON.stringify(body)).not.toContain('sk-')
  }
  expect(gateway.events).toHaveLength(events)
})

test('names of a listing that no other write would take are skipped', async () => {
  const { gateway, id } = await withProvider()
  const names = ['fine', 'half\ud800', 'bell\u0085', 'two\u2028lines', 'del\u007f']
  gateway.listed = names.map((name) => ({ name, contextWindow: null, maxOutputTokens: null, capabilities: null }))
  const { body } = await gateway.call('POST', `/providers/${id}/sync-models`)
  expect(body).toMatchObject({ created: 1, skipped: 4, total: 5 })
  expect([...gateway.state.table('models').rows()].map(([, { name }]) => name)).toEqual(['fine'])
})
