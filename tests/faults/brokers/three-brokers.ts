// R11: of three brokers one is killed (`kill -9`) and started again, repeatedly, under load.
// `bun tests/faults/brokers/three-brokers.ts [--kills 6]`.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { initTopics, kafkaSettings } from '../../services/cluster.ts'
import { startGateway } from '../../services/gateway.ts'
import { conclude, numberArgument } from '../control/figures.ts'
import { startTenantWriter } from '../failpoints/writer.ts'
import { startOracle } from '../oracle.ts'
import { failedOf, failuresText, WITHOUT_LOAD_GATE } from '../rig.ts'
import { settledInKafka } from '../settled.ts'

const KILLS = numberArgument('kills', 6)

const folder = mkdtempSync(join(tmpdir(), 'gatelog-three-'))
const kafka = await startKafka({ brokers: 3, dataDir: join(folder, 'kafka') })
const settings = kafkaSettings(kafka.bootstrap, { worker: { enabled: false } })
await initTopics(settings, folder)
const gateway = startGateway({ settings: { ...settings, ...WITHOUT_LOAD_GATE } })
await gateway.until('serving', 60_000)
const oracle = startOracle(() => gateway, 6, 'sandbox-echo')
const writer = startTenantWriter(gateway, 'three', 100)
for (let kill = 0; kill < KILLS; kill++) {
  await oracle.answered(500)
  const broker = kafka.broker(kill % 3)
  await broker.kill()
  await Bun.sleep(4_000)
  await broker.restart()
  await Bun.sleep(6_000)
}
await oracle.stop()
await writer.stop()
const { lost, doubled, outcomes, repeats, records, otherTokens } = await settledInKafka(kafka.bootstrap, oracle)
const tenants = await writer.compare()
await gateway.remove()
await kafka.stop()
rmSync(folder, { recursive: true, force: true })
conclude([
  {
    row: 'R11',
    what: `three brokers, each in turn killed (\`kill -9\`) and started again, ${KILLS} times`,
    figure:
      `inference failed ${failedOf(oracle)} of ${oracle.sent.size} (${failuresText(oracle)}); lost ${lost} of ` +
      `${oracle.complete.size}, doubled ${doubled} of ${outcomes}, other tokens ${otherTokens}, ` +
      `repeats dropped by id ${repeats} of ${records}; tenants told made and ` +
      `missing ${tenants.lost} of ${tenants.told}`,
    n: oracle.complete.size,
    good:
      failedOf(oracle) + lost + doubled + otherTokens + tenants.lost + tenants.doubled === 0 &&
      oracle.complete.size > 0,
  },
])
