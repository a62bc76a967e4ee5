// The real Postgres server as a child, for installations without database.url. Its URL is known at once; clients retry
// until it is ready.
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { sleep } from '../../lib/event-loop/sleep.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { tryLock } from '../../log/lock.ts'
import { chooseAccount, findNative, placeFor, placeOf, prepareInstallation } from './install.ts'
import { endLeftovers } from './leftovers.ts'
import { DATABASE, prepareRole, ROLE } from './role.ts'
import { makeCluster, runServer } from './server.ts'
import { clearSocketFolder, leaveSocketFolder, SOCKET_PORT, socketFolderFor, socketFolderOf } from './socket-folder.ts'

// Which major version of Postgres made a cluster: no other one reads it.

/** Two major versions that differ. */
export interface OtherVersion {
  readonly made: string
  readonly runs: string
}

/**
 * The versions of a cluster and of the server of this build, where they differ; null: they agree, or the cluster's is
 * not readable.
 */
export const otherVersion = (cluster: string): OtherVersion | null => {
  const file = join(cluster, 'PG_VERSION')
  const made = existsSync(file) ? readFileSync(file, 'utf8').trim() : ''
  if (!/^\d+(\.\d+)?$/.test(made)) return null // damaged, or half made: the server reports it
  const runs = serverVersion()
  return made === runs ? null : { made, runs }
}

const serverVersion = (): string => {
  const { version } = JSON.parse(readFileSync(join(findNative(), '..', 'package.json'), 'utf8')) as { version: string }
  return version.slice(0, version.indexOf('.'))
}

/**
 * Renames a cluster that no process uses to a free name beside its own, and returns that. Nothing is deleted: it may
 * hold what the log no longer does.
 */
export const moveAside = (cluster: string, { made }: OtherVersion): string => {
  for (let number = 1; ; number++) {
    const aside = `${cluster}.${made}${number === 1 ? '' : `-${number}`}`
    if (existsSync(aside)) continue
    renameSync(cluster, aside)
    return aside
  }
}

export interface EmbeddedPostgres {
  /** `postgres://gateway:...@localhost/postgres?host=<folder of the socket>...`; holds for the life of this object. */
  readonly url: string
  /** Resolves when it first accepts connections, with the milliseconds that took; rejects when it is stopped before. */
  readonly whenReady: Promise<number>
  status(): { readonly ready: boolean; readonly detail: string }
  /** A clean stop; a kill after 10 s. */
  stop(): Promise<void>
}

export interface EmbeddedPostgresOptions {
  /** The gateway's `data.dir`; everything stands in its folder `postgres`. */
  readonly dataDir: string
  readonly diagnostics: Diagnostics
}

/** Another process runs the embedded Postgres of this data folder: use `embeddedPostgresUrl`. */
export class PostgresHeld extends Error {
  override readonly name = 'PostgresHeld'
}

const MAX_BACKOFF_MS = 10_000

/**
 * The URL of the embedded Postgres of a data folder, or null when there has never been one. The server may or may not
 * run.
 */
export const embeddedPostgresUrl = (dataDir: string): string | null => {
  const folder = join(resolve(dataDir), 'postgres')
  const password = join(folder, 'password')
  const socketFolder = socketFolderOf(folder, join(placeOf(folder), 'data'))
  if (socketFolder === null || !existsSync(password)) return null
  return urlOf(readFileSync(password, 'utf8').trim(), socketFolder)
}

/**
 * The cluster of a data folder that another major version of Postgres made, which the next start of the server moves
 * aside. Null: there is none.
 */
export const otherCluster = (dataDir: string): (OtherVersion & { readonly cluster: string }) | null => {
  const cluster = join(placeOf(join(resolve(dataDir), 'postgres')), 'data')
  const other = otherVersion(cluster)
  return other === null ? null : { ...other, cluster }
}

/** In the form of libpq. Whatever answers there gets no password, and must prove that it knows it. */
const urlOf = (password: string, socketFolder: string): string => {
  const query = new URLSearchParams({ host: socketFolder, port: String(SOCKET_PORT), require_auth: 'scram-sha-256' })
  return `postgres://${ROLE}:${password}@localhost/${DATABASE}?${query}`
}

/**
 * Starts the server of a data folder and keeps it running until `stop`. Returns at once: it makes the cluster (first
 * start, or another version made it), ends what a killed gateway left behind and starts the server while the caller
 * goes on. Throws PostgresHeld when another process has it.
 */
export const startEmbeddedPostgres = ({ dataDir, diagnostics }: EmbeddedPostgresOptions): EmbeddedPostgres => {
  const folder = join(resolve(dataDir), 'postgres')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  // For the life of the process: two servers on one cluster would destroy it, and so would ending a living gateway's
  // server.
  const lock = tryLock(folder)
  if (lock === null) throw new PostgresHeld(`another process runs the embedded Postgres in ${folder}`)
  try {
    return supervised(folder, lock.release, diagnostics)
  } catch (error) {
    lock.release()
    throw error
  }
}

const supervised = (folder: string, release: () => void, diagnostics: Diagnostics): EmbeddedPostgres => {
  const account = chooseAccount(join(folder, 'data'))
  const place = placeFor(folder, account)
  const cluster = join(place, 'data')
  forgetPort(folder)
  const password = readOrMake(join(folder, 'password'), () => randomBytes(24).toString('base64url'))
  const socketFolder = socketFolderFor(folder, place, account)
  const stopping = new AbortController()
  const ready = Promise.withResolvers<number>()
  ready.promise.catch(() => {}) // a caller that awaits it gets the rejection; none has to
  let detail = 'starting'
  let isReady = false

  const session = async (): Promise<void> => {
    const startedAt = performance.now()
    const left = existsSync(cluster) ? await endLeftovers(cluster) : 0
    if (left > 0) diagnostics.warn('postgres_leftovers_ended', { processes: left, cluster })
    const installation = prepareInstallation(place, account)
    replaceOther(cluster, diagnostics)
    const { signal } = stopping
    const program = { cluster, account, installation, signal }
    if (!existsSync(cluster)) await makeCluster(program)
    if (!signal.aborted) await prepareRole(program, password)
    if (signal.aborted) return
    clearSocketFolder(socketFolder, account)
    await runServer({
      ...program,
      socketFolder,
      diagnostics,
      onReady() {
        isReady = true
        detail = 'ready'
        const tookMs = Math.round(performance.now() - startedAt)
        diagnostics.info('postgres_ready', { took_ms: tookMs, socket_folder: socketFolder })
        ready.resolve(tookMs)
      },
    })
  }

  const failed = (error: unknown): boolean => {
    const wasReady = isReady
    isReady = false
    detail = error instanceof Error ? error.message : String(error)
    diagnostics.error('postgres_failed', { error })
    return wasReady
  }

  const finished = keepUp(session, failed, stopping.signal).finally(() => {
    isReady = false
    detail = 'stopped'
    ready.reject(new Error('the embedded Postgres was stopped'))
    leaveSocketFolder(socketFolder, place)
    release()
  })
  return {
    url: urlOf(password, socketFolder),
    whenReady: ready.promise,
    status: () => ({ ready: isReady, detail }),
    async stop() {
      stopping.abort()
      await finished
    },
  }
}

/**
 * Runs it again whenever it ends, later each time that it fails at once (`failed` returns false), until the signal: an
 * end by the signal is no failure.
 */
const keepUp = async (
  session: () => Promise<void>,
  failed: (error: unknown) => boolean,
  signal: AbortSignal,
): Promise<void> => {
  for (let failures = 0; !signal.aborted; failures++) {
    try {
      await session()
      if (!signal.aborted) throw new Error('Postgres ended by itself')
    } catch (error) {
      if (signal.aborted) return
      if (failed(error)) failures = 0
      await sleep(Math.min(MAX_BACKOFF_MS, 200 * 2 ** failures), signal)
    }
  }
}

/**
 * The tables come back from the log; those of another version could only be read by its own server. No process runs in
 * the cluster, and its lock is held.
 */
const replaceOther = (cluster: string, diagnostics: Diagnostics): void => {
  const other = otherVersion(cluster)
  if (other === null) return
  diagnostics.warn('postgres_version_changed', {
    ...other,
    kept: moveAside(cluster, other),
    detail:
      'the tables are made anew from the log; remove what was kept once nothing is missed that the log no longer holds',
  })
}

const readOrMake = (file: string, make: () => string): string => {
  if (!existsSync(file)) {
    writeFileSync(`${file}.new`, make(), { mode: 0o600 })
    renameSync(`${file}.new`, file)
  }
  return readFileSync(file, 'utf8').trim()
}

/**
 * An earlier version listened on a port of loopback, where other accounts could ask clients for the password: it is
 * made anew.
 */
const forgetPort = (folder: string): void => {
  if (!existsSync(join(folder, 'port'))) return
  rmSync(join(folder, 'password'), { force: true })
  rmSync(join(folder, 'port'))
}
