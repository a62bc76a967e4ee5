// Reads rows that `rows.ts` has written, whole or in part.
import { isoText } from '../time/iso-time.ts'
import { sameDigits } from './hex-digits.ts'
import type { SharedValues } from './shared-values.ts'
import { UUID_BYTES, uuidText } from './uuid-bytes.ts'

// A plan for reading some members of rows of one shape: made once, followed for each row.

/**
 * `members`: in packed order, null for one that is skipped. `missing`: requested members that the shape lacks. `blank`:
 * an object with all members, which is copied and filled, since adding members one by one is slower.
 */
export interface RowPlan {
  readonly members: readonly (string | null)[]
  readonly missing: readonly string[]
  readonly blank: Readonly<Record<string, unknown>>
}
/** Callers request few different sets of members. */
const MOST_SETS = 16

export class RowPlans {
  readonly #plans = new Map<ReadonlySet<string> | null, RowPlan[]>()

  /** `wanted`: null for all. `shape`: the number of these names. */
  of(wanted: ReadonlySet<string> | null, shape: number, names: readonly string[]): RowPlan {
    let plans = this.#plans.get(wanted)
    if (plans === undefined) {
      if (this.#plans.size === MOST_SETS) this.#plans.clear()
      plans = []
      this.#plans.set(wanted, plans)
    }
    plans[shape] ??= planOf(wanted, names)
    return plans[shape]
  }
}

const planOf = (wanted: ReadonlySet<string> | null, names: readonly string[]): RowPlan => {
  const members = names.map((name) => (wanted === null || wanted.has(name) ? name : null))
  const last = members.findLastIndex((name) => name !== null)
  const blank: Record<string, unknown> = {}
  for (const name of members) if (name !== null) blank[name] = null
  const missing = [...(wanted ?? [])].filter((name) => !names.includes(name))
  return { members: members.slice(0, last + 1), missing, blank }
}

/** The first byte of a value: its kind. From `SHARED_HERE` on: the number of a shared value. */
export const JSON_TEXT = 0
export const TEXT = 1
export const DIGEST = 2
export const TIME = 3
export const UUID = 4
export const ROW_ID = 5
export const SHARED = 6
/** Equal to the time before it in the same row: a row that was never changed has two equal times. */
export const SAME_TIME = 7
export const SHARED_HERE = 8
/** In place of the number of a set of names: the whole row follows as JSON. */
export const PLAIN_ROW = 0
export const DIGEST_BYTES = 32
export const TIME_BYTES = 6

export class RowReader<Row extends object> {
  readonly #values: SharedValues
  readonly #shapes: readonly (readonly string[])[]
  readonly #plans = new RowPlans()
  #in: Buffer = Buffer.alloc(0)
  #at = 0
  /** The last time that was read. */
  #timeText = ''
  #timeMs = Number.NaN
  /** The offset of the last time in the bytes that are being read. */
  #timeAt = 0

  /** `values`, `shapes` (sets of member names, by number less one): of the packer, as they grow. */
  constructor(values: SharedValues, shapes: readonly (readonly string[])[]) {
    this.#values = values
    this.#shapes = shapes
  }

  /** The id of the row at `offset`. */
  idAt(bytes: Buffer, offset: number): string {
    this.#in = bytes
    this.#at = offset
    return this.#read('') as string
  }

  /** The row at `offset`. */
  rowAt(bytes: Buffer, offset: number): Row {
    const id = this.idAt(bytes, offset)
    const shape = this.#in[this.#at++]!
    if (shape === PLAIN_ROW) return JSON.parse(this.#readBytes()) as Row
    const { members, blank } = this.#plans.of(null, shape, this.#shapes[shape - 1]!)
    const row = { ...blank }
    this.#fill(row, members, id)
    return row as Row
  }

  /** Reads these members of the row at `offset`, null for an absent one, into an object that the caller reuses. */
  readInto(bytes: Buffer, offset: number, names: ReadonlySet<string>, into: Record<string, unknown>): void {
    const id = this.idAt(bytes, offset)
    const shape = this.#in[this.#at++]!
    if (shape === PLAIN_ROW) {
      const row = JSON.parse(this.#readBytes())
      for (const name of names) into[name] = row[name] ?? null
      return
    }
    const { members, missing } = this.#plans.of(names, shape, this.#shapes[shape - 1]!)
    this.#fill(into, members, id)
    for (let at = 0; at < missing.length; at++) into[missing[at]!] = null
  }

  #fill(row: Record<string, unknown>, members: readonly (string | null)[], id: string): void {
    for (let at = 0; at < members.length; at++) {
      const name = members[at]!
      if (name === null) this.#skip()
      else row[name] = this.#read(id)
    }
  }

  /** Whether a member of the row at `offset` equals this text. */
  isAt(bytes: Buffer, offset: number, name: string, text: string): boolean {
    this.#in = bytes
    this.#at = offset
    this.#skip()
    const shape = this.#in[this.#at++]!
    const place = shape === PLAIN_ROW ? -1 : this.#shapes[shape - 1]!.indexOf(name)
    for (let at = 0; at < place; at++) this.#skip()
    if (place !== -1 && bytes[this.#at] === DIGEST) return sameDigits(text, bytes, this.#at + 1, DIGEST_BYTES)
    return this.rowAt(bytes, offset)[name as keyof Row] === text
  }

  #read(id: string): unknown {
    const kind = this.#in[this.#at++]!
    if (kind >= SHARED_HERE) return this.#values.at(kind - SHARED_HERE)
    if (kind === ROW_ID) return id
    if (kind === DIGEST) return this.#readHex(DIGEST_BYTES)
    if (kind === TIME || kind === SAME_TIME) return this.#readTime(kind)
    if (kind === TEXT) return this.#readBytes()
    if (kind === SHARED) return this.#values.at(this.#readCount())
    if (kind === JSON_TEXT) return JSON.parse(this.#readBytes())
    const prefix = this.#values.at(this.#readCount()) as string
    const from = this.#at
    this.#at += UUID_BYTES
    return uuidText(this.#in, from, prefix)
  }

  #readTime(kind: typeof TIME | typeof SAME_TIME): string {
    if (kind === TIME) this.#passTime()
    const atMs = this.#in.readUIntLE(this.#timeAt, TIME_BYTES)
    if (this.#timeMs !== atMs) {
      this.#timeText = isoText(atMs)
      this.#timeMs = atMs
    }
    return this.#timeText
  }

  #passTime(): void {
    this.#timeAt = this.#at
    this.#at += TIME_BYTES
  }

  #skip(): void {
    const kind = this.#in[this.#at++]!
    if (kind === DIGEST) this.#at += DIGEST_BYTES
    else if (kind === TIME) this.#passTime()
    else if (kind === TEXT || kind === JSON_TEXT) {
      const length = this.#readCount()
      this.#at += length
    } else if (kind === SHARED) this.#readCount()
    else if (kind === UUID) {
      this.#readCount()
      this.#at += UUID_BYTES
    }
  }

  #readHex(bytes: number): string {
    const from = this.#at
    this.#at += bytes
    return this.#in.toString('hex', from, this.#at)
  }

  #readCount(): number {
    let count = 0
    for (let shift = 0; ; shift += 7) {
      const byte = this.#in[this.#at++]!
      count |= (byte & 127) << shift
      if (byte < 128) return count
    }
  }

  #readBytes(): string {
    const length = this.#readCount()
    const from = this.#at
    this.#at += length
    return this.#in.toString('utf8', from, this.#at)
  }
}
