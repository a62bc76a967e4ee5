// The appends of the commit queue: one at a time, each with its outcome.
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { failpoint } from '../../lib/process/failpoints.ts'
import { type EventLog, IndefiniteAppend, LogUnavailable, RecordRefused } from '../../log/port.ts'
import { CONTROL } from '../fold.ts'
import type { LiveChain } from '../live-chain.ts'
import { writeTurn } from '../write-turns.ts'
import type { Attempt } from './batch.ts'

export interface AppendDeps {
  readonly log: EventLog
  readonly live: Pick<LiveChain, 'condition' | 'turns'>
  readonly macKey: Uint8Array
  readonly instance: string
  readonly diagnostics: Diagnostics
}

/** `not_written` and `refused` are certain; `unknown`: it is in the log, is not, or will be. */
export type AppendOutcome = 'written' | 'not_written' | 'refused' | 'unknown'

export class Appender {
  #sending: { attempts: readonly Attempt[]; stop: AbortController } | null = null

  constructor(readonly deps: AppendDeps) {}

  async append(batch: readonly Attempt[]): Promise<AppendOutcome> {
    const stop = new AbortController()
    this.#sending = { attempts: batch, stop }
    const stopped = new Promise<never>((_, reject) => {
      stop.signal.addEventListener('abort', () => reject(new IndefiniteAppend('stopped at the end of its time')))
    })
    stopped.catch(() => {}) // awaited in the race below, or never needed
    const records = batch.map(({ bytes }) => ({ key: null, value: bytes }))
    failpoint('control_before_append')
    const appended = this.deps.log.append(CONTROL, 0, records, stop.signal)
    try {
      await Promise.race([appended, stopped])
      failpoint('control_appended')
      return 'written'
    } catch (error) {
      appended.catch(() => {}) // when it lost the race
      if (error instanceof LogUnavailable) return 'not_written'
      if (error instanceof RecordRefused) return 'refused'
      if (!(error instanceof IndefiniteAppend)) this.deps.diagnostics.warn('control_append_failed', { error })
      return 'unknown'
    } finally {
      this.#sending = null
    }
  }

  /**
   * Ends the append under way when it carries one of these: nothing more is sent for a command whose deadline is over.
   */
  stop(attempts: readonly Attempt[]): void {
    if (this.#sending?.attempts.some((attempt) => attempts.includes(attempt))) this.#sending.stop.abort()
  }

  /** Appends a turn, and waits until it is folded or the time is up. */
  async requestTurn(limitMs: number): Promise<void> {
    const { log, live, instance, macKey, diagnostics } = this.deps
    const nonce = crypto.randomUUID()
    try {
      await log.append(CONTROL, 0, [{ key: null, value: writeTurn({ instance, nonce }, macKey) }])
      await live.condition.until(() => live.turns.has(nonce), limitMs)
    } catch (error) {
      diagnostics.debug('turn_not_written', { error }) // a courtesy: without it the command only waits longer
    }
  }
}
