// R11: the leader of the control topic is lost while it is the only replica in sync (an operator has lowered
// `min.insync.replicas`), and a broker that lacks acknowledged records becomes the leader: `bun
// tests/faults/brokers/unclean-election.ts [--rounds 3]`.
// A gateway must detect it, refuse writes, and not start again until the log is restored.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { CONTROL } from '../../../src/state/fold.ts'
import { initTopics, kafkaSettings, NO_READ_MODELS } from '../../services/cluster.ts'
import { besideGateway, runCommand } from '../../services/command.ts'
import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { testTopics } from '../../services/kafka.ts'
import { conclude, type Figure, numberArgument } from '../control/figures.ts'
import { startTenantWriter } from '../failpoints/writer.ts'
import { startOracle } from '../oracle.ts'
import { failedOf, failuresText, WITHOUT_LOAD_GATE } from '../rig.ts'

const ROUNDS = numberArgument('rounds', 3)
const ASK_MS = 10_000
const ALONE_MS = 4_000
const DETECTED_WITHIN_MS = 30_000
/** The code that a gateway reports for a log that lacks what it knew. */
const LOST = 'control_log_lost'

interface Round {
  readonly alone: number
  readonly detectedS: number | null
  readonly acceptedAfter: number
  readonly ready: number
  readonly failed: number
  readonly seen: string
  readonly sent: number
  readonly refusedStart: boolean
  readonly restored: boolean
  readonly missing: number
}

const writeOnce = async (gateway: GatewayProcess, slug: string): Promise<number> => {
  const answer = await gateway.request('/admin/v1/tenants', { body: { slug, name: 'after the election' } })
  await answer.text()
  return answer.status
}

const startsWithin = (gateway: GatewayProcess): Promise<boolean> =>
  gateway.until('serving', 20_000).then(
    () => true,
    () => false,
  )

const round = async (number: number): Promise<Round> => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-unclean-'))
  const kafka = await startKafka({ brokers: 3, dataDir: join(folder, 'kafka'), controllerApart: true })
  const topics = testTopics(kafka.bootstrap)
  const settings = { ...kafkaSettings(kafka.bootstrap), ...NO_READ_MODELS, ...WITHOUT_LOAD_GATE }
  await initTopics(settings, folder)
  const gateway = startGateway({ settings })
  const leaderNow = async () => (await topics.cluster.leader(CONTROL, 0, ASK_MS)).address
  const brokerAt = (address: { readonly port: number }) =>
    [0, 1, 2].map((index) => kafka.broker(index)).find(({ port }) => port === address.port)!
  try {
    await gateway.until('serving', 60_000)
    const oracle = startOracle(() => gateway, 2, 'sandbox-echo', 50)
    const writer = startTenantWriter(gateway, `unclean-${number}`, 25)
    await oracle.answered(50)
    await topics.set(CONTROL, { 'min.insync.replicas': '1', 'unclean.leader.election.enable': 'true' })
    const leader = brokerAt(await leaderNow())
    const others = [0, 1, 2].map((index) => kafka.broker(index)).filter((broker) => broker !== leader)
    await Promise.all(others.map((broker) => broker.kill()))
    const toldBefore = writer.told.size
    await eventually('the leader goes on alone', () => writer.told.size > toldBefore + 5, { limitMs: 60_000 })
    await Bun.sleep(ALONE_MS)
    await writer.stop()
    const alone = writer.told.size - toldBefore
    await leader.kill()
    await Promise.all(others.map((broker) => broker.restart()))
    const printed = gateway.output().length
    const electedMs = performance.now()
    const isDetected = await eventually('it is noticed', () => gateway.output().slice(printed).includes(LOST), {
      limitMs: DETECTED_WITHIN_MS,
    }).catch(() => false)
    const detectedS = isDetected ? (performance.now() - electedMs) / 1_000 : null
    let acceptedAfter = 0
    for (let i = 0; i < 5; i++) if ((await writeOnce(gateway, `unclean-after-${number}-${i}`)) < 400) acceptedAfter++
    const ready = await gateway.request('/ready')
    await ready.text()
    await oracle.stop()
    await gateway.end()
    // Otherwise it is this that a start refuses.
    await topics.set(CONTROL, { 'min.insync.replicas': '2', 'unclean.leader.election.enable': 'false' })
    gateway.start()
    const refusedStart = !(await startsWithin(gateway))
    if (refusedStart) await gateway.end('SIGKILL')
    const { code, printed: said } = await runCommand(['log', 'restore'], besideGateway(gateway.folder))
    if (code !== 0) console.error(`gateway log restore ended with ${code}:\n${said}`)
    gateway.start()
    const restored = code === 0 && (await startsWithin(gateway))
    const missing = restored ? (await writer.compare()).lost : writer.told.size
    const [failed, seen] = [failedOf(oracle), failuresText(oracle)]
    return {
      alone,
      detectedS,
      acceptedAfter,
      ready: ready.status,
      failed,
      seen,
      sent: oracle.sent.size,
      refusedStart,
      restored,
      missing,
    }
  } catch (error) {
    console.error(gateway.output().slice(-2_000))
    throw error
  } finally {
    await gateway.remove()
    topics.close()
    await kafka.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

const rounds: Round[] = []
for (let number = 0; number < ROUNDS; number++) {
  rounds.push(await round(number))
  console.error(JSON.stringify(rounds.at(-1)))
}
const count = (of: (each: Round) => boolean) => rounds.filter(of).length
const sum = (of: (each: Round) => number) => rounds.reduce((total, each) => total + of(each), 0)
const detected = count((each) => each.detectedS !== null)
const figure: Figure = {
  row: 'R11',
  what:
    `an unclean election: the leader of three goes on alone (\`min.insync.replicas\` 1), is ` +
    `killed, and a broker without its last records leads, ${ROUNDS} times`,
  figure:
    `decisions that only it had ${sum((each) => each.alone)}; detected ${detected} of ` +
    `${ROUNDS}, ` +
    `${rounds.map((each) => (each.detectedS === null ? 'never' : `${each.detectedS.toFixed(1)} s`)).join(', ')} ` +
    'after the others answered; ' +
    `writes taken afterwards ${sum((each) => each.acceptedAfter)} of ${5 * ROUNDS}; /ready ` +
    `${[...new Set(rounds.map((each) => each.ready))].join(', ')}; inference failed ${sum((each) => each.failed)} ` +
    `of ${sum((each) => each.sent)} (${[...new Set(rounds.map((each) => each.seen))].join('; ')}); ` +
    `refused to start ${count((each) => each.refusedStart)} of ${ROUNDS}; after \`gateway log restore\` started ` +
    `${count((each) => each.restored)} of ${ROUNDS}, decisions told and missing ${sum((each) => each.missing)}`,
  n: sum((each) => each.alone),
  good:
    detected === ROUNDS &&
    rounds.every((each) => each.alone > 0 && each.refusedStart && each.restored && each.ready === 503) &&
    sum((each) => each.acceptedAfter + each.failed + each.missing) === 0,
}
conclude([figure])
