// The master key of a real gateway is rotated while the gateway serves. Sealed secrets open before, meanwhile and
// after; the old key opens nothing more.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { besideGateway, runCommand } from '../services/command.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'

const PERSON = { username: 'Ada Lovelace', password: 'correct horse battery' }
let gateway: GatewayProcess
beforeAll(async () => {
  gateway = startGateway({ settings: { worker: { enabled: false } } })
  await gateway.until('serving')
}, 60_000)
afterAll(() => gateway?.remove())

const cli = (...args: string[]) => runCommand(args, besideGateway(gateway.folder))
const admin = (path: string, method: string, body?: unknown) => gateway.request(`/admin/v1${path}`, { method, body })
const login = async () => (await gateway.request('/admin/v1/auth/login', { body: PERSON, key: null })).status
const provider = async (name: string): Promise<void> => {
  const body = { name, kind: 'openai_compatible', base_url: 'http://127.0.0.1:1/v1' }
  const { id } = (await (await admin('/providers', 'POST', body)).json()) as { id: string }
  const answer = await admin(`/providers/${id}/credential`, 'PUT', { secret: `secret of ${name}` })
  expect(answer.status).toBe(200)
}

test('a rotation while it serves; then the new key alone opens everything, and the old one alone is refused by name', async () => {
  const keyFile = join(gateway.folder, 'data', 'master.key')
  const oldFile = join(gateway.folder, 'old.key')
  copyFileSync(keyFile, oldFile)
  expect(
    (await gateway.request('/admin/v1/auth/setup', { body: { ...PERSON, confirm: PERSON.password }, key: null }))
      .status,
  ).toBe(201)
  await provider('before')
  const before = await cli('keys')
  expect(before).toMatchObject({ code: 0, errors: '' })
  const [, oldName] = /^master key (\w+) {2}current {3}wraps 7 keys\n$/.exec(before.out) ?? []
  expect(oldName).toBeDefined()

  const rotated = await cli('keys', 'rotate')
  expect(rotated).toMatchObject({ code: 0, errors: '' })
  expect(rotated.out).toMatch(/current {3}wraps 7 keys\nmaster key \w+ {2}accepted {2}wraps 0 keys/)
  expect(readFileSync(keyFile, 'utf8').trim().split('\n')).toHaveLength(2)
  expect(statSync(keyFile).mode & 0o777).toBe(0o600)
  expect(await login()).toBe(200)
  await provider('meanwhile')
  const again = await cli('keys', 'rotate')
  expect(again.code).toBe(0)
  expect(again.out).toContain('wraps 8 keys')

  expect((await cli('keys', 'retire')).code).toBe(0)
  expect(readFileSync(keyFile, 'utf8').trim().split('\n')).toHaveLength(1)
  await provider('after')
  await gateway.end()
  gateway.start()
  await gateway.until('serving')
  expect(await login()).toBe(200)
  expect(gateway.output()).not.toContain('credential_cannot_be_opened')
  expect((await cli('keys')).out).toContain('current   wraps 9 keys')
  await gateway.end()

  const newFile = readFileSync(keyFile)
  writeFileSync(keyFile, readFileSync(oldFile), { mode: 0o600 })
  const refused = await cli('start')
  expect(refused.code).toBe(1)
  const line = refused.errors.trimEnd().split('\n').at(-1)!
  expect(line).toContain(`this instance has ${oldName}: set security.master_key`)
  expect(line).not.toContain(readFileSync(oldFile, 'utf8').trim())
  writeFileSync(keyFile, newFile, { mode: 0o600 })
  expect((await cli('keys')).code).toBe(0)
}, 120_000)
