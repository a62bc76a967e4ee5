// A directory that one process holds for its life: BEGIN IMMEDIATE on a lock.db in it. The kernel frees it when the process dies.
// Not EXCLUSIVE: of two that try at once neither got that, since each stands in the other's way as a reader, and a start made a spool more than it needed.
import { Database } from 'bun:sqlite'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../lib/process/error-code.ts'

export interface HeldLock {
  readonly directory: string
  release(): void
}

/** A handle that the garbage collector takes gives its lock away, so each is kept here until it is released. */
const held = new Set<Database>()

/** Which file stands at a path now, as text; null: none. With its birth, since an inode is given out again. */
const fileAt = (path: string): string | null => {
  const found = statSync(path, { throwIfNoEntry: false })
  return found === undefined ? null : `${found.ino} ${found.birthtimeMs}`
}

const openDatabase = (path: string): Database => new Database(path, { create: true, readwrite: true })

/**
 * Takes the lock of an existing directory; null when somebody (this process too) holds it, or removes it meanwhile. `openFile` makes the file where there is
 * none. Throws what SQLite says of a file that stands there and cannot be opened.
 */
export const tryLock = (directory: string, openFile = openDatabase): HeldLock | null => {
  const path = join(directory, 'lock.db')
  const folder = fileAt(directory)
  const open = (at: string): Database | null => {
    try {
      return openFile(at)
    } catch (error) {
      if (isBusy(error)) return null
      // It says the same of a folder that is gone (one made anew is another) as of one that may not be written, or of too many open files.
      const now = fileAt(directory)
      if (isUnopened(error) && (now === null || now !== folder)) return null
      throw error
    }
  }
  if (fileAt(path) === null) open(path)?.close()
  const known = fileAt(path)
  const database = known === null ? null : open(path)
  if (database === null) return null
  try {
    database.run('PRAGMA busy_timeout = 0')
    database.run('BEGIN IMMEDIATE')
  } catch (error) {
    database.close()
    // Of a file whose directory was just removed SQLite says many things.
    if (isBusy(error) || fileAt(path) !== known) return null
    throw error
  }
  // Who held it before may have removed the directory, and freed the lock of a file that nobody can find any more. What was there before the open and is there now
  // is what was opened.
  if (fileAt(path) !== known) {
    database.close()
    return null
  }
  held.add(database)
  return {
    directory,
    release() {
      if (held.delete(database)) database.close()
    },
  }
}

/** Whether SQLite says that another connection holds what this one wants. */
export const isBusy = (error: unknown): boolean => /^SQLITE_(BUSY|LOCKED)/.test(codeOf(error) ?? '')

const isUnopened = (error: unknown): boolean => codeOf(error) === 'SQLITE_CANTOPEN'
