// What an attacker who has the disks can find: every wrapped key in every file, and what the remaining master keys open
// with them.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { openSecret, unwrapDataKey, wrappingKey } from '../../../../src/state/data-keys/crypto.ts'

/** A text that was sealed: under which key, and what for. */
export interface Sealed {
  readonly keyId: string
  readonly about: string
  readonly sealed: string
}

export interface Found {
  readonly files: number
  /** Wraps of data keys in them, each counted once. */
  readonly wraps: number
  /** Data keys that a master key opens. */
  readonly keys: number
  /** Sealed texts that one of those keys opens. */
  readonly opened: number
}

const WRAP = /"key_id":"([^"]+)","subject":"([^"]*)","master":"[^"]*","wrapped":"([A-Za-z0-9+/=]+)"/g

const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile() === true)

const attempt = <Result>(open: () => Result): Result | null => {
  try {
    return open()
  } catch {
    return null // not this key
  }
}

/**
 * Tries every wrapped key found anywhere below the folders (databases, journals, segments, snapshots, caches) with
 * every master key.
 */
export const breakIn = (
  folders: readonly string[],
  masterKeys: readonly Uint8Array[],
  sealed: readonly Sealed[],
): Found => {
  const files = folders.flatMap(filesBelow)
  const wraps = new Map<string, { keyId: string; subject: string; wrapped: string }>()
  for (const path of files) {
    for (const [, keyId, subject, wrapped] of readFileSync(path).toString('latin1').matchAll(WRAP))
      wraps.set(wrapped!, { keyId: keyId!, subject: subject!, wrapped: wrapped! })
  }
  const masters = masterKeys.map(wrappingKey)
  const keys = [...wraps.values()].flatMap(({ keyId, subject, wrapped }) =>
    masters.flatMap((master) => attempt(() => unwrapDataKey(master, keyId, subject, wrapped)) ?? []),
  )
  const opens = ({ keyId, about, sealed: text }: Sealed): boolean =>
    keys.some((key) => attempt(() => openSecret(key, keyId, about, text)) !== null)
  return { files: files.length, wraps: wraps.size, keys: keys.length, opened: sealed.filter(opens).length }
}
