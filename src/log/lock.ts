// A directory that one process locks for its life: BEGIN IMMEDIATE on a lock.db in it. The kernel frees it when the
// process dies. Not EXCLUSIVE: of two processes that try at once neither would get that, as each blocks the other as a
// reader, and a start would make a spool too many.
import { Database } from 'bun:sqlite'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../lib/process/error-code.ts'
import { makePrivate } from '../lib/process/private-files.ts'

export interface DirectoryLock {
  readonly directory: string
  release(): void
}

/** A handle that is garbage-collected loses its lock, so each is referenced here until it is released. */
const lockedDatabases = new Set<Database>()

/** The identity of the file at a path, as text; null: none. With its birth time, since an inode is reused. */
const fileAt = (path: string): string | null => {
  const found = statSync(path, { throwIfNoEntry: false })
  return found === undefined ? null : `${found.ino} ${found.birthtimeMs}`
}

const openDatabase = (path: string): Database => {
  makePrivate(path)
  return new Database(path, { create: true, readwrite: true })
}

/**
 * Locks an existing directory; null when it is locked already (by this process too), or removed meanwhile. `openFile`
 * creates a missing file. Throws SQLite's error for a file that exists and cannot be opened.
 */
export const tryLock = (directory: string, openFile = openDatabase): DirectoryLock | null => {
  const path = join(directory, 'lock.db')
  const folder = fileAt(directory)
  const open = (at: string): Database | null => {
    try {
      return openFile(at)
    } catch (error) {
      if (isBusy(error)) return null
      // SQLite reports the same error for a removed folder (one made again is another), one without write permission,
      // and too many open files.
      const now = fileAt(directory)
      if (isUnopened(error) && (now === null || now !== folder)) return null
      throw error
    }
  }
  if (fileAt(path) === null) open(path)?.close()
  const before = fileAt(path)
  const database = before === null ? null : open(path)
  if (database === null) return null
  try {
    database.run('PRAGMA busy_timeout = 0')
    database.run('BEGIN IMMEDIATE')
  } catch (error) {
    database.close()
    // For a file in a directory that was just removed, SQLite reports various errors.
    if (isBusy(error) || fileAt(path) !== before) return null
    throw error
  }
  // The previous owner may have removed the directory and freed the lock of a file without a path. If the file before
  // the open and the file now are the same, that one was opened.
  if (fileAt(path) !== before) {
    database.close()
    return null
  }
  lockedDatabases.add(database)
  return {
    directory,
    release() {
      if (lockedDatabases.delete(database)) database.close()
    },
  }
}

/** Whether SQLite reports that another connection holds the lock. */
export const isBusy = (error: unknown): boolean => /^SQLITE_(BUSY|LOCKED)/.test(codeOf(error) ?? '')

const isUnopened = (error: unknown): boolean => codeOf(error) === 'SQLITE_CANTOPEN'
