// The key file of an installation without `security.master_key`: made once, read by every process of the data folder.
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { codeOf } from './error-code.ts'
import { ConfigError } from './settings.ts'

const KEY_BYTES = 32

/** Reads the key file, or null when there is none. Throws ConfigError when it holds something else or others may read it. */
export const readMasterKey = (path: string): Uint8Array | null => {
  let text: string
  try {
    if ((statSync(path).mode & 0o077) !== 0)
      throw new ConfigError(`${path} can be read by others: run chmod 600 ${path}`)
    text = readFileSync(path, 'utf8').trim()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
  const key = Buffer.from(text, 'base64')
  if (key.length !== KEY_BYTES) {
    throw new ConfigError(
      `${path} must hold 32 bytes in base64; restore it from a backup: without it nothing sealed can be opened`,
    )
  }
  return new Uint8Array(key)
}

/**
 * Reads the key file, making it first when there is none: mode 0600, on disk before it has its name, and the same key for all processes
 * that try at once (the name is taken by `link`, which fails for all but one).
 */
export const readOrMakeMasterKey = (path: string): Uint8Array => {
  const existing = readMasterKey(path)
  if (existing !== null) return existing
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const temporary = `${path}.${randomBytes(6).toString('hex')}`
  const file = openSync(temporary, 'wx', 0o600)
  try {
    writeSync(file, `${randomBytes(KEY_BYTES).toString('base64')}\n`)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  try {
    linkSync(temporary, path)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  } finally {
    unlinkSync(temporary)
  }
  syncFolder(dirname(path))
  return readMasterKey(path)!
}

const syncFolder = (path: string): void => {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
