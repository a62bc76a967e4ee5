// The deadline of one call of the Kafka log. Never by the wall clock: if it steps back, work would continue after its
// call has ended.
import { LogUnavailable } from '../port.ts'

export interface Limits {
  /** End of the call on the clock of `performance.now()`, milliseconds. */
  readonly deadlineMs: number
  /** Aborted by the caller, by `close()`, or when the call has ended: from then on the work sends nothing. */
  readonly signal: AbortSignal
}

/** For a step that exceeds its time: the work itself decides at the deadline. */
const GRACE_MS = 50

/** Milliseconds until the deadline; 1 after it, since no timer can be set for the past. */
export const leftMs = ({ deadlineMs }: Pick<Limits, 'deadlineMs'>): number =>
  Math.max(1, deadlineMs - performance.now())

/** Throws LogUnavailable unless `minMs` are left and the call is not aborted. Called right before something is sent. */
export const requireTime = (limits: Limits, minMs: number): void => {
  if (limits.signal.aborted || leftMs(limits) < minMs) throw new LogUnavailable('no time was left to send it')
}

/**
 * The outcome of the work, unless the deadline or an abort comes first. Neither takes back what was sent: they end the
 * wait, and the work sends nothing more. `failure` makes the error that is thrown then.
 */
export const withDeadline = async <T>(
  limitMs: number,
  signal: AbortSignal,
  work: (limits: Limits) => Promise<T>,
  failure: (why: string) => Error,
): Promise<T> => {
  const ended = new AbortController()
  const { promise, reject } = Promise.withResolvers<never>()
  const stop = () => end('the caller stopped waiting')
  const end = (why: string) => {
    ended.abort()
    reject(failure(why))
  }
  const timer = setTimeout(() => end(`no answer within ${limitMs} ms`), limitMs + GRACE_MS)
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  const working = work({ deadlineMs: performance.now() + limitMs, signal: ended.signal })
  try {
    return await Promise.race([working, promise])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
    // The loser of the race has no listener any more.
    working.catch(() => undefined)
    promise.catch(() => undefined)
  }
}
