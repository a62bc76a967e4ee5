// Packs rows (JSON objects) into few bytes: member names and values that rows share are stored once; digests, ids and
// times are stored in binary. Reading returns what was written, member for member.

import { isoMs } from '../time/iso-time.ts'
import { readDigits } from './hex-digits.ts'
import { PackedRowJson } from './row-json.ts'
import {
  DIGEST,
  DIGEST_BYTES,
  JSON_TEXT,
  PLAIN_ROW,
  ROW_ID,
  RowReader,
  SAME_TIME,
  SHARED,
  SHARED_HERE,
  TEXT,
  TIME,
  TIME_BYTES,
  UUID,
} from './row-reader.ts'
import { SharedValues } from './shared-values.ts'
import { readUuid, UUID_BYTES, UUID_CHARACTERS } from './uuid-bytes.ts'

const MOST_SHAPES = 64
const FIRST_BYTES = 4_096

const MOST_PREFIX = 32
/** Longer texts are written by the runtime. */
const MOST_PLAIN = 64
/** Room for what is written before its length is checked: a kind, a count, a digest or a short text. */
const ROOM_BYTES = 8 + MOST_PLAIN
const TIME_CHARACTERS = 24

export class RowPacker<Row extends object> {
  readonly #shared: ReadonlySet<string>
  readonly #values = new SharedValues()
  /** Sets of member names, by number less one. */
  readonly #shapes: (readonly string[])[] = []
  /** Reads what was packed. */
  readonly reader = new RowReader<Row>(this.#values, this.#shapes)
  #out = Buffer.allocUnsafeSlow(FIRST_BYTES)
  #at = 0
  /** The last time that was written. */
  #timeText = ''
  #timeMs = Number.NaN
  /** This row has a time; `#timeText` is its last one. */
  #hasTime = false

  /**
   * `shared`: names of members whose values many rows share. Those values are stored as long as the packer lives, up to
   * a bound.
   */
  constructor(shared: readonly string[]) {
    this.#shared = new Set(shared)
  }

  /** A writer of packed rows as JSON. `jsonOf`: JSON of any value, the members of each object sorted by name. */
  json(jsonOf: (value: unknown) => string): PackedRowJson {
    return new PackedRowJson(this.#values, this.#shapes, jsonOf)
  }

  /** The bytes of a row and its id, which the next call overwrites. Only bytes of this row are in the view. */
  pack(id: string, row: Row): Uint8Array {
    this.#at = 0
    this.#hasTime = false
    this.#room(ROOM_BYTES)
    this.#text(id)
    this.#room(ROOM_BYTES)
    const shape = this.#shapeOf(row)
    this.#byte(shape)
    if (shape === PLAIN_ROW) this.#bytes(JSON.stringify(row))
    else for (const name of this.#shapes[shape - 1]!) this.#value(name, row[name as keyof Row], id)
    return new Uint8Array(this.#out.buffer, 0, this.#at)
  }

  #shapeOf(row: Row): number {
    let names = Object.keys(row)
    for (const name of names) {
      if (row[name as keyof Row] !== undefined) continue
      names = names.filter((one) => row[one as keyof Row] !== undefined)
      break
    }
    for (let shape = 0; shape < this.#shapes.length; shape++)
      if (sameNames(this.#shapes[shape]!, names)) return shape + 1
    if (this.#shapes.length === MOST_SHAPES || names.includes('__proto__')) return PLAIN_ROW
    return this.#shapes.push(names)
  }

  #value(name: string, value: unknown, id: string): void {
    this.#room(ROOM_BYTES)
    const number = typeof value === 'string' && !this.#shared.has(name) ? null : this.#numberOf(name, value)
    if (value === id) this.#byte(ROW_ID)
    else if (number !== null) this.#sharedNumber(number)
    else if (typeof value === 'string') this.#text(value)
    else {
      this.#byte(JSON_TEXT)
      this.#bytes(JSON.stringify(value))
    }
  }

  #text(text: string): void {
    if (text.length === DIGEST_BYTES * 2 && this.#digest(text)) return
    if (text.length === TIME_CHARACTERS && this.#time(text)) return
    const cut = text.length - UUID_CHARACTERS
    if (cut >= 0 && cut <= MOST_PREFIX && text[cut + 8] === '-' && this.#uuid(text, cut)) return
    if (text.length <= MOST_PLAIN && this.#plain(text)) return
    // A lone surrogate has no UTF-8; JSON escapes it.
    const isWhole = text.isWellFormed()
    this.#byte(isWhole ? TEXT : JSON_TEXT)
    this.#bytes(isWhole ? text : JSON.stringify(text))
  }

  /** False, and nothing written, when not all of it is ASCII. */
  #plain(text: string): boolean {
    const at = this.#at + 2
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index)
      if (code > 127) return false
      this.#out[at + index] = code
    }
    this.#out[this.#at] = TEXT
    this.#out[this.#at + 1] = text.length
    this.#at = at + text.length
    return true
  }

  /** False, and nothing written, for an id that would be read differently. */
  #uuid(text: string, cut: number): boolean {
    const prefix = this.#values.numberOfPrefix(text, cut)
    if (prefix === null) return false
    const from = this.#at
    this.#byte(UUID)
    this.#count(prefix)
    const isRead = readUuid(text, cut, this.#out, this.#at)
    this.#at = isRead ? this.#at + UUID_BYTES : from
    return isRead
  }

  /** False, and nothing written, when not all are lower-case digits. */
  #digest(digits: string): boolean {
    if (!readDigits(digits, 0, digits.length, this.#out, this.#at + 1)) return false
    this.#out[this.#at] = DIGEST
    this.#at += 1 + DIGEST_BYTES
    return true
  }

  /** False, and nothing written, for a time that would be read differently. */
  #time(text: string): boolean {
    if (this.#hasTime && this.#timeText === text) {
      this.#byte(SAME_TIME)
      return true
    }
    if (this.#timeText !== text) {
      const atMs = isoMs(text)
      if (Number.isNaN(atMs)) return false
      this.#timeText = text
      this.#timeMs = atMs
    }
    this.#hasTime = true
    this.#byte(TIME)
    this.#at = this.#room(TIME_BYTES).writeUIntLE(this.#timeMs, this.#at, TIME_BYTES)
    return true
  }

  /** The number of a shared value; null for another value. */
  #numberOf(name: string, value: unknown): number | null {
    if (value === null || typeof value === 'boolean') return this.#values.numberOfWord(value)
    return this.#shared.has(name) ? this.#values.numberOf(value) : null
  }

  #sharedNumber(number: number): void {
    if (number + SHARED_HERE < 256) this.#byte(number + SHARED_HERE)
    else {
      this.#byte(SHARED)
      this.#count(number)
    }
  }

  #byte(byte: number): void {
    this.#out[this.#at++] = byte
  }

  /** A varint: seven bits a byte, lowest first. */
  #count(count: number): void {
    let rest = count
    for (; rest > 127; rest >>>= 7) this.#byte((rest & 127) | 128)
    this.#byte(rest)
  }

  #bytes(text: string): void {
    const length = Buffer.byteLength(text)
    this.#count(length)
    this.#at += this.#room(length).write(text, this.#at, 'utf8')
  }

  #room(bytes: number): Buffer {
    if (this.#at + bytes > this.#out.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(this.#out.length * 2, this.#at + bytes))
      larger.set(this.#out.subarray(0, this.#at))
      this.#out = larger
    }
    return this.#out
  }
}

const sameNames = (one: readonly string[], other: readonly string[]): boolean => {
  if (one.length !== other.length) return false
  for (let at = 0; at < one.length; at++) if (one[at] !== other[at]) return false
  return true
}
