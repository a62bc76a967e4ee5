// One row of the scale bench: a gateway as large as the row says and the bare proxy, measured in turn.
import { type Contender, cpuSeconds, type LoadProcess, rssMb } from '../contenders.ts'
import type { LoadJob } from '../load.ts'

export interface Row {
  /** What grows, and how large it is here. */
  readonly by: string
  readonly at: number
  /** CPU of the process for each request, at `together` at once; of the bare proxy in the same minute. */
  readonly cpuUs: number
  readonly bareCpuUs: number
  readonly together: number
  /** What the gateway adds to the bare proxy's at 1 at once. */
  readonly p50AddedUs: number
  readonly p99AddedUs: number
  readonly requests: number
  readonly failed: number
  readonly rssMb: number
  /** What else there is to say. */
  readonly more?: string
}

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 1.5)
/** A gateway compiles for its first 40,000 requests; rows with fewer in this time hold some of it. */
const WARM_MS = { bare: 2_000, gatelog: 8_000 }

/** CPU of one side for each request, its latencies at 1 at once. */
interface Side {
  readonly cpuUs: number[]
  readonly p50Us: number[]
  readonly p99Us: number[]
  requests: number
  failed: number
}

/** `jobOf`: the request of the row, `connections` and `durationMs` left to this. */
export const measureRow = async (
  load: LoadProcess,
  contenders: { readonly bare: Contender; readonly gatelog: Contender },
  jobOf: (contender: Contender) => Omit<LoadJob, 'connections' | 'durationMs'>,
  together = 32,
): Promise<Omit<Row, 'by' | 'at'>> => {
  const sides = { bare: newSide(), gatelog: newSide() }
  const names = ['bare', 'gatelog'] as const
  const run = async (name: 'bare' | 'gatelog', connections: number, durationMs: number) => {
    const contender = contenders[name]
    const before = cpuSeconds(contender.pid!)
    const result = await load.run({ ...jobOf(contender), connections, durationMs })
    const cpuUs = ((cpuSeconds(contender.pid!) - before) * 1e6) / Math.max(1, result.requests)
    return { ...result, cpuUs }
  }
  for (const name of names) await run(name, together, WARM_MS[name])
  for (let round = 0; round < ROUNDS; round++)
    for (const name of names) {
      const many = await run(name, together, SECONDS * 1_000)
      const alone = await run(name, 1, SECONDS * 700)
      const side = sides[name]
      side.cpuUs.push(many.cpuUs)
      side.p50Us.push(alone.p50Us)
      side.p99Us.push(alone.p99Us)
      side.requests += many.requests + alone.requests
      side.failed += many.failed + alone.failed
    }
  const { bare, gatelog } = sides
  return {
    // The least of the rounds: what else a machine does only adds.
    cpuUs: Math.min(...gatelog.cpuUs),
    bareCpuUs: Math.min(...bare.cpuUs),
    together,
    p50AddedUs: Math.min(...gatelog.p50Us) - Math.min(...bare.p50Us),
    p99AddedUs: Math.min(...gatelog.p99Us) - Math.min(...bare.p99Us),
    requests: gatelog.requests,
    failed: gatelog.failed,
    rssMb: rssMb(contenders.gatelog.pid!),
  }
}

const newSide = (): Side => ({ cpuUs: [], p50Us: [], p99Us: [], requests: 0, failed: 0 })

const LOOK_MS = 1_000
const STILL_SHARE = 0.1
const MOST_LOOKS = 60

/** Waits until a process does hardly anything: what a start leaves for later (a snapshot, collections) is over. */
export const untilStill = async ({ pid }: Pick<Contender, 'pid'>): Promise<void> => {
  for (let look = 0; look < MOST_LOOKS; look++) {
    const before = cpuSeconds(pid!)
    await Bun.sleep(LOOK_MS)
    if (cpuSeconds(pid!) - before < (STILL_SHARE * LOOK_MS) / 1_000) return
  }
}
