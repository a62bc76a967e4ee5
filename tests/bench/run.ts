// `npm run bench [-- name ...]`: runs the benches of this folder one after another, each in a process of its own.
import { join } from 'node:path'

const BENCHES = ['proxy', 'start', 'fold', 'keys', 'history', 'profile', 'reads'] as const
const wanted = process.argv.slice(2)
const unknown = wanted.filter((name) => !BENCHES.includes(name as (typeof BENCHES)[number]))
if (unknown.length > 0) {
  console.error(`no bench is called ${unknown.join(', ')}; there are: ${BENCHES.join(', ')}`)
  process.exit(1)
}
for (const name of wanted.length === 0 ? BENCHES : wanted) {
  console.log(`\n## ${name}`)
  const child = Bun.spawn([process.execPath, join(import.meta.dir, `${name}.ts`)], {
    stdout: 'inherit',
    stderr: 'inherit',
  })
  if ((await child.exited) !== 0) process.exit(1)
}
