// Ends what an earlier gateway left running in a cluster's folder: a postmaster, or backends that survive it in
// sessions of their own.
import { readdirSync, readFileSync, readlinkSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const STEP_MS = 20

/** The postmaster's pid in the cluster's pid file, or null. */
export const postmasterPid = (cluster: string): number | null => {
  const pid = Number.parseInt(pidFile(cluster)[0] ?? '', 10)
  return Number.isSafeInteger(pid) && pid > 1 ? pid : null
}

/** Whether the postmaster with this pid reports that it accepts connections. */
export const postmasterReady = (cluster: string, parent: number | null = null): boolean => {
  const lines = pidFile(cluster)
  return lines[7]?.trim() === 'ready' && (parent === null || Number(lines[0]) !== parent)
}

const pidFile = (cluster: string): string[] => {
  try {
    return readFileSync(join(cluster, 'postmaster.pid'), 'utf8').split('\n')
  } catch {
    return [] // absent while no server has the folder
  }
}

/**
 * Every process of the server works inside the cluster's folder, which identifies them even when their pids were
 * reused.
 */
const processesIn = (cluster: string): number[] => {
  if (process.platform !== 'linux') return processesBesideLinux(cluster)
  const folder = realpathSync(cluster)
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => pid !== process.pid && workingFolderOf(pid) === folder && commandOf(pid).startsWith('postgres'))
}

const workingFolderOf = (pid: number): string | null => {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return null // ended meanwhile, or owned by another account
  }
}

/** The base name of the program (`postgres`, or `postgres: checkpointer` once it has renamed itself). */
const commandOf = (pid: number): string => {
  try {
    const [program = ''] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    return program.startsWith('postgres') ? program : program.slice(program.lastIndexOf('/') + 1)
  } catch {
    return ''
  }
}

const processesBesideLinux = (cluster: string): number[] => {
  const pid = postmasterPid(cluster)
  if (pid === null) return []
  const { stdout } = Bun.spawnSync(['ps', '-p', String(pid), '-o', 'command='])
  return stdout.toString().includes(cluster) ? [pid] : []
}

const send = (pids: readonly number[], signal: 'SIGINT' | 'SIGQUIT' | 'SIGKILL'): void => {
  for (const pid of pids) {
    try {
      process.kill(pid, signal)
    } catch (error) {
      if ((error as { code?: string }).code !== 'ESRCH') throw error
    }
  }
}

/**
 * Ends every server process in the folder and removes a stale pid file; returns how many there were. The caller holds
 * the folder's lock, so none of them belongs to a living gateway. Requests a clean stop first, a fast one after 2 s,
 * kills after 4 s. Throws when one does not end.
 */
export const endLeftovers = async (cluster: string): Promise<number> => {
  let left = processesIn(cluster)
  const found = left.length
  const postmaster = postmasterPid(cluster)
  if (postmaster !== null && left.includes(postmaster)) {
    send([postmaster], 'SIGINT')
    left = await untilGone(cluster, 2_000)
  }
  if (left.length > 0) {
    send(left, 'SIGQUIT')
    left = await untilGone(cluster, 2_000)
  }
  if (left.length > 0) {
    send(left, 'SIGKILL')
    left = await untilGone(cluster, 5_000)
  }
  if (left.length > 0)
    throw new Error(`processes ${left.join(', ')} of an earlier Postgres in ${cluster} do not end; end them`)
  // Its pid may meanwhile be that of another process (containers number from 1), which would keep Postgres from
  // starting.
  rmSync(join(cluster, 'postmaster.pid'), { force: true })
  return found
}

const untilGone = async (cluster: string, patienceMs: number): Promise<number[]> => {
  const deadline = performance.now() + patienceMs
  for (;;) {
    const left = processesIn(cluster)
    if (left.length === 0 || performance.now() > deadline) return left
    await Bun.sleep(STEP_MS)
  }
}
