// R3: `kill -9` of the gateway while the broker is away, again and again; then both come back.
// `bun tests/faults/brokers/broker-kill.ts [--kills 10]`.
import { conclude, numberArgument } from '../control/figures.ts'
import { startOracle } from '../oracle.ts'
import { openBroker } from '../rig.ts'
import { settledInKafka } from '../settled.ts'

const KILLS = numberArgument('kills', 10)
const CLIENTS = 8

const broker = await openBroker()
const gateway = broker.gateway()
await gateway.until('serving', 60_000)
// A stop writes the snapshot from which it starts while the broker is away.
await gateway.request('/admin/v1/tenants', { body: { slug: 'snapshotted', name: 'in the snapshot' } })
await gateway.end()
gateway.start()
await gateway.until('serving', 60_000)

const oracle = startOracle(() => gateway, CLIENTS, 'sandbox-echo')
await oracle.answered(500)
await broker.proxy.refuse()
for (let kill = 0; kill < KILLS; kill++) {
  await Bun.sleep(500 + Math.random() * 1_500)
  await gateway.end('SIGKILL')
  gateway.start()
  await gateway.until('serving', 60_000)
}
await oracle.answered(200)
await broker.proxy.accept()
const healedMs = performance.now()
await oracle.answered(500)
await oracle.stop()
const { lost, doubled, outcomes, repeats, otherTokens } = await settledInKafka(broker.direct, oracle)
const drainedS = (performance.now() - healedMs) / 1_000
await gateway.remove()
await broker.remove()
conclude([
  {
    row: 'R3',
    what: `\`kill -9\` of the gateway ${KILLS} times while the broker is away, then both back`,
    figure:
      `lost ${lost} of ${oracle.complete.size}, doubled ${doubled} of ${outcomes}, other tokens ${otherTokens}, ` +
      `repeats dropped by id ${repeats}; all in the topic ${drainedS.toFixed(1)} s after`,
    n: oracle.complete.size,
    good: lost + doubled + otherTokens === 0 && oracle.complete.size > 0,
  },
])
