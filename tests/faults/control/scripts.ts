// Runs scripts of figures one after the other, each in a separate process, and prints their lines as one table. Their
// other output goes to stderr.

import { join } from 'node:path'
import { withoutGatewayVariables } from '../../environment.ts'
import { TABLE_HEAD } from './figures.ts'

export interface FigureScript {
  /** Without `.ts`, in the folder that is named with it. */
  readonly file: string
  readonly args: readonly string[]
}

/** Answers how many of them missed what they are to show. */
export const runScripts = async (
  folder: string,
  scripts: readonly FigureScript[],
  env: Readonly<Record<string, string>> = {},
): Promise<number> => {
  let missed = 0
  console.log(TABLE_HEAD)
  for (const { file, args } of scripts) {
    const child = Bun.spawn([process.execPath, join(folder, `${file}.ts`), ...args], {
      stdout: 'pipe',
      stderr: 'inherit',
      env: { ...withoutGatewayVariables(), ...env },
    })
    const lines = (await new Response(child.stdout).text()).trimEnd().split('\n')
    for (const line of lines) (line.startsWith('|') ? console.log : console.error)(line)
    if ((await child.exited) === 0) continue
    missed++
    if (!lines.some((line) => line.startsWith('|')))
      console.log(`| ? | ${file} | ended without a figure | 0 | **missed** |`)
  }
  return missed
}
