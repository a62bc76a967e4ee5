// `npm run simulate -- replay [requests, 100000] [seed, 1]`: random requests, each planned again from its record. Ends
// with 1 unless order, rejections and reasons of all are equal.
import { replayRequests } from './replay.ts'

const requests = Number(process.argv[2] ?? 100_000)
const seed = Number(process.argv[3] ?? 1)
const began = performance.now()
const run = replayRequests(requests, seed)
for (const [name, value] of Object.entries(run)) if (name !== 'flaws') console.log(`${name}: ${JSON.stringify(value)}`)
for (const flaw of run.flaws) console.log(flaw.slice(0, 2_000))
console.log(`${run.planned} planned again, ${run.differences} differences, ${Math.round(performance.now() - began)} ms`)
process.exit(run.differences === 0 ? 0 : 1)
