// `npm run faults`: runs the fault matrix, one script after another, and prints each row's result: `npm run faults --
// [R7 R12 ...] [--short]`.
// A failed row stops no other; the exit code is 0 when all rows that ran hold.

import { join } from 'node:path'
import { withoutGatewayVariables } from '../environment.ts'
import { FAULT_ROWS, type FaultRow, type Run } from './table.ts'

const ROOT = join(import.meta.dir, '../..')
/** Longer than any script takes on a loaded machine. */
const LIMIT_MS = 60 * 60_000
const TEST_TIMEOUT_MS = 300_000

interface Line {
  readonly what: string
  readonly figure: string
  readonly n: string
  readonly good: boolean
}

const isTest = ({ script }: Run): boolean => script.endsWith('.test.ts')

const commandOf = (run: Run, short: boolean): string[] => {
  const args = (short ? run.short : run.args) ?? []
  return isTest(run) ? ['test', `--timeout=${TEST_TIMEOUT_MS}`, run.script] : [run.script, ...args]
}

/** Runs a script in the foreground; what it prints is passed on and kept. */
const runScript = async (command: readonly string[]): Promise<{ code: number; out: string; errors: string }> => {
  const child = Bun.spawn([process.execPath, ...command], {
    cwd: ROOT,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    env: { ...withoutGatewayVariables(), NODE_ENV: 'test' },
  })
  const limit = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS)
  const keep = async (stream: ReadableStream<Uint8Array>, to: NodeJS.WriteStream) => {
    let text = ''
    const decoder = new TextDecoder()
    for await (const bytes of stream) {
      const piece = decoder.decode(bytes, { stream: true })
      to.write(piece)
      text = (text + piece).slice(-200_000)
    }
    return text
  }
  const [out, errors, code] = await Promise.all([
    keep(child.stdout, process.stderr),
    keep(child.stderr, process.stderr),
    child.exited,
  ])
  clearTimeout(limit)
  return { code, out, errors }
}

const cell = (text: string): string => text.replaceAll('|', '/').replaceAll(/\s+/g, ' ').trim()

/** The lines of the table that a script printed; of one that prints prose, that. */
const linesOf = (row: FaultRow, run: Run, { code, out, errors }: Awaited<ReturnType<typeof runScript>>): Line[] => {
  const rows = out.split('\n').filter((line) => /\| (as it should be|\*\*missed\*\*) \|$/.test(line))
  const found = rows.map((line) => {
    const [, , what = '', figure = '', n = '', verdict = ''] = line
      .split(' | ')
      .flatMap((part, i) => (i === 0 ? ['', part] : [part]))
    return { what, figure, n, good: !verdict.includes('missed') }
  })
  if (found.length > 0 && (code === 0 || found.some(({ good }) => !good))) return found
  if (isTest(run)) {
    const [passed, failed] = ['pass', 'fail'].map((word) =>
      Number(new RegExp(`^ *(\\d+) ${word}$`, 'm').exec(errors)?.[1] ?? 0),
    )
    return [{ what: run.script, figure: `${passed} passed, ${failed} failed`, n: `${passed}`, good: code === 0 }]
  }
  const n = /(?: of |N )(\d[\d,]*)/.exec(out)?.[1] ?? '?'
  const figure = out.trim() === '' ? `ended with ${code}: ${errors.trim().slice(-300)}` : cell(out).slice(0, 900)
  return [...found, { what: row.fault, figure, n, good: code === 0 }]
}

const main = async (words: readonly string[]): Promise<number> => {
  const short = words.includes('--short')
  const wanted = words.filter((word) => /^R\d+$/.test(word))
  const unknown = words.find((word) => word !== '--short' && !FAULT_ROWS.some(({ row }) => row === word))
  if (unknown !== undefined) {
    console.error(`"${unknown}" is no row of the fault matrix: R1 to R33, or --short`)
    return 2
  }
  const printed = ['| Row | Fault | Figure | N | Aim | |', '|---|---|---|---|---|---|']
  const wrong = new Set<string>()
  for (const row of FAULT_ROWS) {
    if (wanted.length > 0 && !wanted.includes(row.row)) continue
    if (row.runs.length === 0)
      printed.push(`| ${row.row} | ${row.fault} | not run: ${row.missing} | 0 | ${row.aim} | - |`)
    for (const run of row.runs) {
      if (short && run.short === null) {
        printed.push(`| ${row.row} | ${row.fault} | has no short form | 0 | ${row.aim} | - |`)
        continue
      }
      const command = commandOf(run, short)
      console.error(`\n${row.row}: bun ${command.join(' ')}`)
      for (const { what, figure, n, good } of linesOf(row, run, await runScript(command))) {
        if (!good) wrong.add(row.row)
        printed.push(`| ${row.row} | ${what} | ${figure} | ${n} | ${row.aim} | ${good ? 'right' : '**wrong**'} |`)
      }
    }
  }
  console.log(printed.join('\n'))
  console.log(wrong.size === 0 ? 'every row that ran is right' : `wrong: ${[...wrong].join(', ')}`)
  return wrong.size === 0 ? 0 : 1
}

process.exit(await main(process.argv.slice(2)))
