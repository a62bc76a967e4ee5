// Lower-case hex digits to bytes and back, in place, for values that are packed and read millions of times.

const NONE = 0x80
/** Value of the digit, or NONE, by character code. */
const VALUES = new Uint8Array(128).fill(NONE)
const CODES = new Uint8Array(16)
for (const [value, digit] of [...'0123456789abcdef'].entries()) {
  VALUES[digit.charCodeAt(0)] = value
  CODES[value] = digit.charCodeAt(0)
}

const valueAt = (text: string, at: number): number => {
  const code = text.charCodeAt(at)
  return code < VALUES.length ? VALUES[code]! : NONE
}

/**
 * Writes `digits` digits of the text as bytes. False when one of them is no lower-case digit: the written bytes are
 * invalid then.
 */
export const readDigits = (text: string, from: number, digits: number, into: Uint8Array, at: number): boolean => {
  let invalid = 0
  for (let index = 0; index < digits; index += 2) {
    const high = valueAt(text, from + index)
    const low = valueAt(text, from + index + 1)
    invalid |= high | low
    into[at + (index >> 1)] = (high << 4) | low
  }
  return (invalid & NONE) === 0
}

/** Whether the text is these bytes as digits. */
export const sameDigits = (text: string, bytes: Uint8Array, from: number, count: number): boolean => {
  if (text.length !== 2 * count) return false
  for (let index = 0; index < count; index++) {
    const byte = bytes[from + index]!
    if (text.charCodeAt(2 * index) !== CODES[byte >> 4] || text.charCodeAt(2 * index + 1) !== CODES[byte & 15])
      return false
  }
  return true
}

/** Writes `count` bytes as digits. */
export const writeDigits = (bytes: Uint8Array, from: number, count: number, into: Uint8Array, at: number): void => {
  for (let index = 0; index < count; index++) {
    const byte = bytes[from + index]!
    into[at + 2 * index] = CODES[byte >> 4]!
    into[at + 2 * index + 1] = CODES[byte & 15]!
  }
}
