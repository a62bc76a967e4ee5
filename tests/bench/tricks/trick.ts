// A trick of the code beside what would stand there without it: both do the same work in turn, in this process.
import { median } from '../contenders.ts'

/** Both sides do the same work; what one run does takes well below a round. */
export interface Trick {
  readonly name: string
  /** The file that has it. */
  readonly at: string
  /** What one of `each` is. */
  readonly unit: string
  /** So many of them are done by one run. */
  readonly each: number
  /** As the code does it. */
  trick(): unknown
  /** As it would be done otherwise. */
  plain(): unknown
  /** Once, at the end. */
  close?(): unknown
}

/** Medians of the rounds, microseconds for one of `each`. */
export interface Measured {
  readonly trickUs: number
  readonly plainUs: number
  /** Of the trick to the other, the median of the rounds. */
  readonly ratio: number
  /** Done in all, each way. */
  readonly count: number
}

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 21)
const ROUND_MS = 30
const WARM_MS = 300

/** How long `runs` runs take, milliseconds. */
const timeOf = async (run: () => unknown, runs: number): Promise<number> => {
  const startedMs = performance.now()
  for (let i = 0; i < runs; i++) {
    const pending = run()
    if (pending instanceof Promise) await pending
  }
  return performance.now() - startedMs
}

/** Runs it until it is compiled; answers how many runs fill a round. */
const warm = async (run: () => unknown): Promise<number> => {
  let runs = 1
  const endMs = performance.now() + WARM_MS
  for (;;) {
    const tookMs = await timeOf(run, runs)
    if (tookMs < ROUND_MS) runs = Math.min(2 * runs, Math.ceil((runs * 1.2 * ROUND_MS) / Math.max(tookMs, 0.01)))
    else if (performance.now() > endMs) return runs
  }
}

/** Both in turn, the one that comes first changing from round to round. */
export const measure = async ({ trick, plain, each, close }: Trick): Promise<Measured> => {
  const runs = { trick: await warm(trick), plain: await warm(plain) }
  const us: Record<'trick' | 'plain', number[]> = { trick: [], plain: [] }
  for (let round = 0; round < ROUNDS; round++) {
    for (const side of round % 2 === 0 ? (['trick', 'plain'] as const) : (['plain', 'trick'] as const)) {
      const tookMs = await timeOf(side === 'trick' ? trick : plain, runs[side])
      us[side].push((1_000 * tookMs) / (runs[side] * each))
    }
  }
  await close?.()
  return {
    trickUs: median(us.trick),
    plainUs: median(us.plain),
    ratio: median(us.trick.map((trickUs, round) => trickUs / us.plain[round]!)),
    count: ROUNDS * Math.min(runs.trick, runs.plain) * each,
  }
}
