// How an append comes to carry many commands: those who were just answered are about to ask again, and the first of them must not be sent alone.
import type { Changed } from '../condition.ts'

/** At most so long an append waits for as many commands as the last one carried. */
const GATHER_MS = 2

export class Gathering {
  #carried = 0

  constructor(readonly changed: Pick<Changed, 'until'>) {}

  carried(commands: number): void {
    this.#carried = commands
  }

  /** Waits when fewer commands wait than the last append carried. True when it did: the state may have moved meanwhile. */
  async waited(waiting: () => number): Promise<boolean> {
    const expected = this.#carried
    if (waiting() >= expected) return false
    this.#carried = 0
    await this.changed.until(() => waiting() >= expected, GATHER_MS)
    return true
  }
}
