// What the benches start: the load process, the bare reference, and Gatelog with one provider and nothing else on its
// core.

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { commandsOf } from '../../infra/bundle.mjs'
import { memoryOn } from '../../infra/launch.mjs'
import { withoutGatewayVariables } from '../environment.ts'
import { eventually } from '../services/eventually.ts'
import { freePort } from '../services/gateway.ts'
import type { HoldJob, HoldResult } from './held-streams.ts'
import type { LoadJob, LoadResult } from './load.ts'

const HERE = import.meta.dir
const ROOT = join(HERE, '../..')
const CLOCK_TICKS = 100
const INFERENCE_KEY = 'gw_live_benchbenchbenchbenchbenchbenchbenchbench'

export interface Contender {
  readonly name: string
  readonly port: number
  readonly pid: number | null
  readonly headers: Readonly<Record<string, string>>
  /** The requested model; the model of every bench when absent. */
  readonly model?: string
  stop(): Promise<void>
}

/** Reads JSON lines of a child's stdout; other lines are kept for an error message. */
const jsonLines = (stream: ReadableStream<Uint8Array>) => {
  const reader = stream.getReader()
  const decoder = new TextDecoder()
  let text = ''
  return async (): Promise<unknown> => {
    for (;;) {
      const end = text.indexOf('\n')
      if (end >= 0) {
        const line = text.slice(0, end)
        text = text.slice(end + 1)
        if (line.startsWith('{')) return JSON.parse(line)
        continue
      }
      const { done, value } = await reader.read()
      if (done) throw new Error(`the process ended: ${text}`)
      text += decoder.decode(value, { stream: true })
    }
  }
}

/** Starts a program on one core, where the machine has several; null: wherever there is room. */
export const pinned = (
  core: number | null,
  command: string[],
  environment: Record<string, string> = {},
  stderr: 'inherit' | 'pipe' = 'inherit',
) =>
  Bun.spawn(core !== null && cpus().length > 1 ? ['taskset', '-c', String(core), ...command] : command, {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr,
    env: {
      ...withoutGatewayVariables(),
      BUN_CONFIG_MAX_HTTP_REQUESTS: '4096',
      NODE_EXTRA_CA_CERTS: join(HERE, '../fixtures/tls/ca.pem'),
      ...environment,
    },
  })

/** `origin`: of the upstream, as `LoadProcess` reports it. */
export const startBare = async (origin: string): Promise<Contender> => {
  const child = pinned(0, [process.execPath, join(HERE, 'bare.ts'), origin])
  const { port } = (await jsonLines(child.stdout)()) as { port: number }
  return {
    name: 'bare',
    port,
    pid: child.pid,
    headers: {},
    stop: async () => {
      child.kill()
      await child.exited
    },
  }
}

export interface GatelogOptions {
  /** For Bun. */
  readonly flags?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  /** Over those of the bench. */
  readonly settings?: Readonly<Record<string, unknown>>
  /** Kept at the end when given. */
  readonly dataDir?: string
  /** Null: wherever there is room. */
  readonly core?: number | null
  /** What it is called in tables. */
  readonly name?: string
  /** What it runs: `cli.js` of a bundle or `cli.ts` of sources; what `npm start` runs when absent. */
  readonly program?: string
}

const PRICES = { input_cost_per_million: 1, output_cost_per_million: 2, max_output_tokens: 1_000 }

/** One provider with one model. */
const plainWorld = (origin: string) => ({
  providers: [{ name: 'bench', kind: 'openai_compatible', base_url: `${origin}/v1` }],
  models: [{ name: MODEL, provider: 'bench', ...PRICES }],
})

const MODEL = 'bench-model'
/** The model that requests name where the second upstream has to answer. */
export const SECOND_MODEL = 'other-bench-model'
const PROVIDERS = 5
const MOST = 1_000_000_000

const FALLBACKS = ['second', 'third', 'fourth']

/** Five providers with four models each. */
const catalogue = (origin: string, prefix: string) => {
  const providers = Array.from({ length: PROVIDERS }, (_, i) => `${prefix}bench-${i}`)
  return {
    providers: providers.map((name) => ({ name, kind: 'openai_compatible', base_url: `${origin}/v1` })),
    models: [MODEL, ...FALLBACKS].flatMap((name) =>
      providers.map((provider) => ({ name: `${prefix}${name}`, provider, ...PRICES })),
    ),
  }
}

/**
 * The configuration that the targets are set for: a catalogue for each upstream (the second one answers
 * `SECOND_MODEL`), 20 candidates for each request (its model and three fallbacks, of five providers), limits at every
 * level, and a hard budget that is never used up.
 */
export const fullWorld = (origin: string, secondOrigin?: string) => {
  const first = catalogue(origin, '')
  const second = secondOrigin === undefined ? { providers: [], models: [] } : catalogue(secondOrigin, 'other-')
  return {
    tenants: [{ slug: 'default', name: 'default', rate_limits: { rpm: MOST, tpm: MOST, max_parallel: 100_000 } }],
    providers: [...first.providers, ...second.providers],
    models: [...first.models, ...second.models],
    policies: [{ name: 'default', rate_limits: { rpm: MOST }, fallback: { models: FALLBACKS } }],
    budgets: [{ tenant: 'default', window: 'month', limit_usd: 1_000_000, enforcement: 'hard' }],
  }
}

/**
 * Starts a gateway without worker and Postgres, so that nothing else runs on its core. It has one provider with one
 * model, unless its settings define others.
 */
export const startGatelog = async (origin: string, options: GatelogOptions = {}): Promise<Contender> => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-bench-'))
  const free = freePort()
  const { server, ...settings } = { server: {}, ...options.settings }
  const all = {
    server: { host: '127.0.0.1', port: free, ...(server as object) },
    data: { dir: options.dataDir ?? join(folder, 'data') },
    log: { durability: 'process' },
    worker: { enabled: false },
    database: { url: 'postgres://nobody@127.0.0.1:1/none' },
    bootstrap: plainWorld(origin),
    ...settings,
  }
  writeFileSync(join(folder, 'gateway.yaml'), JSON.stringify(all))
  const core = options.core === undefined ? 0 : options.core
  const program = options.program ?? commandsOf(ROOT, process.execPath, Bun.version)
  const command = [process.execPath, ...(options.flags ?? []), program, 'start']
  const child = pinned(core, command, {
    GATEWAY_CONFIG: join(folder, 'gateway.yaml'),
    GATEWAY_BOOTSTRAP_INFERENCE_KEY: INFERENCE_KEY,
    NODE_ENV: 'production',
    ...memoryOn(core === null ? cpus().length : 1),
    ...options.environment,
  })
  void new Response(child.stdout).text()
  try {
    await untilHealthy(free)
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  }
  return {
    name: options.name ?? 'gatelog',
    port: free,
    pid: child.pid,
    headers: { Authorization: `Bearer ${INFERENCE_KEY}` },
    stop: async () => {
      child.kill()
      await child.exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export interface WarmOptions {
  /** Where several processes are behind its port. */
  readonly pids?: readonly number[]
  /** Of each mode in a round. */
  readonly roundMs?: number
  readonly mostRounds?: number
  /** What compilers take of the time while they rest, at most. */
  readonly restShare?: number
  /** In so many rounds in a row; one when not given. */
  readonly calmRounds?: number
}

/**
 * Warms a contender up until its compilers rest: they take a tenth of the core in bursts, which shows in every p99.
 * Warming up takes some ten seconds on a fast machine and half a minute on a slow one. Sends `json` only, unless
 * streams are measured too. Returns the number of failed requests.
 */
export const warm = async (
  load: LoadProcess,
  contender: Contender,
  modes: readonly ('json' | 'stream')[],
  {
    pids = [contender.pid!],
    roundMs = WARM_ROUND_MS,
    mostRounds = MOST_WARM_ROUNDS,
    restShare = COMPILERS_REST,
    calmRounds = 1,
  }: WarmOptions = {},
): Promise<number> => {
  let failed = 0
  const round = async () => {
    for (const mode of modes) failed += (await load.run(benchJob(contender, mode, WARM_CONNECTIONS, roundMs))).failed
  }
  await compilersRest(pids, round, { roundMs: modes.length * roundMs, mostRounds, restShare, calmRounds })
  return failed
}

interface CompilersRest {
  readonly roundMs: number
  readonly mostRounds: number
  readonly restShare?: number
  readonly calmRounds?: number
}

/**
 * Runs rounds of `roundMs` until the compilers take at most the given share of a core, `calmRounds` times in a row.
 * Code that becomes warm slowly is compiled in bursts, so one calm round does not suffice.
 */
export const compilersRest = async (
  pids: readonly number[],
  round: () => Promise<unknown>,
  { roundMs, mostRounds, restShare = COMPILERS_REST, calmRounds = 1 }: CompilersRest,
): Promise<void> => {
  let calm = 0
  for (let rounds = 0; rounds < mostRounds && calm < calmRounds; rounds++) {
    const before = compilerSeconds(pids)
    await round()
    calm = (compilerSeconds(pids) - before) * 1_000 < restShare * roundMs ? calm + 1 : 0
  }
}
const WARM_CONNECTIONS = 32
const WARM_ROUND_MS = 5_000
const MOST_WARM_ROUNDS = 8
const COMPILERS_REST = 0.02
const COMPILERS = new Set(['JITWorker', 'JSCWarmUp'])

/** CPU time of the threads that compile, from /proc. */
const compilerSeconds = (pids: readonly number[]): number => {
  let nanoseconds = 0
  for (const pid of pids)
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const of = (file: string) => readFileSync(`/proc/${pid}/task/${thread}/${file}`, 'utf8').trim()
      try {
        if (COMPILERS.has(of('comm'))) nanoseconds += Number(of('schedstat').split(' ')[0])
      } catch {
        // It has ended since it was listed.
      }
    }
  return nanoseconds / 1e9
}

/** A million keys take half a minute to read. */
const START_MS = 120_000

const untilHealthy = (port: number) =>
  eventually(
    'the gateway is healthy',
    async () => {
      const answer = await fetch(`http://127.0.0.1:${port}/v1/models`, {
        headers: { Authorization: `Bearer ${INFERENCE_KEY}` },
      }).catch(() => null)
      return answer?.ok === true && (await answer.text()).includes(MODEL)
    },
    { limitMs: START_MS },
  )

/** CPU time that a process has used so far, from /proc. */
export const cpuSeconds = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / CLOCK_TICKS
}
export const rssMb = (pid: number): number =>
  Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024)
/** Of an even count the mean of the middle two. */
export const median = (values: readonly number[]): number => {
  const inOrder = values.toSorted((a, b) => a - b)
  const middle = inOrder.length >> 1
  return inOrder.length % 2 === 1 ? inOrder[middle]! : (inOrder[middle - 1]! + inOrder[middle]!) / 2
}

export interface LoadProcess {
  readonly upstreamPort: number
  /** The upstream, plain and over TLS. */
  readonly origin: string
  readonly secureOrigin: string
  run(job: LoadJob): Promise<LoadResult>
  /** Streams that are held open beside the jobs; not while one runs. */
  hold(job: HoldJob): Promise<HoldResult>
  stop(): Promise<void>
}

/** Load and upstream, on the second core, or wherever there is room. */
export const startLoad = async (core: number | null = 1): Promise<LoadProcess> => {
  const load = pinned(core, [process.execPath, join(HERE, 'load.ts')])
  const read = jsonLines(load.stdout)
  const ports = (await read()) as { upstreamPort: number; secureUpstreamPort: number }
  const ask = async (job: LoadJob | HoldJob): Promise<unknown> => {
    load.stdin.write(`${JSON.stringify(job)}\n`)
    load.stdin.flush()
    return await read()
  }
  return {
    upstreamPort: ports.upstreamPort,
    origin: `http://127.0.0.1:${ports.upstreamPort}`,
    secureOrigin: `https://127.0.0.1:${ports.secureUpstreamPort}`,
    async run(job) {
      const result = (await ask(job)) as LoadResult
      const { failed, requests, firstFailure } = result
      if (failed > 0) console.error(`${failed} failed beside ${requests} on port ${job.port}, first: ${firstFailure}`)
      return result
    },
    hold: (job) => ask(job) as Promise<HoldResult>,
    async stop() {
      load.kill()
      await load.exited
    },
  }
}

/** The request of every bench: the answer has 640 bytes, or 20 chunks. `more`: of `ASKS`, for another answer. */
export const benchJob = (
  { port, headers, model = MODEL }: Pick<Contender, 'port' | 'headers' | 'model'>,
  mode: 'json' | 'stream',
  connections: number,
  durationMs: number,
  more = '',
): LoadJob => ({
  port,
  path: '/v1/chat/completions',
  headers,
  body: JSON.stringify({
    model,
    ...(mode === 'stream' ? { stream: true } : {}),
    messages: [{ role: 'user', content: `Say something of a few hundred bytes.${more}` }],
  }),
  connections,
  durationMs,
  expect: mode === 'stream' ? '[DONE]' : 'chatcmpl-bench',
})
