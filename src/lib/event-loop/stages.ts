// Work of the data plane is done in stages, for several requests at a time: what a stage touches, code and memory, is in the processor's caches for all but the
// first of them (docs/decisions/0047-stages.md). A turn of the event loop reads what has come; then answers go on, then requests are begun, and when all of these
// have gone as far as they can, what waits for the end of the turn is done: the spool writes one batch for them, and they go on.
// All of it, with sixteen requests begun in a turn: 1.28 of the requests a second at 256 at once, 1.09 and 1.11 at 32,
// 1.17 and 1.19 of streams; that few are begun in a turn, by itself: 1.14 to 1.17 at 256 at once, 1.00 to 1.09 at 32.
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

/** Begun in one turn: fewer share less, and of more the first are cold again when their answers come. CPU to eight of them: 0.93 to 0.97 (twelve 0.91 to 1.02, 24 0.98, four 1.13). */
export const MOST_BEGUN = 16
/** Waiting to be begun. When more come the first begins at once, and the turn takes longer: the load gate is to see that. */
const MOST_WAITING = 512
/** So many that have begun stand before those who wait. */
const MOST_TAKEN = 1_024

export class Stages {
  /** From `#first` on they wait. No more of them than connections. */
  readonly #beginners: Beginner[] = []
  #first = 0
  /** The first begins because too many wait. */
  #isCrowded = false
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
    this.#beginners.push(beginner)
    this.#schedule()
    // One that begins may stand behind the others again at once.
    if (this.#waiting <= MOST_WAITING || this.#isCrowded) return
    this.#isCrowded = true
    try {
      this.#take().begin()
    } finally {
      this.#isCrowded = false
    }
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
      if (this.#tasks.length > 0) this.#finish()
    } finally {
      this.#isTurning = false
      this.#goOn()
    }
  }

  /** What waits for the end of the turn, and what waited for that. */
  #finish(): void {
    for (let left = this.#tasks.length; left > 0; left--) this.#tasks.shift()!()
    // First, as it comes first: a turn of the loop within what is settled now has it.
    this.#goOn()
    this.settle()
  }

  #goOn(): void {
    if (this.#waiting > 0 || this.#arrivals.length > 0 || this.#tasks.length > 0) this.#schedule()
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
    // Those who wait again have their turn after others.
    for (let left = this.#waiting; left > 0 && begun < MOST_BEGUN; left--) if (this.#take().begin()) begun++
  }

  get #waiting(): number {
    return this.#beginners.length - this.#first
  }

  #take(): Beginner {
    const beginner = this.#beginners[this.#first++]!
    if (this.#waiting === 0 || this.#first === MOST_TAKEN) this.#forget()
    return beginner
  }

  /** Those who have begun. */
  #forget(): void {
    this.#beginners.splice(0, this.#first)
    this.#first = 0
  }
}

/** Those of this process. */
export const stages = new Stages((turn) => void setImmediate(turn), drainMicrotasks)

/**
 * Awaited between two stations of a request: those that go on in one turn are all through a station before the first of them is at the next, so that its code is in
 * the caches for all but the first: 1.07 of the requests a second at 256 at once, 1.075 at 32, 1.05 of streams (docs/decisions/0047-stages.md). It is resolved
 * already: a place in the queue of promises, and no object.
 */
export const inStep: Promise<void> = Promise.resolve()
