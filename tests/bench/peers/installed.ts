// Where peers are installed on demand, outside of the repository: none of them is a dependency. The registries are
// those that npm and pip are configured with.
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const CACHE =
  process.env.BENCH_PEERS_DIR ?? join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'gatelog-bench-peers')

/** Why a peer is not measured; the table shows it. */
export class NotInstalled extends Error {}

const run = async (command: readonly string[], cwd: string): Promise<void> => {
  const child = Bun.spawn([...command], { cwd, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const [out, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  if ((await child.exited) !== 0)
    throw new NotInstalled(`${command.slice(0, 3).join(' ')} failed: ${(errors || out).trim().split('\n').at(-1)}`)
}

/** The folder of something, which the commands fill at the first use. Throws NotInstalled. */
export const installed = async (name: string, commands: readonly (readonly string[])[]): Promise<string> => {
  const folder = join(CACHE, name)
  const done = join(folder, '.installed')
  if (existsSync(done)) return folder
  const missing = commands.map(([program]) => program!).find((each) => !each.includes('/') && Bun.which(each) === null)
  if (missing !== undefined) throw new NotInstalled(`${missing} is not on this machine`)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  console.error(`installing ${name} into ${folder}`)
  for (const command of commands) await run(command, folder)
  writeFileSync(`${done}.part`, '')
  renameSync(`${done}.part`, done)
  return folder
}
