// Station 8: the outcome. Written on every way out and before the client gets the last byte; exactly one for each
// admission.
import { failpoint } from '../../lib/process/failpoints.ts'
import { type Appended, REFUSABLE, SpoolClosed } from '../../log/spool/spool.ts'
import { GatewayError } from '../../wire/errors.ts'
import { chargeBudgets, type Measured } from '../money/charge.ts'
import type { InferenceDeps, Observed } from '../request/deps.ts'
import { type Ending, SUCCESS } from '../request/ending.ts'
import type { Exchange } from '../request/exchange.ts'
import { memberText, subjectOf, writerOf } from './facts.ts'
import { outcomeRecord } from './outcome-record.ts'

type SettleDeps = Pick<InferenceDeps, 'spool' | 'observe'>

/**
 * Appends `request.settled`, once; a second call does nothing. Throws GatewayError('internal_error') when the outcome
 * could not be written: the client must then get a failure. A refusal before the admission is recorded while the spool
 * has room; without room the client gets the same refusal.
 */
export const settle = async (
  exchange: Exchange,
  ending: Ending,
  measured: Measured,
  deps: SettleDeps,
): Promise<void> => {
  if (exchange.settled) return
  const settlement = new Settlement(exchange, ending, measured, deps)
  try {
    await settlement.record
  } catch (error) {
    const failure = settlement.refused(error)
    if (failure !== null) throw failure
    return
  }
  settlement.written()
}

/**
 * The steps of `settle`, for a caller that awaits the record itself: make one for a request, then `written` or
 * `refused`.
 */
export class Settlement {
  /** Null: the request leaves no record, since no key was identified. */
  readonly record: Promise<Appended> | null
  readonly #latencyMs: number

  constructor(
    private readonly exchange: Exchange,
    private readonly ending: Ending,
    private readonly measured: Measured,
    private readonly deps: SettleDeps,
  ) {
    this.#latencyMs = exchange.latencyMs()
    exchange.settled = true
    this.record = this.#append()
  }

  /** The outcome is as durable as the spool makes it. */
  written(): void {
    const { exchange } = this
    if (exchange.factsText !== null) failpoint('settled')
    exchange.budgets?.outcomeWas('recorded')
    this.#report(true)
  }

  /**
   * The outcome is not written, or not in time. Returns the error for the client; null: its response stays what it is.
   */
  refused(error: unknown): GatewayError | null {
    const { exchange, ending } = this
    const recorded = error instanceof SpoolClosed && error.written !== null
    const fate = recorded ? 'recorded' : exchange.admission === null ? 'never_admitted' : 'lost'
    const durable = error instanceof SpoolClosed ? error.durable : null
    if (durable === null) exchange.budgets?.outcomeWas(fate)
    // A power cut may still take the record. Recovery would then settle the request as orphaned: its cost would count
    // twice, were it reported before.
    else void durable.then(() => exchange.budgets?.outcomeWas(fate))
    this.#report(recorded)
    // Written, though not shipped in time: a request that failed keeps its failure.
    const keepsFailure = recorded && ending.status >= 400
    return exchange.admission === null || keepsFailure
      ? null
      : new GatewayError('internal_error', 'the outcome could not be recorded', { cause: error })
  }

  #append(): Promise<Appended> | null {
    const { exchange, ending, measured, deps } = this
    const { admission } = exchange
    try {
      const budget = chargeBudgets(exchange, ending === SUCCESS ? measured : undefined)
      if (!hasFacts(exchange)) return null
      const settled = { ending, measured, latencyMs: this.#latencyMs, budget, writer: writerOf(deps.spool) }
      const data = [exchange.factsText, memberText(outcomeRecord(exchange, settled))]
      return deps.spool.append('requests', 'request.settled', subjectOf(exchange, deps), data, admission ?? REFUSABLE)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #report(recorded: boolean): void {
    const { exchange, ending, measured, deps } = this
    exchange.held?.settle((measured.promptTokens ?? 0) + (measured.completionTokens ?? 0))
    exchange.trace?.end(exchange, ending, measured)
    deps.observe(observedOf(exchange, ending, measured, this.#latencyMs, recorded))
  }
}

const hasFacts = (exchange: Exchange): exchange is Exchange & { readonly factsText: string } =>
  exchange.factsText !== null

const observedOf = (
  exchange: Exchange,
  ending: Ending,
  measured: Measured,
  latencyMs: number,
  recorded: boolean,
): Observed => ({
  outcome: ending.outcome,
  code: ending.error?.code ?? 'none',
  status: ending.status,
  error: ending.error,
  entry: exchange.entry,
  fallbackUsed: exchange.fallbackUsed(),
  attempts: exchange.attempts,
  stream: exchange.intent?.stream ?? false,
  latencyMs,
  ttftMs: exchange.firstTokenMs,
  promptTokens: measured.promptTokens ?? 0,
  completionTokens: measured.completionTokens ?? 0,
  costNanoUsd: measured.costNanoUsd ?? 0,
  costBasis: measured.basis,
  recorded,
})
