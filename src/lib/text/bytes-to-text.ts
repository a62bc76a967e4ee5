// Text of bytes without a view of them: the first view of a read materialises a buffer, which costs 1 % of a request.

const BYTE_ORDER_MARK = 0xfeff

/**
 * UTF-8 bytes as text, or null (after decoding, which is rare) when the text may not stand for exactly these bytes:
 * with a byte order mark, or with the replacement character.
 */
export const bytesToText = (bytes: Buffer, from: number, to: number): string | null => {
  const text = bytes.toString('utf8', from, to)
  return text.charCodeAt(0) === BYTE_ORDER_MARK || text.includes('\ufffd') ? null : text
}

export const viewOf = (bytes: Buffer, from: number, to: number): Buffer =>
  from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to)
