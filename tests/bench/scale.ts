// Measures what a request costs against the size of the installation: models, keys, policies, candidates, open streams,
// the prompt. Each row is a separate gateway beside the bare proxy and beside a small gateway that serves for all rows
// of a kind. Each request names a random one of the many, so that caches help as little as possible.
// `--only=models,registry,keys,policies,candidates,streams,prompt`: some of them. `--record`: writes the rows into
// docs/performance.json and makes docs/performance.svg anew.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  benchJob,
  type Contender,
  cpuSeconds,
  type LoadProcess,
  rssMb,
  startBare,
  startGatelog,
  startLoad,
} from './contenders.ts'
import { MARK, numbered } from './load.ts'
import { onlyOf } from './only.ts'
import { measureRow, type Row, untilStill } from './scale/measure.ts'
import { recordRows, tableOf } from './scale/record.ts'
import { fillWorld, NAMES, type WorldSize, worldSettings } from './scale/world.ts'

const SMALL: WorldSize = { models: 10, keys: 10, policies: 1, candidates: 1 }
const SIZES = {
  models: [10, 100, 1_000, 10_000],
  /** Numbers of models; requests name ten of them. */
  registry: [10, 100, 1_000, 10_000],
  keys: [10, 1_000, 10_000, 100_000, 1_000_000],
  policies: [1, 10, 100, 1_000],
  /** Of each request: a plan over so many. */
  candidates: [1, 5, 20, 64],
  streams: [100, 1_000, 10_000],
  prompt: [1_000, 10_000, 100_000, 1_000_000, 2_000_000, 5_000_000],
} as const
type By = keyof typeof SIZES
const BY = Object.keys(SIZES) as By[]

interface Bench {
  readonly load: LoadProcess
  readonly bare: Contender
  /** Of the smallest world. One for all rows would reach the bound of what may wait to be projected. */
  readonly small: Contender
}

/** Runs something on a gateway with a registry of that size. */
const withWorld = async <Result>(
  load: LoadProcess,
  size: WorldSize,
  work: (gatelog: Contender) => Promise<Result>,
): Promise<Result> => {
  const dataDir = mkdtempSync(join(tmpdir(), 'gatelog-scale-'))
  try {
    await fillWorld(dataDir, size, load.origin)
    const gatelog = await startGatelog(load.origin, { dataDir, settings: worldSettings })
    try {
      await untilStill(gatelog)
      return await work(gatelog)
    } finally {
      await gatelog.stop()
    }
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}

const ASKED_FOR = 10

type Registry = Exclude<By, 'streams' | 'prompt'>

/** A row of the registry: requests name one of `count`, by the header or the model that holds the mark. */
const registryRow = (bench: Bench, by: Registry, count: number): Promise<Row> =>
  withWorld(bench.load, { ...SMALL, [by === 'registry' ? 'models' : by]: count }, async (gatelog) => {
    const startMb = rssMb(gatelog.pid!)
    const row = await measureRow(bench.load, { bare: bench.bare, gatelog, smallest: bench.small }, (contender) => {
      const { body, headers, ...job } = benchJob(contender, 'json', 0, 0)
      const known = contender === bench.small ? SIZES[by][0] : count
      return {
        ...job,
        ...(by === 'candidates' ? {} : { spread: by === 'registry' ? ASKED_FOR : known }),
        body: by === 'models' || by === 'registry' ? body.replace('bench-model', NAMES.model) : body,
        headers: {
          ...headers,
          ...(by === 'keys' ? { Authorization: `Bearer ${NAMES.key}` } : {}),
          ...(by === 'policies' ? { 'X-Gateway-Policy': NAMES.policy } : {}),
        },
      }
    })
    if (count === SIZES[by][0]) fewestMb.set(by, startMb)
    const each = ((startMb - (fewestMb.get(by) ?? startMb)) * 1_048_576) / count
    const isMany = by === 'keys' && count >= MANY_KEYS && fewestMb.has(by)
    const perKey = isMany ? `, ${each.toFixed(0)} bytes for each key` : ''
    return { ...row, by, at: count, more: `RSS ${startMb} MB before the first request${perKey}` }
  })
/** RSS of the smallest row of a kind before its first request. */
const fewestMb = new Map<By, number>()
/** With fewer, a collection more or less is more than what they take. */
const MANY_KEYS = 100_000

const promptRow = (bench: Bench, bytes: number): Promise<Row> =>
  withWorld(bench.load, SMALL, async (gatelog) => {
    const words = 'What has to be said takes many words. '
    const text = words.repeat(Math.ceil(bytes / words.length)).slice(0, bytes)
    const row = await measureRow(
      bench.load,
      { bare: bench.bare, gatelog, smallest: null },
      (contender) => benchJob(contender, 'json', 0, 0, text),
      AT_ONCE_LARGE,
    )
    const perKb = ((row.cpuUs - row.bareCpuUs) / (bytes / 1_000)).toFixed(2)
    return { ...row, by: 'prompt', at: bytes, more: `${perKb} us of CPU more than the bare proxy for each KB` }
  })
/** 5 MB each: 40 MB under way in the gateway. */
const AT_ONCE_LARGE = 8

/** Descriptors that a process has for other things than streams. */
const OTHER_DESCRIPTORS = 200
const IDLE_MS = 3_000
/** With fewer, what a collection gives back is more than what they take. */
const FEW = 5_000
const TICK = { perSecond: 2_000, durationMs: 4_000 }

/** A stream takes two descriptors of the gateway, and two of the load process. */
const mostStreams = (): number => {
  const limit = Number(/Max open files\s+(\d+)/.exec(readFileSync('/proc/self/limits', 'utf8'))![1])
  return Math.floor((limit - OTHER_DESCRIPTORS) / 2)
}

const streamsRow = (bench: Bench, wanted: number): Promise<Row> =>
  withWorld(bench.load, SMALL, async (gatelog) => {
    const { load, bare, small } = bench
    const count = Math.min(wanted, mostStreams())
    await load.run(benchJob(gatelog, 'json', 32, 3_000)) // its code and its heap as in use, before memory is compared
    await Bun.sleep(IDLE_MS)
    const emptyMb = rssMb(gatelog.pid!)
    const { port } = gatelog
    // Its streams may be silent for as long as the row takes.
    const headers = { ...gatelog.headers, 'X-Gateway-Policy': NAMES.policy.replace(MARK, numbered(0)) }
    await load.hold({ hold: 'open', port, path: '/v1/chat/completions', headers, count })
    await Bun.sleep(IDLE_MS)
    const heldMb = rssMb(gatelog.pid!)
    const cpuOver = async (work: () => Promise<unknown>) => {
      const before = cpuSeconds(gatelog.pid!)
      await work()
      return cpuSeconds(gatelog.pid!) - before
    }
    const idle = (await cpuOver(() => Bun.sleep(IDLE_MS))) / (IDLE_MS / 1_000)
    let received = 0
    const ticking = await cpuOver(async () => {
      received = (await load.hold({ hold: 'tick', ...TICK })).received
    })
    const perChunkUs = ((ticking - (idle * TICK.durationMs) / 1_000) * 1e6) / received
    const row = await measureRow(load, { bare, gatelog, smallest: small }, (contender) =>
      benchJob(contender, 'json', 0, 0),
    )
    const after = await load.hold({ hold: 'end' })
    const kb = ((heldMb - emptyMb) * 1_024) / count
    if (after.open < count) throw new Error(`only ${after.open} of ${count} streams were open to the end`)
    const told = [
      `${count === wanted ? '' : `${count} held, as the limit of descriptors allows; `}${count < FEW ? '' : `${kb.toFixed(1)} KB for each idle stream`}`,
      `${(idle * 100).toFixed(1)} % of a core while all are idle`,
      `${perChunkUs.toFixed(1)} us for each further chunk (${TICK.perSecond}/s, ${received} passed)`,
    ]
    return {
      ...row,
      by: 'streams',
      at: wanted,
      failed: row.failed,
      more: told.filter((part) => part !== '').join('; '),
    }
  })

const rowOf = (bench: Bench, by: By, at: number): Promise<Row> =>
  by === 'prompt' ? promptRow(bench, at) : by === 'streams' ? streamsRow(bench, at) : registryRow(bench, by, at)

let hasHead = true
const measure = async (bench: Bench, by: By): Promise<void> => {
  for (const at of SIZES[by]) {
    const row = await rowOf(bench, by, at)
    console.log(tableOf([row], hasHead))
    hasHead = false
    if (process.argv.includes('--record')) recordRows([row])
  }
}

const load = await startLoad()
const bare = await startBare(load.origin)
console.log(`machine: ${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, Bun ${Bun.version}`)
for (const by of onlyOf(BY)) await withWorld(load, SMALL, (small) => measure({ load, bare, small }, by))
await bare.stop()
await load.stop()
