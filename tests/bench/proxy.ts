// Compares Gatelog with its reference in one run: direct, a bare `Bun.serve` + `fetch` pass-through, and Gatelog with
// everything on (`fullWorld`), the embedded log at durability=process, and for TLS a second catalogue of as many
// models.
// The gateway has one core; load and upstream have the other (Linux `taskset`). Both sides are warm first. Rounds
// alternate and medians are printed, then one line of ratios to the bare proxy, each the median of the ratios within a
// round.
// `--quick`: short rounds of what that line needs.
import { cpus } from 'node:os'
import {
  benchJob,
  type Contender,
  cpuSeconds,
  fullWorld,
  type LoadProcess,
  median,
  rssMb,
  SECOND_MODEL,
  startBare,
  startGatelog,
  startLoad,
  type WarmOptions,
  warm,
} from './contenders.ts'

const IS_QUICK = process.argv.includes('--quick')
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? (IS_QUICK ? 3 : 7))
const SECONDS = Number(process.env.BENCH_SECONDS ?? 1)
const WARM_ROW_MS = 300
/** For the gateway, and for what has little to compile; where all is to be over in 90 s, not longer than that. */
const WARM: WarmOptions = IS_QUICK ? { roundMs: 3_000, mostRounds: 4 } : {}
const WARM_SECOND: WarmOptions = IS_QUICK ? { roundMs: 3_000, mostRounds: 2 } : {}
const WARM_BARE: WarmOptions = { roundMs: 1_500, mostRounds: 1 }

/** The kind of request and its upstream. `tls`: JSON of the upstream over TLS. */
type Mode = 'json' | 'stream' | 'tls'
interface Course {
  readonly mode: Mode
  readonly connections: number
  /** Its name in the line of ratios. */
  readonly ratio?: string
}

const COURSES: readonly Course[] = [
  { mode: 'json', connections: 1 },
  { mode: 'json', connections: 32, ratio: 'json_c32' },
  { mode: 'json', connections: 256, ratio: 'json_c256' },
  { mode: 'stream', connections: 1 },
  { mode: 'stream', connections: 32, ratio: 'stream' },
  { mode: 'stream', connections: 256 },
  { mode: 'tls', connections: 32 },
  { mode: 'tls', connections: 256, ratio: 'tls_c256' },
]
const RUN = COURSES.filter(({ ratio }) => !IS_QUICK || ratio !== undefined)

interface Row {
  readonly course: Course
  readonly contender: string
  readonly perSecond: number
  readonly p50Us: number
  readonly p99Us: number
  readonly cpuUs: number | null
  readonly failed: number
}

const measure = async (load: LoadProcess, contender: Contender, course: Course, durationMs: number): Promise<Row> => {
  const { name, pid } = contender
  const before = pid === null ? 0 : cpuSeconds(pid)
  const job = benchJob(contender, course.mode === 'stream' ? 'stream' : 'json', course.connections, durationMs)
  const { requests, failed: unanswered, seconds, p50Us, p99Us, upstream } = await load.run(job)
  // The plan falls back to models of the plain upstream, so what that upstream answers in TLS rounds counts as failed.
  const failed = unanswered + (course.mode === 'tls' ? upstream.plain : upstream.secure)
  const cpuUs = pid === null || requests === 0 ? null : ((cpuSeconds(pid) - before) * 1e6) / requests
  return { course, contender: name, perSecond: requests / seconds, p50Us, p99Us, cpuUs, failed }
}

const main = async () => {
  const load = await startLoad()
  const direct: Contender = { name: 'direct', port: load.upstreamPort, pid: null, headers: {}, stop: async () => {} }
  const bare = await startBare(load.origin)
  const secureBare = await startBare(load.secureOrigin)
  const gatelog = await startGatelog(load.origin, {
    settings: { bootstrap: fullWorld(load.origin, load.secureOrigin) },
  })
  const plain = IS_QUICK ? [bare, gatelog] : [direct, bare, gatelog]
  const secure = [secureBare, { ...gatelog, model: SECOND_MODEL }]
  const failed = [
    await warm(load, bare, ['json', 'stream'], WARM_BARE),
    await warm(load, secureBare, ['json'], WARM_BARE),
    await warm(load, gatelog, ['json', 'stream'], WARM),
    await warm(load, secure[1]!, ['json'], WARM_SECOND),
  ]
  const measured: Row[] = []
  for (let round = -1; round < ROUNDS; round++)
    for (const course of RUN)
      for (const contender of course.mode === 'tls' ? secure : plain) {
        const row = await measure(load, contender, course, round < 0 ? WARM_ROW_MS : SECONDS * 1_000)
        if (round >= 0) measured.push(row)
      }
  report(measured)
  if (failed.some((many) => many > 0)) console.log(`failed while they became warm: ${failed.join(', ')}`)
  for (const { name, pid } of plain) if (pid !== null) console.log(`RSS ${name}: ${rssMb(pid)} MB`)
  console.log(`RATIOS ${ratios(measured)}`)
  for (const contender of [bare, secureBare, gatelog]) await contender.stop()
  await load.stop()
}

const of = (measured: readonly Row[], course: Course, contender: string, pick: (row: Row) => number): number =>
  median(measured.filter((row) => row.course === course && row.contender === contender).map(pick))

/** Of all rounds. */
const failedOf = (measured: readonly Row[], course: Course, contender: string): number =>
  measured.reduce((sum, row) => sum + (row.course === course && row.contender === contender ? row.failed : 0), 0)

/** The median of what it is in each round: both of a round see the same pace of the machine. */
const ratioOf = (measured: readonly Row[], course: Course, contender: string): string => {
  const rates = (name: string) =>
    measured.filter((row) => row.course === course && row.contender === name).map(({ perSecond }) => perSecond)
  const bare = rates('bare')
  return median(rates(contender).map((perSecond, round) => perSecond / bare[round]!)).toFixed(2)
}

const ratios = (measured: readonly Row[]): string =>
  RUN.filter(({ ratio }) => ratio !== undefined)
    .map((course) => `${course.ratio}=${ratioOf(measured, course, 'gatelog')}`)
    .join(' ')

const report = (measured: readonly Row[]) => {
  console.log(
    `machine: ${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, Bun ` +
      `${Bun.version}, ${ROUNDS} rounds of ${SECONDS} s, medians`,
  )
  console.log('| mode | c | contender | requests/s | p50 us | p99 us | CPU us/request | ratio to bare | failed |')
  console.log('|---|---|---|---|---|---|---|---|---|')
  for (const course of RUN) {
    const names = new Set(measured.filter((row) => row.course === course).map(({ contender }) => contender))
    for (const name of names) {
      const pick = (by: (row: Row) => number) => of(measured, course, name, by)
      const cpu = name === 'direct' ? '-' : pick((row) => row.cpuUs ?? 0).toFixed(1)
      console.log(
        `| ${course.mode} | ${course.connections} | ${name} | ` +
          `${Math.round(pick((row) => row.perSecond))} | ${pick((row) => row.p50Us)} | ` +
          `${pick((row) => row.p99Us)} | ${cpu} | ${ratioOf(measured, course, name)} | ` +
          `${failedOf(measured, course, name)} |`,
      )
    }
  }
}

await main()
