// Measures what each trick gains beside the plain code that it replaces (`tricks/`): microseconds of the work that both
// do, in turn, in this process. Whole requests show the effect of large tricks better; these are too small or too rare
// to be visible there.
// `--only=heads,batch,...`: some of them. BENCH_ROUNDS.
import { statfsSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { onlyOf } from './only.ts'
import { OF_PLANS } from './tricks/of-plans.ts'
import { OF_REQUESTS } from './tricks/of-requests.ts'
import { OF_THE_LOG } from './tricks/of-the-log.ts'
import { measure } from './tricks/trick.ts'

const TRICKS = { ...OF_REQUESTS, ...OF_PLANS, ...OF_THE_LOG }

// The rows of the log write to the folder for temporary files: on one in memory a sync costs nothing.
const { type } = statfsSync(tmpdir())
console.log(
  `machine: ${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, Bun ${Bun.version}, ` +
    `files in ${tmpdir()} (file system 0x${type.toString(16)})\n`,
)
console.log('| Trick | In `src/` | For each | With it | Without | Ratio | N |')
console.log('|---|---|---|---|---|---|---|')
for (const name of onlyOf(Object.keys(TRICKS) as (keyof typeof TRICKS)[])) {
  const trick = await TRICKS[name]()
  const { trickUs, plainUs, ratio, count } = await measure(trick)
  const figures = `${trickUs.toFixed(3)} us | ${plainUs.toFixed(3)} us | ${ratio.toFixed(2)} | ${count.toLocaleString('en')}`
  console.log(`| ${name}: ${trick.name} | ${trick.at} | ${trick.unit} | ${figures} |`)
}
process.exit(0)
