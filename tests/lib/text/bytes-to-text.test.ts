import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { bytesToText, viewOf } from '../../../src/lib/text/bytes-to-text.ts'

const strict = new TextDecoder('utf-8', { fatal: true })
const strictText = (bytes: Uint8Array): string | null => {
  try {
    return strict.decode(bytes)
  } catch {
    return null
  }
}

/** Bytes that are often nearly UTF-8. */
const someBytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.string({ unit: 'binary', maxLength: 40 }).map((text) => new Uint8Array(Buffer.from(text))),
  fc.tuple(fc.string({ unit: 'binary', maxLength: 20 }), fc.nat(), fc.nat(255)).map(([text, at, byte]) => {
    const bytes = new Uint8Array(Buffer.from(`${text}x`))
    bytes[at % bytes.length] = byte
    return bytes
  }),
)

test('what is told is what a strict decoder says, and what it would refuse or change is not told', () => {
  let told = 0
  fc.assert(
    fc.property(someBytes, fc.nat(5), fc.nat(5), (bytes, before, after) => {
      const all = Buffer.concat([Buffer.alloc(before, 'a'), bytes, Buffer.alloc(after, 'é')])
      const text = bytesToText(all, before, before + bytes.length)
      if (text === null) return
      told++
      expect(text).toBe(strictText(bytes)!)
    }),
    { numRuns: 5_000 },
  )
  expect(told).toBeGreaterThan(1_000)
})

test('plain UTF-8 is told', () => {
  for (const text of ['', '{"a":"é"}', 'a\u0000b', '\u{1f600}', 'x'.repeat(100_000)]) {
    const bytes = Buffer.from(text)
    expect(bytesToText(bytes, 0, bytes.length)).toBe(text)
  }
})

test.each([
  ['a byte order mark', Buffer.from('\ufeff{}')],
  ['the sign for bytes that are no UTF-8, sent as it is', Buffer.from('{"a":"\ufffd"}')],
  ['a byte that is none', Buffer.from([0x7b, 0xff, 0x7d])],
  ['half a character', Buffer.from([0x7b, 0xe2, 0x82])],
  ['a surrogate', Buffer.from([0xed, 0xa0, 0x80])],
])('%s is left to who decides', (_, bytes) => {
  expect(bytesToText(bytes, 0, bytes.length)).toBeNull()
})

test('a view of all of it is the same object', () => {
  const bytes = Buffer.from('abc')
  expect(viewOf(bytes, 0, 3)).toBe(bytes)
  expect(viewOf(bytes, 1, 2).toString()).toBe('b')
})
