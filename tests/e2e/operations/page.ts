// The commands of docs/operations.md: read from the page, run in one shell as an operator would.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventually } from '../../services/eventually.ts'

const ROOT = join(import.meta.dir, '../../..')

export interface PageBlock {
  /** The heading that it stands under, without `#`. */
  readonly section: string
  /** The words behind the fence: `sh`, `sh kafka`, `text`, `shell`, ... */
  readonly language: string
  /** Line of the page that the block begins on. */
  readonly line: number
  readonly text: string
}

/** All fenced blocks of a Markdown page, in order. Throws for a fence that is not closed. */
export const blocksOf = (page: string): PageBlock[] => {
  const blocks: PageBlock[] = []
  let section = ''
  let open: { language: string; line: number; lines: string[] } | null = null
  for (const [index, line] of page.split('\n').entries()) {
    if (line.startsWith('```')) {
      if (open === null) open = { language: line.slice(3).trim(), line: index + 2, lines: [] }
      else {
        blocks.push({ section, language: open.language, line: open.line, text: open.lines.join('\n') })
        open = null
      }
    } else if (open !== null) open.lines.push(line)
    else section = /^#+ (.*)$/.exec(line)?.[1] ?? section
  }
  if (open !== null) throw new Error(`the block of line ${open.line} is not closed`)
  return blocks
}

export const headingsOf = (page: string): string[] => [...page.matchAll(/^#+ (.*)$/gm)].map(([, text]) => text!)

/** The lines of a `text` block that no line of the output shows; `…` stands for anything. */
export const missingLines = (expected: string, output: string): string[] => {
  const found = output.split('\n')
  return expected.split('\n').filter((line) => line !== '' && !found.some((each) => holds(each, line.split('…'))))
}

const holds = (line: string, parts: readonly string[]): boolean => {
  let at = 0
  for (const part of parts) {
    const index = line.indexOf(part, at)
    if (index === -1) return false
    at = index + part.length
  }
  return true
}

export interface OperatorShell {
  /**
   * Runs a script with `errexit` in the one shell and returns its output. Throws with the output when a command fails.
   */
  run(script: string, name: string): Promise<string>
  /** Ends what the scripts have started and the shell itself. */
  close(): Promise<void>
}

const LIMIT_MS = 240_000
/**
 * Reads the name of a file and sources it, so that variables, functions and background processes are kept for the next
 * one.
 */
const LOOP = `set -euo pipefail; exec 2>&1; while IFS= read -r file; do source "$file" </dev/null; echo "<<$file>>"; done`

/** A bash in the folder of the source tree, with this environment alone besides where programs are found. */
export const openShell = (folder: string, env: Readonly<Record<string, string>>): OperatorShell => {
  const [PATH, HOME, TMPDIR] = [process.env.PATH ?? '', process.env.HOME ?? '', process.env.TMPDIR ?? '']
  mkdirSync(folder, { recursive: true })
  const shell = Bun.spawn(['bash', '-c', LOOP], {
    cwd: ROOT,
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'ignore',
    env: { PATH, HOME, ...(TMPDIR === '' ? {} : { TMPDIR }), ...env },
  })
  let printed = ''
  const collected = (async () => {
    const decoder = new TextDecoder()
    for await (const bytes of shell.stdout) printed += decoder.decode(bytes, { stream: true })
  })()
  const run = async (script: string, name: string): Promise<string> => {
    const file = join(folder, `${name}.sh`)
    const marker = `<<${file}>>\n`
    writeFileSync(file, `${script}\n`)
    const from = printed.length
    shell.stdin.write(`${file}\n`)
    await shell.stdin.flush()
    await eventually(
      () => `${name} ends; it printed:\n${printed.slice(from)}`,
      () => shell.exitCode !== null || printed.includes(marker, from),
      { limitMs: LIMIT_MS, everyMs: 20 },
    )
    if (shell.exitCode !== null) {
      await collected
      throw new Error(`${name} ended with ${shell.exitCode}:\n${script}\nprinted:\n${printed.slice(from)}`)
    }
    return printed.slice(from, printed.indexOf(marker, from))
  }
  return {
    run,
    async close() {
      if (shell.exitCode === null) {
        // Ends the gateways that the page has started; one that ended before is no job any more.
        await run('kill $(jobs -p) 2>/dev/null || true\nwait || true', 'close').catch(() => undefined)
        shell.stdin.end()
      }
      await shell.exited
      await collected
    },
  }
}
