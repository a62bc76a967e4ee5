// Work of the data plane in stages, for several requests at a time: the code and memory that a stage touches are in the
// processor's caches for all but the first request (docs/decisions/0047-stages.md).
//
//  reads -> arrivals are delivered -> requests begin -> promises settle -> tasks of the end -> promises settle
//           (responses go on)        (at most 16)                         (the spool writes one batch)
//
// All of it is one iteration of the event loop.
import { drainMicrotasks } from 'bun:jsc'

/** An upstream response of which more bytes have arrived. */
export interface Arrival {
  /** Delivers them to the waiting reader. Must not throw. */
  deliver(): void
}

/** A connection with bytes that may be a request. */
export interface Beginner {
  /** True when a request has begun. Must not throw. May be called again when nothing is left to begin. */
  begin(): boolean
}

/**
 * Requests begun in one iteration. With fewer, fewer share the caches; with more, the first are evicted before their
 * responses come.
 */
export const MAX_BEGUN = 16
/**
 * Beginners that may wait. When there are more the first one begins at once and the iteration takes longer, which the
 * load gate detects.
 */
const MOST_WAITING = 512
/** Begun entries that may stand in front of the waiting ones. */
const MOST_TAKEN = 1_024

export class Stages {
  /** Those from `#first` on wait. At most as many as connections. */
  readonly #beginners: Beginner[] = []
  #first = 0
  /** The first one is being begun because too many wait. */
  #isCrowded = false
  #arrivals: Arrival[] = []
  #spare: Arrival[] = []
  readonly #tasks: (() => void)[] = []
  #isScheduled = false
  #isIterating = false

  /**
   * `defer`: calls its argument after what was read has been dispatched. `settle`: runs what resolved promises have
   * made runnable, until nothing is left.
   */
  constructor(
    private readonly defer: (turn: () => void) => void,
    private readonly settle: () => void,
  ) {}

  /** Delivers it in this iteration. */
  arrived(arrival: Arrival): void {
    this.#arrivals.push(arrival)
    this.#schedule()
  }

  /** Begins it in this iteration or a later one, in the order of the calls. */
  begins(beginner: Beginner): void {
    this.#beginners.push(beginner)
    this.#schedule()
    // A beginner may queue itself again at once.
    if (this.#waiting <= MOST_WAITING || this.#isCrowded) return
    this.#isCrowded = true
    try {
      this.#take().begin()
    } finally {
      this.#isCrowded = false
    }
  }

  /** Runs the task when the responses and requests of this iteration have gone as far as they can. */
  atEnd(task: () => void): void {
    this.#tasks.push(task)
    if (!this.#isIterating) this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.defer(this.#iterate)
  }

  readonly #iterate = (): void => {
    this.#isScheduled = false
    this.#isIterating = true
    try {
      this.#deliver()
      this.#begin()
      this.settle()
      this.#isIterating = false
      if (this.#tasks.length > 0) this.#finish()
    } finally {
      this.#isIterating = false
      this.#scheduleNext()
    }
  }

  /** Runs the tasks of the end of the iteration, and what waited for them. */
  #finish(): void {
    for (let left = this.#tasks.length; left > 0; left--) this.#tasks.shift()!()
    // Scheduled first: an iteration that runs within `settle` must already be scheduled.
    this.#scheduleNext()
    this.settle()
  }

  #scheduleNext(): void {
    if (this.#waiting > 0 || this.#arrivals.length > 0 || this.#tasks.length > 0) this.#schedule()
  }

  #deliver(): void {
    const arrivals = this.#arrivals
    if (arrivals.length === 0) return
    this.#arrivals = this.#spare
    this.#spare = arrivals
    for (const arrival of arrivals) arrival.deliver()
    arrivals.length = 0
  }

  #begin(): void {
    let begun = 0
    // Beginners that queue again come after the others.
    for (let left = this.#waiting; left > 0 && begun < MAX_BEGUN; left--) if (this.#take().begin()) begun++
  }

  get #waiting(): number {
    return this.#beginners.length - this.#first
  }

  #take(): Beginner {
    const beginner = this.#beginners[this.#first++]!
    if (this.#waiting === 0 || this.#first === MOST_TAKEN) this.#dropBegun()
    return beginner
  }

  /** Drops those that have begun. */
  #dropBegun(): void {
    this.#beginners.splice(0, this.#first)
    this.#first = 0
  }
}

/** The stages of this process. */
export const stages = new Stages((turn) => void setImmediate(turn), drainMicrotasks)

/**
 * Awaited between two stations of a request: all requests that continue in one iteration pass a station before the
 * first of them enters the next one, so that its code is in the caches (docs/decisions/0047-stages.md). It is resolved
 * already: a place in the queue of promises, and no object.
 */
export const inStep: Promise<void> = Promise.resolve()
