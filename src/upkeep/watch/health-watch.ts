// Runs the book of health beside the requests: time passes in it without requests, and its events are written to the
// operations topic.
import type { HealthEvent } from '../../domain/events/health.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { REFUSABLE, type Spool } from '../../log/spool/spool.ts'
import { type HealthBook, openHealth } from '../../state/health/book.ts'
import type { Catalogue } from '../../state/port.ts'
import { frameWriter } from './frame-writer.ts'

export interface HealthWatchDeps {
  readonly catalogue: Pick<Catalogue, 'resolve' | 'all'>
  readonly spool: Pick<Spool, 'append' | 'instance'>
  readonly diagnostics: Diagnostics
  nowMs(): number
  monotonicMs(): number
}

export interface HealthWatch {
  readonly book: HealthBook
  close(): void
}

const TICK_MS = 250
const COMPLAIN_MS = 60_000

export const watchHealth = ({ catalogue, spool, diagnostics, nowMs, monotonicMs }: HealthWatchDeps): HealthWatch => {
  let complainedMs = Number.NEGATIVE_INFINITY
  const failed = (error: unknown): void => {
    const now = monotonicMs()
    if (now - complainedMs < COMPLAIN_MS) return
    complainedMs = now
    diagnostics.warn('health_event_not_written', { error })
  }
  // Not on the ballast, which is for requests in flight: while the disk is full nothing is admitted that a frame would
  // explain.
  const append = ({ type, subject, data }: HealthEvent) =>
    spool.append('operations', type, subject ?? spool.instance, JSON.stringify(data), REFUSABLE)
  const frames = frameWriter({
    append,
    onFailure: failed,
    onLost(count) {
      diagnostics.warn('frames_not_written', { count })
      book.restate()
    },
  })
  const emit = (event: HealthEvent): void => {
    if (event.type === 'frame.taken') {
      frames.write(event)
      return
    }
    append(event).catch(failed)
    const { type, data } = event
    if (type === 'breaker.opened' || type === 'breaker.closed') {
      const { provider, model, reason } = data
      diagnostics.info(type === 'breaker.opened' ? 'breaker_opened' : 'breaker_closed', { provider, model, reason })
    }
  }
  const book = openHealth({ catalogue, nowMs, monotonicMs, emit })
  const timer = setInterval(() => {
    frames.retry()
    book.tick()
  }, TICK_MS)
  timer.unref()
  return { book, close: () => clearInterval(timer) }
}
