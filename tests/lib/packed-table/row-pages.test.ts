import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { RowPages } from '../../../src/lib/packed-table/row-pages.ts'

/** What is stored under a number: from where it is said to begin, for as long as it should be. */
const stored = (pages: RowPages, number: number, length: number): Buffer =>
  storedAt(pages, pages.placeOf(number), length)

const storedAt = (pages: RowPages, place: number, length: number): Buffer =>
  pages.bytesAt(place).subarray(pages.offsetAt(place), pages.offsetAt(place) + length)

const filled = (length: number, byte: number) => Buffer.alloc(length, byte % 251)

test('what was put under a number is there until it is replaced or removed, of whatever size', () => {
  const length = fc.oneof(
    { weight: 20, arbitrary: fc.nat(400) },
    { weight: 2, arbitrary: fc.integer({ min: 20_000, max: 65_535 }) },
    { weight: 1, arbitrary: fc.constantFrom(65_535, 65_536, 131_072, 1_100_000) },
  )
  const steps = fc.array(fc.record({ number: fc.nat(60), length: fc.option(length, { nil: null, freq: 4 }) }), {
    maxLength: 300,
    size: 'max',
  })
  fc.assert(
    fc.property(steps, (taken) => {
      const pages = new RowPages()
      const expected = new Map<number, Buffer>()
      for (const [step, { number, length: bytes }] of taken.entries()) {
        if (bytes === null) {
          pages.remove(number)
          expected.delete(number)
        } else {
          const record = filled(bytes, step)
          pages.put(number, record)
          expected.set(number, record)
        }
      }
      for (let number = 0; number <= 60; number++) {
        const record = expected.get(number)
        expect(pages.has(number)).toBe(record !== undefined)
        if (record !== undefined) expect(stored(pages, number, record.length).equals(record)).toBe(true)
      }
    }),
    { numRuns: 60 },
  )
})

test('records stay as they are when the pages around them die and are emptied', () => {
  /** Where whoever is told of each move believes them to be. */
  const places = new Map<number, number>()
  let moves = 0
  const pages = new RowPages((number, from, to) => {
    expect(places.get(number)).toBe(from)
    places.set(number, to)
    moves += 1
  })
  const lastRound = new Map<number, number>()
  for (let round = 0; round < 40; round++) {
    for (let number = 0; number < 10_000; number++) {
      if (round > 0 && number % 3 === 0 && number % 40 !== round) continue // two thirds of a page die with each round
      pages.put(number, filled(90 + (number % 40), number + round))
      places.set(number, pages.placeOf(number))
      lastRound.set(number, round)
    }
  }
  for (const [number, round] of lastRound) {
    const record = filled(90 + (number % 40), number + round)
    const place = places.get(number)!
    expect(pages.placeOf(number)).toBe(place)
    expect(pages.numberAt(place)).toBe(number)
    expect(storedAt(pages, place, record.length).equals(record)).toBe(true)
  }
  expect(moves).toBeGreaterThan(0)
})
