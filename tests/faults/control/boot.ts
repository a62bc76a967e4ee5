// C9: how long a gateway takes from its start to `/ready` on a long chain, with and without a snapshot.
// `bun tests/faults/control/boot.ts [--most 100000] [--starts 3]`: whole gateways on a real broker, on 1,000, 10,000,
// 100,000 and, with `--most 1000000`, a million decisions. Beside them, unless `--embedded 0`, the control state alone
// on an embedded log.
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kafka, startKafka } from '../../../infra/kafka/kafka.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import { kafkaLog } from '../../../src/log/kafka/log.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { CONTROL, foldAgain } from '../../../src/state/fold.ts'
import { snapshotPath } from '../../../src/state/history/snapshot.ts'
import type { InstanceAnnounced } from '../../../src/upkeep/instances/instance-announced.ts'
import { APART_MS, appendMixedChain } from '../../bench/long-logs/mixed-chain.ts'
import { initTopics, kafkaSettings } from '../../services/cluster.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { startPostgres } from '../../services/postgres.ts'
import { macKey } from '../../state/support.ts'
import { percentiles } from '../oracle.ts'
import { bootEmbedded } from './boot-embedded.ts'
import { conclude, type Figure, numberArgument } from './figures.ts'

const SIZES = [1_000, 10_000, 100_000, 1_000_000]
/** A million decisions without a snapshot; less for less. */
const AIM_MS = 10_000
const STARTED_WITHIN_MS = 120_000
const LOOK_MS = 100

type Settings = Readonly<Record<string, unknown>>

/** Waits until it holds; throws when it does not within the time of a start. */
const until = async (what: string, holds: () => boolean): Promise<void> => {
  const startedAt = performance.now()
  while (!holds()) {
    if (performance.now() - startedAt > STARTED_WITHIN_MS) throw new Error(`no ${what} within the time`)
    await Bun.sleep(LOOK_MS)
  }
}

/** The latest announcement of each start, by its epoch. */
const announcements = (log: EventLog) => {
  const latest = new Map<string, InstanceAnnounced>()
  const stop = new AbortController()
  const reading = (async () => {
    for await (const batch of log.read(TOPICS.instances.name, 0, 0, stop.signal)) {
      for (const { value } of batch) {
        const envelope = value === null ? null : readEnvelope(value)
        if (envelope !== null) latest.set(envelope.epoch, envelope.data as InstanceAnnounced)
      }
    }
  })()
  return {
    latest,
    async close() {
      stop.abort()
      await reading
    },
  }
}

interface Starts {
  readonly fromLog: number[]
  readonly fromSnapshot: number[]
}

/** A gateway new to the chain, from its start to its end; then again, from the snapshot that it has left. */
const startTwice = async (settings: Settings, size: number, announced: () => Promise<void>, starts: Starts) => {
  const gateway: GatewayProcess = startGateway({ settings })
  try {
    starts.fromLog.push(await gateway.until('ready', STARTED_WITHIN_MS))
    await announced()
    const snapshot = snapshotPath(join(gateway.folder, 'data'))
    // A gateway writes a snapshot once the chain is long enough, and at its end in any case, if that fits into the time
    // for shutdown.
    if (size >= 10_000) await until('snapshot', () => existsSync(snapshot))
    await gateway.end()
    if (!existsSync(snapshot)) throw new Error('the gateway left no snapshot')
    gateway.start()
    starts.fromSnapshot.push(await gateway.until('ready', STARTED_WITHIN_MS))
    if (gateway.output().includes('snapshot_not_used')) throw new Error('the gateway did not use its snapshot')
    await announced()
  } finally {
    await gateway.remove()
  }
}

const filled = async (log: EventLog, size: number): Promise<void> => {
  // `gateway topics --init` began the chain.
  const { tip, counts } = await foldAgain(log, macKey, new AbortController().signal)
  const startMs = Date.now() - size * APART_MS
  await appendMixedChain({ log, from: counts.counted, parent: tip, count: size, macKey, startMs })
}

/** Fills a new cluster with so many decisions, and starts gateways on it. */
export const bootOf = async (size: number, times: number, databaseUrl: string, aimMs = AIM_MS): Promise<Figure> => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-boot-'))
  const kafka: Kafka = await startKafka({ dataDir: join(folder, 'kafka') })
  const log = kafkaLog({ brokers: kafka.bootstrap, clientId: 'boot' })
  const more = { worker: { enabled: false }, database: { url: databaseUrl } }
  const settings = kafkaSettings(kafka.bootstrap, more)
  try {
    await initTopics(settings, folder)
    await filled(log, size)
    const { latest, close } = announcements(log)
    const starts: Starts = { fromLog: [], fromSnapshot: [] }
    let heard = 0
    for (let n = 0; n < times; n++) {
      const announced = async () => {
        heard++
        const end = await log.end(CONTROL, 0)
        await until('announcement', () => latest.size === heard && [...latest.values()].at(-1)?.offset === end)
      }
      await startTwice(settings, size, announced, starts)
    }
    await close()
    const { state, next } = await foldAgain(log, macKey, new AbortController().signal)
    const digest = state.digest()
    const equal = [...latest.values()].filter((said) => said.offset === next && said.digest === digest).length
    const seconds = (values: readonly number[]) => {
      const { p50, max } = percentiles(values)
      return `${(p50 / 1_000).toFixed(2)} s${values.length > 1 ? ` (max ${(max / 1_000).toFixed(2)})` : ''}`
    }
    const what = `gateway started on ${size.toLocaleString('en')} decisions on a real broker, until /ready is 200`
    const figure =
      `${seconds(starts.fromLog)} from the log, ${seconds(starts.fromSnapshot)} from a ` +
      `snapshot; digests equal to a whole fold ${equal} of ${heard}`
    const fast = Math.max(...starts.fromLog, ...starts.fromSnapshot) < aimMs
    return { row: 'C9', what, figure, n: heard, good: fast && equal === heard }
  } finally {
    await log.close()
    await kafka.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const figures: Figure[] = []
  const postgres = await startPostgres()
  const add = (figure: Figure) => {
    figures.push(figure)
    console.error(`${figure.what}: ${figure.figure}`) // the table comes at the end, after minutes
  }
  const sizes = SIZES.filter((each) => each <= numberArgument('most', 100_000))
  for (const size of sizes) add(await bootOf(size, size > 100_000 ? 1 : numberArgument('starts', 3), postgres.url))
  await postgres.remove()
  if (numberArgument('embedded', 1) > 0) for (const size of sizes) add(await bootEmbedded(size, AIM_MS))
  conclude(figures)
}
