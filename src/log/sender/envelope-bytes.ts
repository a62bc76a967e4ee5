// Envelopes as bytes, for the sender: the common part is copied, what differs is written over it, and the data is
// copied as the spool holds it.
import { EnvelopeTexts, type Origin } from '../envelope.ts'
import type { NewRecord } from '../port.ts'
import type { SpoolRecord } from '../segments/segments.ts'

/** Digits of a sequence, at most. */
const MOST_DIGITS = 16
const ZERO = 0x30
const CLOSING_BRACE = 0x7d
const SECOND_MS = 1_000
/** The position of the milliseconds in `2026-11-25T12:00:00.000Z`. */
const MILLISECONDS_AT = 20
/** The additional characters of a year beyond 9999. */
const LONGER_TIME = 3

/** Writes `value` over `previous`, a number of as many digits, which ends at `end`: mostly one digit changes. */
const overwrite = (into: Buffer, end: number, value: number, previous: number): void => {
  let place = end
  for (let rest = value, before = previous; rest !== before; before = Math.floor(before / 10)) {
    const tenth = Math.floor(rest / 10)
    into[--place] = ZERO + (rest - 10 * tenth)
    rest = tenth
  }
}

/** The bytes before the data, in all envelopes of a type and a subject, as they were last written. */
export class EnvelopeHead {
  readonly mostBytes: number
  private bytes = Buffer.alloc(0)
  /** The end of the number in the id, the start of the time, and the end of the number after it. */
  private idEnd = 0
  private timeAt = 0
  private numberEnd = 0
  private sequence = Number.NaN
  /** The first sequence with more digits. */
  private below = 0
  private atMs = Number.NaN
  private second = Number.NaN

  constructor(
    private readonly origin: Omit<Origin, 'sequence'>,
    readonly type: string,
    private readonly subject: string,
  ) {
    this.make(0, 0)
    this.mostBytes = this.bytes.length + 2 * MOST_DIGITS + LONGER_TIME
  }

  isOf(origin: Omit<Origin, 'sequence'>, type: string): boolean {
    return this.type === type && this.origin.epoch === origin.epoch && this.origin.instance === origin.instance
  }

  /** Returns its end. */
  write(into: Buffer, at: number, sequence: number, atMs: number): number {
    if (sequence < this.below && sequence >= this.below / 10) {
      overwrite(this.bytes, this.idEnd, sequence, this.sequence)
      overwrite(this.bytes, this.numberEnd, sequence, this.sequence)
      this.sequence = sequence
      if (atMs !== this.atMs) this.writeTime(atMs)
    } else this.make(sequence, atMs)
    into.set(this.bytes, at)
    return at + this.bytes.length
  }

  private writeTime(atMs: number): void {
    const second = Math.floor(atMs / SECOND_MS)
    if (second === this.second && Number.isInteger(atMs)) {
      const end = this.timeAt + MILLISECONDS_AT + 3
      // With a digit in front of them, three digits stay three.
      overwrite(this.bytes, end, SECOND_MS + (atMs - SECOND_MS * second), SECOND_MS + (this.atMs - SECOND_MS * second))
      this.atMs = atMs
    } else this.make(this.sequence, atMs)
  }

  private make(sequence: number, atMs: number): void {
    const { toId, toSubject, toTime, toSequence, toData } = new EnvelopeTexts(this.origin, this.type)
    const time = new Date(atMs).toISOString()
    const id = Buffer.from(`${toId}${this.origin.instance}.${this.origin.epoch}.${sequence}`)
    const subject = Buffer.from(`${toSubject}${JSON.stringify(this.subject)}${toTime}`)
    const number = Buffer.from(`${time}${toSequence}${sequence}`)
    this.bytes = Buffer.concat([id, subject, number, Buffer.from(toData)])
    this.idEnd = id.length
    this.timeAt = id.length + subject.length
    this.numberEnd = this.timeAt + number.length
    this.sequence = sequence
    this.below = 10 ** String(sequence).length
    this.atMs = Math.trunc(atMs)
    // Longer times are not patched, but written whole.
    this.second = time.length === MILLISECONDS_AT + 4 ? Math.floor(this.atMs / SECOND_MS) : Number.NaN
  }
}

/** A record of a spool for the log: its envelope is written into the log's buffer, on request. */
export class SpooledEnvelope implements NewRecord {
  readonly valueBound: number

  constructor(
    readonly source: SpoolRecord,
    /** The head of all records of its kind. */
    readonly like: EnvelopeHead,
    readonly key: string,
  ) {
    this.valueBound = like.mostBytes + source.dataBytes + 1
  }

  writeValue(into: Buffer, at: number): number {
    const { source } = this
    const end = source.writeData(into, this.like.write(into, at, source.sequence, source.atMs))
    into[end] = CLOSING_BRACE
    return end + 1
  }

  /** For logs that take the value as bytes. */
  get value(): Uint8Array {
    const into = Buffer.allocUnsafeSlow(this.valueBound)
    return into.subarray(0, this.writeValue(into, 0))
  }
}
