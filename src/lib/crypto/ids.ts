// Ids that sort by time, and API keys.

import { randomBytes } from 'node:crypto'
import { wallMs } from '../time/wall-clock.ts'

/** Prefixes of ids by what they name. They are stored, so they never change. */
export type IdPrefix =
  | 'prov'
  | 'mod'
  | 'key'
  | 'ten'
  | 'pol'
  | 'end'
  | 'ovr'
  | 'bud'
  | 'rule'
  | 'tool'
  | 'tpol'
  | 'cred'
  | 'req'
  | 'dek'
  | 'ins'
  | 'chain'
  | 'trace'
  | 'test'
  | 'fb'
  | 'op'
  | 'ses'
  | 'pcor'

/**
 * `<prefix>_<UUIDv7>` (RFC 9562). `atMs`: Unix milliseconds of the id, now by default. Ids of one process sort by time,
 * also within a millisecond.
 */
export const newId = (prefix: IdPrefix, atMs = wallMs()): string => `${prefix}_${Bun.randomUUIDv7('hex', atMs)}`

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

const KEY_PREFIX = 'gw_live_'
/** 256 bits of randomness in base62. */
const KEY_DIGITS = 43
/** Characters of a key that the gateway generates. */
export const MINTED_KEY_LENGTH = KEY_PREFIX.length + KEY_DIGITS

/** `gw_live_` and 43 base62 characters; bytes that would bias them are rejected. */
export const newApiKey = (): string => {
  let digits = ''
  while (digits.length < KEY_DIGITS) {
    for (const byte of randomBytes(64)) {
      if (byte < 248 && digits.length < KEY_DIGITS) digits += BASE62[byte % 62]
    }
  }
  return KEY_PREFIX + digits
}
