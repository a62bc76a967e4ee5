import { expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  charsOf,
  latin1Length,
  TextPrefix,
  wholeText,
  writeLatin1,
  writeText,
} from '../../../src/lib/text/text-pieces.ts'

const number = fc.oneof(
  fc.nat({ max: 20 }),
  fc.nat(),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.constantFrom(
    0,
    9,
    10,
    99,
    100,
    0x7fff_ffff,
    0x8000_0000,
    999_999_999,
    1_000_000_000,
    7_999_999_999,
    8_999_999_999_999_999,
    4_503_599_999_999_999,
    Number.MAX_SAFE_INTEGER,
    0.5,
    -1,
    1e21,
    1.7976931348623157e308,
  ),
  fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Object.is(value, -0)),
)
const word = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.string({ maxLength: 60 }),
  fc.constantFrom('', 'é', '\u{1f600}', 'x'.repeat(39), 'x'.repeat(40), 'x'.repeat(41), `${'x'.repeat(39)}é`),
)
const ROOM = 8_192

test('a text without its end is written over from where it ends, in the room of the whole', () => {
  const end = fc.stringMatching(/^\}[ \n\r\t]{0,9}$/)
  fc.assert(
    fc.property(word, end, fc.array(fc.oneof(word, number), { maxLength: 4 }), fc.nat(9), (text, last, more, at) => {
      const pieces = [new TextPrefix(text + last, text.length), ...more, last]
      const expected = `${text}${more.join('')}${last}`
      const buffer = Buffer.alloc(at + Buffer.byteLength(expected) + 4, '#')
      const to = writeText(buffer, at, pieces)
      expect(buffer.toString('utf8', at, to)).toBe(Buffer.from(expected).toString())
      expect(buffer.toString('latin1', to)).toBe('####')
      expect(wholeText(pieces)).toBe(expected)
      expect(charsOf(pieces)).toBeGreaterThanOrEqual(expected.length)
      // It writes all of it: whoever asks how much room it needs hears of that.
      expect(charsOf([pieces[0]!])).toBe(text.length + last.length)
    }),
    { numRuns: 2_000 },
  )
})

test('pieces are written as the text that they are together', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(word, number), { maxLength: 12 }), fc.nat(9), (pieces, at) => {
      const buffer = Buffer.alloc(ROOM, '#')
      const whole = pieces.map(String).join('')
      expect(wholeText(pieces)).toBe(whole)
      const end = writeText(buffer, at, pieces)
      expect(buffer.toString('utf8', at, end)).toBe(Buffer.from(whole).toString())
      expect(buffer.toString('latin1', end, end + 5)).toBe('#####')
      expect(end - at).toBeLessThanOrEqual(3 * charsOf(pieces))
    }),
    { numRuns: 5_000 },
  )
})

test('text of one byte for each character', () => {
  const latin1 = fc.string({
    unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)),
    maxLength: 60,
  })
  fc.assert(
    fc.property(fc.array(fc.oneof(latin1, number), { maxLength: 12 }), fc.nat(9), (pieces, at) => {
      const buffer = Buffer.alloc(ROOM, '#')
      const whole = pieces.map(String).join('')
      expect(latin1Length(pieces)).toBe(whole.length)
      const end = writeLatin1(buffer, at, pieces)
      expect(end - at).toBe(whole.length)
      expect(buffer.toString('latin1', at, end + 5)).toBe(`${whole}#####`)
    }),
    { numRuns: 5_000 },
  )
})
