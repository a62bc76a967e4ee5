// CRC-32C (Castagnoli), eight bytes at a time. Bun.hash.crc32 is the other polynomial. 1.8 GB/s measured on Bun 1.4.4.

const POLYNOMIAL = 0x82f63b78

/** Table k holds, at k * 256 + byte, the remainder of that byte followed by k zero bytes. */
const TABLES = (() => {
  const tables = new Int32Array(8 * 256)
  for (let byte = 0; byte < 256; byte++) {
    let remainder = byte
    for (let bit = 0; bit < 8; bit++) remainder = remainder & 1 ? (remainder >>> 1) ^ POLYNOMIAL : remainder >>> 1
    tables[byte] = remainder
  }
  for (let index = 256; index < tables.length; index++) {
    const previous = tables[index - 256]!
    tables[index] = (previous >>> 8) ^ tables[previous & 0xff]!
  }
  return tables
})()

/** CRC-32C of `bytes[start, end)`, unsigned. */
export const crc32c = (bytes: Uint8Array, start = 0, end = bytes.length): number => {
  let remainder = -1
  let at = start
  for (; at + 8 <= end; at += 8) {
    const low = remainder ^ (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24))
    remainder =
      TABLES[1792 + (low & 0xff)]! ^
      TABLES[1536 + ((low >>> 8) & 0xff)]! ^
      TABLES[1280 + ((low >>> 16) & 0xff)]! ^
      TABLES[1024 + (low >>> 24)]! ^
      TABLES[768 + bytes[at + 4]!]! ^
      TABLES[512 + bytes[at + 5]!]! ^
      TABLES[256 + bytes[at + 6]!]! ^
      TABLES[bytes[at + 7]!]!
  }
  for (; at < end; at++) remainder = (remainder >>> 8) ^ TABLES[(remainder ^ bytes[at]!) & 0xff]!
  return ~remainder >>> 0
}
