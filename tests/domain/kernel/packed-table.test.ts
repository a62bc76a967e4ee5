import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { ControlState } from '../../../src/domain/control.ts'
import { PackedTable } from '../../../src/domain/kernel/packed-table.ts'
import { canonicalJson, RowSetDigest, Table } from '../../../src/domain/kernel/tables.ts'

interface Row {
  readonly group: string | null
  readonly word: string
  readonly more?: unknown
}
const indexes = { group: (row: Row) => row.group, word: (row: Row) => row.word }
const packing = { shared: ['group', 'tags'], nearlyUnique: ['word'] }

const UUID = '0198a7f2-1c3d-7e4f-8a9b-0c1d2e3f4a5b'
/** Texts that are written short, and their like that must not be. */
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('a'.repeat(64), 'A'.repeat(64), '0'.repeat(31), 'é'.repeat(300), '\ud800', 'x'.repeat(70_000)),
  fc.constantFrom(`key_${UUID}`, UUID, `${UUID}_`, `key_${UUID.toUpperCase()}`, `${'p'.repeat(40)}${UUID}`),
  fc.constantFrom('2026-11-20T12:00:00.000Z', '2026-02-30T12:00:00.000Z', '1969-12-31T23:59:59.999Z', '2026-11-20'),
)
const id = fc.oneof(
  fc.constantFrom('a', 'b', 'c', 'd', `key_${UUID}`),
  fc.nat(40).map((number) => `row_${number}`),
)
const row: fc.Arbitrary<Row> = fc.oneof(
  fc.record(
    {
      group: fc.constantFrom('g', 'h', null),
      word: fc.oneof(fc.constantFrom('x', 'y', 'a', 'b'), text),
      tags: fc.option(fc.array(fc.constantFrom('inference', '*')), { nil: undefined }),
      more: fc.oneof(text, fc.jsonValue()),
    },
    { requiredKeys: ['group', 'word'] },
  ),
  // Members that this build knows nothing of.
  fc
    .dictionary(fc.oneof(text, fc.constantFrom('__proto__', '10', '9')), fc.jsonValue())
    .map((more) => Object.assign(JSON.parse(JSON.stringify(more)), { group: 'g', word: 'x' }) as Row),
)
const steps = fc.array(fc.record({ id, row: fc.option(row, { nil: null, freq: 3 }) }), { maxLength: 120 })

const sorted = (values: Iterable<unknown>) => [...values].map(canonicalJson).sort()

/** In bytes, as they are hashed. */
const texts = (table: { texts(): Iterable<string | Uint8Array> }) =>
  Array.from(table.texts(), (text) => Buffer.from(text).toString('hex')).sort()

const READ = new Set(['more', 'word', 'none'])

/** Of rows that have one key it is not said which is read. */
const expectOneAlike = (packed: PackedTable<Row>, plain: Table<Row>, word: string) => {
  const rows = plain.findRows('word', word).map((row) => ({ more: row.more ?? null, word: row.word, none: null }))
  for (const table of [packed, plain]) {
    const into = { more: 'before', word: 'before', none: 'before', other: 'stays' }
    expect(table.readOne('word', word, READ, into)).toBe(rows.length)
    const { other, ...read } = into
    expect(other).toBe('stays')
    if (rows.length === 0) expect(read).toEqual({ more: 'before', word: 'before', none: 'before' })
    else expect(sorted(rows)).toContain(canonicalJson(read))
  }
}

const expectAlike = (packed: PackedTable<Row>, plain: Table<Row>) => {
  expect(packed.size).toBe(plain.size)
  expect(sorted(packed.rows())).toEqual(sorted(plain.rows()))
  expect(texts(packed)).toEqual(texts(plain))
  const keys = { group: new Set<string>(['none']), word: new Set<string>(['none']) }
  for (const [key, value] of plain.rows()) {
    expect(canonicalJson(packed.get(key))).toBe(canonicalJson(value))
    if (value.group !== null) keys.group.add(value.group)
    keys.word.add(value.word)
  }
  for (const index of ['group', 'word'] as const) {
    for (const key of keys[index]) {
      expect(packed.find(index, key).toSorted()).toEqual(plain.find(index, key).toSorted())
      expect(sorted(packed.findRows(index, key))).toEqual(sorted(plain.findRows(index, key)))
    }
  }
  for (const key of keys.word) expectOneAlike(packed, plain, key)
}

describe('a packed table', () => {
  test('is a table: what was set is found, as it was, by id and by every index', () => {
    fc.assert(
      fc.property(steps, (changes) => {
        const packed = new PackedTable<Row>('t', indexes, packing)
        const plain = new Table<Row>('t', indexes)
        for (const { id: key, row: value } of changes) {
          packed.set(key, value)
          plain.set(key, value)
          expect(canonicalJson(packed.get(key))).toBe(canonicalJson(value ?? undefined))
        }
        expectAlike(packed, plain)
      }),
    )
  })

  test('holds ten thousand rows through changes and removals that empty its pages', () => {
    const packed = new PackedTable<Row>('t', indexes, packing)
    const plain = new Table<Row>('t', indexes)
    const both = (key: string, value: Row | null) => {
      packed.set(key, value)
      plain.set(key, value)
    }
    const rowOf = (number: number): Row => ({
      group: `g${number % 7}`,
      word: `w${number}`,
      more: 'x'.repeat(number % 90),
    })
    for (let number = 0; number < 10_000; number++) both(`row_${number}`, rowOf(number))
    for (let number = 0; number < 10_000; number += 3) both(`row_${number}`, null)
    for (let number = 0; number < 10_000; number += 2) both(`row_${number}`, rowOf(number + 1))
    for (let number = 20_000; number < 24_000; number++) both(`row_${number}`, rowOf(number))
    expectAlike(packed, plain)
    for (const [key] of [...plain.rows()]) both(key, null)
    expectAlike(packed, plain)
  })

  test('many values that could be shared are all kept, shared or not', () => {
    const packed = new PackedTable<Row>('t', indexes, packing)
    for (let number = 0; number < 70_000; number++) packed.set(`${number}`, { group: `g${number}`, word: `w${number}` })
    for (const number of [0, 300, 65_000, 69_999]) expect(packed.get(`${number}`)?.group).toBe(`g${number}`)
  })

  test('gives the state the digest that plain rows give', () => {
    fc.assert(
      fc.property(steps, (changes) => {
        const state = new ControlState()
        const rows = new Map<string, unknown>()
        for (const { id: key, row: value } of changes) {
          const before = state.raw('keys').get(key) ?? null
          const after = value && { ...value, tenant_id: value.group, digest: value.word }
          state.apply([{ table: 'keys', id: key, before, after }])
          if (after === null) rows.delete(key)
          else rows.set(key, after)
        }
        const digest = new RowSetDigest()
        for (const [key, value] of rows) digest.toggle('keys', key, value)
        expect(state.digest()).toBe(digest.hex())
      }),
    )
  })
})
