// The record index: the verdict of every record of the control topic, the first bits of its id and its time, in 13
// bytes each. Made by one pass over the log without folding it; then an id, a time or a page is found without reading
// the records between.
import { GENESIS, judge, type Verdict } from '../../domain/kernel/decision.ts'
import type { LogRecord } from '../../log/port.ts'
import { readTurn } from '../write-turns.ts'

const INITIAL = 4_096
/**
 * The time of a decision by its writer's clock is accepted when it lies so shortly before log time: a command has 5 s
 * in all.
 */
const BELIEVED_MS = 5_000
/** Bound of the copies of one record, and clashes, that are read. */
const MAX_CANDIDATES = 64

/**
 * The stored form: format, records, tip, then the columns. Raised when verdicts or moments are found in another way.
 */
const FORMAT = 1
const COUNT_BYTES = 6
const HEAD_BYTES = 1 + COUNT_BYTES + 32
const RECORD_BYTES = 8 + 4 + 1

/** Verdicts of the index; only its events show whether a decision that counts is malformed. */
export const INDEX_VERDICTS = ['counted', 'lost', 'unreadable', 'forged', 'turn'] as const
export type IndexVerdict = (typeof INDEX_VERDICTS)[number]
const COUNTED = INDEX_VERDICTS.indexOf('counted')

export class RecordIndex {
  /** The next offset to read. */
  next = 0
  tip = GENESIS
  /** First 32 bits of the id, by offset. */
  #prints = new Uint32Array(INITIAL)
  /** Index in INDEX_VERDICTS, by offset. */
  #verdicts = new Uint8Array(INITIAL)
  /** Moment of the newest decision so far, by offset; Unix milliseconds, never falling. */
  #times = new Float64Array(INITIAL)
  #momentMs = 0

  constructor(readonly macKey: Uint8Array) {}

  /** The index of `bytes`. Null for other bytes. */
  static of(macKey: Uint8Array, bytes: Uint8Array): RecordIndex | null {
    const view = Buffer.from(bytes) // a copy, so that it is aligned
    const next = view.length < HEAD_BYTES ? -1 : view.readUIntLE(1, COUNT_BYTES)
    if (view[0] !== FORMAT || view.length !== HEAD_BYTES + next * RECORD_BYTES) return null
    const index = new RecordIndex(macKey)
    while (index.#prints.length < next) index.#grow()
    index.next = next
    index.tip = view.toString('hex', 1 + COUNT_BYTES, HEAD_BYTES)
    const [prints, verdicts] = [HEAD_BYTES + next * 8, HEAD_BYTES + next * 12]
    bytesOf(index.#times).set(view.subarray(HEAD_BYTES, prints))
    bytesOf(index.#prints).set(view.subarray(prints, verdicts))
    index.#verdicts.set(view.subarray(verdicts))
    index.#momentMs = next === 0 ? 0 : index.#times[next - 1]!
    return index
  }

  /**
   * The index up to its tip, for storing: the tip in the log proves that the log is the same up to it, and no farther.
   */
  bytes(): Uint8Array {
    const next = (this.lastCounted(this.next) ?? -1) + 1
    const head = Buffer.alloc(HEAD_BYTES)
    head[0] = FORMAT
    head.writeUIntLE(next, 1, COUNT_BYTES)
    head.write(this.tip, 1 + COUNT_BYTES, 'hex')
    const columns = [this.#times, this.#prints, this.#verdicts].map((column) => bytesOf(column.subarray(0, next)))
    return Buffer.concat([head, ...columns])
  }

  /** Adds the record at `next`. */
  take({ offset, atMs, value }: LogRecord): void {
    if (offset !== this.next) throw new RangeError(`offset ${offset} cannot be surveyed at ${this.next}`)
    if (offset === this.#prints.length) this.#grow()
    const verdict = value === null ? null : judge(this.tip, value, this.macKey)
    if (verdict?.kind === 'counts' && 'decision' in verdict) {
      this.tip = verdict.id
      this.#momentMs = Math.max(this.#momentMs, momentOf(verdict.decision.at, atMs))
    }
    this.#prints[offset] = verdict === null ? 0 : printOf(verdict.id)
    this.#verdicts[offset] = INDEX_VERDICTS.indexOf(this.#verdictOf(verdict?.kind ?? 'unreadable', value))
    this.#times[offset] = this.#momentMs
    this.next = offset + 1
  }

  #verdictOf(kind: Verdict['kind'], value: Uint8Array | null): IndexVerdict {
    if (kind === 'counts') return 'counted'
    return kind === 'unreadable' && value !== null && readTurn(value, this.macKey) !== null ? 'turn' : kind
  }

  verdict(offset: number): IndexVerdict {
    return INDEX_VERDICTS[this.#verdicts[offset]!]!
  }

  /** When the newest decision up to and including this offset was made; 0 before the first. */
  momentAt(offset: number): number {
    return this.#times[offset]!
  }

  /** Offset of the last decision up to that moment, or null when there was none. */
  offsetAt(momentMs: number): number | null {
    let [low, high] = [0, this.next]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#times[middle]! <= momentMs) low = middle + 1
      else high = middle
    }
    return this.lastCounted(low)
  }

  /** Offset of the last decision below `end` that counted, or null. */
  lastCounted(end: number): number | null {
    const last = end === 0 ? -1 : this.#verdicts.lastIndexOf(COUNTED, end - 1)
    return last === -1 ? null : last
  }

  /** Offsets of records that may have this id, newest first. 32 bits are compared: the caller reads the record. */
  candidates(id: string): readonly number[] {
    const print = printOf(id)
    const found: number[] = []
    for (let end = this.next; end > 0 && found.length < MAX_CANDIDATES; ) {
      const at = this.#prints.lastIndexOf(print, end - 1)
      if (at === -1) break
      found.push(at)
      end = at
    }
    return found
  }

  /** Whether the last counted decision below `end` may be this one. */
  mayEnd(end: number, tip: string): boolean {
    const last = this.lastCounted(end)
    return last === null ? tip === GENESIS : this.#prints[last] === printOf(tip)
  }

  #grow(): void {
    const prints = new Uint32Array(this.#prints.length * 2)
    prints.set(this.#prints)
    this.#prints = prints
    const times = new Float64Array(this.#times.length * 2)
    times.set(this.#times)
    this.#times = times
    const verdicts = new Uint8Array(this.#verdicts.length * 2)
    verdicts.set(this.#verdicts)
    this.#verdicts = verdicts
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float64Array | Uint32Array | Uint8Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength)

const printOf = (id: string): number => Number.parseInt(id.slice(0, 8), 16) || 1

/** The writer's time, which the rows show, while it is consistent with log time; else log time. */
const momentOf = (at: string, logAtMs: number): number => {
  const atMs = Date.parse(at)
  return atMs <= logAtMs && atMs >= logAtMs - BELIEVED_MS ? atMs : logAtMs
}
