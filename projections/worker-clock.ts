// The clock of a worker, compared with the log's: a worker reports how far read models are behind, and closes days, by
// its own clock. Gateways announce themselves every second, and the log stamps that.

import { sleep } from '../src/lib/event-loop/sleep.ts'
import type { Diagnostics } from '../src/lib/process/diagnostics.ts'
import { correctsWallClock, LogClock } from '../src/log/log-clock.ts'
import type { EventLog } from '../src/log/port.ts'
import { TOPICS } from '../src/log/topics.ts'

export interface WorkerClockDeps {
  readonly log: EventLog
  readonly signal: AbortSignal
  readonly diagnostics: Diagnostics
  readonly clock?: LogClock
  readonly clockMs?: () => number
}

const RETRY_MS = 5_000

/** Follows the announcements from their end until the signal is aborted. */
export const followLogClock = async (deps: WorkerClockDeps): Promise<void> => {
  const { log, signal, diagnostics, clock = new LogClock(correctsWallClock(diagnostics)), clockMs = Date.now } = deps
  const { name } = TOPICS.instances
  while (!signal.aborted) {
    try {
      for await (const batch of log.read(name, 0, await log.end(name, 0), signal)) {
        const last = batch.at(-1)
        if (last !== undefined) clock.other(last.atMs, clockMs())
      }
    } catch (error) {
      // Nothing depends on it but the times that the worker reports.
      if (!signal.aborted) diagnostics.debug('clock_not_compared', { error })
    }
    await sleep(RETRY_MS, signal)
  }
}
