// Sealing: a secret under a data key of its own (AES-256-GCM), the data key under a key derived from the master key.
// Both are bound to the key's id and to their subject, so that a text that was sealed for one row opens for no other.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { deriveKey, sha256Hex } from '../../lib/crypto/digest.ts'

const IV_BYTES = 12
const TAG_BYTES = 16
export const DATA_KEY_BYTES = 32

/**
 * The key that wraps data keys, and its fingerprint: it identifies the master key that a data key needs, and reveals
 * nothing of it.
 */
export interface WrappingKey {
  readonly fingerprint: string
  readonly key: Uint8Array
}

export const wrappingKey = (masterKey: Uint8Array): WrappingKey => ({
  key: deriveKey(masterKey, 'data-key-wrapping'),
  fingerprint: sha256Hex(deriveKey(masterKey, 'master-key-fingerprint')).slice(0, 16),
})

export const newDataKey = (): Uint8Array => new Uint8Array(randomBytes(DATA_KEY_BYTES))

const boundTo = (purpose: string, keyId: string, subject: string): Buffer =>
  Buffer.from(JSON.stringify([purpose, keyId, subject]))

const encrypt = (key: Uint8Array, plain: Uint8Array, aad: Buffer): Buffer => {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(aad)
  return Buffer.concat([iv, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

/** Throws when the bytes are not the encrypted ones, or were encrypted for something else. */
const decrypt = (key: Uint8Array, bytes: Uint8Array, aad: Buffer): Buffer => {
  if (bytes.length < IV_BYTES + TAG_BYTES) throw new Error('too short to be sealed')
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV_BYTES)).setAAD(aad)
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
  return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()])
}

const base64 = (bytes: Buffer): string => bytes.toString('base64')
const fromBase64 = (text: string): Buffer => Buffer.from(text, 'base64')

export const wrapDataKey = (wrapping: WrappingKey, keyId: string, subject: string, dataKey: Uint8Array): string =>
  base64(encrypt(wrapping.key, dataKey, boundTo('data-key', keyId, subject)))

export const unwrapDataKey = (wrapping: WrappingKey, keyId: string, subject: string, wrapped: string): Uint8Array =>
  new Uint8Array(decrypt(wrapping.key, fromBase64(wrapped), boundTo('data-key', keyId, subject)))

export const sealSecret = (dataKey: Uint8Array, keyId: string, subject: string, secret: string): string =>
  base64(encrypt(dataKey, Buffer.from(secret), boundTo('secret', keyId, subject)))

export const openSecret = (dataKey: Uint8Array, keyId: string, subject: string, sealed: string): string =>
  decrypt(dataKey, fromBase64(sealed), boundTo('secret', keyId, subject)).toString('utf8')

/** As `sealSecret`, for bytes that stay bytes. */
export const sealBytes = (dataKey: Uint8Array, keyId: string, subject: string, plain: Uint8Array): Uint8Array =>
  encrypt(dataKey, plain, boundTo('bytes', keyId, subject))

export const openBytes = (dataKey: Uint8Array, keyId: string, subject: string, sealed: Uint8Array): Uint8Array =>
  decrypt(dataKey, sealed, boundTo('bytes', keyId, subject))
