// Gatelog beside its named reference, in one run: direct, a bare `Bun.serve` + `fetch` pass-through, and Gatelog with the embedded log at
// durability=process. One core for the gateway, the other for load and upstream (Linux `taskset`). Rounds alternate, medians are printed.
import { cpus } from 'node:os'
import {
  benchJob,
  type Contender,
  cpuSeconds,
  median,
  rssMb,
  startBare,
  startGatelog,
  startLoad,
} from './contenders.ts'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3)
const SECONDS = Number(process.env.BENCH_SECONDS ?? 3)
const MODES = ['json', 'stream'] as const
const CONNECTIONS = [1, 32, 256]

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

const main = async () => {
  const load = await startLoad()
  const { upstreamPort } = load
  const contenders: Contender[] = [
    { name: 'direct', port: upstreamPort, pid: null, headers: {}, stop: async () => {} },
    await startBare(upstreamPort),
    await startGatelog(upstreamPort),
  ]
  const measured: Row[] = []
  for (let round = -1; round < ROUNDS; round++) {
    for (const mode of MODES) {
      for (const connections of CONNECTIONS) {
        for (const contender of contenders) {
          const { name, pid } = contender
          const before = pid === null ? 0 : cpuSeconds(pid)
          const job = benchJob(contender, mode, connections, round < 0 ? 500 : SECONDS * 1_000)
          const { requests, failed, seconds, p50Us, p99Us } = await load.run(job)
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
  await load.stop()
}

const report = (measured: readonly Row[], contenders: readonly Contender[]) => {
  console.log(
    `machine: ${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, Bun ${Bun.version}, ${ROUNDS} rounds of ${SECONDS} s, medians`,
  )
  console.log('| mode | c | contender | requests/s | p50 us | p99 us | CPU us/request | ratio to bare | failed |')
  console.log('|---|---|---|---|---|---|---|---|---|')
  for (const mode of MODES) {
    for (const connections of CONNECTIONS) {
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
