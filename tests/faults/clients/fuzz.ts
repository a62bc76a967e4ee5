// The long run of the OpenAPI fuzzer: `bun tests/faults/clients/fuzz.ts [seconds] [seed] [v1|admin]`, 300 seconds of
// `/v1` by default.
// Prints its counts. The exit code is 0 only when every failure is the envelope, no 5xx is unexpected, all answers
// match the document, and the chain verifies afterwards.
import { fuzzGateway, isPart } from '../../services/fuzz.ts'

const [seconds = '300', seed = String(Date.now() % 1_000_000), part = 'v1'] = process.argv.slice(2)
if (!isPart(part)) throw new Error(`no part of the surface is called "${part}"`)
const result = await fuzzGateway(part, Number(seconds), Number(seed))
for (const flaw of result.flaws) console.log(flaw)
if (!result.passed) console.log(result.output)
const { code, lines, value } = result.verified
const statuses = Object.entries(result.byStatus).map(([status, count]) => `${status}: ${count}`)
console.log(`${part}, ${seconds} s, seed ${seed}`)
console.log(`requests made                ${result.requests} (${statuses.sort().join(', ')})`)
console.log(`answers outside the envelope ${result.outsideEnvelope}`)
console.log(`unexpected 5xx               ${result.unexpected5xx}`)
console.log(`the gateway                  ${result.alive}`)
console.log(
  `gateway verify               ${code === 0 ? 'all agrees' : lines.join('; ')}, ${value('counted')} decisions counted`,
)
const well = result.passed && result.outsideEnvelope === 0 && result.unexpected5xx === 0 && result.requests > 0
process.exit(well && code === 0 ? 0 : 1)
