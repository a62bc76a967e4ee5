// A projection worker as a process of its own on the embedded log of a folder, to be killed. Arguments: data folder, URL of Postgres.
import { runWorker } from '../../projections/worker.ts'
import { embeddedLog } from '../../src/log/embedded.ts'
import { silent } from '../services/postgres.ts'
import { MAC_KEY } from './support.ts'

const [dataDir = '', databaseUrl = ''] = process.argv.slice(2)
await runWorker({
  log: embeddedLog({ dataDir, nowMs: Date.now, spoolPollMs: 5 }),
  databaseUrl,
  macKey: MAC_KEY,
  worker: `process ${process.pid}`,
  signal: new AbortController().signal,
  diagnostics: silent,
  tuning: { pollMs: 20, reportMs: 100, limits: { maxRecords: 100, maxBytes: 1_048_576, waitMs: 1 } },
})
