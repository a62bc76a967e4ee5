// A projection worker as a process of its own, to be killed or stopped. Argument: what it needs, as JSON.
import { runWorker, type WorkerTuning } from '../../../projections/worker.ts'
import { spoolDirectory, writeWatermark } from '../../../src/log/spool/directory.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { MAC_KEY } from '../../projections/support.ts'
import { silent } from '../../services/postgres.ts'
import { openWorldLog, type WorldLog } from './world.ts'

export interface WorkerTask {
  readonly log: WorldLog
  readonly databaseUrl: string
  readonly tuning: Partial<WorkerTuning>
}

const trimmer = (log: WorldLog) => (topic: string, partition: number, next: number) => {
  if (log.adapter !== 'embedded') return
  const which = topic === TOPICS.requests.name ? 'requests' : topic === TOPICS.operations.name ? 'operations' : null
  if (which !== null) writeWatermark(spoolDirectory(log.dataDir, partition), 'projection', which, next)
}

const main = async ({ log: options, databaseUrl, tuning }: WorkerTask): Promise<void> => {
  const stopping = new AbortController()
  process.once('SIGTERM', () => stopping.abort())
  const log = openWorldLog(options)
  await runWorker({
    log,
    databaseUrl,
    macKey: MAC_KEY,
    worker: `process ${process.pid}`,
    signal: stopping.signal,
    diagnostics: { ...silent, error: (name, fields) => console.error(name, fields) },
    onProjected: trimmer(options),
    tuning,
  })
  await log.close()
}

if (import.meta.main) {
  await main(JSON.parse(process.argv[2]!) as WorkerTask)
  process.exit(0) // as the command does: connections of a pool that was given up may still be open
}
