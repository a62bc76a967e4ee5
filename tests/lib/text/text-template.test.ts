// A text that is written over a template is equal to the JSON of the values, for all values. A value that does not fit
// is refused.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { charsOf, latin1Length, wholeText, writeText } from '../../../src/lib/text/text-pieces.ts'
import { type GapValue, GrowingTemplate, gap, TextTemplate } from '../../../src/lib/text/text-template.ts'

const number = fc.oneof(fc.nat(), fc.maxSafeNat(), fc.constant(null), fc.nat({ max: 9 }))
const id = fc.stringMatching(/^[A-Za-z0-9._-]{1,128}$/)
const kinds = fc.array(fc.boolean(), { minLength: 1, maxLength: 8 })
const valuesOf = (isText: readonly boolean[]): fc.Arbitrary<GapValue[]> =>
  fc.tuple(...isText.map((text) => (text ? id : number) as fc.Arbitrary<GapValue>))
const record = (values: readonly GapValue[], name: string) => ({
  [name]: values,
  last: { deep: values.at(-1), name },
  once: 1,
})
/** The values and the last of them once more are gaps of their own. */
const gaps = (values: readonly GapValue[]) => {
  const stand = (value: GapValue, place: number) => (typeof value === 'string' ? String(gap(place)) : gap(place))
  return record(values.map(stand), 'n')
}
const templateOf = (values: readonly GapValue[]): TextTemplate => {
  const text = JSON.stringify({ ...gaps(values), last: null })
  return TextTemplate.of(text, values)!
}

test('the text with other values, in room that the first ones have', () => {
  fc.assert(
    fc.property(
      kinds.chain((isText) => fc.tuple(valuesOf(isText), valuesOf(isText), fc.nat(9))),
      ([first, second, at]) => {
        const template = templateOf(first)
        for (const values of [first, second]) {
          const filled = template.filled(values)
          if (values === first) expect(filled).not.toBeNull()
          if (filled === null) continue
          const buffer = Buffer.alloc(8_192, '#')
          const end = writeText(buffer, at, ['<', filled, '>'])
          expect(JSON.parse(buffer.toString('latin1', at + 1, end - 1))).toEqual({ n: values, last: null, once: 1 })
          expect(buffer.toString('latin1', end - 1, end + 2)).toBe('>##')
          expect(wholeText([filled])).toBe(buffer.toString('latin1', at + 1, end - 1))
          expect(latin1Length([filled])).toBe(end - at - 2)
          expect(charsOf([filled])).toBe(end - at - 2)
        }
      },
    ),
    { numRuns: 3_000 },
  )
})

test('a number that ends a text, as that of an id does', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(), { minLength: 1, maxLength: 4 }), fc.maxSafeNat(), fc.nat(), (all, large, other) => {
      const ids = all.map((_, place) => `ins_1.e.${gap(place)}`)
      const template = TextTemplate.of(JSON.stringify({ ids, other: gap(all.length) }), [...all, other])!
      for (const values of [[...all, other], all.map(() => 0).concat(other), [large, ...all.slice(1), other]]) {
        const filled = template.filled(values)
        if (filled === null) expect(values[0]).toBe(large)
        else
          expect(JSON.parse(wholeText([filled]))).toEqual({
            ids: values.slice(0, -1).map((n) => `ins_1.e.${n}`),
            other: values.at(-1),
          })
      }
      expect(template.filled([null, ...all.slice(1), other])).toBeNull()
      // Nor where it is none when the template is made.
      const unknown = [null, ...all.slice(1), other]
      const late = TextTemplate.of(JSON.stringify({ ids, other: gap(all.length) }), unknown)!
      expect(late.filled(unknown)).toBeNull()
      expect(JSON.parse(wholeText([late.filled([7, ...unknown.slice(1)])!])).ids[0]).toBe('ins_1.e.7')
    }),
  )
})

test('numbers of the same size and ids of the same length always have room', () => {
  const template = templateOf(['ins_1.epoch.436', 1_795_749_378_325, 12])
  expect(template.filled(['ins_1.epoch.9999999', 9_999_999_999_999, 999_999])).not.toBeNull()
  expect(template.filled(['x'.repeat(41), 1, 1])).toBeNull()
  expect(template.filled(['x', 10_000_000_000_000, 1])).toBeNull()
  expect(template.filled(['x', 1, 1_000_000])).toBeNull()
})

test('what is no count, or of another kind than the gap, has none', () => {
  const template = templateOf(['text', 1_000])
  for (const value of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 'text'])
    expect(template.filled(['a', value])).toBeNull()
  for (const value of [1, null]) expect(template.filled([value, 1])).toBeNull()
})

test('more values than gaps, or fewer, are not filled in', () => {
  const template = templateOf([1, 2])
  for (const values of [[1], [1, 2, null], [1, 2, 3]]) expect(template.filled(values)).toBeNull()
})

test('what grows gets room, and keeps room for what was there before; what cannot be is given up', () => {
  const growing = new GrowingTemplate(JSON.stringify({ id: String(gap(0)), n: gap(1) }))
  for (const values of [
    ['a', 1],
    ['b'.repeat(60), 1],
    ['c', 9_000_000_000_000_000],
    ['d'.repeat(60), 8_000_000_000_000_001],
  ] as GapValue[][])
    expect(JSON.parse(wholeText([growing.filled(values)!]))).toEqual({ id: values[0], n: values[1] })
  for (const json of [JSON.stringify({ name: 'ü', n: gap(0) }), JSON.stringify({ name: String(gap(0)), n: gap(0) })]) {
    const never = new GrowingTemplate(json)
    for (let i = 0; i < 3; i++) expect(never.filled([i])).toBeNull()
  }
})

test('a name that looks like a gap, or has characters of several bytes, makes no template', () => {
  for (const name of [String(gap(0)), `a${gap(1)}b`, 'ü', '\u{1f600}'])
    expect(TextTemplate.of(JSON.stringify({ name, a: gap(0), b: gap(1) }), [1, 2])).toBeNull()
  expect(TextTemplate.of(JSON.stringify({ a: gap(0) }), [1, 2])).toBeNull()
})
