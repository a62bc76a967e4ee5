// The real Postgres server as a child, for whoever sets no database.url. Its URL is known at once; clients retry until it is ready.
import { Database } from 'bun:sqlite'
import { randomBytes } from 'node:crypto'
import { chownSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Diagnostics } from '../lib/diagnostics.ts'
import { type Account, chooseAccount, type Installation, placeFor, prepareInstallation } from './postgres-install.ts'
import { endLeftovers, postmasterPid, postmasterReady } from './postgres-leftovers.ts'

export interface EmbeddedPostgres {
  /** `postgres://gatelog:...@127.0.0.1:<port>/postgres`; holds for the life of this object. */
  readonly url: string
  /** Resolves when it first accepts connections, with the milliseconds that took; rejects when it is stopped before. */
  readonly whenReady: Promise<number>
  status(): { readonly ready: boolean; readonly detail: string }
  /** A clean stop; insists after 10 s. */
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

const USER = 'gatelog'
const READY_WITHIN_MS = 60_000
const POLL_MS = 10
const MAX_BACKOFF_MS = 10_000

// Small, since it shares the machine with the gateway. A commit lost with the host is projected again: offsets move in the same transaction, and
// segments are trimmed only below what a flushed commit covers.
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '40',
  shared_buffers: '32MB',
  synchronous_commit: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_wal_size: '512MB',
  checkpoint_timeout: '15min',
  max_logical_replication_workers: '0',
  max_worker_processes: '2',
  max_parallel_workers: '0',
  autovacuum_worker_slots: '2',
  autovacuum_max_workers: '1',
  io_method: 'sync',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_error_verbosity: 'terse',
  log_min_error_statement: 'panic', // statements never reach our diagnostics
  log_checkpoints: 'off',
  log_line_prefix: '',
}

// In a session of its own, so that `kill -9` of the gateway's process group leaves it; when the gateway is gone its pipe closes, and it ends the server.
const KEEPER = `exec 3<&0
"$@" </dev/null 3<&- &
server=$!
(
  read -r line <&3
  exec 3<&-
  kill -INT $server
  for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 1; kill -0 $server || exit; done
  kill -QUIT $server
) >/dev/null 2>&1 &
keeper=$!
wait $server
code=$?
kill $keeper 2>/dev/null
exit $code`

/** The URL of the embedded Postgres of a data folder, or null when there has never been one. Whether it runs is another question. */
export const embeddedPostgresUrl = (dataDir: string): string | null => {
  const folder = join(resolve(dataDir), 'postgres')
  const [password, port] = [join(folder, 'password'), join(folder, 'port')]
  if (!existsSync(password) || !existsSync(port)) return null
  return urlOf(readFileSync(password, 'utf8').trim(), Number(readFileSync(port, 'utf8')))
}

const urlOf = (password: string, port: number): string => `postgres://${USER}:${password}@127.0.0.1:${port}/postgres`

/**
 * Starts the server of a data folder and keeps it running until `stop`. Returns at once: making the cluster (first start), ending what a killed gateway left
 * behind and starting go on beside whatever the caller does. Throws PostgresHeld when another process has it.
 */
export const startEmbeddedPostgres = ({ dataDir, diagnostics }: EmbeddedPostgresOptions): EmbeddedPostgres => {
  const folder = join(resolve(dataDir), 'postgres')
  mkdirSync(folder, { recursive: true })
  const release = holdFolder(folder)
  try {
    return supervised(folder, release, diagnostics)
  } catch (error) {
    release()
    throw error
  }
}

const supervised = (folder: string, release: () => void, diagnostics: Diagnostics): EmbeddedPostgres => {
  const account = chooseAccount(join(folder, 'data'))
  const place = placeFor(folder, account)
  const cluster = join(place, 'data')
  const password = readOrMake(join(folder, 'password'), () => randomBytes(24).toString('base64url'))
  const reserved = reservePort(join(folder, 'port'))
  const stopping = new AbortController()
  const ready = Promise.withResolvers<number>()
  ready.promise.catch(() => {}) // whoever asks for it sees the rejection; nobody has to ask
  const startedAt = performance.now()
  let detail = 'starting'
  let isReady = false

  const session = async (): Promise<void> => {
    const left = existsSync(cluster) ? await endLeftovers(cluster) : 0
    if (left > 0) diagnostics.warn('postgres_leftovers_ended', { processes: left, cluster })
    const installation = prepareInstallation(place, account)
    if (!existsSync(cluster)) await makeCluster({ cluster, account, installation, password })
    if (stopping.signal.aborted) return
    reserved.release()
    await runServer({
      cluster,
      account,
      installation,
      port: reserved.port,
      diagnostics,
      signal: stopping.signal,
      onReady() {
        isReady = true
        detail = 'ready'
        const tookMs = Math.round(performance.now() - startedAt)
        diagnostics.info('postgres_ready', { took_ms: tookMs, port: reserved.port })
        ready.resolve(tookMs)
      },
    })
  }

  const supervise = async (): Promise<void> => {
    for (let failures = 0; !stopping.signal.aborted; failures++) {
      try {
        await session()
        if (!stopping.signal.aborted) throw new Error('Postgres ended by itself')
      } catch (error) {
        if (isReady) failures = 0
        isReady = false
        detail = error instanceof Error ? error.message : String(error)
        diagnostics.error('postgres_failed', { error })
        await pause(Math.min(MAX_BACKOFF_MS, 200 * 2 ** failures), stopping.signal)
      }
    }
  }

  const finished = supervise().finally(() => {
    isReady = false
    detail = 'stopped'
    ready.reject(new Error('the embedded Postgres was stopped'))
    reserved.release()
    release()
  })
  return {
    url: urlOf(password, reserved.port),
    whenReady: ready.promise,
    status: () => ({ ready: isReady, detail }),
    async stop() {
      stopping.abort()
      await finished
    },
  }
}

/** Holds the folder for this process's life: two servers on one cluster would destroy it, and so would ending a living gateway's server. */
const holdFolder = (folder: string): (() => void) => {
  const lock = new Database(join(folder, 'lock.db'))
  try {
    lock.exec('PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE')
  } catch (cause) {
    lock.close()
    throw new PostgresHeld(`another process runs the embedded Postgres in ${folder}`, { cause })
  }
  held.add(lock)
  return () => {
    held.delete(lock)
    lock.close()
  }
}
/** A handle that is garbage collected gives its lock up. */
const held = new Set<Database>()

const readOrMake = (file: string, make: () => string): string => {
  if (!existsSync(file)) {
    writeFileSync(`${file}.new`, make(), { mode: 0o600 })
    renameSync(`${file}.new`, file)
  }
  return readFileSync(file, 'utf8').trim()
}

/** The port of the last start when it is free, else another. It is held until the server takes it. */
const reservePort = (file: string): { port: number; release(): void } => {
  const listen = (port: number) =>
    Bun.listen({ hostname: '127.0.0.1', port, socket: { open: (s) => s.end(), data() {} } })
  const last = existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0
  let listener: ReturnType<typeof listen>
  try {
    listener = listen(last)
  } catch {
    // Taken: by a stranger, or by what a killed gateway left. The latter is ended before ours starts.
    listener = listen(0)
  }
  const { port } = listener
  writeFileSync(file, String(port))
  let open = true
  return {
    port,
    release() {
      if (open) listener.stop(true)
      open = false
    },
  }
}

const environment = ({ libraryPath }: Installation): Record<string, string> => ({
  LD_LIBRARY_PATH: libraryPath,
  DYLD_LIBRARY_PATH: libraryPath,
  PATH: '/usr/local/bin:/usr/bin:/bin',
  LC_ALL: 'C',
  TZ: 'UTC',
})

const identityOf = (account: Account | null) => (account === null ? {} : { uid: account.uid, gid: account.gid })

interface Making {
  readonly cluster: string
  readonly account: Account | null
  readonly installation: Installation
  readonly password: string
}

/** Makes the cluster beside and renames it, so that a killed first start leaves nothing half made. */
const makeCluster = async ({ cluster, account, installation, password }: Making): Promise<void> => {
  const making = `${cluster}.new`
  const passwordFile = `${cluster}.password`
  rmSync(making, { recursive: true, force: true })
  rmSync(passwordFile, { force: true })
  mkdirSync(making, { mode: 0o700 })
  writeFileSync(passwordFile, password, { mode: 0o600 })
  if (account !== null) for (const path of [making, passwordFile]) chownSync(path, account.uid, account.gid)
  const child = Bun.spawn(
    [
      join(installation.native, 'bin', 'initdb'),
      ...['-D', making, '-U', USER, '--pwfile', passwordFile, '--auth=scram-sha-256', '--encoding=UTF8'],
      ...['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--no-instructions'],
    ],
    { ...identityOf(account), env: environment(installation), cwd: '/', stdio: ['ignore', 'ignore', 'pipe'] },
  )
  const [errors, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
  rmSync(passwordFile, { force: true })
  if (code !== 0) throw new Error(`initdb ended with ${code}: ${errors.trim().slice(-500)}`)
  renameSync(making, cluster)
}

interface Running {
  readonly cluster: string
  readonly account: Account | null
  readonly installation: Installation
  readonly port: number
  readonly diagnostics: Diagnostics
  readonly signal: AbortSignal
  onReady(): void
}

/** Runs the server until it ends or the signal is aborted, then ends it. Throws when it ends before it was ready. */
const runServer = async ({ cluster, account, installation, port, diagnostics, signal, onReady }: Running) => {
  const flags = Object.entries({ ...SETTINGS, port: String(port) }).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ])
  const child = Bun.spawn(
    ['/bin/sh', '-c', KEEPER, 'sh', join(installation.native, 'bin', 'postgres'), '-D', cluster, ...flags],
    {
      ...identityOf(account),
      env: environment(installation),
      cwd: '/',
      stdin: 'pipe',
      stdout: 'ignore',
      stderr: 'pipe',
      detached: true,
    },
  )
  const said = relay(child.stderr, diagnostics)
  const stop = async () => {
    child.stdin.end()
    const insist = setTimeout(() => {
      const pid = postmasterPid(cluster)
      if (pid !== null) process.kill(pid, 'SIGQUIT')
    }, 10_000)
    await child.exited
    clearTimeout(insist)
  }
  const onAbort = () => void stop()
  signal.addEventListener('abort', onAbort)
  try {
    const deadline = performance.now() + READY_WITHIN_MS
    while (child.exitCode === null && !signal.aborted && !postmasterReady(cluster)) {
      if (performance.now() > deadline) {
        await stop()
        throw new Error(`Postgres was not ready after ${READY_WITHIN_MS / 1_000} s: ${said()}`)
      }
      await Bun.sleep(POLL_MS)
    }
    if (child.exitCode === null && !signal.aborted) onReady()
    await child.exited
    if (!signal.aborted) throw new Error(`Postgres ended with ${child.exitCode}: ${said()}`)
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** Passes the server's complaints on, line by line; answers the last lines. */
const relay = (stream: ReadableStream<Uint8Array>, diagnostics: Diagnostics): (() => string) => {
  const last: string[] = []
  const pump = async () => {
    const decoder = new TextDecoder()
    let rest = ''
    for await (const chunk of stream) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = (lines.pop() ?? '').slice(-4_096)
      for (const line of lines) {
        last.push(line)
        if (last.length > 5) last.shift()
        diagnostics.debug('postgres_said', { line })
      }
    }
  }
  pump().catch((error) => diagnostics.debug('postgres_said', { error }))
  return () => last.join(' | ')
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((done) => {
    const timer = setTimeout(finish, ms)
    function finish() {
      clearTimeout(timer)
      signal.removeEventListener('abort', finish)
      done()
    }
    signal.addEventListener('abort', finish)
    if (signal.aborted) finish()
  })
