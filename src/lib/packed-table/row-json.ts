// Writes packed rows as JSON, members sorted by name, without making objects and strings of them, for scans of all
// rows.

import { isoText } from '../time/iso-time.ts'
import { writeDigits } from './hex-digits.ts'
import {
  DIGEST,
  DIGEST_BYTES,
  JSON_TEXT,
  PLAIN_ROW,
  ROW_ID,
  SHARED,
  SHARED_HERE,
  TEXT,
  TIME,
  TIME_BYTES,
  UUID,
} from './row-reader.ts'
import type { SharedValues } from './shared-values.ts'
import { UUID_BYTES, UUID_CHARACTERS } from './uuid-bytes.ts'

const FIRST_BYTES = 4_096
const TIME_CHARACTERS = 24
const QUOTE = 0x22
const BACKSLASH = 0x5c
const HYPHEN = 0x2d
const OPEN = 0x7b
const CLOSE = 0x7d
const FIRST_PRINTABLE = 0x20

/** A member in the order of names: its position in the packed row, and the bytes before its value. */
interface Member {
  readonly place: number
  readonly before: Uint8Array
}

export class PackedRowJson {
  /** Members of a row in the order of names; the index is the number of the set of names. */
  readonly #plans: (readonly Member[])[] = []
  /** JSON of shared values by their number, and prefixes of ids by theirs; null: JSON escapes the prefix. */
  readonly #shared: Uint8Array[] = []
  readonly #prefixes: (Uint8Array | null)[] = []
  /** By position in the packed row: where each member stands, and the offset of the last time up to it. */
  #places: number[] = []
  #times: number[] = []
  #in: Buffer = Buffer.alloc(0)
  #at = 0
  #out = Buffer.allocUnsafeSlow(FIRST_BYTES)
  #end = 0
  #timeMs = Number.NaN
  readonly #time = Buffer.alloc(TIME_CHARACTERS)

  /**
   * `values`, `shapes`: of the packer, as they grow. `jsonOf`: JSON of any value, the members of each object sorted by
   * name.
   */
  constructor(
    readonly values: SharedValues,
    readonly shapes: readonly (readonly string[])[],
    readonly jsonOf: (value: unknown) => string,
  ) {}

  /**
   * `head`, the id, a NUL and the JSON of the row at `offset`, in bytes that the next call overwrites. Null for a row
   * of an unusual form, which the caller reads and writes as an object.
   */
  write(head: Uint8Array, bytes: Buffer, offset: number): Uint8Array | null {
    this.#in = bytes
    this.#at = offset
    this.#end = 0
    this.#put(head)
    const idAt = this.#end
    if (!this.#putId()) return null
    const idEnd = this.#end
    this.#byte(0)
    const shape = bytes[this.#at++]!
    if (shape === PLAIN_ROW) return null
    const members = this.#planOf(shape)
    this.#find(members.length)
    for (let index = 0; index < members.length; index++) {
      const { place, before } = members[index]!
      this.#put(before)
      if (!this.#putValue(place, idAt, idEnd)) return null
    }
    if (members.length === 0) this.#byte(OPEN)
    this.#byte(CLOSE)
    return this.#out.subarray(0, this.#end)
  }

  #planOf(shape: number): readonly Member[] {
    this.#plans[shape] ??= planOf(this.shapes[shape - 1]!)
    return this.#plans[shape]
  }

  /** False when JSON would escape it. */
  #putId(): boolean {
    const kind = this.#in[this.#at++]!
    if (kind === TEXT) {
      const length = this.#count()
      const from = this.#at
      this.#at += length
      return this.#putPlain(this.#in, from, this.#at)
    }
    return kind === UUID && this.#putUuid()
  }

  #find(members: number): void {
    let timeAt = 0
    for (let place = 0; place < members; place++) {
      this.#places[place] = this.#at
      const kind = this.#in[this.#at++]!
      if (kind >= SHARED_HERE) continue
      if (kind === DIGEST) this.#at += DIGEST_BYTES
      else if (kind === TIME) {
        timeAt = this.#at
        this.#at += TIME_BYTES
      } else if (kind === TEXT || kind === JSON_TEXT) {
        const length = this.#count()
        this.#at += length
      } else if (kind === SHARED) this.#count()
      else if (kind === UUID) {
        this.#count()
        this.#at += UUID_BYTES
      }
      this.#times[place] = timeAt
    }
  }

  /** False when the row must be written as an object. */
  #putValue(place: number, idAt: number, idEnd: number): boolean {
    this.#at = this.#places[place]!
    const kind = this.#in[this.#at++]!
    if (kind >= SHARED_HERE) this.#put(this.#sharedAt(kind - SHARED_HERE))
    else if (kind === SHARED) this.#put(this.#sharedAt(this.#count()))
    else if (kind === JSON_TEXT) this.#putJson(JSON.parse(this.#text()))
    else if (kind === TEXT) this.#putString()
    else {
      this.#byte(QUOTE)
      if (kind === DIGEST) this.#putDigest()
      else if (kind === ROW_ID) this.#putFrom(this.#out, idAt, idEnd)
      else if (kind !== UUID) this.#putTime(this.#times[place]!)
      else if (!this.#putUuid()) return false
      this.#byte(QUOTE)
    }
    return true
  }

  #putString(): void {
    const from = this.#at
    const end = this.#end
    const length = this.#count()
    this.#byte(QUOTE)
    if (this.#putPlain(this.#in, this.#at, this.#at + length)) this.#byte(QUOTE)
    else {
      this.#at = from
      this.#end = end
      this.#putJson(this.#text())
    }
  }

  #putDigest(): void {
    this.#room(2 * DIGEST_BYTES)
    writeDigits(this.#in, this.#at, DIGEST_BYTES, this.#out, this.#end)
    this.#end += 2 * DIGEST_BYTES
  }

  #putTime(at: number): void {
    const atMs = this.#in.readUIntLE(at, TIME_BYTES)
    if (atMs !== this.#timeMs) {
      this.#time.write(isoText(atMs), 'latin1')
      this.#timeMs = atMs
    }
    this.#put(this.#time)
  }

  /** False when JSON would escape the prefix. */
  #putUuid(): boolean {
    const prefix = this.#prefixAt(this.#count())
    if (prefix === null) return false
    this.#put(prefix)
    this.#room(UUID_CHARACTERS)
    const at = this.#at
    const out = this.#out
    const end = this.#end
    const bytes = this.#in
    writeDigits(bytes, at, 4, out, end)
    writeDigits(bytes, at + 4, 2, out, end + 9)
    writeDigits(bytes, at + 6, 2, out, end + 14)
    writeDigits(bytes, at + 8, 2, out, end + 19)
    writeDigits(bytes, at + 10, 6, out, end + 24)
    out[end + 8] = out[end + 13] = out[end + 18] = out[end + 23] = HYPHEN
    this.#end += UUID_CHARACTERS
    this.#at += UUID_BYTES
    return true
  }

  #sharedAt(number: number): Uint8Array {
    this.#shared[number] ??= Buffer.from(this.jsonOf(this.values.at(number)))
    return this.#shared[number]
  }

  #prefixAt(number: number): Uint8Array | null {
    const known = this.#prefixes[number]
    if (known !== undefined) return known
    const prefix = this.values.at(number) as string
    this.#prefixes[number] = JSON.stringify(prefix) === `"${prefix}"` ? Buffer.from(prefix) : null
    return this.#prefixes[number]
  }

  #count(): number {
    let count = 0
    for (let shift = 0; ; shift += 7) {
      const byte = this.#in[this.#at++]!
      count |= (byte & 127) << shift
      if (byte < 128) return count
    }
  }

  /** The text with its length at this position. */
  #text(): string {
    const length = this.#count()
    return this.#in.toString('utf8', this.#at, this.#at + length)
  }

  #byte(byte: number): void {
    this.#room(1)
    this.#out[this.#end++] = byte
  }

  #put(bytes: Uint8Array): void {
    this.#putFrom(bytes, 0, bytes.length)
  }

  #putFrom(bytes: Uint8Array, from: number, to: number): void {
    this.#room(to - from)
    const out = this.#out
    let end = this.#end
    for (let at = from; at < to; at++) out[end++] = bytes[at]!
    this.#end = end
  }

  /**
   * Also for UTF-8, which JSON leaves unescaped; false when something needs an escape: the written bytes are invalid
   * then.
   */
  #putPlain(bytes: Uint8Array, from: number, to: number): boolean {
    this.#putFrom(bytes, from, to)
    return isPlain(bytes, from, to)
  }

  #putJson(value: unknown): void {
    this.#put(Buffer.from(this.jsonOf(value)))
  }

  #room(bytes: number): void {
    if (this.#end + bytes <= this.#out.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#out.length * 2, this.#end + bytes))
    larger.set(this.#out.subarray(0, this.#end))
    this.#out = larger
  }
}

const isPlain = (bytes: Uint8Array, from: number, to: number): boolean => {
  let isEscaped = false
  for (let at = from; at < to; at++) {
    const byte = bytes[at]!
    isEscaped = isEscaped || byte < FIRST_PRINTABLE || byte === QUOTE || byte === BACKSLASH
  }
  return !isEscaped
}

const planOf = (names: readonly string[]): readonly Member[] =>
  names
    .map((name, place) => ({ name, place }))
    .sort((one, other) => (one.name < other.name ? -1 : 1))
    .map(({ name, place }, index) => ({
      place,
      before: Buffer.from(`${index === 0 ? '{' : ','}${JSON.stringify(name)}:`),
    }))
