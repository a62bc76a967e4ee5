// R6: the gateway is stopped (SIGSTOP) under load, longer than a lease lasts, and resumes.
// `bun tests/faults/gateway/pause.ts [--seconds 30] [--times 3]`.

import { startGateway } from '../../services/gateway.ts'
import { conclude, numberArgument } from '../control/figures.ts'
import { startTenantWriter } from '../failpoints/writer.ts'
import { compare, settledRows, startOracle } from '../oracle.ts'
import { failuresText, WITHOUT_LOAD_GATE } from '../rig.ts'

const SECONDS = numberArgument('seconds', 30)
const TIMES = numberArgument('times', 3)

const since = new Date(Date.now() - 1_000)
const gateway = startGateway({ settings: WITHOUT_LOAD_GATE })
await gateway.until('ready', 60_000)
const oracle = startOracle(() => gateway, 8, 'sandbox-echo')
const writer = startTenantWriter(gateway, 'paused')
const recoveredMs: number[] = []
for (let time = 0; time < TIMES; time++) {
  await oracle.answered(500)
  process.kill(gateway.pid, 'SIGSTOP')
  await Bun.sleep(SECONDS * 1_000)
  process.kill(gateway.pid, 'SIGCONT')
  const contMs = performance.now()
  await oracle.answered(1, 30_000)
  recoveredMs.push(performance.now() - contMs)
}
await gateway.until('ready', Number.POSITIVE_INFINITY)
await oracle.answered(200)
await oracle.stop()
await writer.stop()
const rows = await settledRows(gateway, since, oracle.complete.size)
const { lost, doubled, phantom, otherTokens } = compare(oracle, rows)
const tenants = await writer.compare()
await gateway.remove()
conclude([
  {
    row: 'R6',
    what: `the gateway stopped (SIGSTOP) for ${SECONDS} s, ${TIMES} times`,
    figure:
      `lost ${lost} of ${oracle.complete.size}, doubled ${doubled}, never sent ${phantom}, other tokens ` +
      `${otherTokens}; tenants told made and missing ${tenants.lost} of ${tenants.told}; ` +
      `an answer again after ${Math.max(...recoveredMs).toFixed(0)} ms at most; clients saw: ${failuresText(oracle)}`,
    n: oracle.complete.size,
    good: lost + doubled + phantom + otherTokens + tenants.lost + tenants.doubled === 0 && oracle.complete.size > 0,
  },
])
