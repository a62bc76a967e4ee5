// Rows (JSON objects) as few bytes: names of members and values that rows share are stored once, digests, ids and times take the bytes that
// they are worth. What is read is what was written, member for member.

import { readDigits } from './hex-digits.ts'
import { isoMs, isoText } from './iso-time.ts'
import { RowPlans } from './row-plans.ts'
import { SharedValues } from './shared-values.ts'
import { readUuid, UUID_BYTES, UUID_CHARACTERS, uuidText } from './uuid-bytes.ts'

/** How a value is written: the first byte. From `SHARED_HERE` on: a shared value, by its number. */
const JSON_TEXT = 0
const TEXT = 1
const DIGEST = 2
const TIME = 3
const UUID = 4
const ROW_ID = 5
const SHARED = 6
/** The time that was written before it in the same row: what was never changed has two that are equal. */
const SAME_TIME = 7
const SHARED_HERE = 8

/** Instead of the number of a set of names: the whole row follows as JSON. */
const PLAIN_ROW = 0
const MOST_SHAPES = 64
const FIRST_BYTES = 4_096

const DIGEST_BYTES = 32
const TIME_BYTES = 6
const MOST_PREFIX = 32
/** Longer texts are written by the platform. */
const MOST_PLAIN = 64
/** What is written of a value before its length is known to fit: a kind, a count, a digest or a short text. */
const ROOM_BYTES = 8 + MOST_PLAIN
const TIME_CHARACTERS = 24

export class RowPacker<Row extends object> {
  readonly #shared: ReadonlySet<string>
  readonly #values = new SharedValues()
  /** Sets of member names, by number less one. */
  readonly #shapes: (readonly string[])[] = []
  readonly #plans = new RowPlans()
  #out = Buffer.allocUnsafeSlow(FIRST_BYTES)
  #in: Buffer = this.#out
  #at = 0
  #lastTime = { text: '', atMs: Number.NaN }
  /** A time was written since this row began: `#lastTime` is its. */
  #hasTime = false
  /** Where the time that was met last stands in what is read. */
  #timeAt = 0

  /** `shared`: names of members whose values many rows have in common. Those values are kept for as long as the packer is, up to a bound. */
  constructor(shared: readonly string[]) {
    this.#shared = new Set(shared)
  }

  /** The bytes of a row and its id. They are overwritten by the next call. */
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

  /** The id of what is packed there. */
  idAt(bytes: Buffer, offset: number): string {
    this.#in = bytes
    this.#at = offset
    return this.#read('') as string
  }

  /** The row that is packed there; only these members of it when they are named, which takes half the time. */
  rowAt(bytes: Buffer, offset: number, names: ReadonlySet<string> | null = null): Row {
    const id = this.idAt(bytes, offset)
    const shape = this.#in[this.#at++]!
    if (shape === PLAIN_ROW) return JSON.parse(this.#readBytes()) as Row
    const { members, blank } = this.#plans.of(names, shape, this.#shapes[shape - 1]!)
    const row = { ...blank }
    for (let at = 0; at < members.length; at++) {
      const name = members[at]!
      if (name === null) this.#skip()
      else row[name] = this.#read(id)
    }
    return row as Row
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
    // Half of a pair has no UTF-8; JSON escapes it.
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

  /** False, and nothing written, for an id that would not be read as it is written. */
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

  /** False, and nothing written, for a time that would not be read as it is written. */
  #time(text: string): boolean {
    if (this.#hasTime && this.#lastTime.text === text) {
      this.#byte(SAME_TIME)
      return true
    }
    if (this.#lastTime.text !== text) {
      const atMs = isoMs(text)
      if (Number.isNaN(atMs)) return false
      this.#lastTime = { text, atMs }
    }
    this.#hasTime = true
    this.#byte(TIME)
    this.#at = this.#room(TIME_BYTES).writeUIntLE(this.#lastTime.atMs, this.#at, TIME_BYTES)
    return true
  }

  /** The number of a shared value, or null when it has none. */
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

  /** Seven bits a byte, the lowest first. */
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

  #read(id: string): unknown {
    const kind = this.#in[this.#at++]!
    if (kind >= SHARED_HERE) return this.#values.at(kind - SHARED_HERE)
    if (kind === ROW_ID) return id
    if (kind === DIGEST) return this.#readHex(DIGEST_BYTES)
    if (kind === TIME || kind === SAME_TIME) return this.#readTime(kind)
    if (kind === TEXT) return this.#readBytes()
    if (kind === SHARED) return this.#values.at(this.#readCount())
    if (kind === JSON_TEXT) return JSON.parse(this.#readBytes())
    const prefix = this.#values.at(this.#readCount())
    const from = this.#at
    this.#at += UUID_BYTES
    return `${prefix}${uuidText(this.#in, from)}`
  }

  #readTime(kind: typeof TIME | typeof SAME_TIME): string {
    if (kind === TIME) this.#passTime()
    const atMs = this.#in.readUIntLE(this.#timeAt, TIME_BYTES)
    if (this.#lastTime.atMs !== atMs) this.#lastTime = { text: isoText(atMs), atMs }
    return this.#lastTime.text
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

const sameNames = (one: readonly string[], other: readonly string[]): boolean => {
  if (one.length !== other.length) return false
  for (let at = 0; at < one.length; at++) if (one[at] !== other[at]) return false
  return true
}
