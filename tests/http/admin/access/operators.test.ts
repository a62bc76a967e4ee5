// Operators as the admin surface manages them, and what is left of an erased one.
import { describe, expect, test } from 'bun:test'
import { CONTROL_EVENTS } from '../../../../src/domain/control.ts'
import { masked } from '../../../../src/domain/kernel/mask.ts'
import { eventually } from '../../../services/eventually.ts'
import { type CallOptions, type Gateway, startGateway } from '../world/gateway.ts'

const PASSWORD = 'correct horse battery'
const ORIGIN = 'http://gateway.test'
const NEXT = 'battery staple horse'

const made = async (gateway: Gateway, username: string, password = PASSWORD): Promise<string> => {
  const { status, body } = await gateway.call('POST', '/operators', { body: { username, password } })
  expect(status).toBe(201)
  return body.id as string
}
const signedIn = async (gateway: Gateway, username: string, password = PASSWORD): Promise<CallOptions | number> => {
  const { status, headers } = await gateway.call('POST', '/auth/login', { key: null, body: { username, password } })
  if (status !== 200) return status
  return { key: null, headers: { cookie: headers.get('set-cookie')!.split(';')[0]!, origin: ORIGIN } }
}

describe('operators', () => {
  test('are made, listed and shown; never with a digest, or anything sealed', async () => {
    const gateway = startGateway()
    const id = await made(gateway, 'Ada')
    await made(gateway, 'Bob')
    await signedIn(gateway, 'ada')
    const { body: one } = await gateway.call('GET', `/operators/${id}`)
    const at = new Date(gateway.nowMs).toISOString()
    const times = { password_changed_at: at, created_at: at, updated_at: at }
    expect(one).toEqual({ id, username: 'Ada', sessions: 1, ...times, revision: expect.any(String) })
    const { body: list } = await gateway.call('GET', '/operators?limit=1')
    expect(list).toEqual({ operators: [one], total: 2, limit: 1, offset: 0 })
  })

  test('have names of their own, whatever the case; a duplicate leaves no key behind', async () => {
    const gateway = startGateway()
    await made(gateway, 'Ada')
    for (const username of ['Ada', ' ADA', 'Ａｄａ']) {
      const { status, body } = await gateway.call('POST', '/operators', { body: { username, password: PASSWORD } })
      expect([status, body.error]).toMatchObject([409, { type: 'conflict_error', param: 'username' }])
    }
    expect(gateway.vault.size).toBe(1)
  })

  test.each([
    [{ password: 'short' }, 'password'],
    [{ password: 'Ada Lovelace ', username: 'ada lovelace' }, 'password'],
    [{ confirm: 'another' }, 'confirm'],
    [{ username: '' }, 'username'],
    [{ username: '\u3164' }, 'username'],
    [{ username: 'Ada\u2800' }, 'username'],
    [{ username: 'A\ufe0fda' }, 'username'],
    [{ username: 'Ada\u00a0Lovelace' }, 'username'],
    [{ admin: true }, 'admin'],
  ])('%j is 400 and names the field', async (fields, param) => {
    const gateway = startGateway()
    const body = { username: 'Ada', password: PASSWORD, ...fields }
    const answer = await gateway.call('POST', '/operators', { body })
    expect([answer.status, answer.body.error]).toMatchObject([400, { param }])
  })

  test.each(['Ada 👩‍💻', 'می‌خواهم', 'ශ්‍රී'])('may be called what others may be called: %s', async (username) => {
    const gateway = startGateway()
    const id = await made(gateway, username)
    expect((await gateway.call('GET', `/operators/${id}`)).body.username).toBe(username)
    expect(typeof (await signedIn(gateway, username))).toBe('object')
  })

  test('a repeat with the same Idempotency-Key makes no operator twice, and the digest of its body has no password in it', async () => {
    const gateway = startGateway()
    const headers = { 'idempotency-key': 'k' }
    const post = (body: unknown) => gateway.call('POST', '/operators', { headers, body })
    const first = await post({ username: 'Ada', password: PASSWORD })
    const again = await post({ username: 'Ada', password: PASSWORD })
    expect([again.status, again.body.id]).toEqual([201, first.body.id])
    const digests = [...gateway.state.table('causes').rows()].map(([, { body }]) => body)
    const other = await post({ username: 'Ada', password: 'another password' })
    expect([other.status, other.body.error]).toMatchObject([
      409,
      { type: 'conflict_error', param: 'Idempotency-Key', message: expect.stringContaining('another password') },
    ])
    expect([gateway.state.table('operators').size, gateway.vault.size]).toEqual([1, 1])
    const elsewhere = startGateway()
    await elsewhere.call('POST', '/operators', { headers, body: { username: 'Ada', password: NEXT } })
    expect([...elsewhere.state.table('causes').rows()].map(([, { body }]) => body)).toEqual(digests)
    expect((await post({ username: 'Bob', password: PASSWORD })).status).toBe(409)
  })
})

describe('a password', () => {
  test('S15: of one’s own is changed with the current one; the other sessions end, the old hash is erased', async () => {
    const gateway = startGateway()
    const id = await made(gateway, 'Ada')
    const here = (await signedIn(gateway, 'Ada')) as CallOptions
    const there = (await signedIn(gateway, 'Ada')) as CallOptions
    const [oldKey] = gateway.vault.keys()
    const put = (body: unknown) => gateway.call('PUT', `/operators/${id}/password`, { ...here, body })
    for (const body of [{ password: NEXT }, { password: NEXT, current_password: 'not the right one' }]) {
      const refused = await put(body)
      expect([refused.status, refused.body.error]).toMatchObject([403, { param: 'current_password' }])
    }
    const short = await put({ password: 'short', current_password: PASSWORD })
    expect([short.status, short.body.error]).toMatchObject([400, { param: 'password' }])
    expect((await put({ password: NEXT, current_password: PASSWORD })).body).toMatchObject({ id, sessions: 1 })
    expect((await gateway.call('GET', '/auth/me', here)).status).toBe(200)
    expect((await gateway.call('GET', '/auth/me', there)).status).toBe(401)
    expect([gateway.vault.size, gateway.vault.has(oldKey!)]).toEqual([1, false])
    expect(await signedIn(gateway, 'Ada')).toBe(401)
    expect(await signedIn(gateway, 'Ada', NEXT)).toMatchObject({ key: null })
  })

  test('of one’s own, asked for again with the same Idempotency-Key, is answered as the first time', async () => {
    const gateway = startGateway()
    const id = await made(gateway, 'Ada')
    const here = (await signedIn(gateway, 'Ada')) as CallOptions
    const headers = { ...here.headers, 'idempotency-key': 'k' }
    const body = { password: NEXT, current_password: PASSWORD }
    const put = () => gateway.call('PUT', `/operators/${id}/password`, { ...here, headers, body })
    const first = await put()
    for (let i = 0; i < 6; i++) {
      const again = await put()
      expect([again.status, again.body.id, again.headers.get('x-gateway-revision')]).toEqual([
        200,
        id,
        first.headers.get('x-gateway-revision'),
      ])
    }
  })

  test('with the same Idempotency-Key must be the same one, and not have been changed since', async () => {
    const gateway = startGateway()
    const id = await made(gateway, 'Ada')
    const put = (password: string, key: string, more = {}) =>
      gateway.call('PUT', `/operators/${id}/password`, {
        headers: { 'idempotency-key': key },
        body: { password, ...more },
      })
    const refused = async (answer: ReturnType<typeof put>) => {
      const { status, body } = await answer
      expect([status, body.error]).toMatchObject([409, { type: 'conflict_error', param: 'Idempotency-Key' }])
    }
    expect((await put(NEXT, 'k')).status).toBe(200)
    await refused(put('another password', 'k'))
    await refused(put(NEXT, 'k', { confirm: 'another password' }))
    expect((await put(NEXT, 'k')).status).toBe(200)
    expect(await signedIn(gateway, 'Ada', NEXT)).toMatchObject({ key: null })
    expect((await put(PASSWORD, 'l')).status).toBe(200)
    await refused(put(NEXT, 'k')) // a 200 would confirm the password
    expect(gateway.vault.size).toBe(1)
  })

  test('of one’s own cannot be guessed with a session that was left open', async () => {
    const gateway = startGateway()
    const id = await made(gateway, 'Ada')
    const here = (await signedIn(gateway, 'Ada')) as CallOptions
    const statuses: number[] = []
    for (let i = 0; i < 6; i++) {
      const body = { password: NEXT, current_password: `a wrong guess ${i}` }
      statuses.push((await gateway.call('PUT', `/operators/${id}/password`, { ...here, body })).status)
    }
    expect(statuses).toEqual([403, 403, 403, 403, 403, 429])
  })

  test('of another is set by an operator or a key with *; all of its sessions end', async () => {
    const gateway = startGateway()
    const id = await made(gateway, 'Ada')
    await made(gateway, 'Bob')
    const ada = (await signedIn(gateway, 'Ada')) as CallOptions
    const bob = (await signedIn(gateway, 'Bob')) as CallOptions
    const put = (options: CallOptions) =>
      gateway.call('PUT', `/operators/${id}/password`, { ...options, body: { password: NEXT } })
    expect((await put(bob)).status).toBe(200)
    expect((await gateway.call('GET', '/auth/me', ada)).status).toBe(401)
    expect((await put({})).status).toBe(200)
    expect((await gateway.call('GET', '/auth/me', bob)).status).toBe(200)
  })

  test('changed during a login with the old one, the login is refused', async () => {
    const gateway = startGateway()
    const id = await made(gateway, 'Ada')
    const gate = Promise.withResolvers<void>()
    gateway.door.gate = gate.promise
    const login = signedIn(gateway, 'Ada')
    await eventually('the password is looked at', () => gateway.door.hashed.verify > 0)
    gateway.door.gate = null
    expect((await gateway.call('PUT', `/operators/${id}/password`, { body: { password: NEXT } })).status).toBe(200)
    gate.resolve()
    expect(await login).toBe(401)
    expect(gateway.state.table('sessions').size).toBe(0)
  })
})

describe('an operator who is deleted', () => {
  test('is erased: sessions end, the data key goes, the name is free again, set-up stays closed', async () => {
    const gateway = startGateway()
    const id = await made(gateway, 'Ada')
    const ada = (await signedIn(gateway, 'Ada')) as CallOptions
    const { body } = await gateway.call('DELETE', `/operators/${id}`, ada)
    expect(body).toEqual({ deleted: true, id, sessions_closed: 1 })
    expect([gateway.vault.size, gateway.state.table('sessions').size]).toEqual([0, 0])
    expect((await gateway.call('GET', '/tenants', ada)).status).toBe(401)
    expect(await signedIn(gateway, 'Ada')).toBe(401)
    expect((await gateway.call('DELETE', `/operators/${id}`)).status).toBe(404)
    expect((await gateway.call('GET', '/auth/state', { key: null })).body.setup_required).toBe(false)
    expect(await made(gateway, 'Ada')).not.toBe(id)
  })
})

test('neither a password nor a cookie nor a name is in an event, a row, an error or what the audit shows', async () => {
  const gateway = startGateway()
  const canaries = {
    name: 'Canary Person',
    first: 'canary password one',
    second: 'canary password two',
    guess: 'canary guessed',
  }
  const seen: string[] = []
  const call: Gateway['call'] = async (...given) => {
    const answer = await gateway.call(...given)
    seen.push(JSON.stringify(answer.body))
    return answer
  }
  const setup = { username: canaries.name, password: canaries.first, confirm: canaries.first }
  const made = await call('POST', '/auth/setup', { key: null, body: setup })
  const token = made.headers.get('set-cookie')!.split(/[=;]/)[1]!
  const session = { key: null, headers: { cookie: `gateway_session=${token}`, origin: ORIGIN, 'idempotency-key': 'x' } }
  const id = made.body.operator_id as string
  await call('POST', '/auth/setup', { key: null, body: setup })
  await call('POST', '/auth/login', { key: null, body: { ...setup, password: canaries.guess } })
  await call('POST', '/auth/login', { key: null, body: { ...setup, extra: canaries.guess } })
  await call('PUT', `/operators/${id}/password`, {
    ...session,
    body: { password: canaries.second, current_password: canaries.guess },
  })
  await call('PUT', `/operators/${id}/password`, {
    ...session,
    body: { password: canaries.second, current_password: canaries.first },
  })
  await call('POST', '/auth/login', { key: null, raw: `{"username":"${canaries.name}","password":"${canaries.guess}` })
  for (let i = 0; i < 5; i++)
    await call('POST', '/auth/login', { key: null, body: { ...setup, password: canaries.guess } })
  const rows = [...gateway.state.tables()].map((table) => [...table.rows()])
  const kept = JSON.stringify([
    gateway.events,
    gateway.door.events,
    rows,
    gateway.door.failures.announced(gateway.nowMs),
  ])
  const found = [canaries.name, canaries.first, canaries.second, canaries.guess, token].filter((canary) =>
    kept.includes(canary),
  )
  expect(found).toEqual([])
  const shown = seen.join('\n')
  expect([canaries.first, canaries.second, canaries.guess, token].filter((canary) => shown.includes(canary))).toEqual(
    [],
  )
  const audit = JSON.stringify(
    [...gateway.state.table('operators').rows(), ...gateway.state.table('sessions').rows()].map((row) => masked(row)),
  )
  for (const [, { name_digest, sealed }] of gateway.state.table('operators').rows()) {
    expect([audit.includes(name_digest), audit.includes(sealed)]).toEqual([false, false])
  }
  for (const [, { digest }] of gateway.state.table('sessions').rows()) expect(audit).not.toContain(digest)
})

test('the audit has a name for each of their events', () => {
  const said = Object.entries(CONTROL_EVENTS)
    .filter(([type]) => /^(?:operator|session|setup)\./.test(type))
    .map(([type, { action, resource }]) => [type, action, resource])
  expect(said).toEqual([
    ['setup.completed', 'setup', 'setup'],
    ['operator.created', 'create', 'operator'],
    ['operator.password_changed', 'rotate', 'operator'],
    ['operator.deleted', 'delete', 'operator'],
    ['session.opened', 'login', 'session'],
    ['session.seen', 'use', 'session'],
    ['session.closed', 'logout', 'session'],
  ])
})
