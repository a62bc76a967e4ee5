// Compares Gatelog with everything on to other gateways, which are installed on demand. Each runs alone on one core, in
// turn; the same load and upstream run on the other core.
// `--only=portkey,litellm,gomodel,nginx,bare` selects some of them. BENCH_ROUNDS, BENCH_SECONDS. BENCH_PEERS_DIR: where
// they are installed (default: the user's cache).
import { cpus } from 'node:os'
import {
  benchJob,
  type Contender,
  cpuSeconds,
  fullWorld,
  type LoadProcess,
  median,
  rssMb,
  startBare,
  startGatelog,
  startLoad,
  warm,
} from './contenders.ts'
import { onlyOf } from './only.ts'
import { startGoModel, startLiteLlm, startNginx, startPortkey } from './peers/contenders.ts'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 3)
/** Of each mode, for a peer: compilers are still at work in the first seconds. */
const WARM_MS = 10_000
/**
 * Aims: at least so many times the peer's requests a second, for JSON at 32 at once. The other rows have no aim. The
 * bare proxy and nginx are no gateways; they are there for comparison.
 */
const AIMS: Readonly<Record<string, number>> = { portkey: 25, litellm: 200, gomodel: 3 }
const PEERS = {
  portkey: startPortkey,
  litellm: startLiteLlm,
  gomodel: startGoModel,
  nginx: startNginx,
  bare: startBare,
}
type Peer = keyof typeof PEERS

const COURSES = [
  { mode: 'json', connections: 1 },
  { mode: 'json', connections: 32 },
  { mode: 'json', connections: 256 },
  { mode: 'stream', connections: 32 },
] as const
type Course = (typeof COURSES)[number]

interface Sample {
  readonly perSecond: number
  readonly p50Us: number
  readonly p99Us: number
  readonly cpuUs: number
  readonly requests: number
  readonly failed: number
  readonly rssMb: number
}

const sample = async (load: LoadProcess, contender: Contender, { mode, connections }: Course): Promise<Sample> => {
  const before = cpuSeconds(contender.pid!)
  const result = await load.run(benchJob(contender, mode, connections, SECONDS * 1_000))
  const cpuUs = ((cpuSeconds(contender.pid!) - before) * 1e6) / Math.max(1, result.requests)
  return { ...result, perSecond: result.requests / result.seconds, cpuUs, rssMb: rssMb(contender.pid!) }
}

/** Of several: the median of each figure, all requests, all that failed. */
const together = (samples: readonly Sample[]): Sample => {
  const of = (pick: (sample: Sample) => number) => median(samples.map(pick))
  const sum = (pick: (sample: Sample) => number) => samples.reduce((total, each) => total + pick(each), 0)
  return {
    perSecond: of((each) => each.perSecond),
    p50Us: of((each) => each.p50Us),
    p99Us: of((each) => each.p99Us),
    cpuUs: of((each) => each.cpuUs),
    rssMb: of((each) => each.rssMb),
    requests: sum((each) => each.requests),
    failed: sum((each) => each.failed),
  }
}

interface Beside {
  readonly own: Sample
  readonly other: Sample
  /** Of requests a second, the median of what it is in each round. */
  readonly times: number
}

/**
 * A slow peer goes on with requests that its load has given up, on the core that all are measured on; the bench waits
 * so many times at most.
 */
const MOST_RESTS = 100
const REST_MS = 200
const REST_SHARE = 0.1

const rests = async ({ name, pid }: Contender): Promise<void> => {
  for (let rest = 0; rest < MOST_RESTS; rest++) {
    const before = cpuSeconds(pid!)
    await Bun.sleep(REST_MS)
    if (cpuSeconds(pid!) - before < (REST_SHARE * REST_MS) / 1_000) return
  }
  console.log(`${name} did not come to rest before the next round`)
}

/** Each course in turn with our own, in rounds: the machine's pace changes from one minute to the next. */
const measured = async (load: LoadProcess, own: Contender, other: Contender): Promise<readonly Beside[]> => {
  await load.run(benchJob(other, 'json', 32, WARM_MS))
  await load.run(benchJob(other, 'stream', 32, WARM_MS))
  const results: Beside[] = []
  for (const course of COURSES) {
    const rounds: { own: Sample; other: Sample }[] = []
    for (let round = 0; round < ROUNDS; round++) {
      await rests(other)
      const ownSample = await sample(load, own, course)
      await rests(own)
      rounds.push({ own: ownSample, other: await sample(load, other, course) })
    }
    const times = median(rounds.map((round) => round.own.perSecond / round.other.perSecond))
    const of = (side: 'own' | 'other') => together(rounds.map((round) => round[side]))
    results.push({ own: of('own'), other: of('other'), times })
  }
  return results
}

/**
 * Each peer is compared to a fresh gateway. No worker projects the outcomes here, and a single gateway for all peers
 * would reach the bound of unprojected outcomes.
 */
const besideOwn = async (load: LoadProcess, peer: Contender): Promise<readonly Beside[]> => {
  const own = await startGatelog(load.origin, { settings: { bootstrap: fullWorld(load.origin) } })
  try {
    await warm(load, own, ['json', 'stream'])
    return await measured(load, own, peer)
  } finally {
    await own.stop()
  }
}

const say = (name: string, course: Course, figures: Sample, times: number) => {
  const { perSecond, p50Us, p99Us, cpuUs, requests, failed, rssMb: mb } = figures
  const ratio = requests === 0 ? 'no answer' : times.toFixed(times > 10 ? 0 : 2)
  console.log(
    `| ${name} | ${course.mode} | ${course.connections} | ${perSecond.toFixed(0)} | ${p50Us} | ` +
      `${p99Us} | ${cpuUs.toFixed(0)} | ${mb} | ${ratio} | ${requests} | ${failed} |`,
  )
}

const load = await startLoad()
console.log(
  `machine: ${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, Bun ` +
    `${Bun.version}, ${ROUNDS} rounds of ${SECONDS} s in turn, medians`,
)
console.log(
  '| gateway | mode | c | requests/s | p50 us | p99 us | CPU us/request | RSS MB | Gatelog to it | N | failed |',
)
console.log('|---|---|---|---|---|---|---|---|---|---|---|')
const notes: string[] = []
for (const name of onlyOf(Object.keys(PEERS) as Peer[])) {
  try {
    const peer = await PEERS[name](load.origin)
    const results = await besideOwn(load, peer).finally(() => peer.stop())
    for (const [i, course] of COURSES.entries()) {
      say(`Gatelog, everything on, beside ${peer.name}`, course, results[i]!.own, 1)
      say(peer.name, course, results[i]!.other, results[i]!.times)
    }
    const aim = AIMS[name]
    if (aim !== undefined) {
      const { times, own } = results[1]!
      const verdict = times >= aim && own.failed === 0 ? 'met' : '**missed**'
      notes.push(`${peer.name}: ${times.toFixed(1)} times at 32 at once, aim ${aim}: ${verdict}, failed ${own.failed}`)
    }
  } catch (error) {
    notes.push(`${name}: not measured, ${error instanceof Error ? error.message : error}`)
  }
}
for (const note of notes) console.log(note)
await load.stop()
