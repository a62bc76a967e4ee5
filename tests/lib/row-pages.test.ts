import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { RowPages } from '../../src/lib/row-pages.ts'

/** What is stored under a number: from where it is said to begin, for as long as it should be. */
const stored = (pages: RowPages, number: number, length: number): Buffer =>
  pages.bytesOf(number).subarray(pages.offsetOf(number), pages.offsetOf(number) + length)

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
  const pages = new RowPages()
  const lastRound = new Map<number, number>()
  for (let round = 0; round < 40; round++) {
    for (let number = 0; number < 10_000; number++) {
      if (round > 0 && number % 3 === 0 && number % 40 !== round) continue // two thirds of a page die with each round
      pages.put(number, filled(90 + (number % 40), number + round))
      lastRound.set(number, round)
    }
  }
  for (const [number, round] of lastRound) {
    const record = filled(90 + (number % 40), number + round)
    expect(stored(pages, number, record.length).equals(record)).toBe(true)
  }
})
