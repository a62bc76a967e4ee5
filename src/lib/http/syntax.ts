// Syntax that heads of requests and responses share: characters, numbers and names (RFC 9112 and 9110), compared as
// bytes.

export const HTAB = 9
export const LF = 10
export const CR = 13
export const SPACE = 32
export const COLON = 58
const DEL = 127
const ZERO = 48
const MOST_DIGITS = 15

/** 1 for each byte of a token, such as the name of a header. */
export const TOKEN = new Uint8Array(256)
for (const byte of Buffer.from("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))
  TOKEN[byte] = 1

export const isDigit = (byte: number): boolean => byte >= ZERO && byte <= ZERO + 9
/** Bytes of a header's value or a reason phrase: no control characters but the tab. */
export const isText = (byte: number): boolean => (byte >= SPACE && byte !== DEL) || byte === HTAB
export const isSpace = (byte: number): boolean => byte === SPACE || byte === HTAB
export const isLineEnd = (bytes: Buffer, at: number): boolean => bytes[at] === CR && bytes[at + 1] === LF

/** Whether the token at `at` is this name, given in lower case; the lengths must be equal. */
export const isNamed = (bytes: Buffer, at: number, name: string): boolean => {
  for (let i = 0; i < name.length; i++) if ((bytes[at + i]! | 32) !== name.charCodeAt(i)) return false
  return true
}

/** A whole number of 1 to 15 digits between spaces, or null. */
export const lengthIn = (bytes: Buffer, from: number, to: number): number | null => {
  let at = from
  let end = to
  while (at < end && isSpace(bytes[at]!)) at++
  while (at < end && isSpace(bytes[end - 1]!)) end--
  const digits = end - at
  let length = 0
  for (; at < end && isDigit(bytes[at]!); at++) length = length * 10 + bytes[at]! - ZERO
  return at < end || digits === 0 || digits > MOST_DIGITS ? null : length
}
