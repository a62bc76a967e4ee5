// The control figures of guides/reliability.md section 4, one after the other, as a table: `bun tests/faults/control/all.ts [--short]`.
// Each script is a process of its own and prints its lines; what it prints beside them goes to stderr.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { TABLE_HEAD } from './figures.ts'

interface Script {
  readonly file: string
  readonly short: readonly string[]
}

const SCRIPTS: readonly Script[] = [
  { file: 'races', short: ['--races', '50'] },
  { file: 'setup', short: ['--rounds', '20'] },
  { file: 'lost-acks', short: ['--commands', '100'] },
  { file: 'leader', short: ['--commands', '3000'] },
  { file: 'paused', short: ['--seconds', '3'] },
  { file: 'poison', short: ['--rounds', '2'] },
  { file: 'golden', short: [] },
  { file: 'behind', short: ['--times', '1'] },
  { file: 'rolling', short: ['--seconds', '2'] },
  { file: 'lost-log', short: [] },
  { file: 'withdrawals', short: ['--times', '20'] },
  { file: 'boot', short: ['--most', '100000'] },
  { file: 'digests', short: ['--decisions', '2000'] },
  { file: 'turns', short: ['--commands', '20'] },
  { file: 'keys', short: ['--kills', '3'] },
  { file: 'keys-kafka', short: ['--kills', '2'] },
]

const short = process.argv.includes('--short')
let missed = 0
console.log(TABLE_HEAD)
for (const { file, short: fewer } of SCRIPTS) {
  const path = join(import.meta.dir, `${file}.ts`)
  if (!existsSync(path)) continue
  const child = Bun.spawn([process.execPath, path, ...(short ? fewer : [])], { stdout: 'pipe', stderr: 'inherit' })
  const lines = (await new Response(child.stdout).text()).trimEnd().split('\n')
  for (const line of lines) (line.startsWith('|') ? console.log : console.error)(line)
  if ((await child.exited) === 0) continue
  missed++
  if (!lines.some((line) => line.startsWith('|')))
    console.log(`| ? | ${file} | ended without a figure | 0 | **missed** |`)
}
process.exit(missed === 0 ? 0 : 1)
