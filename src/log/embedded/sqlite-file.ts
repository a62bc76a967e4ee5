// The SQLite file of a topic: opens it, and distinguishes a damaged file from one that is only in use.
import { Database } from 'bun:sqlite'
import { basename } from 'node:path'
import { codeOf } from '../../lib/process/error-code.ts'
import { makePrivate } from '../../lib/process/private-files.ts'
import { isBusy } from '../lock.ts'
import { IndefiniteAppend, LogDamaged, type LogRecord, LogUnavailable } from '../port.ts'

/** The failure that names the file and the remedy, or null for any other error. */
export const damageOf = (path: string, error: unknown): LogDamaged | null => {
  const code = codeOf(error) ?? ''
  if (!/^SQLITE_(CORRUPT|NOTADB)/.test(code)) return null
  return new LogDamaged(
    `${path} is damaged (${code}): restore ${basename(path)}* of that folder from a backup, ` +
      'instead of all files of that name and no others (they are newer), or move data.dir away to begin anew',
    { cause: error },
  )
}

export interface TopicFile {
  readonly path: string
  readonly compacted: boolean
  /**
   * False: a commit does not wait for the disk; only a checkpoint does, about every thousandth page. The file stays
   * consistent either way.
   */
  readonly synced: boolean
}

/** Opens or makes the file of a topic. Throws LogDamaged or LogUnavailable. */
export const openFile = ({ path, compacted, synced }: TopicFile): Database => {
  try {
    // SQLite gives the mode of the file to those beside it.
    makePrivate(path)
    const database = new Database(path, { create: true, readwrite: true })
    // Only while opening: making the WAL file takes a lock for a moment when several processes start at once.
    database.run('PRAGMA busy_timeout = 2000')
    database.run('PRAGMA journal_mode = WAL')
    database.run(`PRAGMA synchronous = ${synced ? 'FULL' : 'NORMAL'}`)
    if (compacted) database.run('PRAGMA secure_delete = ON')
    database.run('PRAGMA busy_timeout = 0')
    return database
  } catch (error) {
    throw damageOf(path, error) ?? new LogUnavailable(`${path} cannot be opened: ${String(error)}`, { cause: error })
  }
}

/** Moves the write-ahead log into the file and truncates it. False: another connection reads or writes. */
export const emptyJournal = (database: Database, path: string): boolean => {
  try {
    return database.query<{ busy: number }, []>('PRAGMA wal_checkpoint(TRUNCATE)').get()?.busy === 0
  } catch (error) {
    if (isBusy(error)) return false
    // The records are written, the erasure is incomplete: never "nothing was written", and a repeat is harmless.
    throw new IndefiniteAppend(`${path}: ${String(error)}`, { cause: error })
  }
}

/** The rows before the first missing offset. */
export const upToGap = (rows: readonly LogRecord[], next: number): readonly LogRecord[] => {
  for (let index = 0; index < rows.length; index++) {
    if (rows[index]!.offset !== next + index) return rows.slice(0, index)
  }
  return rows
}

/** Whether a file holds a record, without changing it. One that cannot be read is taken for one that does. */
export const holdsRecords = (path: string): boolean => {
  let database: Database | null = null
  try {
    database = new Database(path, { readonly: true })
    const tables = database
      .query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'p[0-9]*'")
      .all()
    return tables.some(({ name }) => database!.query(`SELECT 1 FROM ${name} LIMIT 1`).get() !== null)
  } catch {
    return true
  } finally {
    database?.close()
  }
}
