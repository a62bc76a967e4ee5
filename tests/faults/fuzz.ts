// The long run of the OpenAPI fuzzer: `bun tests/faults/fuzz.ts [seconds] [seed]`, 300 seconds by default. Prints what was counted; the
// exit code is 0 only when every failure was the envelope, no 5xx was unexpected, and all answers were as the document says.
import { fuzz, withFuzzedGateway } from '../services/fuzz.ts'

const [seconds = '300', seed = String(Date.now() % 1_000_000)] = process.argv.slice(2)
const result = await withFuzzedGateway((url, key) => fuzz(url, key, Number(seconds), Number(seed)))
for (const flaw of result.flaws) console.log(flaw)
if (!result.passed) console.log(result.output)
const statuses = Object.entries(result.byStatus).map(([status, count]) => `${status}: ${count}`)
console.log(`${seconds} s, seed ${seed}`)
console.log(`requests made                ${result.requests} (${statuses.sort().join(', ')})`)
console.log(`answers outside the envelope ${result.outsideEnvelope}`)
console.log(`unexpected 5xx               ${result.unexpected5xx}`)
const well = result.passed && result.outsideEnvelope === 0 && result.unexpected5xx === 0 && result.requests > 0
process.exit(well ? 0 : 1)
