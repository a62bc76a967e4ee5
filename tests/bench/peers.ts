// Gatelog with everything on beside other gateways, which are installed on demand: each alone on one core, the same load and upstream on the other.
// `--only=portkey,litellm,nginx`: some of them. BENCH_SECONDS. BENCH_PEERS_DIR: where they are installed (the user's cache otherwise).
import { cpus } from 'node:os'
import {
  benchJob,
  type Contender,
  cpuSeconds,
  fullWorld,
  type LoadProcess,
  rssMb,
  startBare,
  startGatelog,
  startLoad,
} from './contenders.ts'
import { onlyOf } from './only.ts'
import { startLiteLlm, startNginx, startPortkey } from './peers/contenders.ts'

const SECONDS = Number(process.env.BENCH_SECONDS ?? 4)
/** Of each mode, for whoever is measured: compilers are still at work in the first seconds. */
const WARM_MS = 6_000
/** At least so many times as many requests. The bare proxy and nginx are no gateways: they are there to compare with. */
const AIMS: Readonly<Record<string, number>> = { portkey: 25, litellm: 200 }
const PEERS = { portkey: startPortkey, litellm: startLiteLlm, nginx: startNginx, bare: startBare }
type Peer = keyof typeof PEERS

const COURSES = [
  { mode: 'json', connections: 1 },
  { mode: 'json', connections: 32 },
  { mode: 'json', connections: 256 },
  { mode: 'stream', connections: 32 },
] as const

interface Sample {
  readonly perSecond: number
  readonly p50Us: number
  readonly p99Us: number
  readonly cpuUs: number
  readonly requests: number
  readonly failed: number
  readonly rssMb: number
}

/** All courses, one after another; then it is stopped. */
const measured = async (load: LoadProcess, contender: Contender): Promise<readonly Sample[]> => {
  const samples: Sample[] = []
  try {
    await load.run(benchJob(contender, 'json', 32, WARM_MS))
    await load.run(benchJob(contender, 'stream', 32, WARM_MS))
    for (const { mode, connections } of COURSES) {
      const before = cpuSeconds(contender.pid!)
      const result = await load.run(benchJob(contender, mode, connections, SECONDS * 1_000))
      const cpuUs = ((cpuSeconds(contender.pid!) - before) * 1e6) / Math.max(1, result.requests)
      samples.push({ ...result, perSecond: result.requests / result.seconds, cpuUs, rssMb: rssMb(contender.pid!) })
    }
  } finally {
    await contender.stop()
  }
  return samples
}

const say = (name: string, samples: readonly Sample[], own: readonly Sample[]) => {
  for (const [i, { mode, connections }] of COURSES.entries()) {
    const { perSecond, p50Us, p99Us, cpuUs, requests, failed, rssMb: mb } = samples[i]!
    const times = own[i]!.perSecond / perSecond
    const ratio = requests === 0 ? 'no answer' : times.toFixed(times > 10 ? 0 : 2)
    console.log(
      `| ${name} | ${mode} | ${connections} | ${perSecond.toFixed(0)} | ${p50Us} | ${p99Us} | ${cpuUs.toFixed(0)} | ${mb} | ${ratio} | ${requests} | ${failed} |`,
    )
  }
}

const load = await startLoad()
const settings = { bootstrap: fullWorld(load.origin) }
const own = await measured(load, await startGatelog(load.origin, { settings }))
console.log(`machine: ${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, Bun ${Bun.version}, ${SECONDS} s each`)
console.log(
  '| gateway | mode | c | requests/s | p50 us | p99 us | CPU us/request | RSS MB | Gatelog to it | N | failed |',
)
console.log('|---|---|---|---|---|---|---|---|---|---|---|')
say('Gatelog, everything on', own, own)
const notes: string[] = []
for (const name of onlyOf(Object.keys(PEERS) as Peer[])) {
  try {
    const contender = await PEERS[name](load.origin)
    const samples = await measured(load, contender)
    say(contender.name, samples, own)
    const aim = AIMS[name]
    const ratio = own[1]!.perSecond / samples[1]!.perSecond
    if (aim !== undefined)
      notes.push(
        `${contender.name}: ${ratio.toFixed(1)} times at 32 at once, aim ${aim}: ${ratio >= aim ? 'met' : '**missed**'}`,
      )
  } catch (error) {
    notes.push(`${name}: not measured, ${error instanceof Error ? error.message : error}`)
  }
}
for (const note of notes) console.log(note)
await load.stop()
