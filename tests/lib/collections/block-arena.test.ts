import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { BlockArena } from '../../../src/lib/collections/block-arena.ts'

const NONE = new Uint8Array(0)

test('runs of any length come back as they were written, while others come and go', () => {
  const run = fc.record({ head: fc.uint8Array({ maxLength: 40 }), rest: fc.uint8Array({ maxLength: 200 }) })
  const step = fc.oneof(run, fc.nat())
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const arena = new BlockArena(50, 16)
      const kept: { first: number; bytes: Buffer }[] = []
      for (const each of steps) {
        if (typeof each === 'number') {
          const [gone] = kept.splice(each % Math.max(1, kept.length), 1)
          if (gone !== undefined) arena.release(gone.first)
          continue
        }
        const bytes = Buffer.concat([each.head, each.rest])
        const free = arena.free
        const first = arena.write(each.head, each.rest)
        expect(first === -1).toBe(arena.blocksOf(bytes.length) > free)
        if (first !== -1) kept.push({ first, bytes })
      }
      for (const { first, bytes } of kept) {
        expect(Buffer.from(arena.read(first, 0, bytes.length)).equals(bytes)).toBe(true)
        const middle = bytes.length >> 1
        expect(Buffer.from(arena.read(first, middle, bytes.length)).equals(bytes.subarray(middle))).toBe(true)
        expect(arena.startsWith(first, bytes.subarray(0, 16))).toBe(true)
      }
      const used = kept.reduce((sum, { bytes }) => sum + arena.blocksOf(bytes.length), 0)
      expect(arena.free).toBe(50 - used)
    }),
    { numRuns: 500 },
  )
})

test('a run that does not fit leaves everything as it was', () => {
  const arena = new BlockArena(4, 8)
  const first = arena.write(Buffer.from('abcdefgh'), Buffer.from('ijkl'))
  expect(arena.write(new Uint8Array(25), NONE)).toBe(-1)
  expect(arena.free).toBe(2)
  expect(Buffer.from(arena.read(first, 0, 12)).toString()).toBe('abcdefghijkl')
})
