// States of the past: folded again from the nearest stored snapshot, on request, one at a time.
import type { ControlState, Folded } from '../../domain/control.ts'
import type { EventLog, LogRecord } from '../../log/port.ts'
import { ChainFold, CONTROL, politeness } from '../fold.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { RecordIndex } from './record-index.ts'

/** Number of cached states, by their next offset: a page of the console requests the same one many times. */
const CACHED_STATES = 4
/** Bound of the rows in all cached states; the state that was requested last is cached in any case. */
const CACHED_ROWS = 500_000

export interface PastState {
  /** Callers must not change it. */
  readonly state: ControlState
  /** Log time up to here, for the fold of what follows. */
  readonly logAtMs: number
}

export class PastStates {
  /** In the order of use, the newest last. */
  readonly #cached = new Map<number, PastState>()

  constructor(
    readonly log: EventLog,
    readonly macKey: Uint8Array,
    readonly checkpoints: Pick<Checkpoints, 'before'>,
    readonly signal: AbortSignal,
  ) {}

  /** The state after everything below `next`, which the record index contains. */
  async at(next: number, index: RecordIndex): Promise<PastState> {
    const cached = this.#cached.get(next)
    if (cached !== undefined) {
      this.#cached.delete(next)
      this.#cached.set(next, cached)
      return cached
    }
    const { state, logAtMs } = await this.#foldTo(next, index)
    const past = { state, logAtMs }
    this.#keep(next, past)
    return past
  }

  /**
   * Folds on from the state below `from`, and calls back with the effect of each decision; ends when the callback
   * returns false.
   */
  async follow(
    from: number,
    index: RecordIndex,
    callback: (record: LogRecord, id: string, folded: Folded) => boolean,
  ): Promise<void> {
    const fold = await this.#foldTo(from, index)
    for await (const record of recordsOf(this.log, fold.next, index.next, this.signal)) {
      const step = fold.take(record, true)
      if (step.kind === 'counts' && !callback(record, step.id, step.folded)) return
    }
  }

  async #foldTo(next: number, index: RecordIndex): Promise<ChainFold> {
    const start = await this.checkpoints.before(next, (offset, tip) => index.mayEnd(offset, tip))
    const fold = new ChainFold(this.macKey, start)
    for await (const record of recordsOf(this.log, fold.next, next, this.signal)) fold.take(record, true)
    return fold
  }

  #keep(next: number, past: PastState): void {
    this.#cached.set(next, past)
    let rows = 0
    for (const [age, [offset, each]] of [...this.#cached].toReversed().entries()) {
      for (const table of each.state.tables()) rows += table.size
      if (age > 0 && (rows > CACHED_ROWS || age >= CACHED_STATES)) this.#cached.delete(offset)
    }
  }
}

/** The records from one offset to below another, which the log holds; yields to other work now and then. */
export async function* recordsOf(
  log: EventLog,
  from: number,
  end: number,
  signal: AbortSignal,
): AsyncGenerator<LogRecord> {
  if (from >= end) return
  const pause = politeness()
  const reading = new AbortController()
  const stop = () => reading.abort()
  signal.addEventListener('abort', stop)
  try {
    for await (const batch of log.read(CONTROL, 0, from, reading.signal)) {
      for (const record of batch) {
        if (record.offset >= end) return
        yield record
      }
      if (batch.at(-1)!.offset + 1 >= end) return
      await pause()
    }
    signal.throwIfAborted()
  } finally {
    signal.removeEventListener('abort', stop)
    reading.abort()
  }
}
