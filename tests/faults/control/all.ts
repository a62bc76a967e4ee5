// The figures of the control plane, one after the other, as a table: `bun tests/faults/control/all.ts [--short]`.
import { runScripts } from './scripts.ts'

interface Script {
  readonly file: string
  readonly short: readonly string[]
}

const SCRIPTS: readonly Script[] = [
  { file: 'races', short: ['--races', '50'] },
  { file: 'setup/setup', short: ['--rounds', '20'] },
  { file: 'lost-acks', short: ['--commands', '100'] },
  { file: 'leader', short: ['--commands', '3000'] },
  { file: 'paused', short: ['--seconds', '3'] },
  { file: 'poison', short: ['--rounds', '2'] },
  { file: 'golden', short: [] },
  { file: 'behind', short: ['--times', '1'] },
  { file: 'rolling', short: ['--seconds', '2'] },
  { file: 'lost-log', short: [] },
  { file: 'withdrawals', short: ['--times', '20'] },
  { file: 'boot', short: ['--most', '10000', '--starts', '1'] },
  { file: 'digests', short: ['--decisions', '2000'] },
  { file: 'turns', short: ['--commands', '20'] },
  { file: 'keys/keys', short: ['--kills', '3'] },
  { file: 'keys/keys-kafka', short: ['--kills', '2'] },
]

const isShort = process.argv.includes('--short')
const scripts = SCRIPTS.map(({ file, short }) => ({ file, args: isShort ? short : [] }))
const missed = await runScripts(import.meta.dir, scripts)
process.exit(missed === 0 ? 0 : 1)
