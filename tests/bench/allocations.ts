// Counts the objects and bytes that one request allocates, by type. The gateway runs without garbage collection. The
// bench counts what exists before and after 1,000 requests, sent one after another or 32 at once, and subtracts what
// the gateway allocates meanwhile without any request.
// Unlike times, the counts are nearly the same under any load and on every machine. Code that the compilers have
// optimised allocates up to a fifth less, so every count is taken after the same number of requests.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '../services/eventually.ts'
import { benchJob, type Contender, fullWorld, type LoadProcess, startGatelog, startLoad } from './contenders.ts'

const WARM = 500
const COUNTED = 1_000
const IDLE_MS = 2_000
const LEAST = 0.5
type Mode = 'json' | 'stream'
/** For each request. */
export interface Allocations {
  /** By type, most first. Types of which it makes hardly any are left out. */
  readonly objects: Readonly<Record<string, number>>
  /** Of the heap, and of buffers and texts that hang on it. */
  readonly bytes: number
}

interface Counts {
  readonly objects: Readonly<Record<string, number>>
  readonly bytes: number
}

const countsOf = async ({ pid }: Contender, file: string): Promise<Counts> => {
  rmSync(file, { force: true })
  process.kill(pid!, 'SIGUSR2')
  await eventually('the objects are counted', async () => existsSync(file))
  return JSON.parse(readFileSync(file, 'utf8')) as Counts
}

/** `settings`: of the gateway, beside those of every bench. */
export const allocationsOf = async (
  load: LoadProcess,
  mode: Mode,
  connections: number,
  settings: Readonly<Record<string, unknown>> = {},
): Promise<Allocations> => {
  const send = (requests: number) => load.run({ ...benchJob(gateway, mode, connections, 0), requests })
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-allocations-'))
  const file = join(folder, 'counts.json')
  const gateway = await startGatelog(load.origin, {
    flags: ['--preload', join(import.meta.dir, 'count-objects.ts')],
    environment: { BUN_JSC_useGC: '0', OBJECT_COUNTS: file },
    settings,
  })
  try {
    await send(WARM)
    const idleFrom = await countsOf(gateway, file)
    await Bun.sleep(IDLE_MS)
    const from = await countsOf(gateway, file)
    const startedMs = performance.now()
    const { requests } = await send(COUNTED)
    const until = await countsOf(gateway, file)
    const idleShare = (performance.now() - startedMs) / IDLE_MS
    const madeOf = (pick: (counts: Counts) => number) =>
      (pick(until) - pick(from) - (pick(from) - pick(idleFrom)) * idleShare) / requests
    const made = Object.keys(until.objects).map((type): [string, number] => [
      type,
      madeOf(({ objects }) => objects[type] ?? 0),
    ])
    const counted = made.filter(([, count]) => count >= LEAST).sort((a, b) => b[1] - a[1])
    return {
      objects: Object.fromEntries(counted.map(([type, count]) => [type, Math.round(count * 10) / 10])),
      bytes: Math.round(madeOf(({ bytes }) => bytes)),
    }
  } finally {
    await gateway.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

export const totalOf = ({ objects }: Allocations): number =>
  Object.values(objects).reduce((sum, count) => sum + count, 0)

/**
 * Two configurations are counted: one model and nothing else, and everything on, as in the targets bench. With 32
 * requests at once, records are written in batches.
 */
export const COUNTS = {
  json: { mode: 'json', connections: 1, isFull: false },
  stream: { mode: 'stream', connections: 1, isFull: false },
  json_full: { mode: 'json', connections: 1, isFull: true },
  stream_full: { mode: 'stream', connections: 1, isFull: true },
  json_together: { mode: 'json', connections: 32, isFull: true },
  stream_together: { mode: 'stream', connections: 32, isFull: true },
} as const
export type Count = keyof typeof COUNTS

export const counted = (load: LoadProcess, count: Count): Promise<Allocations> => {
  const { mode, connections, isFull } = COUNTS[count]
  return allocationsOf(load, mode, connections, isFull ? { bootstrap: fullWorld(load.origin) } : {})
}

if (import.meta.main) {
  const load = await startLoad()
  const all: Record<string, Allocations> = {}
  for (const count of Object.keys(COUNTS) as Count[]) all[count] = await counted(load, count)
  await load.stop()
  console.log(JSON.stringify(all, null, 2))
  for (const [count, allocations] of Object.entries(all))
    console.log(`${count}: ${totalOf(allocations).toFixed(0)} objects, ${allocations.bytes} bytes a request`)
}
