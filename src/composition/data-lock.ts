// One gateway for each data folder: two would run two Postgres servers and two workers in it, and write over each other's snapshots.
import { resolve } from 'node:path'
import { codeOf } from '../lib/process/error-code.ts'
import { ConfigError } from '../lib/settings/settings.ts'
import { type HeldLock, tryLock } from '../log/lock.ts'

/** Held for the life of the process; the kernel frees it when the process dies, however that happens. Throws ConfigError when another one holds it, or its file cannot be opened. */
export const lockDataDir = (dataDir: string): HeldLock => {
  const lock = lockOf(dataDir)
  if (lock !== null) return lock
  throw new ConfigError(
    `another gateway runs in ${resolve(dataDir)}: stop it, name another data.dir (GATEWAY_DATA_DIR), or set server.processes for more processes in one`,
  )
}

const lockOf = (dataDir: string): HeldLock | null => {
  try {
    return tryLock(dataDir)
  } catch (error) {
    const code = codeOf(error)
    if (code === null) throw error
    const path = resolve(dataDir, 'lock.db')
    throw new ConfigError(`data.dir: ${path} cannot be opened (${code}): mend its permissions or the disk`)
  }
}
