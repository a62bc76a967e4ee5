// Explanations match the decisions: `bun tests/faults/explain.ts [planned requests, 10000] [seed, 1]`.
// A random world (policies of every strategy, scopes, overrides, budgets, failing providers) changes while random
// requests run through a real gateway. Then each request is explained, and the explanation is compared with its records
// and with what the client received. Ends with 1 unless all are equal.
import { explainRandomRequests } from './explained/run.ts'

const count = Number(process.argv[2] ?? 10_000)
const seed = Number(process.argv[3] ?? 1)
const run = await explainRandomRequests(count, seed)
for (const [name, value] of Object.entries(run)) if (name !== 'flaws') console.log(`${name}: ${JSON.stringify(value)}`)
for (const flaw of run.flaws) console.log(flaw.slice(0, 2_000))
console.log(`equal: ${run.equal} of ${run.planned}`)
process.exit(run.equal === count ? 0 : 1)
