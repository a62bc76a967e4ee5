// The folder of the server's socket. Only the account of the server may enter it, so no other account can take the
// socket's place, also while no server runs. The path of a socket is short: a long data.dir gets a folder elsewhere.
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Account, reachable } from './install.ts'

/** Part of the socket's name: a Postgres without TCP still has a port. */
export const SOCKET_PORT = 5432
const SOCKET = `.s.PGSQL.${SOCKET_PORT}`
/** What an address of a socket holds, without the NUL behind it. */
const MAX_PATH_BYTES = process.platform === 'darwin' ? 103 : 107
const PRIVATE = 0o700

const pointerIn = (folder: string): string => join(folder, 'socket-folder')

const ownerOf = (account: Account | null): number => account?.uid ?? process.getuid?.() ?? 0

/** Whether it is a folder that only this account may enter. A link is none. */
const isPrivate = (path: string, uid: number): boolean => {
  const found = lstatSync(path, { throwIfNoEntry: false })
  return found?.isDirectory() === true && found.uid === uid && (found.mode & 0o777) === PRIVATE
}

const isShort = (folder: string): boolean => Buffer.byteLength(join(folder, SOCKET)) <= MAX_PATH_BYTES

/** Some file systems (shared folders of virtual machines) hold no sockets. */
const holdsSockets = (folder: string): boolean => {
  const unix = join(folder, '.probe')
  try {
    rmSync(unix, { force: true })
    Bun.listen<undefined>({ unix, socket: { data() {} } }).stop(true)
    return true
  } catch {
    return false
  } finally {
    rmSync(unix, { force: true })
  }
}

/** Closes a folder of ours to all others; false when it cannot be used for the socket. */
const close = (path: string, account: Account | null): boolean => {
  try {
    chmodSync(path, PRIVATE)
    if (account !== null) chownSync(path, account.uid, account.gid)
  } catch {
    return false // of another account, as after a copy: it stays as it is
  }
  return isPrivate(path, ownerOf(account)) && isShort(path) && reachable(path, account) && holdsSockets(path)
}

/**
 * The folder for the socket, made and closed to others; the one of the last start where it still is ours. `folder` is
 * the data folder's `postgres`, `place` the folder that holds the cluster.
 */
export const socketFolderFor = (folder: string, place: string, account: Account | null): string => {
  const chosen = besideCluster(place, account) ?? lastOf(folder, account) ?? elsewhere(account)
  writeFileSync(`${pointerIn(folder)}.new`, chosen, { mode: 0o600 })
  renameSync(`${pointerIn(folder)}.new`, pointerIn(folder))
  return chosen
}

const besideCluster = (place: string, account: Account | null): string | null => {
  const path = join(place, 'socket')
  if (!isShort(path)) return null
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) {
    rmSync(path, { force: true })
    mkdirSync(path, { mode: PRIVATE })
  }
  return close(path, account) ? path : null
}

/** The folder of the last start, made again under its name: the address then holds over a restart. */
const lastOf = (folder: string, account: Account | null): string | null => {
  const path = existsSync(pointerIn(folder)) ? readFileSync(pointerIn(folder), 'utf8').trim() : ''
  if (!path.startsWith('/')) return null
  if (isPrivate(path, ownerOf(account))) return isShort(path) && holdsSockets(path) ? path : null
  try {
    mkdirSync(path, { mode: PRIVATE }) // fails where anything has this name
  } catch {
    return null
  }
  return close(path, account) ? path : null
}

const elsewhere = (account: Account | null): string => {
  for (const root of [tmpdir(), '/tmp', '/var/tmp', '/run']) {
    try {
      const path = mkdtempSync(join(root, 'gatelog-'))
      if (close(path, account)) return path
      rmSync(path, { recursive: true, force: true })
    } catch {
      // It does not exist here, or may not be written: the next one.
    }
  }
  throw new Error(
    'the embedded Postgres has no folder for its socket: data.dir is too long for one, or its file system holds ' +
      'none, and neither can one be made in the temporary folder; name a shorter data.dir, or set database.url',
  )
}

/** The folder of the present server's socket; null when there is none that is closed to others. */
export const socketFolderOf = (folder: string, cluster: string): string | null => {
  if (!existsSync(pointerIn(folder))) return null
  const path = readFileSync(pointerIn(folder), 'utf8').trim()
  const uid = lstatSync(cluster, { throwIfNoEntry: false })?.uid ?? lstatSync(path, { throwIfNoEntry: false })?.uid
  return uid !== undefined && isPrivate(path, uid) ? path : null
}

/**
 * Removes what a server that was killed left there; no process of it runs. A folder that was removed meanwhile is made
 * again; throws when it is not this account's.
 */
export const clearSocketFolder = (path: string, account: Account | null): void => {
  if (!existsSync(path)) {
    mkdirSync(path, { mode: PRIVATE })
    close(path, account)
  }
  if (!isPrivate(path, ownerOf(account)))
    throw new Error(`the folder of the socket, ${path}, is not this account's alone: restart the gateway`)
  for (const name of [SOCKET, `${SOCKET}.lock`]) rmSync(join(path, name), { force: true })
}

/** A folder outside the data folder goes with the server. */
export const leaveSocketFolder = (path: string, place: string): void => {
  if (!path.startsWith(join(place, '/'))) rmSync(path, { recursive: true, force: true })
}
