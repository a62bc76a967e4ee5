// Shows where a request's CPU time goes: Gatelog under load with Bun's sampling profiler, self time by part of the
// tree. Runs `json` and `stream` at 32 at once.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { benchJob, startGatelog, startLoad } from './contenders.ts'

const SECONDS = Number(process.env.BENCH_SECONDS ?? 5)
const LINES = 14

interface Profile {
  readonly nodes: readonly { id: number; callFrame: { functionName: string; url: string } }[]
  readonly samples: readonly number[]
}

/** `src/<folder>/<file>`, a dependency's name, or `runtime` for Bun's own work (sockets, JSON, streams, promises). */
const partOf = (url: string): string => {
  const own = /\/(src\/.+\.ts)$/.exec(url)
  if (own !== null) return own[1]!
  return /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? 'runtime'
}

const shares = (
  profile: Profile,
  nameOf: (frame: { functionName: string; url: string }) => string,
): [string, number][] => {
  const names = new Map(profile.nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]))
  const counts = new Map<string, number>()
  for (const sample of profile.samples) {
    const name = names.get(sample)!
    if (!/\(?(idle|program)\)?$/.test(name)) counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0)
  return [...counts].map(([name, count]): [string, number] => [name, count / total]).sort((a, b) => b[1] - a[1])
}

const percent = (share: number) => `${(share * 100).toFixed(1)} %`

console.log(
  `machine: ${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, Bun ` +
    `${Bun.version}; self time, sampled for ${SECONDS} s at 32 at once`,
)
const load = await startLoad()
for (const mode of ['json', 'stream'] as const) {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-profile-'))
  // From the sources: a bundle does not know which file a function was in.
  const program = join(import.meta.dir, '../../src/commands/cli.ts')
  const gateway = await startGatelog(load.origin, { program, flags: ['--cpu-prof', `--cpu-prof-dir=${folder}`] })
  await load.run(benchJob(gateway, mode, 32, SECONDS * 1_000))
  await gateway.stop()
  const [file] = readdirSync(folder)
  const profile = JSON.parse(readFileSync(join(folder, file!), 'utf8')) as Profile
  rmSync(folder, { recursive: true, force: true })
  const folders = shares(profile, ({ url }) => partOf(url).split('/').slice(0, 2).join('/'))
  console.log(`\n### ${mode}\n\n| part | self time |\n|---|---|`)
  for (const [name, share] of folders.slice(0, LINES)) console.log(`| ${name} | ${percent(share)} |`)
  console.log('\n| function | self time |\n|---|---|')
  const functions = shares(profile, ({ functionName, url }) => `${functionName || '(anonymous)'} ${partOf(url)}`)
  for (const [name, share] of functions.slice(0, LINES)) console.log(`| ${name} | ${percent(share)} |`)
}
await load.stop()
