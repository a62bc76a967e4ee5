// Admission by load: how many requests are admitted until the next measurement of the event loop and the memory. A
// timer elsewhere calls `measure`; a request costs one comparison and one subtraction
// (docs/decisions/0035-admission-by-load.md).
//
// Two bounds. Within an iteration of the event loop requests are admitted in steps, as long as the iteration is not
// late: what has piled up in the sockets is not admitted at once. When iterations stay late, because admitted requests
// have much to do, a rate bounds admissions and falls until iterations are in time.

export interface LoadGateSettings {
  /** The intended interval of `measure`. */
  readonly everyMs: number
  /** How late the event loop may be, averaged over about a second. Null: unlimited. */
  readonly maxDelayMs: number | null
  /** Resident memory above which fewer requests are admitted. Null: unlimited. */
  readonly maxMemoryBytes: number | null
  /** Monotonic milliseconds. */
  nowMs(): number
}

/** Requests admitted between two readings of the clock. */
const STEP = 32
/**
 * An iteration that is late by this many times the bound admits no more: a first iteration is slow on a busy machine,
 * which is no overload by itself.
 */
const LONG_ITERATION = 5
/** Requests a second that are always admitted, so that the end of an overload is detected. */
const LEAST_PER_SECOND = 50
/** Weight of the newest measurement in the average delay. */
const WEIGHT = 0.25
/** One delay counts for at most this many times the bound: a garbage collection is no overload. */
const MOST_LATE = 4
const FALL = 0.7
/** Factors of the rate at each measurement in time: while the thread has idle time, and while it has none. */
const RISE = 1.1
const SLOW_RISE = 1.005
/** A thread with less idle time than this part of the time that it could run is at capacity. */
const IDLE_SHARE = 0.05
/** Part of the delay bound at which the fall of the rate ends. */
const RELIEVED_DELAY = 0.4
/**
 * The usual rate of admissions, late or not, is averaged over this time: over some seconds it equals what can be
 * served.
 */
const USUAL_WEIGHT_MS = 4_000
/** The rate bound is lifted after this time without a refusal. */
const CALM_MS = 5_000
/** Memory is sufficient again below this part of its bound. */
const RELIEVED = 0.95

/** Admits requests at a rate that falls while the event loop is late or memory is short, and rises slowly otherwise. */
export class LoadGate {
  /** Requests that may still be admitted. The caller subtracts one for each; at 0, `more` may add some. */
  room = STEP
  /** Refused requests. The caller adds one for each. */
  refused = 0
  /** What was added to `room` since the last measurement. */
  #given = STEP
  #measuredMs: number
  #perSecond = Number.POSITIVE_INFINITY
  #lateMs = 0
  #isShort = false
  /** Requests admitted a second, averaged over some seconds. */
  #usualPerSecond = 0
  /**
   * The part of the time in which the thread was idle while it could have run, averaged over about a second. Null:
   * unknown.
   */
  #idleShare: number | null = null
  #refusedBefore = 0
  #calmMs = 0

  constructor(private readonly settings: LoadGateSettings) {
    this.#measuredMs = settings.nowMs()
  }

  /** Admitted requests a second; infinite without a rate bound. */
  get perSecond(): number {
    return this.#perSecond
  }

  get isBounded(): boolean {
    return this.#perSecond !== Number.POSITIVE_INFINITY
  }

  /** How late the event loop is, averaged over about a second. */
  get delayMs(): number {
    return this.#lateMs
  }

  /** Called at `room` 0: adds some, unless the rate is bounded or this iteration of the event loop is late. */
  more(): boolean {
    const { maxDelayMs, everyMs, nowMs } = this.settings
    if (this.#perSecond !== Number.POSITIVE_INFINITY) return false
    if (maxDelayMs !== null && nowMs() - this.#measuredMs > everyMs + LONG_ITERATION * maxDelayMs) return false
    this.room += STEP
    this.#given += STEP
    return true
  }

  /**
   * Called by the timer with the resident memory and, where known, how long the thread ran since the last measurement
   * (`ranMs`) and how long it was idle while it could have run (`idleMs`).
   */
  measure(memoryBytes: number, times?: { readonly ranMs: number; readonly idleMs: number }): void {
    const { everyMs, maxDelayMs, maxMemoryBytes } = this.settings
    const nowMs = this.settings.nowMs()
    const elapsedMs = nowMs - this.#measuredMs
    this.#measuredMs = nowMs
    const letIn = ((this.#given - this.room) * 1_000) / Math.max(1, elapsedMs)
    // Late without admissions (a start, a long fold): refusing requests would not shorten it.
    const lateMs = letIn === 0 ? 0 : Math.max(0, Math.min(elapsedMs, times?.ranMs ?? elapsedMs) - everyMs)
    const mostMs = maxDelayMs === null ? lateMs : MOST_LATE * maxDelayMs
    this.#lateMs += (Math.min(lateMs, mostMs) - this.#lateMs) * WEIGHT
    if (times !== undefined) {
      const before = this.#idleShare ?? 0
      this.#idleShare = before + (times.idleMs / Math.max(1, elapsedMs) - before) * WEIGHT
    }
    if (maxMemoryBytes !== null) this.#isShort = memoryBytes > maxMemoryBytes * (this.#isShort ? RELIEVED : 1)
    // Under a rate bound the delay must fall well below the one that caused it: else what piled up would stay.
    const mostLateMs = maxDelayMs === null || !this.isBounded ? maxDelayMs : maxDelayMs * RELIEVED_DELAY
    const isLate = mostLateMs !== null && this.#lateMs > mostLateMs
    this.#usualPerSecond += (letIn - this.#usualPerSecond) * Math.min(1, elapsedMs / USUAL_WEIGHT_MS)
    if (this.#isShort) this.#lower(letIn)
    else if (isLate && lateMs > mostLateMs) this.#lower(letIn)
    else if (isLate) this.#calmMs = 0
    else if (this.isBounded) this.#raise(elapsedMs)
    this.#refusedBefore = this.refused
    this.#fill(elapsedMs)
  }

  #lower(letIn: number): void {
    this.#calmMs = 0
    this.#perSecond = Math.max(LEAST_PER_SECOND, Math.min(this.#perSecond, letIn) * FALL)
  }

  #raise(elapsedMs: number): void {
    this.#calmMs = this.refused === this.#refusedBefore ? this.#calmMs + elapsedMs : 0
    const isIdle = this.#idleShare !== null && this.#idleShare > IDLE_SHARE
    const more = this.#perSecond * (isIdle ? RISE : SLOW_RISE)
    if (this.#calmMs >= CALM_MS) this.#perSecond = Number.POSITIVE_INFINITY
    // Where idle time is unknown, the usual rate counts as the capacity.
    else this.#perSecond = isIdle || this.#idleShare === null ? Math.max(more, this.#usualPerSecond) : more
  }

  /** Unused room expires. A late measurement leaves room for an iteration that is as late as permitted. */
  #fill(elapsedMs: number): void {
    const { everyMs, maxDelayMs } = this.settings
    const iterationMs = Math.min(elapsedMs, everyMs + (maxDelayMs ?? everyMs))
    this.room =
      this.#perSecond === Number.POSITIVE_INFINITY
        ? STEP
        : Math.max(1, Math.round((this.#perSecond * iterationMs) / 1_000))
    this.#given = this.room
  }
}
