// Commands of the gateway, as an operator runs them.
import { join } from 'node:path'

const CLI = join(import.meta.dir, '../../src/commands/cli.ts')

export interface CommandPlace {
  readonly cwd?: string
  /** All of the environment that it gets, besides what programs are found by. */
  readonly env?: Readonly<Record<string, string>>
  /** Who runs it; this process's own when absent. */
  readonly account?: { readonly uid: number; readonly gid: number }
}

export interface CommandEnd {
  readonly code: number
  readonly out: string
  readonly errors: string
  /** On both streams. */
  readonly printed: string
}

/** Runs `gateway <args>` to its end. */
export const runCommand = async (
  args: readonly string[],
  { cwd, env = {}, account }: CommandPlace = {},
): Promise<CommandEnd> => {
  const { PATH, HOME, TMPDIR } = process.env
  const child = Bun.spawn([process.execPath, CLI, ...args], {
    ...account,
    cwd,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    env: { PATH, HOME, TMPDIR, ...env },
  })
  const [out, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, out, errors, printed: out + errors }
}

/** In the folder of a gateway, with its settings. */
export const besideGateway = (folder: string): CommandPlace => ({
  cwd: folder,
  env: { GATEWAY_CONFIG: join(folder, 'gateway.yaml') },
})
