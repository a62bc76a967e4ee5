// Work of the data plane is done in stages, for several requests at a time: what a stage touches, code and memory, is in the processor's caches for all but the
// first of them (docs/decisions/0047-stages.md). A turn of the event loop reads what has come; then answers go on, then requests are begun, and when all of these
// have gone as far as they can, what waits for the end of the turn is done: the spool writes one batch for them.
import { drainMicrotasks } from 'bun:jsc'

/** An answer of an upstream that more has come of. */
export interface Arrival {
  /** Tells whoever waits for it. Must not throw. */
  tell(): void
}

/** A connection with bytes that may be a request. */
export interface Beginner {
  /** True when a request is under way now. Must not throw. Called once more, perhaps, when nothing is left to begin. */
  begin(): boolean
}

/** Begun in one turn: fewer share less, and of more the first are cold again when their answers come (256 at once: docs/profile.md). */
const MOST_BEGUN = 16
/** Waiting to be begun, a power of two. When more come the first begins at once, and the turn takes longer: the load gate is to see that. */
const MOST_WAITING = 512

export class Stages {
  /** A ring. */
  readonly #beginners: (Beginner | null)[] = new Array(MOST_WAITING).fill(null)
  #first = 0
  #waiting = 0
  #arrivals: Arrival[] = []
  #spare: Arrival[] = []
  readonly #tasks: (() => void)[] = []
  #isScheduled = false
  #isTurning = false

  /** `soon`: calls it when what has been read was told of. `settle`: lets what promises have resolved run as far as it can. */
  constructor(
    private readonly soon: (turn: () => void) => void,
    private readonly settle: () => void,
  ) {}

  /** It is told in this turn. */
  arrived(arrival: Arrival): void {
    this.#arrivals.push(arrival)
    this.#schedule()
  }

  /** It begins in this turn or a later one, in the order of these calls. */
  begins(beginner: Beginner): void {
    if (this.#waiting === MOST_WAITING) this.#take().begin()
    this.#beginners[(this.#first + this.#waiting++) % MOST_WAITING] = beginner
    this.#schedule()
  }

  /** Done when the answers and requests of this turn have gone as far as they can. */
  atEnd(task: () => void): void {
    this.#tasks.push(task)
    if (!this.#isTurning) this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.soon(this.#turn)
  }

  readonly #turn = (): void => {
    this.#isScheduled = false
    this.#isTurning = true
    try {
      this.#tell()
      this.#begin()
      this.settle()
      this.#isTurning = false
      for (let left = this.#tasks.length; left > 0; left--) this.#tasks.shift()!()
    } finally {
      this.#isTurning = false
      if (this.#waiting > 0 || this.#arrivals.length > 0 || this.#tasks.length > 0) this.#schedule()
    }
  }

  #tell(): void {
    const arrivals = this.#arrivals
    if (arrivals.length === 0) return
    this.#arrivals = this.#spare
    this.#spare = arrivals
    for (const arrival of arrivals) arrival.tell()
    arrivals.length = 0
  }

  #begin(): void {
    let begun = 0
    while (this.#waiting > 0 && begun < MOST_BEGUN) if (this.#take().begin()) begun++
  }

  #take(): Beginner {
    const beginner = this.#beginners[this.#first]!
    this.#beginners[this.#first] = null
    this.#first = (this.#first + 1) % MOST_WAITING
    this.#waiting--
    return beginner
  }
}

/** Those of this process. */
export const stages = new Stages((turn) => void setImmediate(turn), drainMicrotasks)
