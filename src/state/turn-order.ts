// Instances that write at the same time take turns, one append each: otherwise one append would only beat the others,
// whose writers then decide again. A courtesy like `write-turns.ts`, never part of the counting rule: a guess about the
// others that may be wrong.

/**
 * An instance is still writing when its last two appends are no farther apart than this, and the last one is no older.
 */
const BUSY_MS = 100
/** How long the others wait for the append of the instance that is next. */
const PLACE_MS = 25
const MAX_WRITERS = 64

interface Writer {
  /** Log time of its last append. */
  logAtMs: number
  seenMs: number
  isBusy: boolean
}

export class TurnOrder {
  readonly #writers = new Map<string, Writer>()
  /** The instance of the last counted decision, and when the time of the next instance begins. */
  #last = ''
  #sinceMs = Number.NEGATIVE_INFINITY

  /** `nowMs`: a clock that is never set back. */
  constructor(readonly nowMs: () => number) {}

  /** A decision of that instance was folded, and counts or has lost. All decisions of one append have one log time. */
  wrote(instance: string, logAtMs: number, counts: boolean): void {
    const seenMs = this.nowMs()
    const writer = this.#writers.get(instance)
    const isNew = writer?.logAtMs !== logAtMs
    // The instances before it in the order had nothing to write.
    if (isNew && counts) for (const silent of this.#ahead(instance)) silent.isBusy = false
    if (writer === undefined) {
      if (this.#writers.size === MAX_WRITERS) this.#forget()
      this.#writers.set(instance, { logAtMs, seenMs, isBusy: false })
    } else {
      if (isNew) writer.isBusy = Math.abs(logAtMs - writer.logAtMs) <= BUSY_MS
      writer.logAtMs = logAtMs
      writer.seenMs = seenMs
    }
    if (!counts) return
    this.#last = instance
    this.#sinceMs = seenMs
  }

  /** Milliseconds that the instance should wait for those before it in the order; 0: continue. */
  holdMs(instance: string): number {
    const ahead = this.#ahead(instance).length
    return ahead === 0 ? 0 : Math.max(0, this.#sinceMs + ahead * PLACE_MS - this.nowMs())
  }

  /**
   * The busy ones between the last writer and this one, in the order of their names, which is the same on all
   * instances.
   */
  #ahead(instance: string): readonly Writer[] {
    const now = this.nowMs()
    const last = this.#last
    const ahead: Writer[] = []
    for (const [name, writer] of this.#writers) {
      if (!writer.isBusy || now - writer.seenMs > BUSY_MS || name === last || name === instance) continue
      if (comesBefore(name, instance, last)) ahead.push(writer)
    }
    return ahead
  }

  #forget(): void {
    const [oldest] = this.#writers.keys()
    if (oldest !== undefined) this.#writers.delete(oldest)
  }
}

/** On a circle that begins behind `last`. */
const comesBefore = (name: string, other: string, last: string): boolean =>
  name > last === other > last ? name < other : name > last
