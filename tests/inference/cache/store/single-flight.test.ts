import { describe, expect, test } from 'bun:test'
import { SingleFlight } from '../../../../src/inference/cache/store/single-flight.ts'

const LONG_MS = 60_000

describe('identical requests at the same time', () => {
  test('the first one leads, the others find its entry', async () => {
    const flights = new SingleFlight()
    const leader = flights.enter('k', LONG_MS)
    const waiters = [flights.enter('k', LONG_MS), flights.enter('k', LONG_MS)]
    expect(leader.turn).toBe('lead')
    expect([flights.leaders, flights.waiting]).toEqual([1, 2])
    leader.end('stored')
    expect(await Promise.all(waiters.map(({ turn }) => turn))).toEqual(['look', 'look'])
    expect([flights.leaders, flights.waiting]).toEqual([0, 0])
  })

  test('other requests do not wait', () => {
    const flights = new SingleFlight()
    expect([flights.enter('a', LONG_MS).turn, flights.enter('b', LONG_MS).turn]).toEqual(['lead', 'lead'])
  })

  test('a leader that fails hands over to the next, one after the other', async () => {
    const flights = new SingleFlight()
    const [first, second, third, fourth] = Array.from({ length: 4 }, () => flights.enter('k', LONG_MS))
    first!.end('failed')
    expect(await second!.turn).toBe('lead')
    second!.leave() // its client disconnected
    expect(await third!.turn).toBe('lead')
    third!.end('stored')
    expect(await fourth!.turn).toBe('look')
    expect(flights.leaders).toBe(0)
  })

  test('an answer that has no entry lets all others go at once', async () => {
    const flights = new SingleFlight()
    const [leader, ...others] = Array.from({ length: 4 }, () => flights.enter('k', LONG_MS))
    leader!.end('unstorable')
    expect(await Promise.all(others.map(({ turn }) => turn))).toEqual(['alone', 'alone', 'alone'])
    expect(flights.leaders).toBe(0)
  })

  test('a waiting request that leaves is passed over', async () => {
    const flights = new SingleFlight()
    const [leader, left, next] = Array.from({ length: 3 }, () => flights.enter('k', LONG_MS))
    left!.leave()
    leader!.end('failed')
    expect(await next!.turn).toBe('lead')
    left!.end('stored') // it never led
    expect(flights.leaders).toBe(1)
    next!.leave()
    expect(flights.leaders).toBe(0)
  })

  test('a wait ends with its own limit, and the leader with its first end', async () => {
    const flights = new SingleFlight()
    const leader = flights.enter('k', LONG_MS)
    expect(await flights.enter('k', 1).turn).toBe('alone')
    expect(flights.enter('k', 0).turn).toBe('alone')
    leader.end('stored')
    expect(flights.enter('k', LONG_MS).turn).toBe('lead')
    leader.end('failed')
    leader.leave()
    expect(flights.leaders).toBe(1)
  })

  test('so many wait at most', async () => {
    const flights = new SingleFlight(2)
    const all = Array.from({ length: 4 }, () => flights.enter('k', LONG_MS))
    expect(all[3]!.turn).toBe('alone')
    all[0]!.end('stored')
    expect(await all[1]!.turn).toBe('look')
    expect(flights.waiting).toBe(0)
  })
})
