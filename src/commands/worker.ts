// `gateway worker`: the projection worker as a process of its own. `gateway start` runs one as a child unless the
// settings turn it off.
import { existsSync } from 'node:fs'
import { runWorker, type WorkerOptions } from '../../projections/worker.ts'
import { LOG_REFUSED_CODE } from '../composition/analytics.ts'
import { PROJECTION_CONSUMER } from '../composition/outcomes.ts'
import { openReadStore, requestDaysOf } from '../composition/read-store.ts'
import type { Config } from '../config/schema.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { type EventLog, LogReplaced } from '../log/port.ts'
import { spoolDirectory, writeWatermark } from '../log/spool/spool.ts'
import { TOPICS } from '../log/topics.ts'

export interface WorkerCommand {
  readonly config: Config
  /** The key of the decisions' MAC. */
  readonly macKey: Uint8Array
  readonly log: EventLog
  readonly diagnostics: Diagnostics
  /** A gateway started it. */
  readonly isChild: boolean
  /** Name of this process in reports. */
  readonly worker: string
  /** Aborted by a signal to the process, or when the gateway that started it has ended. */
  readonly signal: AbortSignal
  readonly complain: (line: string) => void
  readonly onStatus?: WorkerOptions['onStatus']
}

/**
 * Runs until a stop is requested: exit code 0. 1 (a child: `LOG_REFUSED_CODE`), with one line, when the log is not the
 * one that the read models were made from.
 */
export const workerCommand = async (command: WorkerCommand): Promise<number> => {
  const { config, macKey, log, diagnostics, worker, signal, isChild, complain, onStatus } = command
  const store = openReadStore(config, diagnostics)
  try {
    await runWorker({
      log,
      databaseUrl: store.url,
      macKey,
      requestDays: requestDaysOf(config),
      worker,
      signal,
      diagnostics,
      onStatus,
      onProjected: trimmer(config),
    })
    return 0
  } catch (error) {
    if (!(error instanceof LogReplaced)) throw error
    complain(error.message)
    return isChild ? LOG_REFUSED_CODE : 1
  } finally {
    await store.close()
  }
}

/** Embedded, reports to the spool what it may delete. On Kafka the sender does. */
const trimmer =
  ({ log, data }: Config) =>
  (topic: string, partition: number, next: number): void => {
    if (log.kafka.brokers.length > 0 || topic !== TOPICS.requests.name) return
    const directory = spoolDirectory(data.dir, partition)
    if (existsSync(directory)) writeWatermark(directory, PROJECTION_CONSUMER, 'requests', next)
  }
