import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { IndexSet } from '../../../src/lib/collections/index-set.ts'
import { IntegerMap } from '../../../src/lib/collections/integer-map.ts'

const member = (name: number) => ({ name, place: -1 })
const namesIn = (indexSet: IndexSet<ReturnType<typeof member>>) => {
  const names: number[] = []
  indexSet.each(({ name }) => names.push(name))
  return names.sort((a, b) => a - b)
}

test('an index set holds what a set would', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat(20))), (steps) => {
      const all = Array.from({ length: 21 }, (_, name) => member(name))
      const indexSet = new IndexSet<(typeof all)[number]>()
      const set = new Set<number>()
      for (const [adds, name] of steps) {
        if (adds) indexSet.add(all[name]!)
        else indexSet.delete(all[name]!)
        if (adds) set.add(name)
        else set.delete(name)
        expect(indexSet.size).toBe(set.size)
      }
      expect(namesIn(indexSet)).toEqual([...set].sort((a, b) => a - b))
    }),
  )
})

test('nobody is missed when members leave while all are visited', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(9), { maxLength: 30 }), (leaving) => {
      const all = Array.from({ length: 10 }, (_, name) => member(name))
      const indexSet = new IndexSet<(typeof all)[number]>()
      for (const each of all) indexSet.add(each)
      const visited = new Set<number>()
      const left = new Set<number>()
      let step = 0
      indexSet.each(({ name }) => {
        visited.add(name)
        const who = leaving[step++]
        if (who === undefined) return
        left.add(who)
        indexSet.delete(all[who]!)
      })
      for (const { name } of all) expect(visited.has(name) || left.has(name)).toBe(true)
    }),
  )
})

test('a table by numbers holds what a map would, however keys collide and whatever is removed', () => {
  const key = fc.oneof(
    fc.nat(40),
    fc.nat(10).map((n) => n * 64),
    fc.nat(10).map((n) => n * 128 + 63),
  )
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.integer({ min: 0, max: 2 }), key), { maxLength: 400 }), (steps) => {
      const table = new IntegerMap<string>()
      const map = new Map<number, string>()
      for (const [index, [what, at]] of steps.entries()) {
        if (what > 0) {
          table.set(at, `value ${index}`)
          map.set(at, `value ${index}`)
        } else {
          expect(table.delete(at)).toBe(map.get(at) as string)
          map.delete(at)
        }
        expect(table.size).toBe(map.size)
      }
      for (const at of [...steps.map(([, at]) => at), 41, 9_999]) expect(table.get(at)).toBe(map.get(at) as string)
      expect(table.entries().sort(([a], [b]) => a - b)).toEqual([...map].sort(([a], [b]) => a - b))
    }),
    { numRuns: 300 },
  )
})

test('a table keeps up with keys that only grow, and stays small', () => {
  const table = new IntegerMap<number>()
  for (let at = 0; at < 200_000; at++) {
    table.set(at, at)
    if (at >= 100 && at !== 5_100) table.delete(at - 100)
  }
  expect(table.size).toBe(101)
  expect(table.get(5_000)).toBe(5_000)
})
