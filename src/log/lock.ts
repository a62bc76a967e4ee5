// A directory that one process holds for its life: BEGIN IMMEDIATE on a lock.db in it. The kernel frees it when the process dies.
// Not EXCLUSIVE: of two that try at once neither got that, since each stands in the other's way as a reader, and a start made a spool more than it needed.
import { Database } from 'bun:sqlite'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../lib/error-code.ts'

export interface HeldLock {
  readonly directory: string
  release(): void
}

/** A handle that the garbage collector takes gives its lock away, so each is kept here until it is released. */
const held = new Set<Database>()

const inodeOf = (path: string): number | null => statSync(path, { throwIfNoEntry: false })?.ino ?? null

/** Takes the lock of an existing directory, or answers null when somebody (this process too) holds it. */
export const tryLock = (directory: string): HeldLock | null => {
  const path = join(directory, 'lock.db')
  const database = openDatabase(path)
  if (database === null) return null
  try {
    const inode = inodeOf(path)
    database.run('PRAGMA busy_timeout = 0')
    database.run('BEGIN IMMEDIATE')
    // Who held it before may have moved the directory away and freed the lock of a file that nobody can find any more.
    if (inode === null || inodeOf(path) !== inode) {
      database.close()
      return null
    }
  } catch (error) {
    database.close()
    if (isBusy(error)) return null
    throw error
  }
  held.add(database)
  return {
    directory,
    release() {
      if (held.delete(database)) database.close()
    },
  }
}

const openDatabase = (path: string): Database | null => {
  try {
    return new Database(path, { create: true, readwrite: true })
  } catch (error) {
    if (isBusy(error) || isGone(error)) return null
    throw error
  }
}

/** Whether SQLite says that another connection holds what this one wants. */
export const isBusy = (error: unknown): boolean => /^SQLITE_(BUSY|LOCKED)/.test(codeOf(error) ?? '')

const isGone = (error: unknown): boolean => codeOf(error) === 'SQLITE_CANTOPEN'
