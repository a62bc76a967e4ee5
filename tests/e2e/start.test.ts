// The product as its user meets it: a real process in an empty folder, a request, a change, `kill -9`, and everything is still there.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ADMIN_KEY, freePort, type GatewayProcess, INFERENCE_KEY, startGateway } from '../services/gateway.ts'

const ROOT = join(import.meta.dir, '../..')
const scratch = mkdtempSync(join(tmpdir(), 'gatelog-e2e-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const ask = (gateway: GatewayProcess, content: string) =>
  gateway.request('/v1/chat/completions', { body: { model: 'sandbox-echo', messages: [{ role: 'user', content }] } })

interface RequestRow {
  readonly id: string
  readonly outcome: string
  readonly error_code: string | null
}

/** Rows of the request log once there are so many: the worker follows within moments. */
const requestRows = async (gateway: GatewayProcess, count: number): Promise<RequestRow[]> => {
  const deadline = performance.now() + 20_000
  for (;;) {
    const answer = await gateway.request('/admin/v1/requests')
    const body = (await answer.json()) as { requests?: RequestRow[] }
    if ((body.requests?.length ?? 0) >= count) return body.requests!
    if (performance.now() > deadline) throw new Error(`there are not ${count} rows: ${JSON.stringify(body)}`)
    await Bun.sleep(50)
  }
}

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

  test('a second gateway on its port is refused in one line and touches nothing', async () => {
    const data = join(scratch, 'second')
    const port = new URL(gateway.url).port
    const { code, errors } = await run({ GATEWAY_SERVER_PORT: port, GATEWAY_DATA_DIR: data })
    expect(code).toBe(1)
    expect(errors).toBe(
      `gatelog: port ${port} on 127.0.0.1 is in use: stop the other program or set another server.port (GATEWAY_SERVER_PORT)\n`,
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
      env: { ...process.env, GATEWAY_BOOTSTRAP_INFERENCE_KEY: INFERENCE_KEY },
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
    const [endings, json] = await Promise.all([Promise.all(texts), whole, gateway.end('SIGTERM')])
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

test('several processes share one port, one configuration and one history', async () => {
  const gateway = startGateway({ settings: { server: { processes: 2 }, worker: { enabled: false } } })
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
    await until(() => siblings.filter(isAlive).length === 0)
  } finally {
    await gateway.remove()
  }
}, 60_000)

test('a damaged history stops the start in one line', async () => {
  const folder = mkdtempSync(join(scratch, 'damaged-'))
  const gateway = startGateway({ folder, settings: { worker: { enabled: false } } })
  await gateway.until('serving')
  await gateway.end()
  rmSync(join(folder, 'data/master.key'))
  const { code, errors } = await run({
    GATEWAY_DATA_DIR: join(folder, 'data'),
    GATEWAY_SERVER_PORT: String(freePort()),
  })
  expect(code).toBe(1)
  expect(errors).toMatch(/^gatelog: .*master\.key is missing but the log it belongs to is there: [^\n]+\n$/)
}, 60_000)

/** A folder that a gateway has served from, without a worker. */
const used = async (name: string): Promise<string> => {
  const folder = mkdtempSync(join(scratch, `${name}-`))
  const gateway = startGateway({ folder, settings: { worker: { enabled: false } } })
  await gateway.until('serving')
  await printed(gateway, 'Gatelog is listening')
  await gateway.end()
  return join(folder, 'data')
}
const startIn = (data: string, env: Record<string, string> = {}) =>
  run({ GATEWAY_DATA_DIR: data, GATEWAY_SERVER_PORT: String(freePort()), ...env })

const removeHistory = (data: string) => {
  rmSync(join(data, 'control.snapshot'), { force: true })
  for (const end of ['', '-wal', '-shm']) rmSync(join(data, `log/gateway.control.v1.sqlite${end}`), { force: true })
}

test('a history that was cut stops the start in one line: a revoked key stays revoked', async () => {
  const folder = mkdtempSync(join(scratch, 'cut-'))
  const gateway = startGateway({ folder, settings: { worker: { enabled: false } } })
  const data = join(folder, 'data')
  await gateway.until('serving')
  await printed(gateway, 'Gatelog is listening')
  await gateway.end()
  cpSync(join(data, 'log'), join(folder, 'earlier'), { recursive: true })
  gateway.start()
  await gateway.until('serving')
  const answer = await gateway.request(`/admin/v1/keys?tenant_id=${await defaultTenant(gateway)}`)
  const { keys } = (await answer.json()) as { keys: { id: string; scopes: string[] }[] }
  const { id } = keys.find(({ scopes }) => scopes.includes('inference'))!
  expect((await gateway.request(`/admin/v1/keys/${id}`, { method: 'DELETE' })).status).toBe(200)
  await gateway.end()
  rmSync(join(data, 'log'), { recursive: true })
  rmSync(join(data, 'control.snapshot'), { force: true })
  cpSync(join(folder, 'earlier'), join(data, 'log'), { recursive: true })
  const { code, errors } = await startIn(data)
  expect(code).toBe(1)
  expect(errors).toMatch(
    /^gatelog: gateway\.control\.v1 ends at \d+, but data\.dir has seen \d+ records of it: [^\n]+\n$/,
  )
}, 60_000)

test('a history that is gone stops the start in one line, and no key is minted', async () => {
  const data = await used('gone')
  removeHistory(data)
  const { out, errors, code } = await startIn(data)
  expect({ out, code }).toEqual({ out: '', code: 1 })
  expect(errors).toMatch(/^gatelog: gateway\.control\.v1 is empty, but data\.dir belongs to the chain chain_[^\n]+\n$/)
}, 60_000)

test('another master key stops the start in one line', async () => {
  const data = await used('key')
  rmSync(join(data, 'control.snapshot'), { force: true })
  const { errors, code } = await startIn(data, { GATEWAY_SECURITY_MASTER_KEY: Buffer.alloc(32, 7).toString('base64') })
  expect(code).toBe(1)
  expect(errors).toMatch(/^gatelog: [^\n]*master[ _]key[^\n]*\n$/)
}, 60_000)

test.each(['gateway.control.v1', 'gateway.keys.v1'])(
  'a damaged file of %s stops the start in one line',
  async (topic) => {
    const data = await used('page')
    const path = join(data, 'log', `${topic}.sqlite`)
    const bytes = existsSync(path) ? readFileSync(path) : Buffer.alloc(8_192)
    writeFileSync(path, bytes.fill('x', 0, 4_096))
    const { out, errors, code } = await startIn(data)
    expect({ out, code }).toEqual({ out: '', code: 1 })
    expect(errors).toMatch(/^gatelog: [^\n]*v1\.sqlite is damaged [^\n]+\n$/)
    expect(errors).toContain(path)
  },
  60_000,
)

test('read models of another log stop the start in one line', async () => {
  const folder = mkdtempSync(join(scratch, 'models-'))
  const gateway = startGateway({ folder })
  await gateway.until('ready')
  await ask(gateway, 'kept')
  await requestRows(gateway, 1)
  await auditRows(gateway)
  await gateway.end()
  const data = join(folder, 'data')
  removeHistory(data)
  for (const file of ['chain', 'chain-position']) rmSync(join(data, file))
  const { errors, code } = await startIn(data)
  expect(code).toBe(1)
  const lines = errors.split('\n').filter((line) => line.startsWith('gatelog: '))
  expect(lines).toHaveLength(1)
  expect(lines[0]).toContain('gateway rebuild audit')
  expect(errors).not.toContain('child_ended')
}, 60_000)

/** Runs `start` to its end. */
const run = async (env: Record<string, string>) => {
  const cwd = mkdtempSync(join(scratch, 'cwd-'))
  const child = Bun.spawn([process.execPath, join(ROOT, 'src/commands/cli.ts'), 'start'], {
    cwd,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    env: { PATH: process.env.PATH, HOME: process.env.HOME, BUN_CONFIG_MAX_HTTP_REQUESTS: '256', ...env },
  })
  const [out, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { out, errors, code }
}

/** Resolves once the worker has applied something of the control topic. */
const auditRows = async (gateway: GatewayProcess): Promise<void> => {
  const deadline = performance.now() + 20_000
  for (;;) {
    const answer = await gateway.request('/admin/v1/audit')
    const body = await answer.text()
    if (answer.ok && body.includes('aud')) return
    if (performance.now() > deadline) throw new Error(`there is no audit row: ${body}`)
    await Bun.sleep(50)
  }
}

const until = async (condition: () => boolean): Promise<void> => {
  const deadline = performance.now() + 20_000
  while (!condition()) {
    if (performance.now() > deadline) throw new Error('it did not come to pass within 20 s')
    await Bun.sleep(20)
  }
}

const printed = (gateway: GatewayProcess, text: string, from = 0) => until(() => gateway.output().includes(text, from))

const defaultTenant = async (gateway: GatewayProcess): Promise<string> => {
  const answer = await gateway.request('/admin/v1/tenants', { key: ADMIN_KEY })
  const { tenants } = (await answer.json()) as { tenants: { id: string; slug: string }[] }
  return tenants.find(({ slug }) => slug === 'default')!.id
}

const childrenOf = (pid: number): number[] => {
  const { stdout } = Bun.spawnSync(['ps', '-o', 'pid=', '--ppid', String(pid)])
  return stdout.toString().split('\n').filter(Boolean).map(Number)
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false // no such process
  }
}
