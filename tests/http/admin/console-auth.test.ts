// Set-up, login, logout, me; and what a session may do.
import { describe, expect, test } from 'bun:test'
import { CommitFailure } from '../../../src/state/port.ts'
import { type CallOptions, type Gateway, startGateway } from './gateway.ts'

const PASSWORD = 'correct horse battery'
const HOUR_MS = 3_600_000
const ADA = { username: 'Ada', password: PASSWORD }

const tokenOf = (headers: Headers): string => /^gateway_session=([^;]*)/.exec(headers.get('set-cookie') ?? '')![1]!

const setUp = async (gateway: Gateway) => {
  const answer = await gateway.call('POST', '/auth/setup', { key: null, body: { ...ADA, confirm: PASSWORD } })
  expect(answer.status).toBe(201)
  return { ...answer, cookie: `gateway_session=${tokenOf(answer.headers)}`, id: answer.body.operator_id as string }
}
const logIn = (gateway: Gateway, fields: Record<string, unknown> = {}, options: CallOptions = {}) =>
  gateway.call('POST', '/auth/login', { key: null, body: { ...ADA, ...fields }, ...options })
const withCookie = (cookie: string, headers: Record<string, string> = {}): CallOptions => ({
  key: null,
  headers: { cookie, ...headers },
})

describe('set-up', () => {
  test('makes the first operator once, signs in, and stays closed when all operators are gone', async () => {
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
    [{ role: 'root' }, 'role'],
  ])('%j is 400 and names the field; nothing is made', async (fields, param) => {
    const gateway = startGateway()
    const body = { ...ADA, confirm: PASSWORD, ...fields }
    const { status, body: answer, headers } = await gateway.call('POST', '/auth/setup', { key: null, body })
    expect([status, answer.error]).toMatchObject([400, { code: 'invalid_request', param }])
    expect([headers.get('set-cookie'), gateway.door.hashed.hash, gateway.vault.size]).toEqual([null, 0, 0])
  })

  test('of two at once one wins; the other leaves no key behind', async () => {
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

describe('the cookie', () => {
  test('is HttpOnly, SameSite=Lax, Path=/, of 32 random bytes; Secure over TLS or when set so', async () => {
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
    }
    expect(gateway.events.filter(({ type }) => type === 'session.opened')).toHaveLength(4)
  })

  test('an unknown name and a wrong password get the same 401, after a hash each', async () => {
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

  test('a password that is right for somebody else is not right', async () => {
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

  test('with the session of before ends that one: nobody can fix a session for another', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    const again = await logIn(gateway, {}, { headers: { cookie } })
    expect((await gateway.call('GET', '/auth/me', withCookie(cookie))).status).toBe(401)
    const next = `gateway_session=${tokenOf(again.headers)}`
    expect((await gateway.call('GET', '/auth/me', withCookie(next))).status).toBe(200)
    const planted = await logIn(gateway, {}, { headers: { cookie: `gateway_session=${'A'.repeat(43)}` } })
    expect(tokenOf(planted.headers)).not.toBe('A'.repeat(43))
  })

  test('beyond 50 sessions the oldest ends', async () => {
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

describe('lockout', () => {
  const WRONG = { password: 'wrong horse battery' }

  test('five failures lock the name out, before anything is hashed, for 15 minutes, then 30', async () => {
    const gateway = startGateway()
    await setUp(gateway)
    const lock = async () => {
      for (let i = 0; i < 5; i++) {
        gateway.nowMs += 1_000
        expect((await logIn(gateway, WRONG, { from: `192.0.2.${i}` })).status).toBe(401)
      }
    }
    await lock()
    const hashes = gateway.door.hashed.verify
    const refused = await logIn(gateway, {}, { from: '192.0.2.99' })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '900'])
    expect(refused.body.error).toMatchObject({ code: 'rate_limited', type: 'rate_limit_error' })
    expect(gateway.door.hashed.verify).toBe(hashes)
    gateway.nowMs += 900_000 - 1
    expect((await logIn(gateway, {}, { from: '192.0.2.99' })).headers.get('retry-after')).toBe('1')
    gateway.nowMs += 1
    await lock()
    expect((await logIn(gateway, {}, { from: '192.0.2.99' })).headers.get('retry-after')).toBe('1800')
    gateway.nowMs += 1_800_000
    expect((await logIn(gateway, {}, { from: '192.0.2.99' })).status).toBe(200)
    expect(gateway.counted.filter((event) => event === 'lockout')).toHaveLength(2)
    expect(gateway.door.events.filter(({ type }) => type === 'login.locked')).toMatchObject([
      { data: { address: null, level: 1 } },
      { data: { address: null, level: 2 } },
    ])
  })

  test('of a name that nobody has looks the same', async () => {
    const gateway = startGateway()
    for (let i = 0; i < 5; i++) await logIn(gateway, { username: 'nobody' }, { from: `192.0.2.${i}` })
    const { status, headers } = await logIn(gateway, { username: 'Nobody' }, { from: '192.0.2.99' })
    expect([status, headers.get('retry-after')]).toEqual([429, '900'])
  })

  test('an address is locked out whatever names it tries; a right login in between does not clear it', async () => {
    const gateway = startGateway()
    await setUp(gateway)
    const from = '2001:db8::1'
    for (let i = 0; i < 4; i++) await logIn(gateway, { username: `user ${i}` }, { from })
    expect((await logIn(gateway, {}, { from })).status).toBe(200)
    expect((await logIn(gateway, { username: 'user 5' }, { from: '2001:db8::2' })).status).toBe(401) // the same /64
    expect((await logIn(gateway, {}, { from })).status).toBe(429)
    expect((await logIn(gateway, {}, { from: '2001:db8:0:1::1' })).status).toBe(200)
  })

  test('the address is that of the client behind trusted proxies, and of nobody else', async () => {
    const gateway = startGateway([], { trustedProxies: ['10.0.0.0/8'] })
    await setUp(gateway)
    const via = (client: string, from: string) => ({ from, headers: { 'x-forwarded-for': `203.0.113.200, ${client}` } })
    for (let i = 0; i < 5; i++) await logIn(gateway, { username: `u ${i}` }, via('198.51.100.1', '10.0.0.1'))
    expect((await logIn(gateway, {}, via('198.51.100.1', '10.0.0.2'))).status).toBe(429)
    expect((await logIn(gateway, {}, via('198.51.100.2', '10.0.0.1'))).status).toBe(200)
    // A stranger who says to be many is one.
    for (let i = 0; i < 5; i++) await logIn(gateway, { username: `v ${i}` }, via(`198.51.100.${i}`, '192.0.2.7'))
    expect((await logIn(gateway, {}, via('198.51.100.77', '192.0.2.7'))).status).toBe(429)
  })

  test('many at once do not get more tries than one after the other', async () => {
    const gateway = startGateway()
    await setUp(gateway)
    const all = await Promise.all(Array.from({ length: 30 }, () => logIn(gateway, WRONG, { from: '192.0.2.1' })))
    expect(all.filter(({ status }) => status === 401)).toHaveLength(5)
    expect(all.filter(({ status }) => status === 429)).toHaveLength(25)
    expect(gateway.door.hashed.verify).toBe(5)
  })

  test('at most two hashes run at once; beyond 32 that wait it is 429 with Retry-After', async () => {
    const gateway = startGateway()
    const gate = Promise.withResolvers<void>()
    gateway.door.gate = gate.promise
    const answers = Array.from({ length: 40 }, (_, i) =>
      logIn(gateway, { username: `user ${i}` }, { from: `192.0.2.${i}` }),
    )
    const refused = await Promise.all(answers.slice(34))
    for (const { status, headers } of refused) expect([status, headers.get('retry-after')]).toEqual([429, '1'])
    expect(gateway.door.hashed.verify).toBe(2)
    gate.resolve()
    expect((await Promise.all(answers.slice(0, 34))).map(({ status }) => status)).toEqual(Array(34).fill(401))
    expect(gateway.counted.filter((event) => event === 'login_refused')).toHaveLength(6)
  })
})

describe('a session', () => {
  test('ends after 12 hours, and after 2 without use', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    const me = async () => (await gateway.call('GET', '/auth/me', withCookie(cookie))).status
    gateway.nowMs += 2 * HOUR_MS
    expect(await me()).toBe(401)
    const { headers } = await logIn(gateway)
    const next = withCookie(`gateway_session=${tokenOf(headers)}`)
    for (let hours = 1.5; hours < 12; hours += 1.5) {
      gateway.nowMs += 1.5 * HOUR_MS
      expect((await gateway.call('GET', '/providers', next)).status).toBe(200)
    }
    gateway.nowMs += 1.5 * HOUR_MS
    expect((await gateway.call('GET', '/auth/me', next)).status).toBe(401)
  })

  test('is noted as used at most once in 15 minutes', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    const seen = () => gateway.events.filter(({ type }) => type === 'session.seen').length
    for (let minute = 0; minute < 60; minute++) {
      gateway.nowMs += 60_000
      await gateway.call('GET', '/auth/me', withCookie(cookie))
      await gateway.call('GET', '/tenants', withCookie(cookie))
    }
    expect(seen()).toBe(4)
  })

  test('logout ends it at once and takes the cookie away; it is 204 whatever comes', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    const out = await gateway.call('POST', '/auth/logout', withCookie(cookie))
    expect([out.status, out.body]).toEqual([204, null as never])
    expect(out.headers.get('set-cookie')).toMatch(/^gateway_session=; Max-Age=0; Path=\/; HttpOnly; SameSite=Lax$/)
    expect((await gateway.call('GET', '/tenants', withCookie(cookie))).status).toBe(401)
    expect(gateway.state.table('sessions').size).toBe(0)
    for (const options of [withCookie(cookie), { key: null }, withCookie('gateway_session=rubbish')]) {
      expect((await gateway.call('POST', '/auth/logout', options)).status).toBe(204)
    }
    expect(gateway.counted).toEqual(['setup', 'logout'])
  })

  test('is ended here even when the log cannot take it', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    gateway.failure = new CommitFailure('unavailable', 'away')
    expect((await gateway.call('POST', '/auth/logout', withCookie(cookie))).status).toBe(204)
    expect(gateway.state.table('sessions').size).toBe(1)
    expect((await gateway.call('GET', '/auth/me', withCookie(cookie))).status).toBe(401)
  })

  test('cannot be ended from another site', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    const out = await gateway.call('POST', '/auth/logout', withCookie(cookie, { origin: 'https://evil.example' }))
    expect([out.status, out.headers.get('set-cookie')]).toEqual([204, null])
    expect((await gateway.call('GET', '/auth/me', withCookie(cookie))).status).toBe(200)
  })

  test('`me` wants the cookie: neither none, nor a key, nor two cookies', async () => {
    const gateway = startGateway()
    const { cookie, id } = await setUp(gateway)
    expect((await gateway.call('GET', '/auth/me', withCookie(`other=1; ${cookie}`))).body).toMatchObject({
      username: 'Ada',
      operator_id: id,
      expires_at: expect.any(String),
    })
    for (const options of [{}, { key: null }, withCookie(`${cookie}; ${cookie}`), withCookie(`x${cookie}`)]) {
      const { status, body } = await gateway.call('GET', '/auth/me', options)
      expect([status, body.error]).toMatchObject([401, { code: 'authentication_error' }])
    }
  })
})

describe('with a session', () => {
  test('the whole surface is open, and the operator is the actor', async () => {
    const gateway = startGateway()
    const { cookie, id } = await setUp(gateway)
    const tenant = { slug: 't', name: 'T' }
    expect((await gateway.call('POST', '/tenants', { ...withCookie(cookie), body: tenant })).status).toBe(201)
    const { body } = await gateway.call('POST', '/overrides', {
      ...withCookie(cookie),
      body: { kind: 'block', target: 'model:x', reason: 'r' },
    })
    expect(body.actor).toEqual({ type: 'operator', id })
    const key = { tenant_id: 'ten_default', name: 'k', scopes: ['*'] }
    expect((await gateway.call('POST', '/keys', { ...withCookie(cookie), body: key })).status).toBe(201)
    expect((await gateway.call('GET', '/nope', withCookie(cookie))).status).toBe(404)
    expect((await gateway.call('PATCH', '/tenants/ten_default', withCookie(cookie))).status).toBe(405)
  })

  test('a key in the header beats it, also one that is not valid', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    const reader = gateway.keyWith(['usage:read'])
    const body = { slug: 't', name: 'T' }
    expect((await gateway.call('POST', '/tenants', { key: reader, headers: { cookie }, body })).status).toBe(403)
    for (const authorization of ['Bearer gw_live_nobody_has_this_key', '', 'Basic x']) {
      expect((await gateway.call('GET', '/tenants', withCookie(cookie, { authorization }))).status).toBe(401)
    }
  })

  test('a write must be the own page’s doing, and JSON; a key is not asked', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    let number = 0
    const post = (headers: Record<string, string>) =>
      gateway.call('POST', '/tenants', {
        ...withCookie(cookie, headers),
        raw: JSON.stringify({ slug: `t${number++}`, name: 'T' }),
      })
    const taken: Record<string, string>[] = [
      {},
      { origin: 'http://gateway.test' },
      { 'sec-fetch-site': 'same-origin' },
      { 'sec-fetch-site': 'none' },
      { 'content-type': 'application/json; charset=utf-8' },
    ]
    for (const headers of taken) expect((await post(headers)).status).toBe(201)
    for (const [headers, param] of [
      [{ origin: 'http://evil.example' }, 'Origin'],
      [{ origin: 'null' }, 'Origin'],
      [{ origin: 'http://gateway.test:81' }, 'Origin'],
      [{ 'sec-fetch-site': 'cross-site' }, 'Sec-Fetch-Site'],
      [{ 'sec-fetch-site': 'same-site', origin: 'http://gateway.test' }, 'Sec-Fetch-Site'],
      [{ 'content-type': 'text/plain' }, 'Content-Type'],
      [{ 'content-type': 'multipart/form-data; boundary=x' }, 'Content-Type'],
    ] as const) {
      const { status, body } = await post(headers)
      expect([status, body.error]).toMatchObject([403, { code: 'permission_error', param }])
    }
    const withKey = { headers: { origin: 'http://evil.example' }, body: { slug: 'k', name: 'K' } }
    expect((await gateway.call('POST', '/tenants', withKey)).status).toBe(201)
    const read = withCookie(cookie, { 'sec-fetch-site': 'cross-site' })
    expect((await gateway.call('GET', '/tenants', read)).status).toBe(200)
    const gone = await gateway.call(
      'DELETE',
      '/tenants/ten_other',
      withCookie(cookie, { origin: 'http://evil.example' }),
    )
    expect(gone.status).toBe(403)
  })

  test('neither login nor set-up is taken from another site', async () => {
    const gateway = startGateway()
    const headers = { origin: 'http://evil.example' }
    const setup = { key: null, headers, body: { ...ADA, confirm: PASSWORD } }
    expect((await gateway.call('POST', '/auth/setup', setup)).status).toBe(403)
    await setUp(gateway)
    expect((await logIn(gateway, {}, { headers })).status).toBe(403)
    const form = { 'content-type': 'text/plain' }
    expect((await logIn(gateway, {}, { headers: form })).status).toBe(403)
  })

  test('a wrong method of the door is 405 with what is possible', async () => {
    const gateway = startGateway()
    for (const [method, path, allow] of [
      ['GET', '/auth/login', 'POST'],
      ['DELETE', '/auth/state', 'GET, HEAD'],
      ['GET', '/auth/logout', 'POST'],
    ] as const) {
      const { status, headers } = await gateway.call(method, path, { key: null })
      expect([status, headers.get('allow')]).toEqual([405, allow])
    }
    expect((await gateway.call('GET', '/auth/nope', { key: null })).status).toBe(401)
    expect((await gateway.call('GET', '/auth/nope')).status).toBe(404)
  })

  test('operators come and go while the configuration is frozen; they change nothing', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    await gateway.call('POST', '/overrides', { body: { kind: 'freeze', target: '*' } })
    expect((await logIn(gateway)).status).toBe(200)
    const body = { slug: 't', name: 'T' }
    expect((await gateway.call('POST', '/tenants', { ...withCookie(cookie), body })).status).toBe(403)
    expect((await gateway.call('POST', '/operators', { body: { username: 'Bob', password: PASSWORD } })).status).toBe(
      403,
    )
    expect((await gateway.call('POST', '/auth/logout', withCookie(cookie))).status).toBe(204)
    expect((await gateway.call('GET', '/auth/me', withCookie(cookie))).status).toBe(401)
  })
})
