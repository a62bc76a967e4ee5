// The product as a user meets it: a real process in an empty folder, a request, a change, `kill -9`, and everything is
// still there.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { withoutGatewayVariables } from '../environment.ts'
import { ACCESS, nameOf } from '../http/admin/world/access.ts'
import { eventually } from '../services/eventually.ts'
import { freePort, type GatewayProcess, INFERENCE_KEY, startGateway } from '../services/gateway.ts'
import { EACH_LISTENER } from '../services/serve-app.ts'
import { ask, childrenOf, defaultTenant, isAlive, printed, requestRows, run } from './started.ts'

const scratch = mkdtempSync(join(tmpdir(), 'gatelog-e2e-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

// docs/behaviour.md: "Starting"
describe('one machine, no settings', () => {
  let gateway: GatewayProcess
  beforeAll(async () => {
    gateway = startGateway()
    await gateway.until('ready')
  }, 60_000)
  afterAll(() => gateway?.remove())

  test('it answers, and everything is there after kill -9', async () => {
    const first = await ask(gateway, 'before the crash')
    expect(first.status).toBe(200)
    const before = (await first.json()) as {
      choices: { message: { content: string } }[]
      gateway: { request_id: string }
    }
    expect(before.choices[0]?.message.content).toBe('before the crash')
    const made = await gateway.request('/admin/v1/tenants', { body: { slug: 'acme', name: 'Acme' } })
    expect(made.status).toBe(201)
    const revision = made.headers.get('x-gateway-revision')!

    await gateway.end('SIGKILL')
    gateway.start()
    await gateway.until('ready')

    const tenants = await gateway.request('/admin/v1/tenants', { headers: { 'X-Gateway-Min-Revision': revision } })
    const list = (await tenants.json()) as { tenants: { slug: string; revision: string }[] }
    expect(list.tenants.find(({ slug }) => slug === 'acme')?.revision).toBe(revision)
    expect((await ask(gateway, 'after the crash')).status).toBe(200)
    const rows = await requestRows(gateway, 2)
    expect(rows.map(({ outcome }) => outcome)).toEqual(['success', 'success'])
    expect(rows.map(({ id }) => id)).toContain(before.gateway.request_id)
  }, 60_000)

  test('it serves the administration that is written down, for the scopes that are', async () => {
    const answer = await gateway.request('/openapi.json', { key: null })
    const { paths } = (await answer.json()) as { paths: Record<string, Record<string, { 'x-scopes'?: string[] }>> }
    const served = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).flatMap(([method, { 'x-scopes': scopes }]) =>
        scopes === undefined || !path.startsWith('/admin/v1')
          ? []
          : [`${method.toUpperCase()} ${path.slice('/admin/v1'.length)}: ${scopes.toSorted().join(' ')}`],
      ),
    )
    const written = ACCESS.map((each) => `${nameOf(each).replace(':id', '{id}')}: ${each.scopes.toSorted().join(' ')}`)
    expect(served.toSorted()).toEqual(written.toSorted())
  })

  test('a second gateway on its port is refused in one line and touches nothing', async () => {
    const data = join(scratch, 'second')
    const port = new URL(gateway.url).port
    const { code, errors } = await run({ GATEWAY_SERVER_PORT: port, GATEWAY_DATA_DIR: data })
    expect(code).toBe(1)
    expect(errors).toBe(
      `gatelog: port ${port} on 127.0.0.1 is in use: stop the other program or ` +
        `set another server.port (GATEWAY_SERVER_PORT)\n`,
    )
    expect(existsSync(data)).toBe(false)
  })

  test('a second gateway in its data folder is refused in one line', async () => {
    const data = join(gateway.folder, 'data')
    const { code, errors } = await run({ GATEWAY_SERVER_PORT: String(freePort()), GATEWAY_DATA_DIR: data })
    expect([code, errors.split('\n').length]).toEqual([1, 2])
    expect(errors).toStartWith(`gatelog: another gateway runs in ${data}: `)
    expect((await ask(gateway, 'still there')).status).toBe(200)
  })

  test('it stops when it is asked to, and leaves no process behind', async () => {
    const children = childrenOf(gateway.pid)
    expect(children.length).toBeGreaterThan(0)
    await gateway.end('SIGTERM')
    expect(children.filter(isAlive)).toEqual([])
    gateway.start()
    await gateway.until('ready')
  }, 60_000)
})

test('with a header of its own the curl line works too, with the key from the environment', async () => {
  const gateway = startGateway({ settings: { auth: { header_name: 'X-Api-Key' }, worker: { enabled: false } } })
  try {
    await printed(gateway, '/v1/chat/completions')
    const line = gateway
      .output()
      .split('\n')
      .find((each) => each.startsWith('curl '))!
    expect(line).toContain('-H "X-Api-Key: $GATEWAY_BOOTSTRAP_INFERENCE_KEY"')
    const shell = Bun.spawn(['sh', '-c', line], {
      stdout: 'pipe',
      stderr: 'ignore',
      env: { ...withoutGatewayVariables(), GATEWAY_BOOTSTRAP_INFERENCE_KEY: INFERENCE_KEY },
    })
    expect(JSON.parse(await new Response(shell.stdout).text())).toMatchObject({
      choices: [{ message: { content: 'Hello' } }],
    })
  } finally {
    await gateway.remove()
  }
}, 60_000)

test('the curl line of the first start works when pasted, and keys are shown once', async () => {
  const folder = mkdtempSync(join(scratch, 'first-'))
  const env = { GATEWAY_BOOTSTRAP_ADMIN_KEY: '', GATEWAY_BOOTSTRAP_INFERENCE_KEY: '' }
  const gateway = startGateway({ folder, env, settings: { worker: { enabled: false } } })
  try {
    await printed(gateway, '/v1/chat/completions')
    const line = gateway
      .output()
      .split('\n')
      .find((each) => each.startsWith('curl '))!
    const shell = Bun.spawn(['sh', '-c', line], { stdout: 'pipe', stderr: 'ignore' })
    expect(JSON.parse(await new Response(shell.stdout).text())).toMatchObject({
      choices: [{ message: { content: 'Hello' } }],
    })
    const keys = [...gateway.output().matchAll(/^ {2}bootstrap-\w+ +(gw_live_\w{43})$/gm)].map(([, key]) => key!)
    expect(keys.length).toBe(2)
    await gateway.end()
    const before = gateway.output().length
    gateway.start()
    await printed(gateway, 'GATEWAY_BOOTSTRAP_ADMIN_KEY', before)
    for (const key of keys) expect(gateway.output().slice(before)).not.toContain(key)
    const answer = await gateway.request('/v1/models', { key: keys[1]! })
    expect(answer.status).toBe(200)
  } finally {
    await gateway.remove()
  }
}, 60_000)

test('a start with texts of the environment that were rotated away says so, and prints no command that answers 401', async () => {
  const gateway = startGateway({ settings: { worker: { enabled: false } } })
  try {
    await printed(gateway, 'Try it:')
    const listed = await gateway.request(`/admin/v1/keys?tenant_id=${await defaultTenant(gateway)}`)
    const { keys } = (await listed.json()) as { keys: { id: string; name: string }[] }
    const rotate = async (name: string) => {
      const { id } = keys.find((key) => key.name === name)!
      const answer = await gateway.request(`/admin/v1/keys/${id}/rotate`, { method: 'POST' })
      expect(answer.status).toBe(201)
    }
    await rotate('bootstrap-inference')
    await rotate('bootstrap-admin')
    await gateway.end()
    const before = gateway.output().length
    gateway.start()
    await printed(gateway, 'Start once with GATEWAY_BOOTSTRAP_ADMIN_KEY set to a new one', before)
    for (const variable of ['GATEWAY_BOOTSTRAP_ADMIN_KEY', 'GATEWAY_BOOTSTRAP_INFERENCE_KEY'])
      await printed(gateway, `the text of ${variable} is answered with 401: the API rotated it away`, before)
    expect(gateway.output().slice(before)).not.toContain('curl ')
    expect((await gateway.request('/v1/models')).status).toBe(401)
  } finally {
    await gateway.remove()
  }
}, 60_000)

test('a stop ends what is in flight with the truth, in every process, and writes it down', async () => {
  const settings = { server: { processes: 2, drain: '300ms' } }
  const gateway = startGateway({ settings })
  try {
    await gateway.until('ready')
    const asked = (stream: boolean) =>
      gateway.request('/v1/chat/completions', {
        body: {
          model: stream ? 'sandbox-slow-50' : 'sandbox-hang',
          stream,
          messages: [{ role: 'user', content: 'word '.repeat(200) }],
        },
        headers: { Connection: 'close' },
      })
    const whole = asked(false)
    const streams = await Promise.all(Array.from({ length: 12 }, () => asked(true)))
    const texts = streams.map((answer) => answer.text())
    const [endings, json, code] = await Promise.all([Promise.all(texts), whole, gateway.end('SIGTERM')])
    expect(code).toBe(0)
    for (const text of endings) expect(text).toEndWith('data: [DONE]\n\n')
    for (const text of endings) expect(text).toContain('"code":"provider_unavailable"')
    expect(await json.json()).toMatchObject({ error: { code: 'provider_unavailable' } })
    gateway.start()
    await gateway.until('ready')
    const rows = await requestRows(gateway, 13)
    const ends = rows.map((row) => `${row.outcome} ${row.error_code}`).sort()
    expect(ends).toEqual(['error provider_unavailable', ...streams.map(() => 'interrupted provider_unavailable')])
  } finally {
    await gateway.remove()
  }
}, 60_000)

/** A connection on which one request was answered, and no other comes. */
const connected = async (url: string): Promise<{ readonly closed: Promise<void> }> => {
  const answered = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<void>()
  const socket = { data: () => answered.resolve(), close: () => closed.resolve() }
  const connection = await Bun.connect({ hostname: '127.0.0.1', port: Number(new URL(url).port), socket })
  connection.write('GET /health HTTP/1.1\r\nHost: gw\r\n\r\n')
  await answered.promise
  return { closed: closed.promise }
}

test.each(EACH_LISTENER)(
  'behind a load balancer: while it stops, what is in flight ends well and the rest is sent elsewhere (%p)',
  async (listener) => {
    const asked = Promise.withResolvers<void>()
    const released = Promise.withResolvers<void>()
    const upstream = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      idleTimeout: 0,
      async fetch(request) {
        // A probe calls the provider too, and is no request in flight.
        if (!request.url.endsWith('/chat/completions')) return Response.json({ data: [] })
        asked.resolve()
        await released.promise
        return Response.json({ choices: [{ message: { role: 'assistant', content: 'late' }, finish_reason: 'stop' }] })
      },
    })
    const gateway = startGateway({ settings: { server: { drain: '5m', listener }, worker: { enabled: false } } })
    try {
      await gateway.until('serving')
      const provider = { name: 'slow', kind: 'openai_compatible', base_url: `${upstream.url}v1` }
      const made = await gateway.request('/admin/v1/providers', { body: provider })
      const { id } = (await made.json()) as { id: string }
      await gateway.request('/admin/v1/models', { body: { name: 'slow', provider_id: id } })
      const body = { model: 'slow', messages: [{ role: 'user', content: 'Hello' }] }
      const inFlight = gateway.request('/v1/chat/completions', { body })
      await asked.promise
      const idle = await connected(gateway.url)
      const ended = gateway.end('SIGTERM')
      await eventually('it says that it leaves', async () => {
        const { checks } = (await (await gateway.request('/ready', { key: null })).json()) as {
          checks: Record<string, string>
        }
        return checks.process === 'degraded: stopping'
      })
      const refused = await Promise.all([
        gateway.request('/admin/v1/tenants', { body: { slug: 'late', name: 'Late' } }),
        gateway.request('/admin/v1/auth/setup', { key: null, body: {} }),
        gateway.request('/v1/chat/completions', { body }),
      ])
      const read = await gateway.request('/admin/v1/tenants')
      for (const answer of refused) {
        expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
        expect(await answer.json()).toMatchObject({ error: { code: 'provider_unavailable', type: 'upstream_error' } })
      }
      expect(read.status).toBe(200)
      for (const answer of [...refused, read]) expect(answer.headers.get('connection')).toBe('close')
      released.resolve()
      const answer = await inFlight
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('late')])
      expect(await ended).toBe(0)
      await idle.closed
    } finally {
      released.resolve()
      await gateway.remove()
      await upstream.stop(true)
    }
  },
  120_000,
)

test.each(EACH_LISTENER)(
  'several processes share one port, one configuration and one history (%p)',
  async (listener) => {
    const gateway = startGateway({ settings: { server: { processes: 2, listener }, worker: { enabled: false } } })
    try {
      await gateway.until('serving')
      await printed(gateway, 'Gatelog is listening')
      const made = await gateway.request('/admin/v1/keys', {
        body: { tenant_id: await defaultTenant(gateway), name: 'shared', scopes: ['inference'] },
      })
      const { plaintext } = (await made.json()) as { plaintext: string }
      const headers = { 'X-Gateway-Min-Revision': made.headers.get('x-gateway-revision')!, Connection: 'close' }
      const answers = await Promise.all(
        Array.from({ length: 40 }, () => gateway.request('/v1/models', { key: plaintext, headers })),
      )
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
      const siblings = childrenOf(gateway.pid)
      await gateway.end('SIGKILL')
      await eventually('the other processes end', () => siblings.filter(isAlive).length === 0)
    } finally {
      await gateway.remove()
    }
  },
  60_000,
)
