// Measures admin writes: `bun tests/bench/admin-writes.ts [kafka|embedded|both] [seconds]`.
// Thirty clients write to three instances on one real broker, or to one embedded instance. Afterwards the bench reads
// the log and counts acknowledged writes that are missing or applied twice. Meanwhile one more client writes on one
// instance and measures when its records have reached the other two (reach.ts).
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../infra/kafka/kafka.ts'
import { decisionMacKey } from '../../src/domain/kernel/decision.ts'
import { embeddedLog } from '../../src/log/embedded/log.ts'
import { kafkaLog } from '../../src/log/kafka/log.ts'
import type { EventLog } from '../../src/log/port.ts'
import { foldAgain } from '../../src/state/fold.ts'
import { percentiles } from '../faults/oracle.ts'
import { initTopics, kafkaSettings, MASTER_KEY } from '../services/cluster.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'
import { reaches } from './reach.ts'

const CLIENTS = 30
/** Not measured: processes that have just started compile what they run. */
const WARM_MS = 5_000
const MAC_KEY = decisionMacKey(Buffer.from(MASTER_KEY, 'base64'))
const AIMS = { kafka: 1_000, embedded: 2_000, p99Ms: 200, reachMs: 50 } as const
const which = process.argv[2] ?? 'both'
const seconds = Number(process.argv[3] ?? 20)

interface Acknowledged {
  readonly slug: string
  readonly ms: number
  readonly atMs: number
}

const write = async (
  gateway: GatewayProcess,
  slug: string,
): Promise<{ ok: boolean; status: number; revision: string }> => {
  const answer = await gateway.request('/admin/v1/tenants', { body: { slug, name: slug } })
  await answer.arrayBuffer()
  return { ok: answer.status === 201, status: answer.status, revision: answer.headers.get('x-gateway-revision') ?? '' }
}

const load = async (gateways: readonly GatewayProcess[], log: EventLog | null) => {
  const acknowledged: Acknowledged[] = []
  const failures = new Map<number, number>()
  const startedAt = performance.now()
  const endAt = startedAt + WARM_MS + seconds * 1_000
  const running = () => performance.now() < endAt
  const client = async (number: number) => {
    const gateway = gateways[number % gateways.length]!
    for (let n = 0; running(); n++) {
      const slug = `c${number}-${n}`
      const sentAt = performance.now()
      const { ok, status } = await write(gateway, slug)
      const atMs = performance.now()
      if (ok) acknowledged.push({ slug, ms: atMs - sentAt, atMs: atMs - startedAt })
      else failures.set(status, (failures.get(status) ?? 0) + 1)
    }
  }
  const clients = Array.from({ length: CLIENTS }, (_, number) => client(number))
  const warm = () => performance.now() > startedAt + WARM_MS
  const writeReached = async (gateway: GatewayProcess, slug: string) => {
    const { ok, revision } = await write(gateway, slug)
    return ok ? revision : null
  }
  const measured = log === null ? null : reaches({ log, macKey: MAC_KEY, gateways, write: writeReached, warm, running })
  await Promise.all(clients)
  const reached = (await measured)?.times ?? []
  return { acknowledged, failures, reached }
}

/** Compares the acknowledged writes with the log, by a separate fold. */
const audited = async (log: EventLog, acknowledged: readonly Acknowledged[]) => {
  const fold = await foldAgain(log, MAC_KEY, new AbortController().signal)
  const tenants = fold.state.table('tenants')
  const lost = acknowledged.filter(({ slug }) => tenants.find('slug', slug).length === 0).length
  const { counted, lost: beaten } = fold.counts
  await log.close()
  return {
    lost,
    twice: acknowledged.filter(({ slug }) => tenants.find('slug', slug).length > 1).length,
    counted,
    beaten,
  }
}

const report = (
  name: 'kafka' | 'embedded',
  { acknowledged, failures, reached }: Awaited<ReturnType<typeof load>>,
  { lost, twice, counted, beaten }: Awaited<ReturnType<typeof audited>>,
): boolean => {
  const measured = acknowledged.filter(({ atMs }) => atMs > WARM_MS)
  const perSecond = measured.length / seconds
  const { p50, p99, max } = percentiles(measured.map(({ ms }) => ms))
  const reach = percentiles(reached)
  const refused = JSON.stringify(Object.fromEntries(failures))
  console.log(
    `${name}: ${perSecond.toFixed(0)} decisions/s from ${CLIENTS} clients for ${seconds} s ` +
      `(aim ${AIMS[name]}); ms p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)} (aim ${AIMS.p99Ms}), ` +
      `max ${max.toFixed(1)}; not acknowledged ${refused}`,
  )
  console.log(
    `${name}: lost ${lost} of ${acknowledged.length} acknowledged, applied twice ${twice}; ` +
      `${counted} decisions count, ${beaten} records lost a race`,
  )
  if (reached.length > 0) {
    console.log(
      `${name}: from the append of a record to its having reached the slowest other instance, ` +
        `ms: p50 ${reach.p50.toFixed(1)}, p99 ${reach.p99.toFixed(1)} (aim ${AIMS.reachMs}), max ` +
        `${reach.max.toFixed(1)} (N ${reached.length})`,
    )
  }
  const fast = perSecond >= AIMS[name] && p99 < AIMS.p99Ms && (reached.length === 0 || reach.p99 < AIMS.reachMs)
  return fast && lost === 0 && twice === 0
}

const onKafka = async (): Promise<boolean> => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-admin-writes-'))
  const kafka = await startKafka({ brokers: 1, dataDir: join(folder, 'kafka') })
  const settings = { ...kafkaSettings(kafka.bootstrap), worker: { enabled: false } }
  await initTopics(settings, folder)
  const gateways: GatewayProcess[] = []
  try {
    for (let n = 0; n < 3; n++) {
      gateways.push(startGateway({ settings }))
      await gateways[n]!.until('serving', 60_000)
    }
    const log = kafkaLog({ brokers: kafka.bootstrap, clientId: 'admin-writes' })
    const result = await load(gateways, log)
    return report('kafka', result, await audited(log, result.acknowledged))
  } finally {
    for (const gateway of gateways) await gateway.remove()
    await kafka.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

const onEmbedded = async (): Promise<boolean> => {
  const gateway = startGateway({ settings: { worker: { enabled: false }, security: { master_key: MASTER_KEY } } })
  try {
    await gateway.until('serving', 60_000)
    const result = await load([gateway], null)
    const log = embeddedLog({ dataDir: join(gateway.folder, 'data'), nowMs: Date.now })
    return report('embedded', result, await audited(log, result.acknowledged))
  } finally {
    await gateway.remove()
  }
}

let good = true
if (which !== 'embedded') good = (await onKafka()) && good
if (which !== 'kafka') good = (await onEmbedded()) && good
process.exit(good ? 0 : 1)
