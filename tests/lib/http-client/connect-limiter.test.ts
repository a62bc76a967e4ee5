// Connections on their way to one place: a bound, who waits for it, and what was given up.
import { expect, test } from 'bun:test'
import {
  type ConnectAttempt,
  ConnectLimiter,
  MAX_CONNECTING,
  RETRY_EVERY_MS,
} from '../../../src/lib/http-client/connect-limiter.ts'
import { kindOf, limits } from './dialling.ts'

const HERE = 'p|10.0.0.1|80|null'

const openingsAt = () => {
  const clock = { ms: 10_000 }
  return Object.assign(new ConnectLimiter(() => clock.ms), { clock })
}

/** As many as may be at once. */
const fill = (openings: ConnectLimiter): ConnectAttempt[] =>
  Array.from({ length: MAX_CONNECTING }, () => {
    const opening = openings.enter(HERE, limits())
    if (opening instanceof Promise) throw new Error('there was no room')
    return opening
  })

test('beyond the bound whoever comes waits until one is over, in order; other places do not', async () => {
  const openings = openingsAt()
  const [first, second] = fill(openings)
  const order: string[] = []
  const waiting = ['a', 'b'].map(async (name) => {
    await openings.enter(HERE, limits())
    order.push(name)
  })
  expect(openings.enter('p|10.0.0.2|80|null', limits())).not.toBeInstanceOf(Promise)
  await Promise.resolve()
  expect(order).toEqual([])
  first!.end()
  await waiting[0]
  expect(order).toEqual(['a'])
  second!.end()
  await waiting[1]
  expect(order).toEqual(['a', 'b'])
  expect(openings.size).toBe(MAX_CONNECTING + 1)
})

test('what was given up still counts: a place that swallows everything is tried once a second', async () => {
  const openings = openingsAt()
  for (const opening of fill(openings)) opening.abandon()
  const now = () => openings.enter(HERE, limits({ signal: AbortSignal.abort() }))
  for (let second = 0; second < 5; second++) {
    expect(await kindOf(Promise.resolve(now()))).toBe('canceled')
    openings.clock.ms += RETRY_EVERY_MS
    const tried = now()
    if (tried instanceof Promise) throw new Error('it is not tried')
    expect(await kindOf(Promise.resolve(now()))).toBe('canceled')
    tried.abandon()
  }
  expect(openings.size).toBe(MAX_CONNECTING + 5)
})

test('one that waits until those before it are given up is not begun for the moment that it has left', async () => {
  const openings = openingsAt()
  const held = fill(openings)
  const waiting = Array.from({ length: 500 }, () =>
    kindOf(Promise.resolve(openings.enter(HERE, limits({ connectMs: 1 })))),
  )
  for (const opening of held) opening.abandon()
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(['timeout_connect']))
  expect(openings.size).toBe(MAX_CONNECTING)
})

test('once it answers again, all come through', async () => {
  const openings = openingsAt()
  const held = fill(openings)
  for (const opening of held) opening.abandon()
  let passed = 0
  const come = async () => {
    const opening = await openings.enter(HERE, limits())
    passed++
    opening.end()
  }
  const early = Array.from({ length: 50 }, come)
  openings.clock.ms += RETRY_EVERY_MS
  await Promise.all([...early, ...Array.from({ length: 50 }, come)])
  for (const opening of held) opening.end()
  expect([passed, openings.size]).toEqual([100, 0])
})

test('whoever waits is told in time, or when nobody wants it any more, and takes no place', async () => {
  const openings = openingsAt()
  const held = fill(openings)
  expect(await kindOf(Promise.resolve(openings.enter(HERE, limits({ connectMs: 1 }))))).toBe('timeout_connect')
  const leaving = new AbortController()
  const canceled = kindOf(Promise.resolve(openings.enter(HERE, limits({ signal: leaving.signal }))))
  leaving.abort()
  expect(await canceled).toBe('canceled')
  for (const opening of held) {
    opening.end()
    opening.end() // told twice counts once
    opening.abandon()
  }
  expect(openings.size).toBe(0)
})
