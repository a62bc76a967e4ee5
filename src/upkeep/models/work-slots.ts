// Work of an operator that calls providers: a few at once, ended when the operator leaves or the process stops.
import { GatewayError, stopping } from '../../wire/errors.ts'

export interface WorkSlots {
  /**
   * Runs a piece of work with a signal that is raised when the client leaves or the process stops (its reason is
   * `client` or `shutdown`). Throws 429 while there are too many, 499 when the client left, 503 when the process stops.
   */
  run<Result>(client: AbortSignal, work: (signal: AbortSignal) => Promise<Result>): Promise<Result>
  /** Ends what is under way, and admits nothing more. */
  close(): Promise<void>
}

const RETRY_AFTER_S = 5
const SETTLE_MS = 2_000

export const workSlots = (limit: number): WorkSlots => {
  const running = new Map<AbortController, Promise<unknown>>()
  let closed = false
  return {
    async run(client, work) {
      if (closed) throw stopping()
      if (running.size >= limit) {
        throw new GatewayError(
          'rate_limited',
          `${limit} tests, synchronisations and detections are under way already; try again soon`,
          { retryAfterS: RETRY_AFTER_S },
        )
      }
      const ending = new AbortController()
      const leave = () => ending.abort('client')
      client.addEventListener('abort', leave)
      if (client.aborted) leave()
      const task = work(ending.signal)
      running.set(ending, task)
      try {
        const result = await task
        if (ending.signal.aborted) throw endedBy(ending.signal)
        return result
      } catch (error) {
        throw ending.signal.aborted ? endedBy(ending.signal) : error
      } finally {
        running.delete(ending)
        client.removeEventListener('abort', leave)
      }
    },
    async close() {
      closed = true
      for (const ending of running.keys()) ending.abort('shutdown')
      await Promise.race([Promise.allSettled(running.values()), Bun.sleep(SETTLE_MS)])
    },
  }
}

/** The error that reports the end of a piece of work. */
export const endedBy = ({ reason }: AbortSignal): GatewayError =>
  reason === 'shutdown' ? stopping() : new GatewayError('request_canceled', 'the client left')
