// CRC-32C (Castagnoli), sixteen bytes at a time, by tables. `Bun.hash.crc32` uses the other polynomial.

const POLYNOMIAL = 0x82f63b78

/** Table k holds, at k * 256 + byte, the remainder of that byte followed by k zero bytes. */
const TABLES = (() => {
  const tables = new Int32Array(16 * 256)
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
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let remainder = -1
  let at = start
  for (; at + 16 <= end; at += 16) {
    const a = remainder ^ view.getInt32(at, true)
    const b = view.getInt32(at + 4, true)
    const c = view.getInt32(at + 8, true)
    const d = view.getInt32(at + 12, true)
    remainder =
      TABLES[3840 + (a & 0xff)]! ^
      TABLES[3584 + ((a >>> 8) & 0xff)]! ^
      TABLES[3328 + ((a >>> 16) & 0xff)]! ^
      TABLES[3072 + (a >>> 24)]! ^
      TABLES[2816 + (b & 0xff)]! ^
      TABLES[2560 + ((b >>> 8) & 0xff)]! ^
      TABLES[2304 + ((b >>> 16) & 0xff)]! ^
      TABLES[2048 + (b >>> 24)]! ^
      TABLES[1792 + (c & 0xff)]! ^
      TABLES[1536 + ((c >>> 8) & 0xff)]! ^
      TABLES[1280 + ((c >>> 16) & 0xff)]! ^
      TABLES[1024 + (c >>> 24)]! ^
      TABLES[768 + (d & 0xff)]! ^
      TABLES[512 + ((d >>> 8) & 0xff)]! ^
      TABLES[256 + ((d >>> 16) & 0xff)]! ^
      TABLES[d >>> 24]!
  }
  for (; at < end; at++) remainder = (remainder >>> 8) ^ TABLES[(remainder ^ bytes[at]!) & 0xff]!
  return ~remainder >>> 0
}
