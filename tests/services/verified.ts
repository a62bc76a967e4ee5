// `gateway verify` on the folder of a gateway, up or down.
import { join } from 'node:path'

const CLI = join(import.meta.dir, '../../src/commands/cli.ts')

export interface Verified {
  readonly code: number
  readonly printed: string
  /** What it complained of. */
  readonly lines: readonly string[]
  /** What stands behind a label of the report. */
  value(label: string): string | undefined
}

export const verified = async (folder: string): Promise<Verified> => {
  const { PATH, HOME, TMPDIR } = process.env
  const env = { PATH, HOME, TMPDIR, GATEWAY_CONFIG: join(folder, 'gateway.yaml') }
  const child = Bun.spawn([process.execPath, CLI, 'verify'], { env, cwd: folder, stdout: 'pipe', stderr: 'pipe' })
  const [printed, complained, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  const lines = complained.split('\n').filter((line) => line.startsWith('gatelog:'))
  return { code, printed, lines, value: (label) => new RegExp(`^ +${label} {2,}(.*)$`, 'm').exec(printed)?.[1] }
}
