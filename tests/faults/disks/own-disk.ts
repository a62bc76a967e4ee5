// Private disks for a row, invisible to other processes and without clean-up: mounts of a namespace that ends with the
// process. Needs root.
import { withoutGatewayVariables } from '../../environment.ts'

/** Set in the process that is in the namespace. */
const INSIDE = 'FAULT_OWN_MOUNTS'

export const run = (...command: string[]): void => {
  const { exitCode, stderr } = Bun.spawnSync(command)
  if (exitCode !== 0) throw new Error(`${command.join(' ')} ended with ${exitCode}: ${stderr.toString()}`)
}

/** Call it first: runs this program again where its mounts are its own, and ends with its code. Returns in that one. */
export const withOwnMounts = async (): Promise<void> => {
  if (process.env[INSIDE] !== undefined) return
  const child = Bun.spawn(['unshare', '--mount', process.execPath, ...process.argv.slice(1)], {
    env: { ...withoutGatewayVariables(), [INSIDE]: '1' },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  process.exit(await child.exited)
}
