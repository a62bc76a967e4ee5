// Fairness between connections: of one that sends many requests at once some are begun, then those of others. Requests
// begin in stages (`lib/event-loop/stages.ts`).
import { type Beginner, stages } from '../event-loop/stages.ts'

const TURN_REQUESTS = 32

/** A connection that shares. */
export interface Turned extends Beginner {
  /** Receives the error that `begin` threw. */
  broke(error: unknown): void
}

export class FairTurns implements Beginner {
  /** It is queued to begin. */
  waits = false
  /** Other connections come before the rest of its requests. */
  rests = false
  /** Requests begun since the queue was empty, or since others came. */
  #begun = 0

  constructor(private readonly connection: Turned) {}

  /** Bytes have arrived. */
  wait(): void {
    if (this.waits) return
    this.waits = true
    stages.begins(this)
  }

  begin(): boolean {
    this.waits = false
    this.rests = false
    this.#begun = 0
    try {
      return this.connection.begin()
    } catch (error) {
      this.connection.broke(error)
      return false
    }
  }

  /** Counts a request that has begun while others wait behind it. */
  took(): void {
    if (++this.#begun < TURN_REQUESTS || this.rests) return
    this.rests = true
    this.wait()
  }
}
