// Gatelog beside its named reference, in one run: direct, a bare `Bun.serve` + `fetch` pass-through, and Gatelog with the embedded log at
// durability=process. One core for the gateway, the other for load and upstream (Linux `taskset`). Rounds alternate, medians are printed.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { LoadJob, LoadResult } from './load.ts'

const HERE = import.meta.dir
const ROOT = join(HERE, '../..')
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 3)
const CLOCK_TICKS = 100
const INFERENCE_KEY = 'gw_live_benchbenchbenchbenchbenchbenchbenchbench'

interface Contender {
  readonly name: string
  readonly port: number
  readonly pid: number | null
  readonly headers: Readonly<Record<string, string>>
  stop(): Promise<void>
}
interface Row {
  contender: string
  mode: 'json' | 'stream'
  connections: number
  perSecond: number
  p50Us: number
  p99Us: number
  cpuUs: number | null
  failed: number
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

const pinned = (core: number, command: string[], environment: Record<string, string> = {}) =>
  Bun.spawn(cpus().length > 1 ? ['taskset', '-c', String(core), ...command] : command, {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
    env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: '4096', ...environment },
  })

const startBare = async (upstreamPort: number): Promise<Contender> => {
  const child = pinned(0, [process.execPath, join(HERE, 'bare.ts'), `http://127.0.0.1:${upstreamPort}`])
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

/** A gateway with one provider, no worker and no Postgres: nothing else runs on its core. */
const startGatelog = async (upstreamPort: number): Promise<Contender> => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-bench-'))
  const port = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const free = port.port
  port.stop(true)
  const settings = {
    server: { host: '127.0.0.1', port: free },
    data: { dir: join(folder, 'data') },
    log: { durability: 'process' },
    worker: { enabled: false },
    database: { url: 'postgres://nobody@127.0.0.1:1/none' },
    bootstrap: {
      providers: [{ name: 'bench', kind: 'openai_compatible', base_url: `http://127.0.0.1:${upstreamPort}/v1` }],
      models: [{ name: 'bench-model', provider: 'bench', input_cost_per_million: 1, output_cost_per_million: 2 }],
    },
  }
  writeFileSync(join(folder, 'gateway.yaml'), JSON.stringify(settings))
  const child = pinned(0, [process.execPath, join(ROOT, 'src/commands/cli.ts'), 'start'], {
    GATEWAY_CONFIG: join(folder, 'gateway.yaml'),
    GATEWAY_BOOTSTRAP_INFERENCE_KEY: INFERENCE_KEY,
    NODE_ENV: 'production',
  })
  void new Response(child.stdout).text()
  await untilHealthy(free)
  return {
    name: 'gatelog',
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

const untilHealthy = async (port: number) => {
  const deadline = Date.now() + 30_000
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/models`, {
      headers: { Authorization: `Bearer ${INFERENCE_KEY}` },
    }).catch(() => null)
    if (answer?.ok && (await answer.text()).includes('bench-model')) return
    if (Date.now() > deadline) throw new Error('the gateway did not become healthy within 30 s')
    await Bun.sleep(50)
  }
}

const cpuSeconds = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / CLOCK_TICKS
}
const rssMb = (pid: number): number =>
  Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024)
const median = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]!

const main = async () => {
  const load = pinned(1, [process.execPath, join(HERE, 'load.ts')])
  const read = jsonLines(load.stdout)
  const { upstreamPort } = (await read()) as { upstreamPort: number }
  const run = async (job: LoadJob) => {
    load.stdin.write(`${JSON.stringify(job)}\n`)
    load.stdin.flush()
    return (await read()) as LoadResult
  }
  const contenders: Contender[] = [
    { name: 'direct', port: upstreamPort, pid: null, headers: {}, stop: async () => {} },
    await startBare(upstreamPort),
    await startGatelog(upstreamPort),
  ]
  const measured: Row[] = []
  for (let round = -1; round < ROUNDS; round++) {
    for (const mode of ['json', 'stream'] as const) {
      for (const connections of [1, 32, 256]) {
        for (const { name, port, pid, headers } of contenders) {
          const body = JSON.stringify({
            model: 'bench-model',
            ...(mode === 'stream' ? { stream: true } : {}),
            messages: [{ role: 'user', content: 'Say something of a few hundred bytes.' }],
          })
          const before = pid === null ? 0 : cpuSeconds(pid)
          const job = {
            port,
            path: '/v1/chat/completions',
            headers,
            body,
            connections,
            durationMs: round < 0 ? 500 : SECONDS * 1000,
            expect: mode === 'stream' ? '[DONE]' : 'chatcmpl-bench',
          }
          const { requests, failed, seconds, p50Us, p99Us } = await run(job)
          if (round < 0) continue // warms up
          const cpuUs = pid === null || requests === 0 ? null : ((cpuSeconds(pid) - before) * 1e6) / requests
          measured.push({
            contender: name,
            mode,
            connections,
            perSecond: requests / seconds,
            p50Us,
            p99Us,
            cpuUs,
            failed,
          })
        }
      }
    }
  }
  report(measured, contenders)
  for (const contender of contenders) await contender.stop()
  load.kill()
  await load.exited
}

const report = (measured: readonly Row[], contenders: readonly Contender[]) => {
  console.log(
    `machine: ${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, Bun ${Bun.version}, ${ROUNDS} rounds of ${SECONDS} s, medians`,
  )
  console.log('| mode | c | contender | requests/s | p50 us | p99 us | CPU us/request | ratio to bare | failed |')
  console.log('|---|---|---|---|---|---|---|---|---|')
  for (const mode of ['json', 'stream'] as const) {
    for (const connections of [1, 32, 256]) {
      const of = (name: string, pick: (row: Row) => number) =>
        median(
          measured
            .filter((row) => row.mode === mode && row.connections === connections && row.contender === name)
            .map(pick),
        )
      const bare = of('bare', (row) => row.perSecond)
      for (const { name, pid } of contenders) {
        const perSecond = of(name, (row) => row.perSecond)
        const cpu = pid === null ? '-' : of(name, (row) => row.cpuUs ?? 0).toFixed(1)
        console.log(
          `| ${mode} | ${connections} | ${name} | ${Math.round(perSecond)} | ${of(name, (row) => row.p50Us)} | ${of(name, (row) => row.p99Us)} | ${cpu} | ${(perSecond / bare).toFixed(2)} | ${of(name, (row) => row.failed)} |`,
        )
      }
    }
  }
  for (const { name, pid } of contenders) if (pid !== null) console.log(`RSS ${name}: ${rssMb(pid)} MB`)
}

await main()
