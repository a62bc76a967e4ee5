// Fairness between connections: of one that sends many requests at once some are begun, then those of others. Requests
// begin in stages (`lib/event-loop/stages.ts`).
import { type Beginner, stages } from '../event-loop/stages.ts'

const SHARE_REQUESTS = 32

/** A connection that shares. */
export interface SharingConnection extends Beginner {
  /** Receives the error that `begin` threw. */
  fail(error: unknown): void
}

export class FairShare implements Beginner {
  /** It is queued to begin. */
  isWaiting = false
  /** Other connections come before the rest of its requests. */
  isYielding = false
  /** Requests begun since the queue was empty, or since others came. */
  #begun = 0

  constructor(private readonly connection: SharingConnection) {}

  /** Bytes have arrived. */
  enqueue(): void {
    if (this.isWaiting) return
    this.isWaiting = true
    stages.begins(this)
  }

  begin(): boolean {
    this.isWaiting = false
    this.isYielding = false
    this.#begun = 0
    try {
      return this.connection.begin()
    } catch (error) {
      this.connection.fail(error)
      return false
    }
  }

  /** Counts a request that has begun while others wait behind it. */
  countRequest(): void {
    if (++this.#begun < SHARE_REQUESTS || this.isYielding) return
    this.isYielding = true
    this.enqueue()
  }
}
