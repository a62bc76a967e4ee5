// The rows of budgets (guides/reliability.md section 3), one after the other, as a table: `bun tests/faults/budgets/all.ts [--short]`. B4 waits for the end of an hour.
// Each script is a process of its own and prints its lines; what it prints beside them goes to stderr.
import { join } from 'node:path'
import { TABLE_HEAD } from '../control/figures.ts'

interface Script {
  readonly file: string
  readonly full: readonly string[]
  /** Null: not in the short run. */
  readonly short: readonly string[] | null
}

const SCRIPTS: readonly Script[] = [
  { file: 'admit', full: ['--instances', '2'], short: ['--instances', '2', '--requests', '60'] },
  { file: 'admit', full: ['--instances', '3'], short: null },
  { file: 'admit', full: ['--instances', '5'], short: null },
  { file: 'kills', full: ['--instances', '2'], short: ['--instances', '2', '--kills', '2'] },
  { file: 'kills', full: ['--instances', '3'], short: null },
  { file: 'kills', full: ['--instances', '5'], short: null },
  { file: 'exits', full: [], short: ['--times', '100'] },
  { file: 'windows', full: [], short: null },
  { file: 'stopped', full: [], short: null },
  { file: 'lost-tells', full: [], short: ['--seconds', '10'] },
  { file: 'routes', full: [], short: ['--requests', '100'] },
  { file: 'tenants', full: [], short: ['--requests', '100'] },
  { file: 'outage', full: ['--instances', '3'], short: ['--instances', '2', '--seconds', '10'] },
  { file: 'outage', full: ['--instances', '5'], short: null },
]

const isShort = process.argv.includes('--short')
let missed = 0
console.log(TABLE_HEAD)
for (const { file, full, short } of SCRIPTS) {
  const rest = isShort ? short : full
  if (rest === null) continue
  const child = Bun.spawn([process.execPath, join(import.meta.dir, `${file}.ts`), ...rest], {
    stdout: 'pipe',
    stderr: 'inherit',
    // More connections at once than a client opens by itself.
    env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: '4096' },
  })
  const lines = (await new Response(child.stdout).text()).trimEnd().split('\n')
  for (const line of lines) (line.startsWith('|') ? console.log : console.error)(line)
  if ((await child.exited) === 0) continue
  missed++
  if (!lines.some((line) => line.startsWith('|')))
    console.log(`| ? | ${file} | ended without a figure | 0 | **missed** |`)
}
process.exit(missed === 0 ? 0 : 1)
