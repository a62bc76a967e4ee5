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
const MORE = 1.03
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

  /** Called by the timer, with the resident memory. */
  look(memoryBytes: number): void {
    const { everyMs, maxDelayMs, maxMemoryBytes } = this.settings
    const nowMs = this.settings.nowMs()
    const elapsedMs = nowMs - this.#lookedMs
    this.#lookedMs = nowMs
    const letIn = ((this.#given - this.room) * 1_000) / Math.max(1, elapsedMs)
    // A start, a long fold: nobody who is refused would make it shorter.
    const lateMs = letIn === 0 ? 0 : Math.max(0, elapsedMs - everyMs)
    const mostMs = maxDelayMs === null ? lateMs : MOST_LATE * maxDelayMs
    this.#lateMs += (Math.min(lateMs, mostMs) - this.#lateMs) * WEIGHT
    if (maxMemoryBytes !== null) this.#isShort = memoryBytes > maxMemoryBytes * (this.#isShort ? RELIEVED : 1)
    const isLate = maxDelayMs !== null && this.#lateMs > maxDelayMs
    if (isLate || this.#isShort) this.#lower(letIn, this.#isShort || lateMs > maxDelayMs!)
    else if (this.#perSecond !== Number.POSITIVE_INFINITY) this.#raise(elapsedMs)
    this.#refusedThen = this.refused
    this.#fill(elapsedMs)
  }

  /** From what was really let in. The average trails behind: what this look did not find late is not lowered further. */
  #lower(letIn: number, again: boolean): void {
    this.#calmMs = 0
    const from = Math.min(this.#perSecond, letIn)
    if (again) this.#perSecond = Math.max(LEAST_PER_SECOND, from * LESS)
  }

  #raise(elapsedMs: number): void {
    this.#calmMs = this.refused === this.#refusedThen ? this.#calmMs + elapsedMs : 0
    this.#perSecond = this.#calmMs >= CALM_MS ? Number.POSITIVE_INFINITY : this.#perSecond * MORE
  }

  /** What was not used is not kept; after a late look there is room for two turns at most. */
  #fill(elapsedMs: number): void {
    const turnMs = Math.min(elapsedMs, 2 * this.settings.everyMs)
    this.room =
      this.#perSecond === Number.POSITIVE_INFINITY ? STEP : Math.max(1, Math.round((this.#perSecond * turnMs) / 1_000))
    this.#given = this.room
  }
}
