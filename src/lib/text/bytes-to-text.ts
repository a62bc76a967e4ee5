// Bytes as text without a view of them: the first view of a read makes a buffer, which costs 1 % of a request.

const BYTE_ORDER_MARK = 0xfeff

/** What stands there of UTF-8 as text, or null (then it was made for nothing, which is seldom) where that is not beyond doubt: with a byte order mark, or with the sign that stands for bytes that are none. */
export const plainText = (bytes: Buffer, from: number, to: number): string | null => {
  const text = bytes.toString('utf8', from, to)
  return text.charCodeAt(0) === BYTE_ORDER_MARK || text.includes('\ufffd') ? null : text
}

export const viewOf = (bytes: Buffer, from: number, to: number): Buffer =>
  from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to)
