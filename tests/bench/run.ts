// `npm run bench [-- name ...]`: runs the benches of this folder one after another, each in a separate process.
// `--quick`: only benches that take less than 90 s, ending with the line of ratios. `--only=a,b`: some rows of a bench
// with named rows. The peers bench installs peers, so it runs only when it is named.
import { join } from 'node:path'

const BENCHES = [
  'proxy',
  'start',
  'fold',
  'keys',
  'history',
  'profile',
  'reads',
  'lag',
  'rebuild',
  'admin-writes',
  'allocations',
  'tricks',
  'refusal',
  'targets',
  'scale',
  'processes',
] as const
/** Benches that stand in a folder with what they need. */
const FOLDERS: Readonly<Record<string, string>> = {
  start: 'long-logs',
  fold: 'long-logs',
  history: 'long-logs',
  keys: 'keys',
  lag: 'rebuild',
  rebuild: 'rebuild',
  refusal: 'refusal',
}
/** Not of what is run without a name: they are installed first. */
const PEERS = 'peers'
const FLAGS = ['--quick', '--record', '--only=']
const given = process.argv.slice(2)
const isFlag = (word: string) => FLAGS.some((flag) => (flag.endsWith('=') ? word.startsWith(flag) : word === flag))
const flags = given.filter(isFlag)
const wanted = given.filter((word) => !isFlag(word))
const unknown = wanted.filter((name) => name !== PEERS && !BENCHES.includes(name as (typeof BENCHES)[number]))
if (unknown.length > 0) {
  console.error(
    `no bench is called ${unknown.join(', ')}; there are: ${BENCHES.join(', ')}, ${PEERS}, and ${FLAGS.join(', ')}`,
  )
  process.exit(1)
}
const all = flags.includes('--quick') ? (['proxy'] as const) : BENCHES
for (const name of wanted.length === 0 ? all : wanted) {
  console.log(`\n## ${name}`)
  const child = Bun.spawn([process.execPath, join(import.meta.dir, FOLDERS[name] ?? '', `${name}.ts`), ...flags], {
    stdout: 'inherit',
    stderr: 'inherit',
  })
  if ((await child.exited) !== 0) process.exit(1)
}
