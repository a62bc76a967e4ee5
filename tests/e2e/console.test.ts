// Login to the console on a real gateway: cookies over the wire, lockouts, and what is left on the disk of an erased
// operator.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { OperatorRow } from '../../src/domain/access/operator.ts'
import { embeddedLog } from '../../src/log/embedded/log.ts'
import { openDataKeys } from '../../src/state/data-keys/data-keys.ts'
import { openOperator } from '../../src/state/data-keys/operator-secrets.ts'
import { MASTER_KEY } from '../services/cluster.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'
import { quiet } from '../state/support.ts'

const PERSON = { username: 'Canary Lovelace', password: 'canary of the first password' }
const GUESS = 'canary of a guessed password'
const settings = { worker: { enabled: false }, security: { master_key: MASTER_KEY } }

const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())

describe('the console', () => {
  let gateway: GatewayProcess
  beforeAll(async () => {
    gateway = startGateway({ settings })
    await gateway.until('serving')
  }, 60_000)
  afterAll(() => gateway?.remove())

  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    gateway.request(`/admin/v1${path}`, { method: 'POST', body, key: null, headers })
  const metric = async (event: string): Promise<number> => {
    const text = await (await gateway.request('/metrics', { key: null })).text()
    return Number(new RegExp(`gateway_dashboard_auth_events_total\\{outcome="${event}"\\} (\\d+)`).exec(text)?.[1])
  }

  test('set-up, session, logout; a copy of the log does not open an erased operator; nothing on the disk reveals a password', async () => {
    expect(await metric('setup')).toBe(0)
    const made = await post('/auth/setup', { ...PERSON, confirm: PERSON.password })
    expect(made.status).toBe(201)
    const { operator_id } = (await made.json()) as { operator_id: string }
    const cookie = made.headers.get('set-cookie')!.split(';')[0]!
    const token = cookie.split('=')[1]!
    expect(await metric('setup')).toBe(1)

    const read = await gateway.request('/admin/v1/operators', { key: null, headers: { cookie } })
    expect(await read.json()).toMatchObject({ operators: [{ id: operator_id, username: PERSON.username }] })
    const crossed = await post('/tenants', { slug: 'x', name: 'X' }, { cookie, origin: 'https://evil.example' })
    expect(crossed.status).toBe(403)

    for (let i = 0; i < 5; i++) expect((await post('/auth/login', { ...PERSON, password: GUESS })).status).toBe(401)
    const locked = await post('/auth/login', PERSON)
    expect(locked.status).toBe(429)
    expect(Number(locked.headers.get('retry-after'))).toBeWithin(890, 901)
    expect([await metric('login_failed'), await metric('lockout'), await metric('login_refused')]).toEqual([5, 1, 1])

    const rowOf = async (): Promise<OperatorRow> => {
      const log = embeddedLog({ dataDir: join(gateway.folder, 'data'), nowMs: Date.now })
      for await (const batch of log.read('gateway.control.v1', 0, 0, new AbortController().signal)) {
        for (const { value } of batch) {
          const { events } = JSON.parse(Buffer.from(value!).toString()) as {
            events?: { type: string; data: unknown }[]
          }
          const created = events?.find(({ type }) => type === 'operator.created')
          if (created !== undefined) {
            await log.close()
            return created.data as OperatorRow
          }
        }
      }
      throw new Error('there is no operator in the log')
    }
    const row = await rowOf()
    const opened = async (): Promise<string | undefined> => {
      const log = embeddedLog({ dataDir: join(gateway.folder, 'data'), nowMs: Date.now })
      const masterKeys = () => [new Uint8Array(Buffer.from(MASTER_KEY, 'base64'))]
      const keys = await openDataKeys({
        log,
        masterKeys,
        instance: 'i',
        dataDir: null,
        nowMs: Date.now,
        diagnostics: quiet,
      })
      await keys.ready()
      const secrets = openOperator(keys, row)
      await keys.close()
      await log.close()
      return secrets?.username
    }
    expect(await opened()).toBe(PERSON.username)

    expect((await post('/auth/logout', undefined, { cookie })).status).toBe(204)
    expect((await gateway.request('/admin/v1/auth/me', { key: null, headers: { cookie } })).status).toBe(401)
    expect((await gateway.request(`/admin/v1/operators/${operator_id}`, { method: 'DELETE' })).status).toBe(200)
    expect(await opened()).toBeUndefined()
    const metrics = await (await gateway.request('/metrics', { key: null })).text()
    await gateway.end()

    const canaries = [PERSON.username, PERSON.username.toLowerCase(), PERSON.password, GUESS, token]
    const told = gateway.output() + metrics
    expect(canaries.filter((canary) => told.includes(canary))).toEqual([])
    const files = filesBelow(gateway.folder).filter((path) => !path.includes('postgres'))
    const found = files.filter((path) => canaries.some((canary) => readFileSync(path).includes(canary)))
    expect(found).toEqual([])
    expect(files.length).toBeGreaterThan(3)
    // Not the wrapped data key either: neither a page nor the journal of the topic has it.
    const keyFiles = files.filter((path) => path.includes('gateway.keys.v1'))
    expect(keyFiles.length).toBeGreaterThan(0)
    const wrapped = keyFiles.filter((path) => readFileSync(path).includes(`"subject":"${operator_id}"`))
    expect(wrapped).toEqual([])
  }, 60_000)
})

// docs/behaviour.md: "Authentication"
test('`admin.enabled: false`: every path below /admin/v1 is 404, for every caller', async () => {
  const gateway = startGateway({ settings: { ...settings, admin: { enabled: false } } })
  try {
    await gateway.until('serving')
    for (const [method, path] of [
      ['GET', ''],
      ['GET', '/auth/state'],
      ['POST', '/auth/setup'],
      ['POST', '/auth/login'],
      ['POST', '/auth/logout'],
      ['GET', '/auth/login'],
      ['GET', '/auth/me'],
      ['GET', '/tenants'],
      ['DELETE', '/operators/x'],
      ['POST', '/nope'],
    ] as const) {
      for (const key of [null, undefined]) {
        const answer = await gateway.request(`/admin/v1${path}`, { method, key })
        expect([method, path, answer.status]).toEqual([method, path, 404])
        expect(await answer.json()).toMatchObject({
          error: { code: 'not_found', type: 'not_found_error' },
          gateway: {},
        })
      }
    }
  } finally {
    await gateway.remove()
  }
}, 60_000)
