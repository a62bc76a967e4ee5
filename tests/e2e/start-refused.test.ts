// A history, a key or a file that was altered: the start stops with one line that names it.
import { afterAll, expect, test } from 'bun:test'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort, startGateway } from '../services/gateway.ts'
import { ask, auditRows, defaultTenant, printed, requestRows, run } from './started.ts'

const scratch = mkdtempSync(join(tmpdir(), 'gatelog-e2e-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

// docs/behaviour.md: "Starting", "Log and events"
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
const startIn = async (data: string, env: Record<string, string> = {}) => {
  const said = await run({ GATEWAY_DATA_DIR: data, GATEWAY_SERVER_PORT: String(freePort()), ...env })
  // On a slow machine Postgres, which starts beside, is ready before the log is read, and reports so.
  const errors = said.errors.split('\n').filter((line) => !line.includes('"event":"postgres_ready"'))
  return { ...said, errors: errors.join('\n') }
}

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
  // Without any witness of its own in the data folder: only the tables remember.
  for (const file of ['chain', 'chain-position', 'control-records', 'control-records.older'])
    rmSync(join(data, file), { force: true })
  const { errors, code } = await startIn(data)
  expect(code).toBe(1)
  const lines = errors.split('\n').filter((line) => line.startsWith('gatelog: '))
  expect(lines).toHaveLength(1)
  expect(lines[0]).toContain('gateway rebuild audit')
  expect(errors).not.toContain('child_ended')
}, 60_000)
