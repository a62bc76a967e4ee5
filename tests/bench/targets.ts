// The speed floors, set for the slower kind of machine, each printed with its measured value and whether it is met:
// Gatelog with everything on (`fullWorld`: authentication, a plan over 20 models of 5 providers, limits of tenant and
// policy, a hard budget, two records of each request) beside the bare proxy in the same run, one core each.
// `--only=json_c32,chunk,...`: some of them. BENCH_ROUNDS, BENCH_SECONDS.
// `--record`: writes the table into docs/performance.md. It needs all rows and no failed request.
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
import { ASKS, CHUNKS } from './fake-upstream.ts'
import { onlyOf } from './only.ts'
import { recordTable } from './report/performance-page.ts'

// Many short rounds: the pace of a shared machine changes within seconds, and both sides have to see the same of it.
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 9)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 1)
const WARM_ROW_MS = 1_000
const RSS_AFTER_MS = 60_000

interface Target {
  readonly name: string
  readonly what: string
  readonly aim: number
  /** Whether it is to be at least or at most that. */
  readonly isLeast: boolean
  readonly unit: string
}

const TARGETS: readonly Target[] = [
  { name: 'json_c32', what: 'JSON at 32 at once, requests/s to the bare proxy', aim: 0.62, isLeast: true, unit: '' },
  { name: 'json_c256', what: 'JSON at 256 at once', aim: 1.1, isLeast: true, unit: '' },
  { name: 'stream', what: 'streams of 20 chunks at 32 at once', aim: 0.42, isLeast: true, unit: '' },
  { name: 'tls_c256', what: 'JSON over a TLS upstream at 256 at once', aim: 1.8, isLeast: true, unit: '' },
  { name: 'p50_added', what: 'p50 added to the bare proxy at 1 at once', aim: 0.1, isLeast: false, unit: ' ms' },
  { name: 'p99_c32', what: 'p99 at 32 at once to that of the bare proxy', aim: 2.3, isLeast: false, unit: '' },
  { name: 'chunk', what: 'CPU for a further chunk of a stream', aim: 3, isLeast: false, unit: ' us' },
  { name: 'rss', what: 'RSS after 60 s of JSON at 32 at once', aim: 200, isLeast: false, unit: ' MB' },
]
const only = onlyOf(TARGETS.map(({ name }) => name))
const wants = (...names: string[]) => names.some((name) => only.includes(name))
const isRecorded = process.argv.includes('--record')
if (isRecorded && only.length < TARGETS.length) {
  console.error('--record needs all rows: leave --only= out')
  process.exit(1)
}

const table: string[] = []
let failedRequests = 0
/** Prints a line of the table and keeps it for `--record`. */
const row = (line: string) => {
  table.push(line)
  console.log(line)
}

interface Sides {
  readonly load: LoadProcess
  readonly bare: Contender
  readonly gatelog: Contender
}
interface Sample {
  readonly perSecond: number
  readonly p50Us: number
  readonly p99Us: number
  readonly cpuUs: number
  readonly failed: number
}
type Ask = Parameters<typeof benchJob>[1]

const sample = async (
  load: LoadProcess,
  contender: Contender,
  mode: Ask,
  connections: number,
  more = '',
): Promise<Sample> => {
  const before = cpuSeconds(contender.pid!)
  const result = await load.run(benchJob(contender, mode, connections, SECONDS * 1_000, more))
  const { requests, seconds, p50Us, p99Us, failed } = result
  failedRequests += failed
  return {
    perSecond: requests / seconds,
    p50Us,
    p99Us,
    cpuUs: ((cpuSeconds(contender.pid!) - before) * 1e6) / requests,
    failed,
  }
}

/** The medians of both sides over alternating rounds, and of what is compared within each. */
const beside = async ({ load, bare, gatelog }: Sides, mode: Ask, connections: number, more = '') => {
  const samples: { bare: Sample[]; gatelog: Sample[] } = { bare: [], gatelog: [] }
  for (const side of [bare, gatelog]) await load.run(benchJob(side, mode, connections, WARM_ROW_MS, more))
  for (let round = 0; round < ROUNDS; round++) {
    samples.bare.push(await sample(load, bare, mode, connections, more))
    samples.gatelog.push(await sample(load, gatelog, mode, connections, more))
  }
  const of = (side: 'bare' | 'gatelog') => ({
    perSecond: median(samples[side].map((each) => each.perSecond)),
    p50Us: median(samples[side].map((each) => each.p50Us)),
    p99Us: median(samples[side].map((each) => each.p99Us)),
    cpuUs: median(samples[side].map((each) => each.cpuUs)),
    failed: samples[side].reduce((sum, each) => sum + each.failed, 0),
  })
  const paired = (compare: (gatelog: Sample, bare: Sample) => number) =>
    median(samples.gatelog.map((each, round) => compare(each, samples.bare[round]!)))
  return { bare: of('bare'), gatelog: of('gatelog'), paired }
}
type Beside = Awaited<ReturnType<typeof beside>>

const both = ({ bare, gatelog }: Beside, pick: (sample: Sample) => number, digits = 0) =>
  `${pick(gatelog).toFixed(digits)} to ${pick(bare).toFixed(digits)}`

const say = (name: string, value: number, detail: string) => {
  const { what, aim, isLeast, unit } = TARGETS.find((target) => target.name === name)!
  const met = isLeast ? value >= aim : value <= aim
  row(
    `| ${name} | ${what} | ${isLeast ? 'at least' : 'at most'} ${aim}${unit} | ` +
      `${value.toFixed(2)}${unit} | ${met ? 'met' : '**missed**'} | ${detail} |`,
  )
}
const throughput = ({ paired }: Beside) => paired((gatelog, bare) => gatelog.perSecond / bare.perSecond)
const told = (result: Beside) =>
  `${both(result, ({ perSecond }) => perSecond)} requests/s, CPU ` +
  `${both(result, ({ cpuUs }) => cpuUs, 1)} us, failed ${result.gatelog.failed} and ` +
  `${result.bare.failed}`

const rates = async (sides: Sides) => {
  if (wants('json_c32', 'p99_c32')) {
    const json = await beside(sides, 'json', 32)
    if (wants('json_c32')) say('json_c32', throughput(json), told(json))
    if (wants('p99_c32'))
      say(
        'p99_c32',
        json.paired((gatelog, bare) => gatelog.p99Us / bare.p99Us),
        `${both(json, ({ p99Us }) => p99Us)} us`,
      )
  }
  if (wants('json_c256')) {
    const json = await beside(sides, 'json', 256)
    say('json_c256', throughput(json), told(json))
  }
  if (wants('stream')) {
    const stream = await beside(sides, 'stream', 32)
    say('stream', throughput(stream), told(stream))
    const vendor = await beside(sides, 'stream', 32, ` ${ASKS.vendor}`)
    row(
      '| stream_vendor | the same as OpenAI sends them: random letters in each chunk, the usage ' +
        `last | none | ${throughput(vendor).toFixed(2)} | | ${told(vendor)} |`,
    )
  }
  if (!wants('p50_added')) return
  const alone = await beside(sides, 'json', 1)
  const addedUs = alone.paired((gatelog, bare) => gatelog.p50Us - bare.p50Us)
  say('p50_added', addedUs / 1_000, `${both(alone, ({ p50Us }) => p50Us)} us`)
}

/** What a stream of 220 chunks costs more than one of 20 in the same round, for each chunk. */
const further = async ({ load, bare, gatelog }: Sides, more: string) => {
  const asks = [more, `${more} ${ASKS.long}`] as const
  for (const side of [bare, gatelog]) {
    for (const ask of asks) await load.run(benchJob(side, 'stream', 32, WARM_ROW_MS, ask))
  }
  let failed = 0
  const chunkUs = async (side: Contender) => {
    const short = await sample(load, side, 'stream', 32, asks[0])
    const long = await sample(load, side, 'stream', 32, asks[1])
    failed += short.failed + long.failed
    return (long.cpuUs - short.cpuUs) / (CHUNKS.long - CHUNKS.usual)
  }
  const each: { bare: number[]; gatelog: number[] } = { bare: [], gatelog: [] }
  for (let round = 0; round < ROUNDS; round++) {
    each.bare.push(await chunkUs(bare))
    each.gatelog.push(await chunkUs(gatelog))
  }
  return { bare: median(each.bare), gatelog: median(each.gatelog), failed }
}

/** As many to a write of the upstream as in the other rows, and each by itself. */
const chunks = async (sides: Sides) => {
  const together = await further(sides, '')
  say(
    'chunk',
    together.gatelog,
    `five to a write; the bare proxy ${together.bare.toFixed(2)} us, failed ${together.failed} of both`,
  )
  // Reading and writing such a chunk takes any proxy several times the aim, which is that of streams without a pause.
  const apart = await further(sides, ` ${ASKS.apart}`)
  const beyond = (apart.gatelog - apart.bare).toFixed(2)
  row(
    `| chunk_apart | the same, each written by itself, a millisecond apart | none | ${apart.gatelog.toFixed(2)} us ` +
      `| | the bare proxy ${apart.bare.toFixed(2)} us, ${beyond} us beyond it, failed ${apart.failed} of both |`,
  )
}

const secure = async (load: LoadProcess) => {
  const bare = await startBare(load.secureOrigin)
  const gatelog = await startFull(load.secureOrigin)
  try {
    for (const side of [bare, gatelog]) await warm(load, side, ['json'])
    const result = await beside({ load, bare, gatelog }, 'json', 256)
    say('tls_c256', throughput(result), told(result))
  } finally {
    await bare.stop()
    await gatelog.stop()
  }
}

const resident = async (load: LoadProcess) => {
  const gatelog = await startFull(load.origin)
  try {
    const first = rssMb(gatelog.pid!)
    const { requests, failed } = await load.run(benchJob(gatelog, 'json', 32, RSS_AFTER_MS))
    failedRequests += failed
    say('rss', rssMb(gatelog.pid!), `${first} MB at the start; ${requests} requests, failed ${failed}`)
  } finally {
    await gatelog.stop()
  }
}

const startFull = (origin: string) => startGatelog(origin, { settings: { bootstrap: fullWorld(origin) } })

const load = await startLoad()
const machine =
  `${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, Bun ${Bun.version}, ${ROUNDS} rounds of ` +
  `${SECONDS} s after their compilers rest, medians; Gatelog to the bare proxy`
console.log(`machine: ${machine}`)
for (const line of ['| target | what | aim | measured | | of what |', '|---|---|---|---|---|---|']) row(line)
if (wants('json_c32', 'json_c256', 'stream', 'p50_added', 'p99_c32', 'chunk')) {
  const bare = await startBare(load.origin)
  const gatelog = await startFull(load.origin)
  for (const side of [bare, gatelog]) await warm(load, side, ['json', 'stream'])
  await rates({ load, bare, gatelog })
  if (wants('chunk')) await chunks({ load, bare, gatelog })
  await bare.stop()
  await gatelog.stop()
}
if (wants('tls_c256')) await secure(load)
if (wants('rss')) await resident(load)
await load.stop()
if (isRecorded) {
  if (failedRequests > 0) throw new Error(`${failedRequests} requests failed: not recorded`)
  recordTable(table, machine)
}
