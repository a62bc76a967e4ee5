// A session of the console: how it ends, and what it may do.
import { describe, expect, test } from 'bun:test'
import { CommitFailure } from '../../../../src/state/port.ts'
import { startGateway } from '../world/gateway.ts'
import { ADA, HOUR_MS, logIn, PASSWORD, setUp, tokenOf, withCookie } from '../world/signing-in.ts'

// docs/behaviour.md: "Console access"
describe('a session', () => {
  test('S15: ends after 12 hours, and after 2 without use', async () => {
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

  test('S15: logout ends it at once and takes the cookie away; it is 204 whatever comes', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    const out = await gateway.call('POST', '/auth/logout', withCookie(cookie))
    expect([out.status, out.body]).toEqual([204, null as never])
    expect(out.headers.get('x-gateway-revision')).toMatch(/^[0-9a-f]{64}$/)
    expect(out.headers.get('x-gateway-applied-by')).toBe('1/1')
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

  test('S14: a write must be the own page’s doing, and JSON; a key is not asked', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    let number = 0
    const post = (headers: Record<string, string>) =>
      gateway.call('POST', '/tenants', {
        key: null,
        headers: { cookie, ...headers },
        raw: JSON.stringify({ slug: `t${number++}`, name: 'T' }),
      })
    const taken: Record<string, string>[] = [
      { origin: 'http://gateway.test' },
      { 'sec-fetch-site': 'same-origin' },
      { 'sec-fetch-site': 'none' },
      { origin: 'http://gateway.test', 'content-type': 'application/json; charset=utf-8' },
    ]
    for (const headers of taken) expect((await post(headers)).status).toBe(201)
    for (const [headers, param] of [
      [{}, 'Origin'],
      [{ origin: 'http://evil.example' }, 'Origin'],
      [{ origin: 'null' }, 'Origin'],
      [{ origin: 'http://gateway.test:81' }, 'Origin'],
      [{ 'sec-fetch-site': 'cross-site' }, 'Sec-Fetch-Site'],
      [{ 'sec-fetch-site': 'same-site', origin: 'http://gateway.test' }, 'Sec-Fetch-Site'],
      [{ origin: 'http://gateway.test', 'content-type': 'text/plain' }, 'Content-Type'],
      [{ origin: 'http://gateway.test', 'content-type': 'multipart/form-data; boundary=x' }, 'Content-Type'],
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

  test('S14: no header and no parameter makes another method of a request', async () => {
    const gateway = startGateway()
    const { cookie } = await setUp(gateway)
    const before = gateway.events.length
    for (const name of ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override', '_method'])
      for (const [method, path] of [
        ['GET', '/tenants/ten_other'],
        ['GET', '/tenants/ten_other?_method=DELETE'],
        ['POST', '/tenants/ten_other'],
        ['POST', '/tenants/ten_other?_method=DELETE'],
      ] as const)
        for (const origin of ['http://gateway.test', 'http://evil.example']) {
          const { status } = await gateway.call(method, path, {
            key: null,
            headers: { cookie, origin, [name]: 'DELETE' },
            ...(method === 'POST' ? { raw: '{}' } : {}),
          })
          expect([name, method, path, status]).toEqual([
            name,
            method,
            path,
            method === 'GET' ? 200 : expect.any(Number),
          ])
          expect(status < 300).toBe(method === 'GET')
        }
    expect(gateway.events.slice(before).filter(({ type }) => type.startsWith('tenant.'))).toEqual([])
    expect(gateway.state.table('tenants').get('ten_other')).toBeDefined()
  })

  test('S14: neither login nor set-up is taken from another site', async () => {
    const gateway = startGateway()
    const headers = { origin: 'http://evil.example' }
    const setup = { key: null, headers, body: { ...ADA, confirm: PASSWORD } }
    expect((await gateway.call('POST', '/auth/setup', setup)).status).toBe(403)
    await setUp(gateway)
    expect((await logIn(gateway, {}, { headers })).status).toBe(403)
    const form = { 'content-type': 'text/plain' }
    expect((await logIn(gateway, {}, { headers: form })).status).toBe(415)
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
