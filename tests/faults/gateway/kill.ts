// R1: `kill -9` of the gateway at random moments under load. Prints lost, doubled, never sent, other tokens, and the
// time from start to ready.
import { startGateway } from '../../services/gateway.ts'
import { compare, percentiles, settledRows, startOracle } from '../oracle.ts'

const KILLS = Number(process.argv[2] ?? 50)
const CLIENTS = 16

const since = new Date(Date.now() - 1_000)
const gateway = startGateway()
await gateway.until('ready')
const oracle = startOracle(() => gateway, CLIENTS, 'sandbox-echo')
const servingMs: number[] = []
const readyMs: number[] = []
for (let kill = 0; kill < KILLS; kill++) {
  await Bun.sleep(200 + Math.random() * 800)
  await gateway.end('SIGKILL')
  gateway.start()
  servingMs.push(await gateway.until('serving'))
  readyMs.push(await gateway.until('ready'))
}
await oracle.answered(200)
await oracle.stop()
const rows = await settledRows(gateway, since, oracle.complete.size)
const { lost, doubled, phantom, otherTokens, recorded, outcomes } = compare(oracle, rows)
const ready = percentiles(readyMs)
const serving = percentiles(servingMs)
console.log(
  `kill -9: ${KILLS} kills, ${oracle.sent.size} requests sent, ` +
    `${oracle.complete.size} answers held complete, ${rows.length} outcomes`,
)
console.log(
  `lost ${lost} of ${oracle.complete.size}; doubled ${doubled} of ${rows.length}; never sent ${phantom}; other ` +
    `tokens ${otherTokens}; begun, broken off and recorded ${recorded} of ${oracle.broken.size}`,
)
console.log(
  `outcomes: ${Object.entries(outcomes)
    .map(([name, of]) => `${name} ${of?.length}`)
    .join(', ')}; clients saw: ${JSON.stringify(Object.fromEntries(oracle.failures))}`,
)
console.log(
  `start to serving ms: p50 ${serving.p50.toFixed(0)}, max ${serving.max.toFixed(0)}; to ready ms: p50 ` +
    `${ready.p50.toFixed(0)}, p99 ${ready.p99.toFixed(0)}, max ${ready.max.toFixed(0)} (N ${KILLS})`,
)
await gateway.remove()
const isExact =
  oracle.complete.size > 0 && lost + doubled + phantom + otherTokens === 0 && recorded === oracle.broken.size
if (!isExact || ready.max > 3_000) process.exit(1)
