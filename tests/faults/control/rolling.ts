// C6: three instances are rolled to a newer build, back, and up again, while admin writes and inference go on.
// `bun tests/faults/control/rolling.ts [--seconds 5]`: seconds between the rolls, on a real broker. The newer build has
// one event type more. A request that a stopping instance answers with 503 is sent to another one, as a load balancer
// does.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kafka, startKafka } from '../../../infra/kafka/kafka.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import { kafkaLog } from '../../../src/log/kafka/log.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import type { InstanceAnnounced } from '../../../src/upkeep/instances/instance-announced.ts'
import { initTopics, kafkaSettings, NO_READ_MODELS } from '../../services/cluster.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { conclude, type Figure, numberArgument } from './figures.ts'
import { NEW_TYPE, NEW_TYPE_NAME, newerBuild } from './other-build.ts'

const ROOT = join(import.meta.dir, '../../..')
const PAUSE_MS = 20
const ACTIVE_WITHIN_MS = 30_000
/** As an instance counts the others: src/upkeep/instances/peers.ts. */
const GONE_AFTER_MS = 5_000

interface Tally {
  written: number
  /** What an admin write was refused with -> how often. */
  readonly refused: Map<string, number>
  served: number
  served5xx: number
  sentElsewhere: number
}

/** Sends writes and inference to one instance until it is stopped; pauses while that instance is down. */
const load = async (gateway: GatewayProcess, name: string, tally: Tally, signal: AbortSignal): Promise<void> => {
  const body = { model: 'sandbox-echo', messages: [{ role: 'user', content: 'Hello' }] }
  for (let n = 0; !signal.aborted; n++) {
    try {
      const write = await gateway.request('/admin/v1/tenants', { body: { slug: `${name}-${n}`, name } })
      const said = await write.text()
      if (write.ok) tally.written++
      else {
        const message = `${write.status} ${(JSON.parse(said) as { error: { message: string } }).error.message}`
        tally.refused.set(message, (tally.refused.get(message) ?? 0) + 1)
      }
      const answer = await gateway.request('/v1/chat/completions', { body })
      await answer.arrayBuffer()
      if (answer.status === 503) tally.sentElsewhere++
      else tally.served++
      if (answer.status >= 500 && answer.status !== 503) tally.served5xx++
    } catch {
      // down: a load balancer would send the request to another instance
    }
    await Bun.sleep(PAUSE_MS)
  }
}

/** Status of a write that needs the new event type. */
const useNewType = async (gateway: GatewayProcess): Promise<number> => {
  const listed = await gateway.request('/admin/v1/tenants?limit=1')
  const { tenants } = (await listed.json()) as { tenants: { id: string }[] }
  const answer = await gateway.request(`/admin/v1/tenants/${tenants[0]!.id}`, {
    method: 'PUT',
    body: { name: NEW_TYPE_NAME },
  })
  await answer.arrayBuffer()
  return answer.status
}

const readyText = async (gateway: GatewayProcess): Promise<string> => (await gateway.request('/ready')).text()

const roll = async (gateways: readonly GatewayProcess[], root: string, seconds: number, between?: () => unknown) => {
  for (const gateway of gateways) {
    await gateway.end()
    gateway.use(root)
    gateway.start()
    await gateway.until('serving', 60_000)
    await between?.()
    await Bun.sleep(seconds * 1_000)
  }
}

interface Announced {
  /** Offsets that several undegraded instances announced, and at how many of them their digests differ. */
  readonly offsets: number
  readonly different: number
  /** The longest silence, by the broker's clock, of an instance that went on afterwards. */
  readonly silentMs: number
}

const announced = async (brokers: readonly string[]): Promise<Announced> => {
  const log = kafkaLog({ brokers, clientId: 'rolling' })
  const end = await log.end(TOPICS.instances.name, 0)
  const digests = new Map<number, Map<string, string>>()
  const lastAtMs = new Map<string, number>()
  let silentMs = 0
  for await (const batch of log.read(TOPICS.instances.name, 0, 0, new AbortController().signal)) {
    for (const { value, atMs } of batch) {
      const envelope = value === null ? null : readEnvelope(value)
      if (envelope === null) continue
      silentMs = Math.max(silentMs, atMs - (lastAtMs.get(envelope.epoch) ?? atMs))
      lastAtMs.set(envelope.epoch, atMs)
      const said = envelope.data as InstanceAnnounced
      if (said.degraded !== null) continue
      const at = digests.get(said.offset) ?? new Map<string, string>()
      digests.set(said.offset, at.set(said.instance, said.digest))
    }
    if (batch.at(-1)!.offset + 1 >= end) break
  }
  await log.close()
  const shared = [...digests.values()].filter(({ size }) => size > 1)
  return { offsets: shared.length, different: shared.filter((at) => new Set(at.values()).size > 1).length, silentMs }
}

const untilActive = async (gateway: GatewayProcess): Promise<number> => {
  const startedAt = performance.now()
  while ((await useNewType(gateway)) !== 200) {
    if (performance.now() - startedAt > ACTIVE_WITHIN_MS) throw new Error('the new event type was never activated')
    await Bun.sleep(100)
  }
  return performance.now() - startedAt
}

interface Refusals {
  /** By an instance that is on its way out, or what it had under way then. */
  stopping: number
  /**
   * 504: the broker did not answer in time, and nothing was changed. Any build answers so on a machine that is short of
   * processor time.
   */
  late: number
  other: number
}

const refusalsIn = ({ refused }: Tally): Refusals => {
  const counts = { stopping: 0, late: 0, other: 0 }
  for (const [said, times] of refused) {
    const isStopping = /is stopping|outcome is unknown/.test(said)
    counts[isStopping ? 'stopping' : said.startsWith('504 ') ? 'late' : 'other'] += times
  }
  return counts
}

export const rolling = async (
  seconds: number,
  instances = 3,
  given: Kafka | null = null,
): Promise<readonly Figure[]> => {
  const newer = newerBuild()
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-rolling-'))
  const kafka = given ?? (await startKafka({ dataDir: join(folder, 'kafka') }))
  const settings = { ...kafkaSettings(kafka.bootstrap), ...NO_READ_MODELS }
  await initTopics(settings, folder)
  const gateways: GatewayProcess[] = []
  const stop = new AbortController()
  try {
    for (let n = 0; n < instances; n++) gateways.push(startGateway({ settings }))
    for (const gateway of gateways) await gateway.until('serving', 60_000)
    const tally: Tally = { written: 0, refused: new Map(), served: 0, served5xx: 0, sentElsewhere: 0 }
    const loads = gateways.map((gateway, n) => load(gateway, `g${n}`, tally, stop.signal))
    const early: number[] = []
    await roll(gateways, newer, seconds, async () => {
      if (early.length < instances - 1) early.push(await useNewType(gateways[0]!)) // while an older one lives
    })
    const activeMs = await untilActive(gateways[0]!)
    const upRefused = refusalsIn(tally)
    await roll(gateways, ROOT, seconds)
    const told = (await Promise.all(gateways.map(readyText))).filter((text) => text.includes(NEW_TYPE)).length
    const back = await Promise.all(gateways.map(useNewType))
    const downRefused = refusalsIn(tally).other - upRefused.other
    await roll(gateways, newer, seconds)
    const again = await Promise.all(gateways.map(useNewType))
    stop.abort()
    await Promise.all(loads)
    const { offsets, different, silentMs } = await announced(kafka.bootstrap)
    const what = `${instances} instances rolled to a build with a new event type, back, and up again, under writes and inference`
    for (const [said, times] of tally.refused) console.error(`refused ${times} times: ${said}`)
    const dormant = upRefused.other === 0 && early.every((status) => status >= 500)
    // An instance that is silent for longer counts as gone, and the new type may be written without it. A machine that
    // starves an instance for so long is no fault of the builds: the instance then names the type and refuses writes.
    const starved = silentMs > GONE_AFTER_MS
    const figure =
      `divergent digests ${different} of ${offsets} offsets compared; inference 5xx ${tally.served5xx} of ` +
      `${tally.served}, sent elsewhere by an instance that was stopping ${tally.sentElsewhere}; admin writes carried ` +
      `out ${tally.written}, on the way up refused by an instance that was stopping ${upRefused.stopping}, out of ` +
      `time ${upRefused.late}, otherwise ${upRefused.other}; refused by older instances after the way back ` +
      `${downRefused}; the new type before all knew it ${early.join(', ')} (longest silence of an instance ` +
      `${(silentMs / 1_000).toFixed(1)} s), active ${(activeMs / 1_000).toFixed(1)} s after the last roll; older ` +
      `instances that name it in /ready ${told} of ${instances}, their writes ${back.join(', ')}; afterwards ` +
      `${again.join(', ')}`
    const good = different === 0 && tally.served5xx === 0 && (dormant || starved) && told === instances
    return [{ row: 'C6', what, figure, n: tally.written, good: good && again.every((status) => status === 200) }]
  } finally {
    stop.abort()
    for (const gateway of gateways) await gateway.remove()
    if (given === null) await kafka.stop()
    for (const path of [folder, newer]) rmSync(path, { recursive: true, force: true })
  }
}

if (import.meta.main) conclude(await rolling(numberArgument('seconds', 5)))
