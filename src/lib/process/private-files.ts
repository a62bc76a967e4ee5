// Files and folders that only their owner may read: a data folder holds sealed secrets, digests of keys and records of
// every tenant.
import { chmodSync, closeSync, lstatSync, openSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from './error-code.ts'

const PRIVATE_FILE = 0o600
const PRIVATE_FOLDER = 0o700
const OF_OTHERS = 0o077

/**
 * Before SQLite opens a file, which it would make readable by others: makes the file, or closes an existing one to
 * others. An existing file is not opened: closing it would free the locks that this process holds on it. Errors are
 * left to the opening that follows, which meets and reports them.
 */
export const makePrivate = (path: string): void => {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    if (found === undefined) closeSync(openSync(path, 'wx', PRIVATE_FILE))
    else if ((found.mode & OF_OTHERS) !== 0) chmodSync(path, PRIVATE_FILE)
  } catch {
    // The opening that follows fails with the same error.
  }
}

/**
 * Closes entries of a folder, and all below them, to others. `isOwn`: whether an entry is meant, by its name. What
 * belongs to another account, or has gone meanwhile, stays as it is.
 */
export const makeFolderPrivate = (folder: string, isOwn: (name: string) => boolean = () => true): void => {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (!isOwn(entry.name)) continue
    if (entry.isDirectory()) {
      close(path, PRIVATE_FOLDER)
      makeFolderPrivate(path)
    } else if (entry.isFile()) close(path, PRIVATE_FILE)
  }
}

/** Leaves the permissions of a path that no other account has, and at most those of the mode. */
const close = (path: string, most: number): void => {
  try {
    const { mode } = lstatSync(path)
    if ((mode & OF_OTHERS) !== 0) chmodSync(path, mode & most)
  } catch (error) {
    if (!LEFT_ALONE.has(codeOf(error) ?? '')) throw error
  }
}
const LEFT_ALONE: ReadonlySet<string> = new Set(['ENOENT', 'EPERM', 'EROFS'])
