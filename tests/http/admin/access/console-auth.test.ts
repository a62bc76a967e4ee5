// The door of the console: set-up, the cookie, login.
import { describe, expect, test } from 'bun:test'
import { CommitFailure } from '../../../../src/state/port.ts'
import { startGateway } from '../world/gateway.ts'
import { ADA, HOUR_MS, logIn, PASSWORD, setUp, tokenOf, withCookie } from '../world/signing-in.ts'

// docs/behaviour.md: "Console access"
describe('set-up', () => {
  test.each([
    ['GET', '/auth/state', undefined],
    ['POST', '/auth/login', { username: 'ada', password: PASSWORD }],
    ['POST', '/auth/setup', { username: 'ada', password: PASSWORD, confirm: PASSWORD }],
    ['POST', '/auth/logout', undefined],
  ])(
    '%s %s waits for X-Gateway-Min-Revision: what another instance has written is known',
    async (method, path, body) => {
      const gateway = startGateway()
      const ask = (revision: string) =>
        gateway.call(method, path, { key: null, body, headers: { 'x-gateway-min-revision': revision } })
      expect((await ask('nonsense')).status).toBe(400)
      expect((await ask('f'.repeat(64))).status).toBe(504)
      expect(gateway.state.table('operators').size).toBe(0)
    },
  )

  test('S17: makes the first operator once, signs in, and stays closed when all operators are gone', async () => {
    const gateway = startGateway()
    const before = await gateway.call('GET', '/auth/state', { key: null })
    expect(before.body).toMatchObject({ setup_required: true, authenticated: false })
    expect(before.body.policy).toMatchObject({ min_length: 12, max_length: 256, description: expect.any(String) })
    const { body, headers, cookie, id } = await setUp(gateway)
    const expires_at = new Date(gateway.nowMs + 12 * HOUR_MS).toISOString()
    expect(body).toEqual({ username: 'Ada', expires_at, operator_id: id })
    expect(headers.get('cache-control')).toBe('no-store')
    expect((await gateway.call('GET', '/auth/state', withCookie(cookie))).body).toMatchObject({
      setup_required: false,
      authenticated: true,
      username: 'Ada',
    })
    expect((await gateway.call('DELETE', `/operators/${id}`)).body).toEqual({ deleted: true, id, sessions_closed: 1 })
    expect((await gateway.call('GET', '/auth/me', withCookie(cookie))).status).toBe(401)
    const after = await gateway.call('GET', '/auth/state', { key: null })
    expect(after.body).toMatchObject({ setup_required: false, authenticated: false })
    for (const raw of ['{"bad', JSON.stringify({ ...ADA, confirm: PASSWORD })]) {
      const again = await gateway.call('POST', '/auth/setup', { key: null, raw })
      expect([again.status, again.body.error]).toMatchObject([403, { code: 'permission_error' }])
    }
    expect(gateway.counted).toEqual(['setup', 'setup_refused', 'setup_refused'])
  })

  test('is refused while everything is frozen, without the reason; not by the freeze of one tenant', async () => {
    const gateway = startGateway()
    const freeze = (more: object) =>
      gateway.call('POST', '/overrides', { body: { kind: 'freeze', reason: 'an incident', ...more } })
    const send = () => gateway.call('POST', '/auth/setup', { key: null, body: { ...ADA, confirm: PASSWORD } })
    expect((await freeze({})).status).toBe(201)
    const refused = await send()
    expect([refused.status, refused.body.error]).toMatchObject([403, { code: 'permission_error' }])
    expect(JSON.stringify(refused.body)).not.toContain('incident')
    expect([gateway.state.table('operators').size, gateway.door.hashed.hash]).toEqual([0, 0])
    await freeze({ enabled: false })
    await freeze({ tenant_id: 'ten_other' })
    expect((await send()).status).toBe(201)
  })

  test('an operator made with a key closes it too', async () => {
    const gateway = startGateway()
    expect((await gateway.call('POST', '/operators', { body: ADA })).status).toBe(201)
    const { body } = await gateway.call('GET', '/auth/state', { key: null })
    expect(body.setup_required).toBe(false)
  })

  test.each([
    [{ confirm: 'another one here' }, 'confirm'],
    [{ confirm: undefined }, 'confirm'],
    [{ password: 'elevenchars', confirm: 'elevenchars' }, 'password'],
    [{ password: 'x'.repeat(257), confirm: 'x'.repeat(257) }, 'password'],
    [{ username: 'correct-horse', password: 'Correct-Horse', confirm: 'Correct-Horse' }, 'password'],
    [{ password: 12 }, 'password'],
    [{ username: '  ' }, 'username'],
    [{ username: 'a\u0000b' }, 'username'],
    [{ username: 'a\u200bb' }, 'username'],
    [{ username: 'a\u3164b' }, 'username'],
    [{ username: 'Ada\u00a0Lovelace' }, 'username'],
    [{ role: 'root' }, 'role'],
  ])('%j is 400 and names the field; nothing is made', async (fields, param) => {
    const gateway = startGateway()
    const body = { ...ADA, confirm: PASSWORD, ...fields }
    const { status, body: answer, headers } = await gateway.call('POST', '/auth/setup', { key: null, body })
    expect([status, answer.error]).toMatchObject([400, { code: 'invalid_request', param }])
    expect([headers.get('set-cookie'), gateway.door.hashed.hash, gateway.vault.size]).toEqual([null, 0, 0])
  })

  test('S17: of two at once one wins; the other leaves no key behind', async () => {
    const gateway = startGateway()
    const body = { ...ADA, confirm: PASSWORD }
    const both = await Promise.all([1, 2].map(() => gateway.call('POST', '/auth/setup', { key: null, body })))
    expect(both.map(({ status }) => status).toSorted()).toEqual([201, 403])
    expect(gateway.state.table('operators').size).toBe(1)
    expect(gateway.vault.size).toBe(1)
  })

  test('cannot be done while there is no state to be asked', async () => {
    const gateway = startGateway()
    const status = gateway.deps.live.status
    gateway.deps.live.status = () => ({ ...status(), serves: false })
    for (const [method, path] of [
      ['GET', '/auth/state'],
      ['POST', '/auth/setup'],
      ['POST', '/auth/login'],
    ] as const) {
      const answer = await gateway.call(method, path, { key: null, raw: method === 'GET' ? undefined : '{}' })
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
    }
  })
})

// docs/behaviour.md: "Console access"
describe('the cookie', () => {
  test('S15: is HttpOnly, SameSite=Lax, Path=/, of 32 random bytes; Secure over TLS or when set so', async () => {
    const gateway = startGateway()
    const { headers } = await setUp(gateway)
    const plain = headers.get('set-cookie')!
    expect(plain).toMatch(/^gateway_session=[A-Za-z0-9_-]{43}; Path=\/; HttpOnly; SameSite=Lax$/)
    expect(Buffer.from(tokenOf(headers), 'base64url')).toHaveLength(32)
    const secure = await logIn(gateway, {}, { scheme: 'https' })
    expect(secure.headers.get('set-cookie')).toEndWith('; SameSite=Lax; Secure')
    expect(tokenOf(secure.headers)).not.toBe(tokenOf(headers))
    const strict = startGateway([], { cookieSecure: true })
    expect((await setUp(strict)).headers.get('set-cookie')).toEndWith('; Secure')
  })

  test('what a proxy says of TLS counts only when it is trusted', async () => {
    const gateway = startGateway([], { trustedProxies: ['10.0.0.0/8'] })
    await setUp(gateway)
    const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '203.0.113.9' }
    const secureFrom = async (from: string) =>
      (await logIn(gateway, {}, { headers, from })).headers.get('set-cookie')!.includes('Secure')
    expect(await secureFrom('10.1.2.3')).toBe(true)
    expect(await secureFrom('192.0.2.1')).toBe(false)
  })

  test('the log holds the digest of its token and nothing else of it', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    const token = cookie.split('=')[1]!
    const written = JSON.stringify([gateway.events, [...gateway.state.table('sessions').rows()]])
    expect(written).toContain(new Bun.CryptoHasher('sha256').update(token).digest('hex'))
    expect(written).not.toContain(token)
  })
})

describe('login', () => {
  test('answers who and until when, whatever the case of the name, and ignores `confirm`', async () => {
    const gateway = startGateway()
    const { id } = await setUp(gateway)
    const expires_at = new Date(gateway.nowMs + 12 * HOUR_MS).toISOString()
    for (const fields of [{ username: ' ADA ' }, { confirm: 'something else' }, { confirm: 7 }]) {
      const { status, body, headers } = await logIn(gateway, fields)
      expect([status, body]).toEqual([200, { username: 'Ada', expires_at, operator_id: id }])
      expect(headers.get('x-gateway-revision')).toMatch(/^[0-9a-f]{64}$/)
      expect(headers.get('x-gateway-applied-by')).toBe('1/1')
    }
    expect(gateway.events.filter(({ type }) => type === 'session.opened')).toHaveLength(4)
  })

  test('S16: an unknown name and a wrong password get the same 401, after a hash each', async () => {
    const gateway = startGateway()
    await setUp(gateway)
    const decisions = gateway.events.length
    const wrong = await logIn(gateway, { password: 'wrong horse battery' })
    expect(gateway.door.hashed.verify).toBe(1)
    const unknown = await logIn(gateway, { username: 'Bob' })
    expect(gateway.door.hashed.verify).toBe(2)
    expect([wrong.status, unknown.status]).toEqual([401, 401])
    expect(unknown.body.error).toEqual(wrong.body.error)
    const names = ({ headers }: typeof wrong) => [...headers.keys()].toSorted()
    expect(names(unknown)).toEqual(names(wrong))
    expect(wrong.headers.get('set-cookie')).toBeNull()
    expect(gateway.events.length).toBe(decisions) // nothing that a stranger can cause is a decision
    expect(gateway.door.events.map(({ type }) => type)).toEqual(['login.failed', 'login.failed'])
  })

  test('the password of another operator is refused', async () => {
    const gateway = startGateway()
    await setUp(gateway)
    await gateway.call('POST', '/operators', { body: { username: 'Bob', password: 'the password of Bob' } })
    expect((await logIn(gateway, { password: 'the password of Bob' })).status).toBe(401)
  })

  test.each([
    [{ username: undefined }, 'username'],
    [{ password: '' }, 'password'],
    [{ password: ['x'] }, 'password'],
    [{ user: 'x' }, 'user'],
  ])('%j is 400 and names the field, without a hash', async (fields, param) => {
    const gateway = startGateway()
    const { status, body } = await logIn(gateway, fields)
    expect([status, body.error]).toMatchObject([400, { param }])
    expect(gateway.door.hashed.verify).toBe(0)
  })

  test('S15: with the session of before ends that one: nobody can fix a session for another', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    const again = await logIn(gateway, {}, { headers: { cookie } })
    expect((await gateway.call('GET', '/auth/me', withCookie(cookie))).status).toBe(401)
    const next = `gateway_session=${tokenOf(again.headers)}`
    expect((await gateway.call('GET', '/auth/me', withCookie(next))).status).toBe(200)
    const planted = await logIn(gateway, {}, { headers: { cookie: `gateway_session=${'A'.repeat(43)}` } })
    expect(tokenOf(planted.headers)).not.toBe('A'.repeat(43))
  })

  test('S15: beyond 50 sessions the oldest ends', async () => {
    const gateway = startGateway()
    const { cookie, id } = await setUp(gateway)
    for (let i = 0; i < 50; i++) await logIn(gateway)
    expect(gateway.state.table('sessions').find('operator', id)).toHaveLength(50)
    expect((await gateway.call('GET', '/auth/me', withCookie(cookie))).status).toBe(401)
  })

  test('while the log is away is 504, and retryable', async () => {
    const gateway = startGateway()
    await setUp(gateway)
    gateway.failure = new CommitFailure('unavailable', 'away')
    const { status, headers } = await logIn(gateway)
    expect([status, headers.get('x-gateway-retryable'), headers.get('set-cookie')]).toEqual([504, 'true', null])
  })
})
