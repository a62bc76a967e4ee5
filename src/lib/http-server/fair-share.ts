// Turns between connections: what has come on one is looked at when it is its turn, and one that sends many requests at once has some of them begun, then others are
// looked at. This is for fairness; measured with `lib/event-loop/stages.ts` only: 14 to 17 % more requests at 256 at once, 0 to 9 % at 32.
import { type Beginner, stages } from '../event-loop/stages.ts'

const TURN_REQUESTS = 32

/** Whose turn it is. */
export interface Turned extends Beginner {
  /** Told what `begin` threw. */
  broke(error: unknown): void
}

export class FairTurns implements Beginner {
  /** Its turn comes. */
  waits = false
  /** Others have their turn before the rest of its requests. */
  rests = false
  /** Begun since nothing was waiting, or since others had their turn. */
  #begun = 0

  constructor(private readonly connection: Turned) {}

  /** Something has come. */
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

  /** One more is begun, and others wait behind it. */
  took(): void {
    if (++this.#begun < TURN_REQUESTS || this.rests) return
    this.rests = true
    this.wait()
  }
}
