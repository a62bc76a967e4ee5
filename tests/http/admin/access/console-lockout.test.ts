// What keeps a stranger from trying passwords: lockouts of names and addresses, and the few hashes at once.
import { describe, expect, test } from 'bun:test'
import { startGateway } from '../world/gateway.ts'
import { logIn, setUp } from '../world/signing-in.ts'

// docs/behaviour.md: "Console access"
describe('lockout', () => {
  const WRONG = { password: 'wrong horse battery' }

  test('S16: five failures lock the name out, before anything is hashed, for 15 minutes, then 30', async () => {
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

  test('S16: of a name that nobody has looks the same', async () => {
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

  test('the address is that of the client behind trusted proxies only', async () => {
    const gateway = startGateway([], { trustedProxies: ['10.0.0.0/8'] })
    await setUp(gateway)
    const via = (client: string, from: string) => ({ from, headers: { 'x-forwarded-for': `203.0.113.200, ${client}` } })
    for (let i = 0; i < 5; i++) await logIn(gateway, { username: `u ${i}` }, via('198.51.100.1', '10.0.0.1'))
    expect((await logIn(gateway, {}, via('198.51.100.1', '10.0.0.2'))).status).toBe(429)
    expect((await logIn(gateway, {}, via('198.51.100.2', '10.0.0.1'))).status).toBe(200)
    // A stranger that claims many addresses counts as one.
    for (let i = 0; i < 5; i++) await logIn(gateway, { username: `v ${i}` }, via(`198.51.100.${i}`, '192.0.2.7'))
    expect((await logIn(gateway, {}, via('198.51.100.77', '192.0.2.7'))).status).toBe(429)
  })

  test('S16: many at once do not get more tries than one after the other', async () => {
    const gateway = startGateway()
    await setUp(gateway)
    const all = await Promise.all(Array.from({ length: 30 }, () => logIn(gateway, WRONG, { from: '192.0.2.1' })))
    expect(all.filter(({ status }) => status === 401)).toHaveLength(5)
    expect(all.filter(({ status }) => status === 429)).toHaveLength(25)
    expect(gateway.door.hashed.verify).toBe(5)
  })

  test('S16: at most two hashes run at once; beyond 32 that wait it is 429 with Retry-After', async () => {
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
