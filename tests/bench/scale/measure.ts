// One row of the scale bench: a gateway of the row's size, the smallest one and the bare proxy, measured in turn.
import { type Contender, compilersRest, cpuSeconds, type LoadProcess, median, rssMb } from '../contenders.ts'
import type { LoadJob } from '../load.ts'

export interface Row {
  /** What grows, and how large it is here. */
  readonly by: string
  readonly at: number
  /** CPU of the process for each request, at `together` at once; of the bare proxy in the same minute. */
  readonly cpuUs: number
  readonly bareCpuUs: number
  /**
   * CPU for a request relative to that of the smallest gateway, by rounds: whether it stays flat, independent of the
   * machine's pace. Null: the size is one of the request.
   */
  readonly toSmallest: number | null
  readonly together: number
  /** What the gateway adds to the bare proxy's at 1 at once, medians of the rounds. */
  readonly p50AddedUs: number
  readonly p99AddedUs: number
  readonly requests: number
  readonly failed: number
  readonly rssMb: number
  /** Further remarks on the row. */
  readonly more?: string
}

// Many short rounds: the pace of a shared machine changes within seconds, and all sides have to see the same of it.
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 9)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 0.7)
/** A gateway compiles for its first 40,000 requests. */
const WARM_MS = { bare: 2_000, gatelog: 8_000, further: 4_000 }
const MOST_WARM_ROUNDS = 5

/** CPU of one side for each request, its latencies at 1 at once. */
interface Side {
  readonly cpuUs: number[]
  readonly p50Us: number[]
  readonly p99Us: number[]
  requests: number
  failed: number
}

interface Contenders {
  readonly bare: Contender
  readonly gatelog: Contender
  /** The smallest gateway; null where size is of the request. */
  readonly smallest: Contender | null
}

/** `jobOf`: the request of the row, `connections` and `durationMs` left to this. */
export const measureRow = async (
  load: LoadProcess,
  contenders: Contenders,
  jobOf: (contender: Contender) => Omit<LoadJob, 'connections' | 'durationMs'>,
  together = 32,
): Promise<Omit<Row, 'by' | 'at'>> => {
  const sides = { bare: newSide(), gatelog: newSide(), smallest: newSide() }
  const names = (['bare', 'gatelog', 'smallest'] as const).filter((name) => contenders[name] !== null)
  const run = async (name: keyof Contenders, connections: number, durationMs: number) => {
    const contender = contenders[name]!
    const before = cpuSeconds(contender.pid!)
    const result = await load.run({ ...jobOf(contender), connections, durationMs })
    const cpuUs = ((cpuSeconds(contender.pid!) - before) * 1e6) / Math.max(1, result.requests)
    return { ...result, cpuUs }
  }
  await run('bare', together, WARM_MS.bare)
  for (const name of names) {
    if (name === 'bare') continue
    if (name === 'gatelog') await run(name, together, WARM_MS.gatelog)
    const further = () => run(name, together, WARM_MS.further)
    await compilersRest([contenders[name]!.pid!], further, {
      roundMs: WARM_MS.further,
      mostRounds: MOST_WARM_ROUNDS,
    })
  }
  for (let round = 0; round < ROUNDS; round++)
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const many = await run(name, together, SECONDS * 1_000)
      if (name === 'smallest') {
        sides[name].cpuUs.push(many.cpuUs)
        sides[name].failed += many.failed
        continue
      }
      const alone = await run(name, 1, SECONDS * 700)
      const side = sides[name]
      side.cpuUs.push(many.cpuUs)
      side.p50Us.push(alone.p50Us)
      side.p99Us.push(alone.p99Us)
      side.requests += many.requests + alone.requests
      side.failed += many.failed + alone.failed
    }
  const { bare, gatelog, smallest } = sides
  return {
    // The least of the rounds: what else a machine does only adds.
    cpuUs: Math.min(...gatelog.cpuUs),
    bareCpuUs: Math.min(...bare.cpuUs),
    toSmallest:
      contenders.smallest === null ? null : median(gatelog.cpuUs.map((us, round) => us / smallest.cpuUs[round]!)),
    together,
    p50AddedUs: median(gatelog.p50Us) - median(bare.p50Us),
    p99AddedUs: median(gatelog.p99Us) - median(bare.p99Us),
    requests: gatelog.requests,
    failed: bare.failed + gatelog.failed + smallest.failed,
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
