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
const LESS = 0.7
/** At each look that is in time: while the thread rests now and then, and while it does not. */
const MORE = 1.1
const LITTLE_MORE = 1.005
/** A thread that rests for less than this part of the time that it could run has as much as it can do. */
const RESTS = 0.05
/** Of the delay that begins a bound, what ends its fall. */
const RELIEVED_DELAY = 0.4
/** Part of the newest look in what is usually let in, whatever it is late: over some seconds as much as can be served. */
const USUAL_WEIGHT_MS = 4_000
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
  /** Let in a second, on the average of some seconds. */
  #usual = 0
  /** The part of the time in which the thread could have run and had nothing to do, on the average of about a second. Null: not known. */
  #rest: number | null = null
  #refusedThen = 0
  #calmMs = 0

  constructor(private readonly settings: LoadGateSettings) {
    this.#lookedMs = settings.nowMs()
  }

  /** Requests a second that are let in; infinite while there is no bound. */
  get perSecond(): number {
    return this.#perSecond
  }

  get isBounded(): boolean {
    return this.#perSecond !== Number.POSITIVE_INFINITY
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

  /**
   * Called by the timer, with the resident memory and, where they are known, for how long the thread ran since the last look and for how long it could have run
   * and had nothing to do.
   */
  look(memoryBytes: number, times?: { readonly ranMs: number; readonly restedMs: number }): void {
    const { everyMs, maxDelayMs, maxMemoryBytes } = this.settings
    const nowMs = this.settings.nowMs()
    const elapsedMs = nowMs - this.#lookedMs
    this.#lookedMs = nowMs
    const letIn = ((this.#given - this.room) * 1_000) / Math.max(1, elapsedMs)
    // A start, a long fold: nobody who is refused would make it shorter.
    const lateMs = letIn === 0 ? 0 : Math.max(0, Math.min(elapsedMs, times?.ranMs ?? elapsedMs) - everyMs)
    const mostMs = maxDelayMs === null ? lateMs : MOST_LATE * maxDelayMs
    this.#lateMs += (Math.min(lateMs, mostMs) - this.#lateMs) * WEIGHT
    if (times !== undefined) {
      const before = this.#rest ?? 0
      this.#rest = before + (times.restedMs / Math.max(1, elapsedMs) - before) * WEIGHT
    }
    if (maxMemoryBytes !== null) this.#isShort = memoryBytes > maxMemoryBytes * (this.#isShort ? RELIEVED : 1)
    // Once there is a bound, it is to bring the delay well below what began it: else what piled up would stay.
    const mostLateMs = maxDelayMs === null || !this.isBounded ? maxDelayMs : maxDelayMs * RELIEVED_DELAY
    const isLate = mostLateMs !== null && this.#lateMs > mostLateMs
    this.#usual += (letIn - this.#usual) * Math.min(1, elapsedMs / USUAL_WEIGHT_MS)
    if (this.#isShort) this.#lower(letIn)
    else if (isLate && lateMs > mostLateMs) this.#lower(letIn)
    else if (isLate) this.#calmMs = 0
    else if (this.isBounded) this.#raise(elapsedMs)
    this.#refusedThen = this.refused
    this.#fill(elapsedMs)
  }

  #lower(letIn: number): void {
    this.#calmMs = 0
    this.#perSecond = Math.max(LEAST_PER_SECOND, Math.min(this.#perSecond, letIn) * LESS)
  }

  #raise(elapsedMs: number): void {
    this.#calmMs = this.refused === this.#refusedThen ? this.#calmMs + elapsedMs : 0
    const rests = this.#rest !== null && this.#rest > RESTS
    const more = this.#perSecond * (rests ? MORE : LITTLE_MORE)
    if (this.#calmMs >= CALM_MS) this.#perSecond = Number.POSITIVE_INFINITY
    // Where nobody knows whether it rests, what is usual is what it can.
    else this.#perSecond = rests || this.#rest === null ? Math.max(more, this.#usual) : more
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
