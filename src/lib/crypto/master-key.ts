// The key file of an installation without `security.master_key`: created once, read by every process of the data
// folder. One key a line: the current one first, then those that are still accepted during a rotation.
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { codeOf } from '../process/error-code.ts'
import { syncFolder } from '../process/sync-folder.ts'
import { ConfigError } from '../settings/settings.ts'

const KEY_BYTES = 32
const DRAFT = /\.[0-9a-f]{12}$/

/** Reads the key file; null when there is none. Throws ConfigError when it is malformed or others may read it. */
export const readMasterKeys = (path: string): readonly [Uint8Array, ...Uint8Array[]] | null => {
  let text: string
  try {
    if ((statSync(path).mode & 0o077) !== 0)
      throw new ConfigError(`${path} can be read by others: run chmod 600 ${path}`)
    text = readFileSync(path, 'utf8').trim()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
  const [first, ...rest] = text.split('\n').map((line) => new Uint8Array(Buffer.from(line.trim(), 'base64')))
  if (first === undefined || [first, ...rest].some(({ length }) => length !== KEY_BYTES)) {
    throw new ConfigError(
      `${path} must hold 32 bytes in base64; restore it from a backup: without it nothing sealed can be opened`,
    )
  }
  return [first, ...rest]
}

export const newMasterKey = (): Uint8Array => new Uint8Array(randomBytes(KEY_BYTES))

/**
 * Replaces the key file. A concurrent reader, or one after a crash, finds all old keys or all new ones. Removes drafts
 * that a crash left beside it. For one process at a time.
 */
export const writeMasterKeys = (path: string, keys: readonly [Uint8Array, ...Uint8Array[]]): void => {
  const draft = writeDraft(path, keys)
  try {
    renameSync(draft, path)
  } catch (error) {
    unlinkSync(draft)
    throw error
  }
  for (const name of readdirSync(dirname(path))) {
    if (name.startsWith(`${basename(path)}.`) && DRAFT.test(name)) unlinkSync(join(dirname(path), name))
  }
  syncFolder(dirname(path))
}

/**
 * Reads the key file and creates it first when there is none: mode 0600, on disk before it has its name, and the same
 * key for all processes that try at once (`link` takes the name and fails for all but one).
 */
export const readOrMakeMasterKeys = (path: string): readonly [Uint8Array, ...Uint8Array[]] => {
  const existing = readMasterKeys(path)
  if (existing !== null) return existing
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const draft = writeDraft(path, [newMasterKey()])
  try {
    linkSync(draft, path)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  } finally {
    unlinkSync(draft)
  }
  syncFolder(dirname(path))
  return readMasterKeys(path)!
}

/** Writes the keys to a file beside it, synced; returns its name. */
const writeDraft = (path: string, keys: readonly Uint8Array[]): string => {
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  const file = openSync(draft, 'wx', 0o600)
  try {
    writeSync(file, keys.map((key) => `${Buffer.from(key).toString('base64')}\n`).join(''))
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  return draft
}
