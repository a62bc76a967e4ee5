import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { canonicalJson, RowSetDigest, Table } from '../../../src/domain/kernel/tables.ts'

interface Row {
  readonly name: string
  readonly group: string | null
  readonly words: readonly string[]
}
const indexes = {
  name: (row: Row) => row.name,
  group: (row: Row) => row.group,
  word: (row: Row) => (row.words.length === 0 ? null : row.words),
}
const id = fc.constantFrom('a', 'b', 'c', 'd')
const row: fc.Arbitrary<Row> = fc.record({
  name: fc.constantFrom('x', 'y', 'z'),
  group: fc.constantFrom('g', 'h', null),
  words: fc.array(fc.constantFrom('u', 'v', 'w'), { maxLength: 3 }),
})
const steps = fc.array(fc.record({ id, row: fc.option(row, { nil: null }) }), { maxLength: 20 })

/** The same table, written as plainly as it can be. */
const check = (table: Table<Row>, model: ReadonlyMap<string, Row>) => {
  expect(new Map(table.rows())).toEqual(new Map(model))
  expect(table.size).toBe(model.size)
  for (const key of ['a', 'b', 'c', 'd']) expect(table.get(key)).toEqual(model.get(key)!)
  for (const [index, keys] of [
    ['name', ['x', 'y', 'z']],
    ['group', ['g', 'h']],
    ['word', ['u', 'v', 'w']],
  ] as const) {
    for (const key of keys) {
      const expected = [...model]
        .filter(([, value]) => [indexes[index](value)].flat().includes(key))
        .map(([found]) => found)
      expect([...table.find(index, key)].sort()).toEqual(expected.sort())
    }
  }
}
const apply = (
  table: Table<Row>,
  model: Map<string, Row>,
  { id: key, row: value }: { id: string; row: Row | null },
) => {
  table.set(key, value)
  if (value === null) model.delete(key)
  else model.set(key, value)
}

describe('a table', () => {
  test('holds what was set, found by every index, whatever the order of changes', () => {
    fc.assert(
      fc.property(steps, (changes) => {
        const table = new Table<Row>('t', indexes)
        const model = new Map<string, Row>()
        for (const change of changes) apply(table, model, change)
        check(table, model)
      }),
    )
  })

  test('an overlay reads through, keeps its own writes, and leaves its parent as it was', () => {
    fc.assert(
      fc.property(steps, steps, steps, (below, above, top) => {
        const parent = new Table<Row>('t', indexes)
        const model = new Map<string, Row>()
        for (const change of below) apply(parent, model, change)
        const overlaid = new Map(model)
        const overlay = new Table<Row>('t', indexes, parent)
        for (const change of above) apply(overlay, overlaid, change)
        const second = new Map(overlaid)
        const overlayOfOverlay = new Table<Row>('t', indexes, overlay)
        for (const change of top) apply(overlayOfOverlay, second, change)
        check(overlayOfOverlay, second)
        check(overlay, overlaid)
        check(parent, model)
      }),
    )
  })
})

/** The same text, written as plainly as it can be. */
const plainly = (value: unknown): string => {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(plainly).join(',')}]`
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  members.sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${plainly(member)}`).join(',')}}`
}

test('canonical JSON has its members in order, whatever they are called', () => {
  const name = fc.oneof(fc.constantFrom('1', '10', '9', '01', '-1', '', '__proto__', 'toJSON', 'a', 'b', 'c', 'é'))
  const value = fc.letrec((tie) => ({
    any: fc.oneof(
      { maxDepth: 4 },
      fc.jsonValue({ maxDepth: 0 }),
      tie('object'),
      fc.array(tie('any'), { maxLength: 3 }),
    ),
    object: fc.dictionary(name, fc.option(tie('any'), { nil: undefined })),
  })).any
  fc.assert(
    fc.property(value, (one) => {
      expect(canonicalJson(one)).toBe(plainly(one))
    }),
  )
})

describe('the digest of a set of rows', () => {
  test('says the same of equal sets, however they came about', () => {
    fc.assert(
      fc.property(steps, (changes) => {
        const digest = new RowSetDigest()
        const model = new Map<string, Row>()
        for (const { id: key, row: value } of changes) {
          const before = model.get(key)
          if (before !== undefined) digest.toggle('t', key, before)
          if (value !== null) digest.toggle('t', key, value)
          if (value === null) model.delete(key)
          else model.set(key, value)
        }
        const fresh = new RowSetDigest()
        for (const [key, value] of [...model].reverse()) fresh.toggle('t', key, value)
        expect(digest.hex()).toBe(fresh.hex())
      }),
    )
  })

  test('differs by table, id and value', () => {
    const of = (table: string, key: string, value: unknown) => {
      const digest = new RowSetDigest()
      digest.toggle(table, key, value)
      return digest.hex()
    }
    expect(new Set([of('t', 'a', 1), of('u', 'a', 1), of('t', 'b', 1), of('t', 'a', 2)]).size).toBe(4)
  })

  test('is indifferent to the order of members and to absent ones', () => {
    expect(canonicalJson({ b: 1, a: [{ d: undefined, c: 2 }] })).toBe(canonicalJson({ a: [{ c: 2 }], b: 1 }))
  })
})
