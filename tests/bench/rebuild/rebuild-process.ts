// The process that tests/bench/rebuild/rebuild.ts measures. Arguments: `worker` or `rebuild`, data folder, URL of
// Postgres.
import { rebuild } from '../../../projections/rebuild.ts'
import { readModels, runWorker } from '../../../projections/worker.ts'
import { embeddedLog } from '../../../src/log/embedded/log.ts'
import { MAC_KEY } from '../../projections/support.ts'
import { silent } from '../../services/postgres.ts'

const [what = '', dataDir = '', databaseUrl = ''] = process.argv.slice(2)
const log = embeddedLog({ dataDir, nowMs: Date.now })
const stopping = new AbortController()
const shared = { log, databaseUrl, signal: stopping.signal, diagnostics: silent }
/** Samples of this process's memory; reported at the end, in even steps over the run. */
const heldMiB: number[] = []
const sampling = setInterval(() => heldMiB.push(Math.round(process.memoryUsage.rss() / 2 ** 20)), 250)
if (what === 'rebuild') {
  await rebuild({ ...shared, projections: readModels(MAC_KEY), print: (line) => console.log(line) })
} else {
  const running = runWorker({
    ...shared,
    macKey: MAC_KEY,
    worker: 'bench',
    onStatus(status) {
      console.log(status.map(({ model, state, behindRecords }) => `${model} ${state} ${behindRecords}`).join(', '))
      if (status.every(({ state, behindRecords }) => state === 'live' && behindRecords === 0)) stopping.abort()
    },
    tuning: { reportMs: 500 },
  })
  await running
}
clearInterval(sampling)
await log.close()
const steps = Array.from({ length: 9 }, (_, at) => heldMiB[Math.floor((at * (heldMiB.length - 1)) / 8)])
console.error(`${what}, resident over the run: ${steps.join(' ')} MiB`)
process.exit(0)
