// The requests in flight: their bound, their deadlines, and their orderly end.
import { IndexSet } from '../../lib/collections/index-set.ts'
import { stages } from '../../lib/event-loop/stages.ts'
import { GatewayError, stopping } from '../../wire/errors.ts'
import type { Exchange } from './exchange.ts'

/**
 * Precision of deadlines: one sweep over all requests instead of a timer for each (`lib/event-loop/deadlines.ts`). The
 * sweep also notices clients that disconnected.
 */
const SWEEP_MS = 50
/** Requests that are ended after the deadline of a drain have this long to be settled. */
const SETTLE_MS = 2_000

export class ActiveRequests {
  readonly #all = new IndexSet<Exchange>()
  #sweep: ReturnType<typeof setInterval> | null = null
  #draining = false
  #whenEmpty: (() => void) | null = null

  constructor(private readonly limit: number) {}

  get size(): number {
    return this.#all.size
  }

  /** Adds a request. Throws 429 while there are too many, and 503 while the process stops. */
  enter(exchange: Exchange): void {
    if (this.#draining) throw stopping()
    if (this.#all.size >= this.limit) {
      throw new GatewayError('rate_limited', 'too many requests are in flight', { retryAfterS: 1 })
    }
    this.#all.add(exchange)
    if (this.#sweep === null) this.#beginSweeps()
  }

  #beginSweeps(): void {
    this.#sweep = setInterval(() => stages.atEnd(this.#endOverdue), SWEEP_MS)
    this.#sweep.unref()
  }

  /** Called on every way out. Releases what the request still holds of a provider. */
  leave(exchange: Exchange): void {
    exchange.call?.end('abandoned')
    this.#all.delete(exchange)
    exchange.client?.resumeDeadlines?.()
    if (this.#all.size === 0) this.#whenEmpty?.()
  }

  /** Refuses new requests. */
  close(): void {
    this.#draining = true
  }

  /**
   * Refuses new requests and waits for those in flight; those left after the time are ended and settled as interrupted.
   */
  async drain(timeoutMs: number): Promise<void> {
    this.close()
    if (await this.#empty(timeoutMs)) return
    this.#all.each((exchange) => exchange.end('shutdown'))
    await this.#empty(SETTLE_MS)
  }

  async #empty(timeoutMs: number): Promise<boolean> {
    if (this.#all.size === 0) return true
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const timer = setTimeout(() => resolve(false), timeoutMs)
    this.#whenEmpty = () => resolve(true)
    const empty = await promise
    clearTimeout(timer)
    this.#whenEmpty = null
    return empty
  }

  /**
   * At the end of an iteration: bytes that came in time are processed by then, however long the process was suspended.
   */
  readonly #endOverdue = (): void => {
    if (this.#all.size === 0) {
      if (this.#sweep !== null) clearInterval(this.#sweep)
      this.#sweep = null
      return
    }
    const nowMs = performance.now()
    this.#all.each((exchange) => {
      exchange.watchClient()
      if (nowMs >= exchange.deadlineMs) {
        exchange.deadlineMs = Number.POSITIVE_INFINITY
        exchange.end('total')
      } else if (nowMs >= exchange.waitDeadlineMs) exchange.endWait()
    })
  }
}
