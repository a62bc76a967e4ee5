import { expect, test } from 'bun:test'
import { crc32c } from '../../src/lib/crc32c.ts'

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
