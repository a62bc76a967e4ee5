import { expect, test } from 'bun:test'
import { crc32c } from '../../../src/lib/compression/crc32c.ts'

test('the vectors of RFC 3720', () => {
  const vector = (bytes: ArrayLike<number>) => crc32c(Uint8Array.from(bytes)).toString(16)
  expect(vector(new Uint8Array(32))).toBe('8a9136aa')
  expect(vector(new Uint8Array(32).fill(0xff))).toBe('62a8ab43')
  expect(vector(Uint8Array.from({ length: 32 }, (_, index) => index))).toBe('46dd794e')
  expect(vector(new TextEncoder().encode('123456789'))).toBe('e3069283')
})

test('a range is the CRC of its bytes, at any alignment', () => {
  const bytes = Uint8Array.from({ length: 64 }, (_, index) => (index * 37) & 0xff)
  for (let start = 0; start < 10; start++) {
    for (let end = start; end < 40; end++) expect(crc32c(bytes, start, end)).toBe(crc32c(bytes.slice(start, end)))
  }
})

/** By its definition, a bit at a time. */
const slowly = (bytes: Uint8Array): number => {
  let remainder = -1
  for (const byte of bytes) {
    remainder ^= byte
    for (let bit = 0; bit < 8; bit++) remainder = remainder & 1 ? (remainder >>> 1) ^ 0x82f63b78 : remainder >>> 1
  }
  return ~remainder >>> 0
}

test('a long message, of any length and alignment, has the CRC that the definition gives it', () => {
  const bytes = Uint8Array.from({ length: 120_000 }, (_, index) => (index * index * 7_919 + (index >> 3)) >> 5)
  const before = bytes.slice()
  const lengths = [16_383, 16_384, 100_000]
  for (let more = 0; more < 40; more++) lengths.push(21_655 + more, 16_384 + 997 * more)
  for (const [index, length] of lengths.entries()) {
    const start = (index * 13) % 61
    expect(crc32c(bytes, start, start + length)).toBe(slowly(bytes.subarray(start, start + length)))
  }
  expect(bytes).toEqual(before)
})
