// Measures what a second process gains, and what a Kafka-backed instance costs beside an embedded one.
// Load and upstream need a core for themselves, so on two cores a pair of processes cannot be measured at its limit.
// The bench measures CPU time for each request instead, for a pair (which shares a folder with its locks, a port and a
// chain) and for a single process. Twice that ratio is what two cores can do.
// `own cores`: one process on each core, at two rates that leave room for the load; a single process gets half of each
// rate. This does not show what only appears when both cores are at their limit: the memory bus and the disk.
// `one core`: both processes on the gateway's core, at full speed, where they share its caches and wait for each other.
// This is an upper bound of what they cost each other, not the case that the aim is set for.
// Every gateway has everything on (`fullWorld`): authentication, a plan over 20 models of 5 providers, limits of tenant
// and policy, a hard budget, records, metrics.
// `--only=pair,kafka`. BENCH_ROUNDS, BENCH_SECONDS.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../infra/kafka/kafka.ts'
import { initTopics, kafkaSettings, MASTER_KEY } from '../services/cluster.ts'
import { eventually } from '../services/eventually.ts'
import {
  benchJob,
  type Contender,
  cpuSeconds,
  fullWorld,
  type LoadProcess,
  median,
  startGatelog,
  startLoad,
  warm,
} from './contenders.ts'
import { onlyOf } from './only.ts'
import { untilStill } from './scale/measure.ts'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 9)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 2)
/**
 * Requests in flight. Beside a broker there are enough of them to keep the gateway's core busy while the broker
 * occupies the core of load and upstream for some milliseconds. With fewer, a gateway on Kafka is idle more often than
 * an embedded one, because of the broker's place and not because of its own work. The column `busy` shows it.
 */
const CONNECTIONS = { pair: 64, kafka: 128 }
const AIM = { pair: 1.8, kafka: 0.85 }
/**
 * The sender of a gateway on Kafka becomes warm far more slowly than the serving code: its compilers work in bursts for
 * some two minutes. With the usual share and a single calm round, their work would be measured too.
 */
const REST = { restShare: 0.005, mostRounds: 36, calmRounds: 3 }
const PACED = { one: [2_000, 6_000], kafka: 3_000 }

interface Side {
  readonly name: string
  readonly contender: Contender
  /** All processes of the gateway. */
  readonly pids: readonly number[]
  readonly perSecond?: number
  /** Those of the pair when not given. */
  readonly connections?: number
}
interface Sample {
  readonly perSecond: number
  readonly p50Us: number
  readonly p99Us: number
  readonly cpuUs: number
  readonly requests: number
  readonly failed: number
}

const cpuOf = (pids: readonly number[]) => pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0)

const sample = async (
  load: LoadProcess,
  { contender, pids, perSecond, connections = CONNECTIONS.pair }: Side,
): Promise<Sample> => {
  const before = cpuOf(pids)
  const job = benchJob(contender, 'json', connections, SECONDS * 1_000)
  const result = await load.run(perSecond === undefined ? job : { ...job, perSecond })
  for (const pid of pids) await untilStill({ pid }) // what is sent or written later belongs to it
  const cpuUs = ((cpuOf(pids) - before) * 1e6) / Math.max(1, result.requests)
  return { ...result, perSecond: result.requests / result.seconds, cpuUs }
}

/**
 * Runs alternating rounds of the sides, in order, and prints medians. Requests that fail during the warm-up count as
 * failed too.
 */
const compared = async (load: LoadProcess, how: string, sides: readonly Side[]): Promise<readonly Sample[][]> => {
  const failedWarming: number[] = []
  for (const { contender, pids } of sides) failedWarming.push(await warm(load, contender, ['json'], { pids, ...REST }))
  const samples: Sample[][] = sides.map(() => [])
  for (let round = 0; round < ROUNDS; round++)
    for (const [i, side] of sides.entries()) samples[i]!.push(await sample(load, side))
  for (const [i, all] of samples.entries()) {
    const of = (pick: (sample: Sample) => number) => median(all.map(pick))
    const sum = (pick: (sample: Sample) => number) => all.reduce((total, each) => total + pick(each), 0)
    const row = {
      perSecond: of((each) => each.perSecond),
      p50Us: of((each) => each.p50Us),
      p99Us: of((each) => each.p99Us),
      cpuUs: of((each) => each.cpuUs),
      requests: sum((each) => each.requests),
      failed: failedWarming[i]! + sum((each) => each.failed),
    }
    console.log(
      `| ${how} | ${sides[i]!.name} | ${row.perSecond.toFixed(0)} | ${row.p50Us} | ${row.p99Us} | ` +
        `${row.cpuUs.toFixed(1)} | ${((row.perSecond * row.cpuUs) / 1e6).toFixed(3)} | ${row.requests} | ` +
        `${row.failed} |`,
    )
  }
  return samples
}

/** Of two sides in the same rounds: the machine's pace changes from one to the next. */
const ratio = (one: readonly Sample[], other: readonly Sample[], pick: (sample: Sample) => number): number =>
  median(one.map((sample, round) => pick(sample) / pick(other[round]!)))
const byCpu = ({ cpuUs }: Sample): number => cpuUs
const byRequests = ({ perSecond }: Sample): number => perSecond

const childrenOf = (pid: number): readonly number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)

const pin = (pid: number, core: number) => Bun.spawnSync(['taskset', '-a', '-p', '-c', String(core), String(pid)])

/** With everything on. */
const startFull = (origin: string, settings: Readonly<Record<string, unknown>> = {}) =>
  startGatelog(origin, { settings: { ...settings, bootstrap: fullWorld(origin) } })

/** A gateway of two processes, and both their ids. */
const startPair = async (origin: string): Promise<Side> => {
  const contender = await startFull(origin, { server: { processes: 2 } })
  const [sibling] = await eventually('the second process', () => {
    const children = childrenOf(contender.pid!)
    return children.length > 0 && children
  })
  await untilStill({ pid: sibling! })
  return { name: 'two processes', contender, pids: [contender.pid!, sibling!] }
}

const verdict = (what: string, value: number, aim: number) =>
  console.log(`${what}: ${value.toFixed(2)}, aim at least ${aim}: ${value >= aim ? 'met' : '**missed**'}`)

const pair = async () => {
  const load = await startLoad()
  const one = await startFull(load.origin)
  const alone: Side = { name: 'one process', contender: one, pids: [one.pid!] }
  const two = await startPair(load.origin)
  const [ofOne, ofTwo] = await compared(load, 'one core', [alone, two])
  await one.stop()
  await two.contender.stop()
  await load.stop()
  console.log(`two cores to one, by CPU of both on one core: ${(2 * ratio(ofOne!, ofTwo!, byCpu)).toFixed(2)}, no aim`)
  await ownCores()
}

const ownCores = async () => {
  const load = await startLoad(null)
  const one = await startFull(load.origin)
  const two = await startPair(load.origin)
  for (const [core, pid] of two.pids.entries()) pin(pid, core)
  const relations: number[] = []
  for (const perSecond of PACED.one) {
    const [ofOne, ofTwo] = await compared(load, `own cores, ${perSecond}/s each`, [
      { name: 'one process', contender: one, pids: [one.pid!], perSecond },
      { ...two, perSecond: perSecond * 2 },
    ])
    relations.push(2 * ratio(ofOne!, ofTwo!, byCpu))
  }
  await one.stop()
  await two.contender.stop()
  await load.stop()
  for (const [i, perSecond] of PACED.one.entries())
    verdict(`two cores to one, by CPU on a core each, ${perSecond}/s each`, relations[i]!, AIM.pair)
}

/** Of two and two sides, round for round. */
const ofKinds = (samples: readonly Sample[][]): [readonly Sample[], readonly Sample[]] => [
  samples.slice(0, 2).flat(),
  samples.slice(2).flat(),
]

const kafka = async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-bench-kafka-'))
  const cluster = await startKafka()
  pin(cluster.broker(0).pid, 1)
  const load = await startLoad()
  try {
    const { log, ...onKafka } = kafkaSettings(cluster.bootstrap)
    const settings = { ...onKafka, log: { ...log, durability: 'process' } }
    await initTopics(settings, folder)
    const startEmbedded = () => startFull(load.origin, { security: { master_key: MASTER_KEY } })
    // Two starts of each kind, interleaved: starts of one build differ by more than the difference that the bench looks
    // for.
    const shipped = [await startFull(load.origin, settings)]
    const embedded = [await startEmbedded(), await startEmbedded()]
    shipped.push(await startFull(load.origin, settings))
    const connections = CONNECTIONS.kafka
    const side = (name: string) => (contender: Contender) => ({ name, contender, pids: [contender.pid!], connections })
    const sides: Side[] = [...embedded.map(side('embedded')), ...shipped.map(side('on Kafka'))]
    const fast = ofKinds(await compared(load, 'as fast as answers come', sides))
    const paced = sides.map((side) => ({ ...side, perSecond: PACED.kafka }))
    const [ofEmbedded, ofKafka] = ofKinds(await compared(load, `${PACED.kafka}/s`, paced))
    const brokerBefore = cpuSeconds(cluster.broker(0).pid)
    const { requests } = await load.run(benchJob(shipped[0]!, 'json', CONNECTIONS.kafka, SECONDS * 1_000))
    const brokerUs = ((cpuSeconds(cluster.broker(0).pid) - brokerBefore) * 1e6) / requests
    console.log(`the broker took ${brokerUs.toFixed(0)} us of CPU for each request, on the core of load and upstream`)
    verdict('on Kafka to embedded, requests/s', ratio(fast[1], fast[0], byRequests), AIM.kafka)
    verdict('on Kafka to embedded, by CPU, as fast as answers come', ratio(fast[0], fast[1], byCpu), AIM.kafka)
    verdict(`on Kafka to embedded, by CPU, ${PACED.kafka}/s`, ratio(ofEmbedded, ofKafka, byCpu), AIM.kafka)
    for (const contender of [...shipped, ...embedded]) await contender.stop()
  } finally {
    await load.stop()
    await cluster.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

console.log(
  `machine: ${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, Bun ${Bun.version}, ${ROUNDS} rounds ` +
    `of ${SECONDS} s in turn, medians, ratios those of each round; everything on: authentication, 20 ` +
    'models of 5 providers, limits, a hard budget, records, metrics',
)
console.log(
  '| how | gateway | requests/s | p50 us | p99 us | CPU us/request | busy | N ' +
    '| failed |\n|---|---|---|---|---|---|---|---|---|',
)
const parts = { pair, kafka }
for (const name of onlyOf(Object.keys(parts) as (keyof typeof parts)[])) await parts[name]()
