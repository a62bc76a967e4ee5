// A key that may write providers, and a server of its own: what it does so that a secret, stored or of the environment,
// comes to that server.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { defaultTenant } from '../e2e/started.ts'
import { ADMIN_KEY, type GatewayProcess, INFERENCE_KEY, startGateway } from '../services/gateway.ts'

const STORED = 'sk-stored-secret-0123456789'
const FROM_ENV = 'sk-env-secret-0123456789'

/** An upstream that keeps what it is sent. */
const upstream = () => {
  let received = ''
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      received += `${request.url} ${JSON.stringify([...request.headers])} ${await request.text()}\n`
      if (new URL(request.url).pathname.endsWith('/models'))
        return Response.json({ object: 'list', data: [{ id: 'm', object: 'model' }] })
      const message = { role: 'assistant', content: 'hi' }
      const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
      const about = { id: 'c', object: 'chat.completion', created: 1, model: 'm' }
      return Response.json({ ...about, choices: [{ index: 0, message, finish_reason: 'stop' }], usage })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    port: server.port,
    taken: () => received,
    forget() {
      received = ''
    },
    stop: () => server.stop(true),
  }
}

const [good, thief] = [upstream(), upstream()]
let gateway: GatewayProcess
let key: string

const listed = (base_url: string, name = 'filed') => [
  { name, kind: 'openai_compatible', base_url, api_key_env: 'PROVIDER_GOOD', models: [{ name: `${name}-m` }] },
]
beforeAll(async () => {
  gateway = startGateway({
    settings: { worker: { enabled: false }, bootstrap: { providers: listed(good.url) } },
    env: { PROVIDER_GOOD: FROM_ENV, OPENAI_API_KEY: FROM_ENV },
  })
  await gateway.until('serving', 60_000)
  const body = { tenant_id: await defaultTenant(gateway), name: 'staff', scopes: ['providers:admin'] }
  key = ((await (await gateway.request('/admin/v1/keys', { body })).json()) as { plaintext: string }).plaintext
}, 90_000)
afterAll(async () => {
  await gateway.remove()
  await good.stop()
  await thief.stop()
})

interface Sent {
  readonly as?: string
  readonly headers?: Record<string, string>
}
const send = async (method: string, path: string, body?: unknown, { as = key, headers = {} }: Sent = {}) => {
  const answer = await gateway.request(`/admin/v1${path}`, { method, body, key: as, headers })
  return {
    status: answer.status,
    revision: answer.headers.get('x-gateway-revision'),
    body: (await answer.json()) as never,
  }
}
const all: Sent = { as: ADMIN_KEY }

/** A provider at the good address with a secret there. */
const made = async (name: string, more: object = {}): Promise<string> => {
  const fields = { name, kind: 'openai_compatible', base_url: good.url, ...more }
  const { status, body } = await send('POST', '/providers', fields, all)
  expect([name, status]).toEqual([name, 201])
  return (body as { id: string }).id
}
const sealed = async (name: string): Promise<string> => {
  const id = await made(name)
  expect((await send('PUT', `/providers/${id}/credential`, { secret: STORED })).status).toBe(200)
  await send('POST', '/models', { name: `${name}-m`, upstream_model: 'm', provider_id: id })
  return id
}

/** Everything by which the gateway calls a provider. */
const callAll = async (id: string, name: string): Promise<void> => {
  for (const path of ['test', 'sync-models', 'probe', 'detect-capabilities'])
    await (await gateway.request(`/admin/v1/providers/${id}/${path}`, { method: 'POST', key })).text()
  const chat = { model: `${name}-m`, messages: [{ role: 'user', content: 'hi' }] }
  await (await gateway.request('/v1/chat/completions', { body: chat, key: INFERENCE_KEY })).text()
}
const expectKept = async (id: string, name: string): Promise<void> => {
  await callAll(id, name)
  expect([name, thief.taken().includes(STORED), thief.taken().includes(FROM_ENV)]).toEqual([name, false, false])
}
const expectUsed = async (id: string, name: string, secret: string): Promise<void> => {
  good.forget()
  await callAll(id, name)
  expect([name, good.taken().includes(secret)]).toEqual([name, true])
}
const whole = async (id: string): Promise<Record<string, unknown>> => (await send('GET', `/providers/${id}`)).body

test('S40: a stored secret stays at its origin: PATCH, PUT, another port, scheme or kind', async () => {
  const id = await sealed('stored')
  await expectUsed(id, 'stored', STORED)
  expect((await send('PATCH', `/providers/${id}`, { base_url: thief.url })).status).toBe(200)
  expect(await whole(id)).toMatchObject({
    has_credential: true,
    secret_withheld: expect.stringContaining(good.url.slice(0, -3)),
  })
  await expectKept(id, 'stored')
  expect((await send('PUT', `/providers/${id}`, { ...(await whole(id)), base_url: thief.url, weight: 2 })).status).toBe(
    200,
  )
  await expectKept(id, 'stored')
  expect(thief.taken()).not.toBe('')
  // Back at its origin, on another path, it is in use again.
  await send('PATCH', `/providers/${id}`, { base_url: good.url.replace('/v1', '/other/v1') })
  await expectUsed(id, 'stored', STORED)
  for (const change of [
    { kind: 'vllm' },
    { base_url: good.url.replace('http:', 'https:') },
    { base_url: good.url.replace('127.0.0.1', 'localhost') },
  ]) {
    expect((await send('PATCH', `/providers/${id}`, change)).status).toBe(200)
    expect((await whole(id)).secret_withheld).toBeString()
    good.forget()
    await callAll(id, 'stored')
    expect(good.taken()).not.toContain(STORED)
  }
})

test('S40: a secret that is given again goes to the new address, by the writer who has it', async () => {
  const id = await sealed('again')
  await send('PATCH', `/providers/${id}`, { base_url: thief.url })
  await send('PUT', `/providers/${id}/credential`, { secret: 'sk-of-the-thief-itself' })
  await callAll(id, 'again')
  expect(thief.taken()).toContain('sk-of-the-thief-itself')
  expect(thief.taken()).not.toContain(STORED)
})

test('S40: it goes along by X-Gateway-Keep-Credential with * alone, and the audit says so', async () => {
  const id = await sealed('kept')
  const headers = { 'x-gateway-keep-credential': 'true' }
  expect((await send('PATCH', `/providers/${id}`, { base_url: thief.url }, { headers })).status).toBe(403)
  expect(
    (await send('PATCH', `/providers/${id}`, {}, { headers: { 'x-gateway-keep-credential': 'yes' } })).status,
  ).toBe(400)
  expect((await whole(id)).base_url).toBe(good.url)
  const moved = await send('PATCH', `/providers/${id}`, { base_url: thief.url }, { headers, ...all })
  expect(moved.status).toBe(200)
  const { body } = await send('GET', `/log/${moved.revision}`, undefined, all)
  expect(body as object).toMatchObject({ events: [{ type: 'provider.changed', data: { keeps_credential: true } }] })
  thief.forget()
  await callAll(id, 'kept')
  expect(thief.taken()).toContain(STORED)
  // Taken back, the secret is where it was.
  expect((await send('POST', `/log/${moved.revision}/revert`, undefined, all)).status).toBe(200)
  await expectUsed(id, 'kept', STORED)
  thief.forget()
})

test('S40: a revert brings no secret to an address that it was not given for', async () => {
  const id = await made('turned', { base_url: thief.url })
  const back = await send('PATCH', `/providers/${id}`, { base_url: good.url }, all)
  await send('PUT', `/providers/${id}/credential`, { secret: STORED }, all)
  expect((await send('POST', `/log/${back.revision}/revert`, undefined, all)).status).toBe(409)
  const away = await send('PATCH', `/providers/${id}`, { base_url: thief.url }, all)
  const gone = await send('DELETE', `/providers/${id}`, undefined, all)
  await send('POST', `/log/${gone.revision}/revert`, undefined, all)
  expect(away.status).toBe(200)
  await expectKept(id, 'turned')
})

test('S40: a variable of the environment stays at the addresses where it is in use, or of its kind', async () => {
  const env = await made('env', { api_key_env: 'PROVIDER_GOOD' })
  await send('POST', '/models', { name: 'env-m', upstream_model: 'm', provider_id: env })
  await expectUsed(env, 'env', FROM_ENV)
  thief.forget()
  for (const change of [
    ['PATCH', { base_url: thief.url }],
    ['PATCH', { api_key_env: 'PROVIDER_GOOD' }],
    ['PATCH', { base_url: thief.url, api_key_env: 'OPENAI_API_KEY' }],
    ['PATCH', { kind: 'openai' }],
    ['PUT', { kind: 'openai_compatible', base_url: thief.url, api_key_env: 'PROVIDER_GOOD' }],
  ] as const) {
    expect((await send(change[0], `/providers/${env}`, change[1])).status).toBe(200)
    await expectKept(env, 'env')
  }
  for (const [name, api_key_env, kind] of [
    ['new-env', 'PROVIDER_GOOD', 'openai_compatible'],
    ['new-usual', 'OPENAI_API_KEY', 'openai'],
  ] as const) {
    const { body } = await send('POST', '/providers', { name, kind, base_url: thief.url, api_key_env })
    await send('POST', '/models', { name: `${name}-m`, upstream_model: 'm', provider_id: (body as { id: string }).id })
    await expectKept((body as { id: string }).id, name)
  }
  // Where it is in use already, anybody may name it; back at its address too.
  await send('PATCH', `/providers/${env}`, {
    base_url: good.url,
    api_key_env: 'PROVIDER_GOOD',
    kind: 'openai_compatible',
  })
  expect((await whole(env)).secret_withheld).toBeNull()
  await expectUsed(env, 'env', FROM_ENV)
  await send('DELETE', `/providers/${env}`)
  const again = await send('POST', '/providers', {
    name: 'env2',
    kind: 'openai_compatible',
    base_url: thief.url,
    api_key_env: 'PROVIDER_GOOD',
  })
  await expectKept((again.body as { id: string }).id, 'env2')
})

test('S40: a further address in the options is one too', async () => {
  const id = await made('rock', { kind: 'bedrock', options: { region: 'us-east-1' } })
  await send('PUT', `/providers/${id}/credential`, { secret: STORED })
  const options = { region: 'us-east-1', control_url: thief.url }
  expect((await send('PATCH', `/providers/${id}`, { options })).status).toBe(200)
  await expectKept(id, 'rock')
  expect((await whole(id)).secret_withheld).toBeString()
})

test('S40: a start sends the secret of an entry nowhere but to the address of the file', async () => {
  const rows = (await send('GET', '/providers')).body as { providers: { id: string; name: string }[] }
  const { id } = rows.providers.find(({ name }) => name === 'filed')!
  await expectUsed(id, 'filed', FROM_ENV)
  await send('PATCH', `/providers/${id}`, { base_url: thief.url })
  thief.forget()
  await gateway.end()
  gateway.start()
  await gateway.until('serving', 60_000)
  await expectKept(id, 'filed')
  expect(thief.taken()).not.toBe('')
  expect(gateway.output()).toContain('PROVIDER_GOOD is out of use')
}, 120_000)

test('S40: an entry that the file moves to another address takes its variable along', async () => {
  const folder = join(gateway.folder, 'gateway.yaml')
  const settings = JSON.parse(readFileSync(folder, 'utf8')) as object
  const other = upstream()
  const restart = async (providers: object[]) => {
    writeFileSync(folder, JSON.stringify({ ...settings, bootstrap: { providers } }))
    await gateway.end()
    gateway.start()
    await gateway.until('serving', 60_000)
  }
  await restart(listed(good.url, 'moved'))
  await restart(listed(other.url, 'moved'))
  const rows = (await send('GET', '/providers')).body as { providers: { id: string; name: string }[] }
  await callAll(rows.providers.find(({ name }) => name === 'moved')!.id, 'moved')
  expect(other.taken()).toContain(FROM_ENV)
  await other.stop()
}, 120_000)
