// Processes that end themselves at a failpoint, under the load of an oracle and of a writer. Each next start gets the
// next failpoint hit at which to end.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../../infra/kafka/kafka.ts'
import type { Failpoint } from '../../../src/lib/process/failpoints.ts'
import { initTopics, kafkaSettings } from '../../services/cluster.ts'
import { besideGateway, startCommand } from '../../services/command.ts'
import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { sharedPostgres } from '../../services/postgres.ts'
import { startUpstream } from '../../services/upstream.ts'
import type { Figure } from '../control/figures.ts'
import { compare, settledRows, startOracle } from '../oracle.ts'
import { startTenantWriter } from './writer.ts'

type Adapter = 'embedded' | 'kafka'

interface Place {
  /** The process that reaches the failpoint. */
  readonly who: 'gateway' | 'worker'
  readonly on: readonly Adapter[]
  /** It dies at one of its first so many visits. */
  readonly within: number
  readonly env?: Readonly<Record<string, string>>
  /** Reaches it when it is stopped. */
  readonly whenStopped?: true
}

const BOTH: readonly Adapter[] = ['embedded', 'kafka']

export const PLACES: Readonly<Record<Failpoint, Place>> = {
  admitted: { who: 'gateway', on: BOTH, within: 400 },
  mid_stream: { who: 'gateway', on: BOTH, within: 200 },
  settled: { who: 'gateway', on: BOTH, within: 400 },
  spool_before_write: { who: 'gateway', on: BOTH, within: 200 },
  spool_written: { who: 'gateway', on: BOTH, within: 200 },
  spool_synced: { who: 'gateway', on: BOTH, within: 100, env: { GATEWAY_LOG_DURABILITY: 'host' } },
  segment_unnamed: { who: 'gateway', on: BOTH, within: 1 },
  sender_before_append: { who: 'gateway', on: ['kafka'], within: 60 },
  sender_appended: { who: 'gateway', on: ['kafka'], within: 60 },
  watermark_unnamed: { who: 'gateway', on: ['kafka'], within: 60 },
  control_before_append: { who: 'gateway', on: BOTH, within: 12 },
  control_appended: { who: 'gateway', on: BOTH, within: 12 },
  snapshot_unnamed: { who: 'gateway', on: BOTH, within: 1, whenStopped: true },
  projection_written: { who: 'worker', on: BOTH, within: 40 },
  projection_committed: { who: 'worker', on: BOTH, within: 40 },
}

export interface Ground {
  readonly adapter: Adapter
  readonly gateway: GatewayProcess
  /** Of the next start of the gateway. */
  readonly env: Record<string, string>
  /** A projection worker as a process of its own. */
  startWorker(env?: Readonly<Record<string, string>>): Bun.Subprocess
  worker: Bun.Subprocess
  remove(): Promise<void>
}

const CLIENTS = 8
const DIES_WITHIN_MS = 30_000

const openGround = async (
  adapter: Adapter,
  settings: Readonly<Record<string, unknown>>,
  removeLog: () => Promise<void>,
): Promise<Ground> => {
  const database = await sharedPostgres()
  const upstream = startUpstream()
  upstream.behave({ chunks: 6, chunkDelayMs: 2 })
  const env: Record<string, string> = { NODE_ENV: 'test' }
  const gateway = startGateway({
    env,
    settings: {
      ...settings,
      worker: { enabled: false },
      database: { url: database.url },
      health: { probe_interval: 'off' },
      bootstrap: {
        providers: [
          { name: 'slow', kind: 'openai_compatible', base_url: upstream.baseUrl, models: [{ name: 'slow' }] },
        ],
      },
    },
  })
  await gateway.until('serving', 60_000)
  await eventually('the model is seeded', async () =>
    (await (await gateway.request('/v1/models')).text()).includes('"slow"'),
  )
  const startWorker: Ground['startWorker'] = (more = {}) => {
    const { cwd, env } = besideGateway(gateway.folder)
    const place = { cwd, env: { NODE_ENV: 'test', ...env, ...more } }
    return startCommand(['worker'], place, { output: 'ignore', errors: 'ignore' })
  }
  const ground: Ground = {
    adapter,
    gateway,
    env,
    startWorker,
    worker: startWorker(),
    async remove() {
      ground.worker.kill()
      await ground.worker.exited
      await gateway.remove()
      await upstream.stop()
      await database.remove()
      await removeLog()
    },
  }
  return ground
}

export const openEmbeddedGround = (): Promise<Ground> => openGround('embedded', {}, async () => {})

/** On the broker that is given, else on one of its own. */
export const openKafkaGround = async (): Promise<Ground> => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-failpoints-'))
  const kafka = await startKafka({ brokers: 1, dataDir: join(folder, 'kafka') })
  const settings = kafkaSettings(kafka.bootstrap)
  await initTopics(settings, folder)
  return openGround('kafka', settings, async () => {
    await kafka.stop()
    rmSync(folder, { recursive: true, force: true })
  })
}

const at = (name: Failpoint, within: number): Record<string, string> => ({
  GATELOG_FAILPOINT: `${name}:kill@${1 + Math.floor(Math.random() * within)}`,
})

const killGateway = async ({ gateway, env }: Ground, name: Failpoint, kills: number): Promise<number> => {
  const { within, whenStopped, env: more = {} } = PLACES[name]
  await gateway.end()
  let deaths = 0
  for (let kill = 0; kill < kills; kill++) {
    Object.assign(env, more, at(name, within))
    gateway.start()
    if (whenStopped === true) {
      await gateway.until('serving', DIES_WITHIN_MS)
      await Bun.sleep(500)
      await gateway.end()
    }
    const died = await Promise.race([gateway.exited, Bun.sleep(DIES_WITHIN_MS)])
    if (died === undefined)
      await gateway.end('SIGKILL') // it never came there
    else if (gateway.endedBy === 'SIGKILL') deaths++
  }
  for (const variable of ['GATELOG_FAILPOINT', ...Object.keys(more)]) delete env[variable]
  gateway.start()
  await gateway.until('serving', DIES_WITHIN_MS)
  return deaths
}

const killWorker = async (ground: Ground, name: Failpoint, kills: number): Promise<number> => {
  let deaths = 0
  ground.worker.kill()
  await ground.worker.exited
  for (let kill = 0; kill < kills; kill++) {
    const worker = ground.startWorker(at(name, PLACES[name].within))
    const died = await Promise.race([worker.exited, Bun.sleep(DIES_WITHIN_MS)])
    if (died === undefined) worker.kill('SIGKILL')
    else if (worker.signalCode === 'SIGKILL') deaths++
    await worker.exited
  }
  ground.worker = ground.startWorker()
  return deaths
}

/** Kills at one failpoint so often; then looks for everything that was reported complete. */
export const killAt = async (ground: Ground, name: Failpoint, kills: number): Promise<Figure> => {
  const { who } = PLACES[name]
  const { gateway, adapter } = ground
  const since = new Date(Date.now() - 1_000)
  const oracle = startOracle(() => gateway, CLIENTS, 'slow')
  const writer = startTenantWriter(gateway, name)
  const deaths = await (who === 'gateway' ? killGateway : killWorker)(ground, name, kills)
  await oracle.answered(20)
  await oracle.stop()
  await writer.stop()
  const rows = await settledRows(gateway, since, oracle.complete.size)
  const { lost, doubled, phantom, otherTokens, recorded, outcomes } = compare(oracle, rows)
  const tenants = await writer.compare()
  const orphaned = outcomes.orphaned?.length ?? 0
  const unrecorded = oracle.broken.size - recorded
  const wrong = unrecorded + lost + doubled + phantom + otherTokens + tenants.lost + tenants.doubled
  return {
    row: 'R2',
    what: `\`kill -9\` at \`${name}\`, ${adapter}`,
    figure:
      `died there ${deaths} of ${kills}; lost ${lost} of ${oracle.complete.size}, doubled ` +
      `${doubled}, never sent ${phantom}, other tokens ${otherTokens}, ` +
      `begun for a client, broken off and recorded ${recorded} of ${oracle.broken.size}, orphaned in all ` +
      `${orphaned}; tenants told made and missing ${tenants.lost} of ${tenants.told}, doubled ${tenants.doubled}`,
    n: oracle.complete.size,
    good: wrong === 0 && deaths === kills && oracle.complete.size > 0,
  }
}
