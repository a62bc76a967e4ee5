// Whether this process may use a data folder: a usual mistake with containers is a volume that exists and belongs to
// another account.
import { accessSync, chmodSync, constants, existsSync, type Stats, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { Config } from '../config/schema.ts'
import { codeOf } from '../lib/process/error-code.ts'
import { makeFolderPrivate } from '../lib/process/private-files.ts'
import { ConfigError } from '../lib/settings/settings.ts'
import { nodeFiles } from '../log/files.ts'
import { type DirectoryLock, tryLock } from '../log/lock.ts'
import { BALLAST_BYTES, roomOf } from '../log/spool/spool.ts'

// One gateway for each data folder: two would run two Postgres servers and two workers in it, and overwrite each
// other's snapshots.

/**
 * Held for the life of the process; the kernel frees it when the process dies, however that happens. Throws ConfigError
 * when another one holds it, or its file cannot be opened.
 */
export const lockDataDir = (dataDir: string): DirectoryLock => {
  const lock = lockOf(dataDir)
  if (lock !== null) return lock
  throw new ConfigError(
    `another gateway runs in ${resolve(dataDir)}: stop it, name another data.dir (GATEWAY_DATA_DIR), or set ` +
      `server.processes for more processes in one`,
  )
}

const lockOf = (dataDir: string): DirectoryLock | null => {
  try {
    return tryLock(dataDir)
  } catch (error) {
    const code = codeOf(error)
    if (code === null) throw error
    const path = resolve(dataDir, 'lock.db')
    throw new ConfigError(`data.dir: ${path} cannot be opened (${code}): mend its permissions or the disk`)
  }
}

// The room on the disk: what a start makes, and what it keeps free for requests in flight.

const MIB = 1_048_576
/** A new cluster of Postgres with its first segments of WAL. */
const NEW_CLUSTER_MIB = 64
/** Log, snapshot and key files of a start. */
const OWN_FILES_MIB = 16
/** Of each process: the ballast, and as much again. */
const SPOOL_MIB = roomOf(BALLAST_BYTES) / MIB

/** What this start lacks on the disk of the data folder, with what it needs; null: nothing. */
export const roomProblem = (
  { data, server, database }: Pick<Config, 'data' | 'server' | 'database'>,
  freeBytes = nodeFiles.freeBytes(data.dir),
): string | null => {
  const isNew = database.url === null && !existsSync(join(data.dir, 'postgres'))
  const neededMib = SPOOL_MIB * server.processes + OWN_FILES_MIB + (isNew ? NEW_CLUSTER_MIB : 0)
  const freeMib = Math.floor(freeBytes / MIB)
  if (freeMib >= neededMib) return null
  return (
    `the disk of ${resolve(data.dir)} has ${freeMib} MiB free, a start needs ${neededMib} MiB: make room, or ` +
    NAME_ANOTHER
  )
}

/** The error of a start; where the disk was full, one line with the room that is needed. */
export const withRoom = (config: Config, error: unknown): unknown => {
  const code = codeOf(error) ?? codeOf((error as Error | null)?.cause)
  if (code !== 'ENOSPC' && code !== 'SQLITE_FULL' && code !== 'EDQUOT') return error
  return new ConfigError(`data.dir: ${roomProblem(config) ?? `its disk or quota is full (${code})`}`)
}

/**
 * What the gateway makes in a data folder, by the beginning of its name. Not `master.key`, whose mode is the operator's
 * to mend, and not `postgres`, which another account may have to cross.
 */
const MADE_HERE = /^(?:lock\.db|log|spool|history|rotation|control|chain|data-keys)/

/**
 * Closes a data folder to other accounts: what former versions made, or an operator has opened. Nothing else in the
 * folder is touched.
 */
export const closeToOthers = (dir: string): void => {
  if (!existsSync(join(dir, 'spool'))) return
  const { mode, uid } = statSync(dir)
  const most = existsSync(join(dir, 'postgres')) ? 0o710 : 0o700
  if ((mode & 0o777 & ~most) !== 0 && uid === process.geteuid?.()) chmodSync(dir, mode & most)
  makeFolderPrivate(dir, (name) => MADE_HERE.test(name))
}

/** What a process needs of the folder: to keep things in it, or only to read. */
export type Wanted = 'write' | 'read'

/** The calls to the operating system; tests pass a system that refuses. */
export interface AccessPorts {
  /** Throws a system error when this process lacks the access (`R_OK`, `W_OK`, `X_OK`). */
  access(path: string, mode: number): void
  /** Undefined: it does not exist. */
  stat(path: string): Pick<Stats, 'uid' | 'mode' | 'isDirectory'> | undefined
  readonly uid: number | undefined
}

const SYSTEM: AccessPorts = {
  access: accessSync,
  stat: (path) => statSync(path, { throwIfNoEntry: false }),
  uid: process.getuid?.(),
}

/**
 * The entries that every installation has and writes into: made by the first account that started it, which may be
 * another. Not `postgres`, whose files are another account's by design.
 */
const OWN_ENTRIES = ['lock.db', 'log', 'spool']
/**
 * Only read, and replaced as a whole by another file of that name: many operators keep their key in a read-only file,
 * or mount it so.
 */
const READ_ENTRIES = ['chain', 'master.key']

const NAME_ANOTHER = 'name another folder (GATEWAY_DATA_DIR)'

/** Why the folder cannot be used, and what to do, in one line; null: it can, or does not exist. */
export const accessProblem = (dataDir: string, wanted: Wanted, ports: AccessPorts = SYSTEM): string | null => {
  const folder = resolve(dataDir)
  const written = ['', ...OWN_ENTRIES].map((name) => [join(folder, name), wanted] as const)
  const read = READ_ENTRIES.map((name) => [join(folder, name), 'read'] as const)
  for (const [path, access] of [...written, ...read]) {
    const problem = problemAt(path, access, ports)
    if (problem !== null) return problem
  }
  return null
}

const problemAt = (path: string, wanted: Wanted, ports: AccessPorts): string | null => {
  try {
    const found = ports.stat(path)
    if (found === undefined) return null
    const enter = found.isDirectory() ? constants.X_OK : 0
    ports.access(path, constants.R_OK | enter | (wanted === 'write' ? constants.W_OK : 0))
    return null
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return null // it does not exist
    if (code === 'EROFS') return `${path} is on a file system that is read-only: ${NAME_ANOTHER}`
    if (code === 'EACCES' || code === 'EPERM') return refused(path, wanted, ports)
    throw error
  }
}

const refused = (path: string, wanted: Wanted, { stat, uid }: AccessPorts): string => {
  const what = `${path} cannot be ${wanted === 'write' ? 'written' : 'read'} by this process (uid ${uid})`
  const found = nearest(path, stat)
  if (found === null) return `${what}: ${NAME_ANOTHER}`
  const { at, owner, mode } = found
  // The folders above may belong to other programs: the advice is not to change their owner.
  const mend = at === path ? `run chown -R ${uid} ${path}, start as uid ${owner}` : `let it pass ${at}`
  return `${what}: ${at} belongs to uid ${owner}, mode ${mode}; ${mend}, or ${NAME_ANOTHER}`
}

/**
 * The path that is refused itself, else the nearest folder above it that can be read: the one that cannot be crossed.
 */
const nearest = (path: string, stat: AccessPorts['stat']) => {
  for (let at = path; ; at = dirname(at)) {
    try {
      const found = stat(at)
      if (found !== undefined) return { at, owner: found.uid, mode: (found.mode & 0o7777).toString(8) }
    } catch {
      // behind a folder that may not be entered
    }
    if (at === dirname(at)) return null
  }
}
