// Packages from PyPI, for tests that run Python: installed once, under node_modules/.cache.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { withoutGatewayVariables } from '../environment.ts'

const CACHE = join(import.meta.dir, '../../node_modules/.cache')

/** Runs a command to its end and answers what it printed; throws with all of its output when it fails. */
export const runToEnd = async (
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
  input = '',
): Promise<string> => {
  const child = Bun.spawn([...command], {
    stdin: new Blob([input]),
    stdout: 'pipe',
    stderr: 'pipe',
    env: { ...withoutGatewayVariables(), ...env },
  })
  const [out, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}:\n${out}${errors}`)
  return out
}

/** A folder for PYTHONPATH that holds this package, of exactly this version, and what it needs. */
export const pythonWith = async (name: string, version: string): Promise<string> => {
  const folder = join(CACHE, `python-${name}-${version}`)
  const done = join(folder, '.installed')
  if (existsSync(done)) return folder
  const pip = [
    'python3',
    '-m',
    'pip',
    'install',
    '--quiet',
    '--disable-pip-version-check',
    '--upgrade',
    '--target',
    folder,
  ]
  await runToEnd([...pip, `${name}==${version}`])
  await Bun.write(done, '')
  return folder
}

/** The official SDK. */
export const openaiForPython = (): Promise<string> => pythonWith('openai', '3.51.0')
