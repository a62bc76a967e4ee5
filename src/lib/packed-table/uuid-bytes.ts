// The 16 bytes of a UUID as ids spell it: 36 characters, lower case.
import { readDigits, writeDigits } from './hex-digits.ts'

export const UUID_BYTES = 16
export const UUID_CHARACTERS = 36
const HYPHEN = 0x2d

/** Characters before a UUID at most. */
const MOST_PREFIX = 32
// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII
const ASCII = /^[\x00-\x7f]*$/

// Holds a prefix and digits; `uuidText` writes all digits that it reads, and only as many characters as it has written.
const scratch = Buffer.alloc(MOST_PREFIX + UUID_CHARACTERS, HYPHEN)

const isHyphenated = (text: string, from: number): boolean =>
  text.charCodeAt(from + 8) === HYPHEN &&
  text.charCodeAt(from + 13) === HYPHEN &&
  text.charCodeAt(from + 18) === HYPHEN &&
  text.charCodeAt(from + 23) === HYPHEN

/**
 * Writes the bytes of the UUID at `from`. False for a text that would be read differently: the written bytes are
 * invalid then.
 */
export const readUuid = (text: string, from: number, into: Uint8Array, at: number): boolean =>
  isHyphenated(text, from) &&
  readDigits(text, from, 8, into, at) &&
  readDigits(text, from + 9, 4, into, at + 4) &&
  readDigits(text, from + 14, 4, into, at + 6) &&
  readDigits(text, from + 19, 4, into, at + 8) &&
  readDigits(text, from + 24, 12, into, at + 10)

/** The text of a UUID behind its prefix, made as one string. */
export const uuidText = (bytes: Uint8Array, at: number, prefix = ''): string => {
  if (prefix !== scratchPrefix && !putPrefix(prefix)) return `${prefix}${uuidText(bytes, at)}`
  const from = prefix.length
  writeDigits(bytes, at, 4, scratch, from)
  writeDigits(bytes, at + 4, 2, scratch, from + 9)
  writeDigits(bytes, at + 6, 2, scratch, from + 14)
  writeDigits(bytes, at + 8, 2, scratch, from + 19)
  writeDigits(bytes, at + 10, 6, scratch, from + 24)
  return scratch.toString('latin1', 0, from + UUID_CHARACTERS)
}

// Mutable: the prefix that is in `scratch`; `uuidText` is synchronous, so no caller finds another one.
let scratchPrefix = ''

/**
 * Ids that are read together mostly share a prefix. False, and nothing written, when it is too long or not all ASCII.
 */
const putPrefix = (prefix: string): boolean => {
  if (prefix.length > MOST_PREFIX || !ASCII.test(prefix)) return false
  scratch.fill(HYPHEN)
  scratch.write(prefix, 'latin1')
  scratchPrefix = prefix
  return true
}
