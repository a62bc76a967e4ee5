// Bad bodies for every route that takes one, and bodies for those that take none: each is refused, names the cause, and
// changes nothing.
import { afterAll, describe, expect, test } from 'bun:test'
import { authTable } from '../../../src/http/console-auth.ts'
import { nameOf } from './world/access.ts'
import { type BadBody, badBodies, EMPTY, isUnreadable, NO_BODIES, NOTHING } from './world/bad-values.ts'
import { bodyOf, furnish, OWN, PASSWORD, pathOf } from './world/furnished.ts'
import { type Answer, type CallOptions, startGateway } from './world/gateway.ts'
import { counting, expectRefusal } from './world/refusal.ts'

const ALL = await furnish()
const { gateway, own } = ALL
const writes = ALL.table.filter(({ method }) => method !== 'GET').map((route) => [nameOf(route), route] as const)

const cells = counting()
afterAll(() => console.log(`bad bodies: ${cells()} over ${writes.length} routes`))

const paramOf = ({ body }: Answer): string | null => (body.error as { param: string | null } | undefined)?.param ?? null

/** 400, naming the field or a part of it; nothing changed. */
const expectRefused = async (name: string, path: string, { what, raw, field }: BadBody, options: CallOptions = {}) => {
  const before = ALL.fingerprint()
  const answer = await gateway.call(name.split(' ')[0]!, path, { raw, ...options })
  const param = paramOf(answer)
  const cell = `${what}: ${raw.slice(0, 200)}`
  expectRefusal(cell, answer, param === null ? [400, 'invalid_request'] : [400, 'invalid_request', param])
  const isNamed = field === null ? param === null : param === field || param?.startsWith(`${field}.`) === true
  expect([cell, param, isNamed]).toEqual([cell, param, true])
  expect([cell, ALL.fingerprint()]).toEqual([cell, before])
}

describe.each(writes)('%s', (name, route) => {
  const path = pathOf(route.path, own)
  const good = bodyOf(route, own, OWN) ?? {}

  test('what is no JSON object', async () => {
    const whole = route.bodySchema === null || route.bodyOptional ? NO_BODIES : [...NO_BODIES, EMPTY]
    for (const bad of whole) await expectRefused(name, path, bad)
  })

  test('a body that is wrong in one place', async () => {
    for (const bad of badBodies(route.bodySchema ?? NOTHING, good)) await expectRefused(name, path, bad)
  })

  test('another type, another encoding, too much of it', async () => {
    const before = ALL.fingerprint()
    const raw = JSON.stringify(good)
    for (const [status, param, options] of [
      [415, 'Content-Type', { raw, headers: { 'content-type': 'text/plain' } }],
      [415, 'Content-Type', { raw, headers: { 'content-type': 'application/x-www-form-urlencoded' } }],
      [415, 'Content-Type', { raw, headers: { 'content-type': 'application/json; charset=latin1' } }],
      [415, 'Content-Encoding', { raw, headers: { 'content-encoding': 'gzip' } }],
      [413, undefined, { raw: `${raw}${' '.repeat(1_048_577)}` }],
    ] as const) {
      const answer = await gateway.call(route.method, path, options)
      expectRefusal(
        `${status} ${param}`,
        answer,
        param === undefined ? [status, 'invalid_request'] : [status, 'invalid_request', param],
      )
    }
    expect(ALL.fingerprint()).toBe(before)
  })

  test('a query of a write that cannot be meant', async () => {
    const before = ALL.fingerprint()
    for (const [param, query] of [
      ['dryrun', 'dryrun=true'],
      ['force', 'force=false&force=true'],
      ['__proto__', '__proto__=1'],
    ] as const) {
      const answer = await gateway.call(route.method, `${path}?${query}`, { raw: JSON.stringify(good) })
      expectRefusal(query, answer, [400, 'invalid_request', param])
    }
    expect(ALL.fingerprint()).toBe(before)
  })

  test('headers of a write that cannot be meant', async () => {
    const before = ALL.fingerprint()
    for (const [param, value] of [
      ['Idempotency-Key', ''],
      ['Idempotency-Key', 'x'.repeat(256)],
      ['X-Gateway-Min-Revision', 'nonsense'],
      ['X-Gateway-Min-Revision', 'F'.repeat(64)],
      ['X-Gateway-Min-Revision', ''],
    ] as const) {
      const answer = await gateway.call(route.method, path, { raw: JSON.stringify(good), headers: { [param]: value } })
      expectRefusal(`${param}: ${value}`, answer, [400, 'invalid_request', param])
    }
    expect(ALL.fingerprint()).toBe(before)
  })
})

describe.each(['setup', 'login'])('POST /auth/%s', (door) => {
  const fresh = startGateway()
  const route = authTable({ ...fresh.deps, ...fresh.door.deps }, () => {}).find(({ path }) => path === `/${door}`)!
  const good = { username: 'ada', password: PASSWORD, ...(door === 'setup' ? { confirm: PASSWORD } : {}) }
  const send = (raw: string, headers: Record<string, string> = {}) =>
    fresh.call('POST', `/auth/${door}`, { key: null, raw, headers })
  const tooMuch = [413, 'invalid_request'] as const
  const isUnchanged = () =>
    expect([fresh.state.table('operators').size, fresh.state.table('sessions').size, fresh.vault.size]).toEqual([
      0, 0, 0,
    ])

  test('takes none of the bad bodies, hashes nothing for them, and makes no operator', async () => {
    // Any text may be tried as a password, and as a user name that an earlier build may have accepted.
    const isTried = (bad: BadBody) =>
      bad.what.startsWith('password is "a') || (door === 'login' && isUnreadable(bad, 'username'))
    const bodies = badBodies(route.bodySchema!, good).filter((bad) => !isTried(bad))
    for (const { what, raw, field } of [...NO_BODIES, EMPTY, ...bodies]) {
      const answer = await send(raw)
      const param = paramOf(answer)
      if (raw.length > 16_384) expectRefusal(what, answer, tooMuch)
      else {
        expectRefusal(what, answer, param === null ? [400, 'invalid_request'] : [400, 'invalid_request', param])
        expect([what, param]).toEqual([what, field])
      }
    }
    expectRefusal('too long', await send(JSON.stringify({ ...good, confirm: 'x'.repeat(20_000) })), tooMuch)
    for (const type of ['text/plain', 'application/x-www-form-urlencoded'])
      expectRefusal(type, await send(JSON.stringify(good), { 'content-type': type }), [
        415,
        'invalid_request',
        'Content-Type',
      ])
    expect(fresh.door.hashed).toEqual({ hash: 0, verify: 0 })
    isUnchanged()
  })
})
