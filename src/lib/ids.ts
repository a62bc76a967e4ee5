// Ids that sort by time, and API keys.
import { randomBytes } from 'node:crypto'

/** Prefixes of ids, by what they name. Stored for ever. */
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

/** `<prefix>_<UUIDv7>`. */
export const newId = (prefix: IdPrefix): string => `${prefix}_${Bun.randomUUIDv7()}`

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** `gw_live_` and 43 base62 characters (256 bits of randomness, by rejection of the bytes that would bias it). */
export const newApiKey = (): string => {
  let key = ''
  while (key.length < 43) {
    for (const byte of randomBytes(64)) {
      if (byte < 248 && key.length < 43) key += BASE62[byte % 62]
    }
  }
  return `gw_live_${key}`
}
