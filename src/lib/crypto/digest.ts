// SHA-256, HMAC and key derivation: the digests of which ids, keys and MACs are made.
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'

export type Bytes = string | Uint8Array

/** SHA-256 as 32 bytes. */
export const sha256 = (bytes: Bytes): Uint8Array => Bun.SHA256.hash(bytes) as Uint8Array

/** SHA-256 into 32 bytes that the caller reuses. */
export const sha256Into = (bytes: Bytes, into: Uint8Array): void => {
  Bun.SHA256.hash(bytes, into)
}

/** SHA-256 as 64 lower-case hex digits. */
export const sha256Hex = (bytes: Bytes): string => Bun.SHA256.hash(bytes, 'hex')

/** HMAC-SHA-256 as 64 lower-case hex digits. */
export const hmacHex = (key: Uint8Array, bytes: Bytes): string => createHmac('sha256', key).update(bytes).digest('hex')

/** Compares two strings in time that depends on their length only. */
export const sameText = (left: string, right: string): boolean => {
  const a = Buffer.from(left)
  const b = Buffer.from(right)
  return a.length === b.length && timingSafeEqual(a, b)
}

/** A separate 32-byte key for each purpose, derived from one master key (HKDF-SHA-256). */
export const deriveKey = (master: Uint8Array, purpose: string): Uint8Array =>
  new Uint8Array(hkdfSync('sha256', master, new Uint8Array(0), `gatelog/${purpose}`, 32))
