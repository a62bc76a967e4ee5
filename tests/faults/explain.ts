// Explanations are what was decided: `bun tests/faults/explain.ts [planned requests, 10000] [seed, 1]`. A random world (policies of every strategy, scopes, overrides,
// budgets, failing providers) that changes while random requests run through a real gateway; then each is explained and held against its records and against what
// the client was told. Ends with 1 unless all are equal.
import { explainRandomRequests } from './explained/run.ts'

const count = Number(process.argv[2] ?? 10_000)
const seed = Number(process.argv[3] ?? 1)
const run = await explainRandomRequests(count, seed)
for (const [name, value] of Object.entries(run)) if (name !== 'flaws') console.log(`${name}: ${JSON.stringify(value)}`)
for (const flaw of run.flaws) console.log(flaw.slice(0, 2_000))
console.log(`equal: ${run.equal} of ${run.planned}`)
process.exit(run.equal === count ? 0 : 1)
