// Ships traces to an OTLP collector: a bounded queue, batches off the request path, one call at a time with its own
// deadline. A collector that hangs or is not reachable costs traces, which are counted, and nothing else.
import { type FinishedTrace, spansOf } from '../../inference/request/trace.ts'
import { Cancellation } from '../../lib/event-loop/cancellation.ts'
import type { Dial } from '../../lib/http-client/http-client.ts'
import { type Attributes, otlpTraces } from '../../lib/otlp.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'

export interface TraceExporterDeps {
  /** The whole URL: `http://collector:4318/v1/traces`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** The exporting resource: `service.name`, `service.version`, ... */
  readonly resource: Attributes
  readonly version: string
  readonly dial: Dial
  readonly diagnostics: Diagnostics
  readonly tuning?: Partial<typeof TUNING>
}

export interface TraceExporter {
  /** Queues one, or drops it when there is no room. */
  take(trace: FinishedTrace): void
  readonly counts: { readonly queued: number; readonly exported: number; readonly dropped: number }
  /** Sends what is queued, for a moment, then stops. */
  close(): Promise<void>
}

export const TUNING = {
  /** Traces that wait; beyond that they are dropped. */
  queue: 2_048,
  batch: 256,
  /** The first of a batch waits so long for others. */
  waitMs: 1_000,
  callMs: 10_000,
  /** A batch is sent so often before it is dropped. */
  tries: 3,
  backoffMs: 1_000,
  closeMs: 2_000,
}

const MAX_RESPONSE_BYTES = 65_536
/** Statuses after which the collector may accept a retry. */
const LATER: ReadonlySet<number> = new Set([429, 502, 503, 504])

export const openTraceExporter = (deps: TraceExporterDeps): TraceExporter => new Exporter(deps)

class Exporter implements TraceExporter {
  readonly #queue: FinishedTrace[] = []
  readonly #tuning: typeof TUNING
  #exported = 0
  #dropped = 0
  #timer: ReturnType<typeof setTimeout> | null = null
  #sending: Promise<void> | null = null
  #call: Cancellation | null = null
  #wake: (() => void) | null = null
  #closing = false
  /** The time that a close allows is over. */
  #isLate = false
  #isAway = false

  constructor(private readonly deps: TraceExporterDeps) {
    this.#tuning = { ...TUNING, ...deps.tuning }
  }

  get counts() {
    return { queued: this.#queue.length, exported: this.#exported, dropped: this.#dropped }
  }

  take(trace: FinishedTrace): void {
    if (this.#closing || this.#queue.length >= this.#tuning.queue) {
      this.#dropped++
      return
    }
    this.#queue.push(trace)
    if (this.#sending !== null) return
    if (this.#queue.length >= this.#tuning.batch) this.#schedule(0)
    else if (this.#timer === null) this.#schedule(this.#tuning.waitMs)
  }

  #schedule(ms: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#sending ??= this.#drain().finally(() => {
        this.#sending = null
        if (this.#queue.length > 0 && !this.#closing) this.#schedule(this.#tuning.waitMs)
      })
    }, ms)
  }

  /** Sends whole batches while there are any; at the end of the process, the rest too. */
  async #drain(): Promise<void> {
    do {
      const batch = this.#queue.splice(0, this.#tuning.batch)
      if (batch.length === 0) return
      if (await this.#insist(batch)) this.#exported += batch.length
      else this.#dropped += batch.length
    } while (!this.#isLate && (this.#queue.length >= this.#tuning.batch || this.#closing))
  }

  async #insist(batch: readonly FinishedTrace[]): Promise<boolean> {
    const { resource, version } = this.deps
    const body = otlpTraces(resource, { name: 'gatelog', version }, batch.flatMap(spansOf))
    for (let tried = 1; ; tried++) {
      const problem = await this.#send(body)
      this.#report(problem?.reason ?? null)
      if (problem === null) return true
      if (!problem.mayWorkLater || tried >= this.#tuning.tries || this.#closing) return false
      await this.#pause(this.#tuning.backoffMs * 2 ** (tried - 1))
    }
  }

  /** Null: the collector has it. */
  async #send(body: string): Promise<{ readonly reason: string; readonly mayWorkLater: boolean } | null> {
    const { url, headers, dial } = this.deps
    const call = new Cancellation()
    this.#call = call
    const timer = setTimeout(() => call.abort(), this.#tuning.callMs)
    try {
      const request = { method: 'POST', url, headers: { 'content-type': 'application/json', ...headers }, body }
      const { callMs } = this.#tuning
      const answer = await dial(request, { signal: call, connectMs: callMs, headersMs: callMs })
      await answer.text(MAX_RESPONSE_BYTES)
      const { status } = answer
      return status >= 200 && status <= 299 ? null : { reason: `status ${status}`, mayWorkLater: LATER.has(status) }
    } catch (error) {
      return { reason: error instanceof Error ? error.message : String(error), mayWorkLater: true }
    } finally {
      clearTimeout(timer)
      this.#call = null
    }
  }

  /** One line when it begins to fail, one when it works again. */
  #report(problem: string | null): void {
    if ((problem !== null) === this.#isAway) return
    this.#isAway = problem !== null
    if (problem === null) this.deps.diagnostics.info('traces_exported_again', {})
    else this.deps.diagnostics.warn('traces_not_exported', { reason: problem })
  }

  async #pause(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    this.#wake = resolve
    await promise
    clearTimeout(timer)
    this.#wake = null
  }

  async close(): Promise<void> {
    this.#closing = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    const late = setTimeout(() => {
      this.#isLate = true
      this.#call?.abort()
    }, this.#tuning.closeMs)
    this.#wake?.()
    await (this.#sending ?? this.#drain())
    clearTimeout(late)
    this.#dropped += this.#queue.splice(0).length
  }
}
