// The two programs of the embedded server: `initdb`, which makes a cluster, and `postgres`, which runs it.
import { chownSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { Account, Installation } from './install.ts'
import { postmasterPid, postmasterReady } from './leftovers.ts'
import { SOCKET_PORT } from './socket-folder.ts'

/** Owns the cluster and cannot log in. */
const SUPERUSER = 'gatelog'
const READY_WITHIN_MS = 60_000
const POLL_MS = 10
const MAX_COMPLAINT = 300

// Small, since it shares the machine with the gateway. A commit lost with the host is projected again: offsets move in
// the same transaction, and segments are trimmed only below what a flushed commit covers.
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '', // no TCP: every account of the machine reaches a port, and may take a free one
  unix_socket_permissions: '0700',
  password_encryption: 'scram-sha-256',
  max_connections: '40',
  shared_buffers: '128MB',
  synchronous_commit: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
  wal_buffers: '16MB',
  max_wal_size: '1GB',
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

// In a session of its own, so that `kill -9` of the gateway's process group leaves it; when the gateway has ended, its
// pipe closes, and it ends the server.
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

const environment = ({ libraryPath }: Installation): Record<string, string> => ({
  LD_LIBRARY_PATH: libraryPath,
  DYLD_LIBRARY_PATH: libraryPath,
  PATH: '/usr/local/bin:/usr/bin:/bin',
  LC_ALL: 'C',
  TZ: 'UTC',
})

const identityOf = (account: Account | null) => (account === null ? {} : { uid: account.uid, gid: account.gid })

/** What both programs need. */
export interface Program {
  readonly cluster: string
  readonly account: Account | null
  readonly installation: Installation
  readonly signal: AbortSignal
}

/** Runs a program to its end and throws what it complained of, or returns when the signal stops it. */
const runToEnd = async ({ installation, account, signal }: Program, command: string[], input = ''): Promise<void> => {
  const [program = '', ...args] = command
  const child = Bun.spawn([join(installation.native, 'bin', program), ...args], {
    ...identityOf(account),
    env: environment(installation),
    cwd: '/',
    stdio: [new Blob([input]), 'ignore', 'pipe'],
    detached: true, // Ctrl-C is the gateway's: it ends what it has begun
  })
  const onAbort = () => child.kill()
  signal.addEventListener('abort', onAbort)
  const [errors, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
  signal.removeEventListener('abort', onAbort)
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${errors.trim().slice(-500)}`)
}

/**
 * Makes the cluster beside and renames it, so that a first start that is killed leaves nothing half made. No role of it
 * can log in. Throws when the signal stops it.
 */
export const makeCluster = async (program: Program): Promise<void> => {
  const { cluster, account } = program
  const making = `${cluster}.new`
  rmSync(making, { recursive: true, force: true })
  mkdirSync(making, { mode: 0o700 })
  if (account !== null) chownSync(making, account.uid, account.gid)
  await runToEnd(program, [
    'initdb',
    ...['-D', making, '-U', SUPERUSER, '--auth=reject', '--encoding=UTF8'],
    ...['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--no-instructions'],
  ])
  renameSync(making, cluster)
}

const flagsOf = (settings: Readonly<Record<string, string>>): string[] =>
  Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])

/** Ownership of all partitions changes in one transaction, which locks each. */
const SINGLE_USER = { exit_on_error: 'on', max_locks_per_transaction: '4096', synchronous_commit: 'on' }

/**
 * Carries out statements as the superuser, without a server and without a way in for others: they reach the program by
 * its standard input. Throws at the first that fails.
 */
export const runSingleUser = (program: Program, database: string, statements: readonly string[]): Promise<void> => {
  // With -j a statement ends at a semicolon and an empty line.
  const input = statements.map((statement) => `${statement};\n\n`).join('')
  const flags = flagsOf({ ...SETTINGS, ...SINGLE_USER })
  return runToEnd(program, ['postgres', '--single', '-j', '-D', program.cluster, ...flags, database], input)
}

export interface Running extends Program {
  /** Where its socket stands. */
  readonly socketFolder: string
  readonly diagnostics: Diagnostics
  onReady(): void
}

/** Runs the server until it ends or the signal is aborted, then ends it. Throws when it ends before it was ready. */
export const runServer = async (running: Running) => {
  const { cluster, account, installation, socketFolder, diagnostics, signal, onReady } = running
  const quoted = `"${socketFolder.replaceAll('"', '""')}"` // a list, in which a comma would begin the next one
  const flags = flagsOf({ ...SETTINGS, port: String(SOCKET_PORT), unix_socket_directories: quoted })
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
  const complaint = relay(child.stderr, diagnostics)
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
        throw new Error(`Postgres was not ready after ${READY_WITHIN_MS / 1_000} s: ${complaint()}`)
      }
      await Bun.sleep(POLL_MS)
    }
    if (child.exitCode === null && !signal.aborted) onReady()
    await child.exited
    if (!signal.aborted) throw new Error(`Postgres ended with ${child.exitCode}: ${complaint()}`)
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** Passes the server's complaints on, line by line; returns the line that explains best why it ended. */
const relay = (stream: ReadableStream<Uint8Array>, diagnostics: Diagnostics): (() => string) => {
  const last: string[] = []
  const pump = async () => {
    const decoder = new TextDecoder()
    let rest = ''
    for await (const chunk of stream) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = (lines.pop() ?? '').slice(-4_096)
      for (const line of lines) {
        if (!last.includes(line)) last.push(line)
        if (last.length > 5) last.shift()
        diagnostics.debug('postgres_said', { line })
      }
    }
  }
  pump().catch((error) => diagnostics.debug('postgres_said', { error }))
  return () =>
    (last.findLast((line) => /FATAL|PANIC/.test(line)) ?? last.at(-1) ?? 'it said nothing').slice(0, MAX_COMPLAINT)
}
