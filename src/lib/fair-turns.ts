// Turns between connections: one that sends many requests at once has some of them begun, then others are looked at.

const TURN_REQUESTS = 32

export class FairTurns {
  /** Begun since nothing was waiting, or since others had their turn. */
  #begun = 0
  /** Others have their turn. */
  rests = false

  constructor(private readonly whenRested: () => void) {}

  /** Nothing is waiting. */
  fresh(): void {
    this.#begun = 0
  }

  /** One more is begun, and others wait behind it. */
  took(): void {
    if (++this.#begun < TURN_REQUESTS || this.rests) return
    this.rests = true
    setImmediate(this.#rested)
  }

  readonly #rested = (): void => {
    this.rests = false
    this.#begun = 0
    this.whenRested()
  }
}
