import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { similarity, unitVector } from '../../../../src/inference/cache/semantic/vector.ts'
import { VectorIndex } from '../../../../src/inference/cache/semantic/vector-index.ts'

const vectorOf = (...values: number[]) => unitVector(values)!

describe('a vector in eight bits', () => {
  test('keeps the similarity to a hundredth', () => {
    const values = fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: 64, maxLength: 64 })
    fc.assert(
      fc.property(values, values, (left, right) => {
        const [a, b] = [unitVector(left), unitVector(right)]
        const dot = (x: number[], y: number[]) => x.reduce((sum, value, i) => sum + value * y[i]!, 0)
        const lengths = Math.sqrt(dot(left, left) * dot(right, right))
        fc.pre(a !== null && b !== null && lengths > 1e-6)
        expect(Math.abs(similarity(a!, b!)! - dot(left, right) / lengths)).toBeLessThan(0.02)
      }),
      { numRuns: 500 },
    )
  })

  test('is none without a direction, and compares to none of another length', () => {
    for (const values of [[0, 0], [], [Number.NaN, 1], [Number.POSITIVE_INFINITY, 1]])
      expect(unitVector(values)).toBeNull()
    expect(similarity(vectorOf(1, 0), vectorOf(1, 0, 0))).toBeNull()
    expect(similarity(vectorOf(1, 0), vectorOf(1, 0))).toBeCloseTo(1)
  })
})

describe('the index', () => {
  test('finds what is near within its partition, the nearest first', () => {
    const index = new VectorIndex(1_000_000)
    index.add('p', 'same', vectorOf(1, 0, 0))
    index.add('p', 'near', vectorOf(1, 0.2, 0))
    index.add('p', 'far', vectorOf(0, 1, 0))
    index.add('q', 'other', vectorOf(1, 0, 0))
    expect(index.search('p', vectorOf(1, 0, 0), 0.85, 8).map(({ key }) => key)).toEqual(['same', 'near'])
    expect(index.search('p', vectorOf(1, 0, 0), 0.85, 1).length).toBe(1)
    expect(index.search('r', vectorOf(1, 0, 0), 0, 8)).toEqual([])
    expect(index.search('p', vectorOf(1, 0), 0, 8)).toEqual([])
  })

  test('an entry has one vector, until it is removed', () => {
    const index = new VectorIndex(1_000_000)
    index.add('p', 'a', vectorOf(1, 0))
    index.add('q', 'a', vectorOf(0, 1))
    expect(index.search('p', vectorOf(1, 0), 0.5, 8)).toEqual([])
    expect(index.size).toBe(1)
    index.remove('a')
    index.remove('a')
    expect([index.size, index.bytes]).toEqual([0, 0])
  })

  test('vectors of another model are not mixed in', () => {
    const index = new VectorIndex(1_000_000)
    index.add('p', 'a', vectorOf(1, 0))
    index.add('p', 'b', vectorOf(1, 0, 0))
    expect(index.size).toBe(1)
  })

  test('stays within its bound, whatever is added', () => {
    const add = fc.record({ partition: fc.nat({ max: 6 }), key: fc.nat({ max: 400 }), isGone: fc.boolean() })
    fc.assert(
      fc.property(fc.array(add, { maxLength: 400 }), (steps) => {
        const index = new VectorIndex(20_000)
        for (const { partition, key, isGone } of steps) {
          if (isGone) index.remove(String(key))
          else index.add(String(partition), String(key), vectorOf(1, key, partition, 0, 1, 1, 1, 1))
          expect(index.bytes).toBeLessThanOrEqual(20_000)
          expect(index.bytes).toBeGreaterThanOrEqual(index.size * 384)
        }
      }),
      { numRuns: 200 },
    )
  })

  test('a partition that is full forgets its oldest entry', () => {
    const index = new VectorIndex(4_000)
    for (let i = 0; i < 100; i++) index.add('p', `k${i}`, vectorOf(1, i / 100))
    const found = index.search('p', vectorOf(1, 0), 0, 1_000).map(({ key }) => key)
    expect(found.length).toBe(index.size)
    expect(found).toContain('k99')
    expect(found).not.toContain('k0')
  })
})
