// C7: the log loses records that it must not lose. A gateway that has seen more refuses to start, so that set-up never
// opens again; `gateway log restore` brings a lost tail back.
// `bun tests/faults/control/lost-log.ts`: each case on a separate real broker.
import { closeSync, ftruncateSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kafka, startKafka } from '../../../infra/kafka/kafka.ts'
import { ensureTopics } from '../../../src/log/kafka/topics.ts'
import { CONTROL } from '../../../src/state/fold.ts'
import { initTopics, kafkaSettings, NO_READ_MODELS } from '../../services/cluster.ts'
import { besideGateway, runCommand } from '../../services/command.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { type TestTopics, testTopics } from '../../services/kafka.ts'
import { conclude, type Figure } from './figures.ts'

const PERSON = { username: 'ada', password: 'correct horse battery staple' }
/** Records at the end that a crash of the broker's host loses: set-up and all that came after it. */
const LOST = 12

interface Case {
  readonly what: string
  /** Done to the broker while no gateway is up. */
  harm(kafka: Kafka, topics: TestTopics, dataDir: string): Promise<void>
  /** Whether `gateway log restore` can bring back what was lost. */
  readonly restored: boolean
}

const recreate = async ({ bootstrap }: Kafka, topics: TestTopics): Promise<void> => {
  await topics.remove(CONTROL)
  await ensureTopics({ brokers: bootstrap, clientId: 'recreate', partitions: 3, retentionHours: 168 })
}

/** Cuts the partition's file behind a batch, as the loss of a page cache does. */
const cutTail = async (kafka: Kafka, dataDir: string): Promise<void> => {
  await kafka.broker(0).kill()
  const path = join(dataDir, 'node-1', `${CONTROL}-0`, '00000000000000000000.log')
  const bytes = readFileSync(path)
  const ends: { at: number; next: number }[] = []
  for (let at = 0; at + 12 <= bytes.length; ) {
    at += 12 + bytes.readInt32BE(at + 8)
    const first = ends.at(-1)?.next ?? 0
    ends.push({ at, next: first + bytes.readInt32BE((ends.at(-1)?.at ?? 0) + 23) + 1 })
  }
  const { next } = ends.at(-1)!
  const file = openSync(path, 'r+')
  ftruncateSync(file, ends.findLast((end) => end.next <= next - LOST)!.at)
  closeSync(file)
  await kafka.broker(0).restart()
}

const CASES: readonly Case[] = [
  { what: 'topic deleted and made again, empty', restored: true, harm: recreate },
  {
    what: 'topic deleted and a new chain started in it',
    restored: false,
    async harm(kafka, topics, dataDir) {
      await topics.remove(CONTROL)
      await initTopics(kafkaSettings(kafka.bootstrap), dataDir)
    },
  },
  {
    what: 'tail lost in a crash of the broker',
    restored: true,
    harm: (kafka, _topics, dataDir) => cutTail(kafka, dataDir),
  },
  {
    what: 'head removed by retention',
    restored: false,
    harm: (_kafka, topics) => topics.trim(CONTROL, 5),
  },
  {
    what: 'retention lowered',
    restored: false,
    harm: (_kafka, topics) => topics.set(CONTROL, { 'retention.ms': '3600000' }),
  },
]

/** Set-up comes last, so that it is in the lost tail. Returns the revision of its last decision. */
const use = async (gateway: GatewayProcess): Promise<string> => {
  for (let n = 0; n < 20; n++) await gateway.request('/admin/v1/tenants', { body: { slug: `t${n}`, name: 'T' } })
  const body = { ...PERSON, confirm: PERSON.password }
  const made = await gateway.request('/admin/v1/auth/setup', { key: null, body })
  if (made.status !== 201) throw new Error(`set-up was answered with ${made.status}: ${await made.text()}`)
  for (let n = 20; n < 40; n++) await gateway.request('/admin/v1/tenants', { body: { slug: `t${n}`, name: 'T' } })
  const last = await gateway.request('/admin/v1/tenants', { body: { slug: 'last', name: 'Last' } })
  return last.headers.get('x-gateway-revision') ?? ''
}

/** `refused`: it ended by itself, with one line that names the topic. Otherwise whether set-up is open. */
const started = async (gateway: GatewayProcess): Promise<{ refused: boolean; setupOpen: boolean; said: string }> => {
  gateway.start()
  const before = gateway.output().length
  const serving = await gateway.until('serving', 30_000).then(
    () => true,
    () => false,
  )
  const said = gateway.output().slice(before)
  if (!serving) return { refused: said.includes(CONTROL), setupOpen: false, said }
  const state = await (await gateway.request('/admin/v1/auth/state', { key: null })).json()
  return { refused: false, setupOpen: (state as { setup_required: boolean }).setup_required, said }
}

interface Outcome {
  readonly refused: boolean
  readonly setupOpen: boolean
  /** Null where nothing can be restored. */
  readonly restored: boolean | null
}

const run = async ({ what, harm, restored }: Case, given: Kafka | null): Promise<Outcome> => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-lost-log-'))
  const dataDir = join(folder, 'kafka')
  const kafka = given ?? (await startKafka({ dataDir }))
  const topics = testTopics(kafka.bootstrap)
  const settings = { ...kafkaSettings(kafka.bootstrap), ...NO_READ_MODELS }
  await initTopics(settings, folder)
  const gateway = startGateway({ settings })
  try {
    await gateway.until('serving', 60_000)
    const revision = await use(gateway)
    await gateway.end()
    await harm(kafka, topics, dataDir)
    const first = await started(gateway)
    if (!first.refused) console.error(`${what}: it started, or did not say why not:\n${first.said.slice(-1_000)}`)
    if (!first.refused || !restored) return { ...first, restored: null }
    const { code, printed } = await runCommand(['log', 'restore'], besideGateway(gateway.folder))
    if (code !== 0) console.error(`${what}: gateway log restore ended with ${code}:\n${printed}`)
    const again = await started(gateway)
    const seen = await gateway
      .request('/admin/v1/tenants?limit=1', { headers: { 'X-Gateway-Min-Revision': revision } })
      .then(({ ok }) => ok)
      .catch(() => false)
    return { refused: true, setupOpen: first.setupOpen || again.setupOpen, restored: code === 0 && seen }
  } finally {
    await gateway.remove()
    topics.close()
    if (given === null) await kafka.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The first `count` cases, each on a broker of its own, or on the one that is given. */
export const lostLog = async (count = CASES.length, given: Kafka | null = null): Promise<readonly Figure[]> => {
  const figures: Figure[] = []
  for (const each of CASES.slice(0, count)) {
    const { refused, setupOpen, restored } = await run(each, given)
    const back = restored === null ? '' : `; after \`gateway log restore\` ${restored ? 'whole again' : 'NOT WHOLE'}`
    const figure = `refused to start ${refused ? 1 : 0} of 1; set-up open again ${setupOpen ? 1 : 0}${back}`
    figures.push({ row: 'C7', what: each.what, figure, n: 1, good: refused && !setupOpen && restored !== false })
  }
  return figures
}

if (import.meta.main) conclude(await lostLog())
