// Commands of the gateway, as an operator runs them.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { placesOfPrograms } from '../environment.ts'

const CLI = join(import.meta.dir, '../../src/commands/cli.ts')

export interface CommandPlace {
  /** A new, empty folder when absent. */
  readonly cwd?: string
  /** All of the environment that it gets, besides what programs are found by. */
  readonly env?: Readonly<Record<string, string>>
  /** The account that runs it; this process's own when absent. */
  readonly account?: { readonly uid: number; readonly gid: number }
}

export interface CommandEnd {
  readonly code: number
  readonly out: string
  readonly errors: string
  /** On both streams. */
  readonly printed: string
}

/** Starts `gateway <args>`; its streams are `output` and `errors`. */
export const startCommand = <Output extends 'pipe' | 'ignore', Errors extends 'pipe' | 'ignore'>(
  args: readonly string[],
  { cwd, env = {}, account }: CommandPlace & { readonly cwd: string },
  { output, errors }: { readonly output: Output; readonly errors: Errors },
): Bun.Subprocess<'ignore', Output, Errors> =>
  Bun.spawn([process.execPath, CLI, ...args], {
    ...account,
    cwd,
    stdin: 'ignore',
    stdout: output,
    stderr: errors,
    env: { ...placesOfPrograms(), ...env },
  })

/** Runs `gateway <args>` to its end. */
export const runCommand = async (args: readonly string[], place: CommandPlace = {}): Promise<CommandEnd> => {
  const folder = place.cwd === undefined ? mkdtempSync(join(tmpdir(), 'gatelog-cwd-')) : null
  try {
    const child = startCommand(args, { ...place, cwd: place.cwd ?? folder! }, { output: 'pipe', errors: 'pipe' })
    const [out, errors, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ])
    return { code, out, errors, printed: out + errors }
  } finally {
    if (folder !== null) rmSync(folder, { recursive: true, force: true })
  }
}

/** In the folder of a gateway, with its settings. */
export const besideGateway = (folder: string): CommandPlace & { readonly cwd: string } => ({
  cwd: folder,
  env: { GATEWAY_CONFIG: join(folder, 'gateway.yaml') },
})
