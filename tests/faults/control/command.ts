// Runs a command of the gateway with the settings of a gateway's folder, as an operator would beside it.
import { join } from 'node:path'

const CLI = join(import.meta.dir, '../../../src/commands/cli.ts')

/** `gateway <args>`; what it printed on both streams and how it ended. */
export const runCommand = async (
  args: readonly string[],
  folder: string,
): Promise<{ code: number; printed: string }> => {
  const child = Bun.spawn([process.execPath, CLI, ...args], {
    cwd: folder,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    env: { PATH: process.env.PATH, HOME: process.env.HOME, GATEWAY_CONFIG: join(folder, 'gateway.yaml') },
  })
  const [out, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, printed: out + errors }
}
