// Admission by load: how many requests may be let in until the next look at the event loop and the memory. The look is elsewhere, on a timer;
// a request costs one comparison and one subtraction (docs/decisions/0035-admission-by-load.md).
//
// Two bounds. Within a turn of the event loop requests are let in by the step, for as long as the turn is not late already: what has piled up in
// the sockets is not taken in at once. And when turns stay late, because those that are in have much to do, a rate is kept that falls until they are not.

export interface LoadGateSettings {
  /** How often `look` is meant to be called. */
  readonly everyMs: number
  /** How late the event loop may be, on the average of about a second. Null: never too late. */
  readonly maxDelayMs: number | null
  /** Resident memory above which less is let in. Null: no bound. */
  readonly maxMemoryBytes: number | null
  /** Monotonic. */
  nowMs(): number
}

/** Let in between two glances at the clock. */
const STEP = 32
/** A turn that takes longer than this many times the bound lets in no more: a first turn is slow on a busy machine, and no overload by itself. */
const LONG_TURN = 5
/** Whatever the load: so many requests a second are tried, or nobody would notice that it is over. */
const LEAST_PER_SECOND = 50
/** Part of the newest look in the average delay. */
const WEIGHT = 0.25
/** One pause, however long, counts for no more than this many times the bound: a collection of garbage is no overload. */
const MOST_LATE = 4
const LESS = 0.9
/** What a lower rate does is seen so much later: until then it is not lowered again. */
const LOWERED_FOR_MS = 500
/** At each look, up to near the rate at which it was last too much, and from there. */
const MORE = 1.03
const LITTLE_MORE = 1.005
const NEAR = 0.9
/** A thread that rests for more than this part of the time that it could run is not what makes its loop late. */
const MOST_IDLE = 0.15
/** Without a refusal for so long, the bound is lifted. */
const CALM_MS = 5_000
/** Memory is enough again below this part of its bound. */
const RELIEVED = 0.95

/** Lets requests in at a rate that falls while the event loop is late or memory is short, and rises slowly when it is not. */
export class LoadGate {
  /** Requests that may still come in. Whoever lets one in takes one; when there is none left, `more` may find some. */
  room = STEP
  /** Requests that were refused here. Whoever refuses one adds one. */
  refused = 0
  /** What `room` was given since the last look. */
  #given = STEP
  #lookedMs: number
  #perSecond = Number.POSITIVE_INFINITY
  #lateMs = 0
  #isShort = false
  /** The rate at which it was last too much. */
  #tooMuch = Number.POSITIVE_INFINITY
  #loweredMs = Number.NEGATIVE_INFINITY
  /** Of its time, the part that the thread did not use though it could run; on the average of about a second. */
  #idle = 0
  #refusedThen = 0
  #calmMs = 0

  constructor(private readonly settings: LoadGateSettings) {
    this.#lookedMs = settings.nowMs()
  }

  /** Requests a second that are let in; infinite while there is no bound. */
  get perSecond(): number {
    return this.#perSecond
  }

  /** How late the event loop is, on the average of about a second. */
  get delayMs(): number {
    return this.#lateMs
  }

  /** Called when there is no room: makes some, unless the rate is bounded or this turn of the event loop is late. */
  more(): boolean {
    const { maxDelayMs, everyMs, nowMs } = this.settings
    if (this.#perSecond !== Number.POSITIVE_INFINITY) return false
    if (maxDelayMs !== null && nowMs() - this.#lookedMs > everyMs + LONG_TURN * maxDelayMs) return false
    this.room += STEP
    this.#given += STEP
    return true
  }

  /** Called by the timer, with the resident memory and the part of the time since the last look in which the thread could have run and had nothing to do. */
  look(memoryBytes: number, idle = 0): void {
    const { everyMs, maxDelayMs, maxMemoryBytes } = this.settings
    const nowMs = this.settings.nowMs()
    const elapsedMs = nowMs - this.#lookedMs
    this.#lookedMs = nowMs
    const letIn = ((this.#given - this.room) * 1_000) / Math.max(1, elapsedMs)
    // A start, a long fold: nobody who is refused would make it shorter.
    const lateMs = letIn === 0 ? 0 : Math.max(0, elapsedMs - everyMs)
    const mostMs = maxDelayMs === null ? lateMs : MOST_LATE * maxDelayMs
    this.#lateMs += (Math.min(lateMs, mostMs) - this.#lateMs) * WEIGHT
    this.#idle += (idle - this.#idle) * WEIGHT
    if (maxMemoryBytes !== null) this.#isShort = memoryBytes > maxMemoryBytes * (this.#isShort ? RELIEVED : 1)
    const isLate = maxDelayMs !== null && this.#lateMs > maxDelayMs && this.#idle < MOST_IDLE
    if (this.#isShort) this.#lower(letIn, nowMs)
    // The averages trail behind: what this look did not find late, or what was just lowered, is not lowered further.
    else if (isLate && lateMs > maxDelayMs && nowMs - this.#loweredMs >= LOWERED_FOR_MS) this.#lower(letIn, nowMs)
    else if (isLate) this.#calmMs = 0
    else if (this.#perSecond !== Number.POSITIVE_INFINITY) this.#raise(elapsedMs)
    this.#refusedThen = this.refused
    this.#fill(elapsedMs)
  }

  /** The first time from what was really let in. */
  #lower(letIn: number, nowMs: number): void {
    this.#calmMs = 0
    this.#loweredMs = nowMs
    this.#tooMuch = this.#perSecond === Number.POSITIVE_INFINITY ? letIn : this.#perSecond
    this.#perSecond = Math.max(LEAST_PER_SECOND, this.#tooMuch * LESS)
  }

  #raise(elapsedMs: number): void {
    this.#calmMs = this.refused === this.#refusedThen ? this.#calmMs + elapsedMs : 0
    const isNear = this.#perSecond > this.#tooMuch * NEAR && this.#perSecond < this.#tooMuch / NEAR
    this.#perSecond =
      this.#calmMs >= CALM_MS ? Number.POSITIVE_INFINITY : this.#perSecond * (isNear ? LITTLE_MORE : MORE)
  }

  /** What was not used is not kept; after a late look there is room for a turn that is late by as much as it may. */
  #fill(elapsedMs: number): void {
    const { everyMs, maxDelayMs } = this.settings
    const turnMs = Math.min(elapsedMs, everyMs + (maxDelayMs ?? everyMs))
    this.room =
      this.#perSecond === Number.POSITIVE_INFINITY ? STEP : Math.max(1, Math.round((this.#perSecond * turnMs) / 1_000))
    this.#given = this.room
  }
}
