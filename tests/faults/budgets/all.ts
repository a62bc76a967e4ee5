// The faults of budgets, B1 to B9, one after the other, as a table: `bun tests/faults/budgets/all.ts [--short]`.
// B4 waits for the end of an hour.
import { runScripts } from '../control/scripts.ts'

interface Script {
  readonly file: string
  readonly full: readonly string[]
  /** Null: not in the short run. */
  readonly short: readonly string[] | null
}

const SIZES = ['2', '3', '5'] as const
/** With two, three and five instances; the short run has two. */
const atAllSizes = (file: string, short: readonly string[] | null): Script[] =>
  SIZES.map((size) => ({
    file,
    full: ['--instances', size],
    short: short === null || size !== SIZES[0] ? null : ['--instances', size, ...short],
  }))

const SCRIPTS: readonly Script[] = [
  ...atAllSizes('admit', ['--requests', '60']),
  ...atAllSizes('kills', ['--kills', '2']),
  ...atAllSizes('exits', ['--times', '100']),
  ...atAllSizes('windows', null),
  ...atAllSizes('stopped', null),
  ...atAllSizes('lost-tells', ['--seconds', '10']),
  ...atAllSizes('routes', ['--requests', '100']),
  ...atAllSizes('tenants', ['--requests', '100']),
  ...atAllSizes('outage', ['--seconds', '10']),
  { file: 'builds', full: ['--instances', '3'], short: null },
]

const isShort = process.argv.includes('--short')
const scripts = SCRIPTS.flatMap(({ file, full, short }) => {
  const args = isShort ? short : full
  return args === null ? [] : [{ file, args }]
})
// More connections at once than a client opens by itself.
const missed = await runScripts(import.meta.dir, scripts, { BUN_CONFIG_MAX_HTTP_REQUESTS: '4096' })
process.exit(missed === 0 ? 0 : 1)
