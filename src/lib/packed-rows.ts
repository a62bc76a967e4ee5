// Rows (JSON objects) as few bytes: names of members and values that rows share are stored once, digests, ids and times take the bytes that
// they are worth. What is read is what was written, member for member.

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
const MOST_SHARED = 65_536
const MOST_SHARED_CHARACTERS = 256
const FIRST_BYTES = 4_096

const DIGEST_BYTES = 32
const TIME_BYTES = 6
const UUID_BYTES = 16
const UUID_CHARACTERS = 36
const MOST_PREFIX = 32
const IS_HEX = /^[0-9a-f]+$/
const IS_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const TIME_CHARACTERS = 24

export class RowPacker<Row extends object> {
  readonly #shared: ReadonlySet<string>
  readonly #sharedValues: unknown[] = [null, true, false]
  /** By the text, or by the JSON of what is none. */
  readonly #sharedTexts = new Map<string, number>()
  readonly #sharedOthers = new Map<string, number>()
  /** Sets of member names, by number less one. */
  readonly #shapes: (readonly string[])[] = []
  #out = Buffer.allocUnsafe(FIRST_BYTES)
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
    this.#text(id)
    const shape = this.#shapeOf(row)
    this.#byte(shape)
    if (shape === PLAIN_ROW) this.#bytes(JSON.stringify(row))
    else for (const name of this.#shapes[shape - 1]!) this.#value(name, row[name as keyof Row], id)
    return this.#out.subarray(0, this.#at)
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
    const row: Record<string, unknown> = {}
    for (const name of this.#shapes[shape - 1]!) {
      if (names === null || names.has(name)) row[name] = this.#read(id)
      else this.#skip()
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
    if (text.length === DIGEST_BYTES * 2 && this.#hex(DIGEST, 0, text)) return
    if (text.length === TIME_CHARACTERS && this.#time(text)) return
    const cut = text.length - UUID_CHARACTERS
    if (cut >= 0 && cut <= MOST_PREFIX && text[cut + 8] === '-' && this.#uuid(text, cut)) return
    // Half of a pair has no UTF-8; JSON escapes it.
    const isWhole = text.isWellFormed()
    this.#byte(isWhole ? TEXT : JSON_TEXT)
    this.#bytes(isWhole ? text : JSON.stringify(text))
  }

  /** False, and nothing written, for an id that would not be read as it is written. */
  #uuid(text: string, cut: number): boolean {
    const uuid = text.slice(cut)
    if (uuid[13] !== '-' || uuid[18] !== '-' || uuid[23] !== '-') return false
    const digits = uuid.slice(0, 8) + uuid.slice(9, 13) + uuid.slice(14, 18) + uuid.slice(19, 23) + uuid.slice(24)
    const prefix = this.#numberOfText(text.slice(0, cut))
    return prefix !== null && this.#hex(UUID, prefix, digits)
  }

  /** False, and nothing written, when not all are lower-case digits. */
  #hex(kind: typeof DIGEST | typeof UUID, prefix: number, digits: string): boolean {
    if (!IS_HEX.test(digits)) return false
    this.#byte(kind)
    if (kind === UUID) this.#count(prefix)
    this.#at += this.#room(digits.length / 2).write(digits, this.#at, 'hex')
    return true
  }

  /** False, and nothing written, for a time that would not be read as it is written. */
  #time(text: string): boolean {
    if (this.#hasTime && this.#lastTime.text === text) {
      this.#byte(SAME_TIME)
      return true
    }
    if (this.#lastTime.text !== text) {
      const atMs = IS_TIME.test(text) ? Date.parse(text) : Number.NaN
      if (!(atMs >= 0) || new Date(atMs).toISOString() !== text) return false
      this.#lastTime = { text, atMs }
    }
    this.#hasTime = true
    this.#byte(TIME)
    this.#at = this.#room(TIME_BYTES).writeUIntLE(this.#lastTime.atMs, this.#at, TIME_BYTES)
    return true
  }

  /** The number of a shared value, or null when it has none. */
  #numberOf(name: string, value: unknown): number | null {
    if (value === null) return 0
    if (typeof value === 'boolean') return value ? 1 : 2
    if (!this.#shared.has(name)) return null
    return typeof value === 'string' ? this.#numberOfText(value) : this.#numberOfOther(JSON.stringify(value))
  }

  #numberOfText(text: string): number | null {
    return this.#sharedTexts.get(text) ?? this.#share(this.#sharedTexts, text, text)
  }

  #numberOfOther(json: string): number | null {
    return this.#sharedOthers.get(json) ?? this.#share(this.#sharedOthers, json, Object.freeze(JSON.parse(json)))
  }

  #share(numbers: Map<string, number>, text: string, value: unknown): number | null {
    if (this.#sharedValues.length === MOST_SHARED || text.length > MOST_SHARED_CHARACTERS) return null
    numbers.set(text, this.#sharedValues.length)
    return this.#sharedValues.push(value) - 1
  }

  #sharedNumber(number: number): void {
    if (number + SHARED_HERE < 256) this.#byte(number + SHARED_HERE)
    else {
      this.#byte(SHARED)
      this.#count(number)
    }
  }

  #byte(byte: number): void {
    this.#room(1)[this.#at++] = byte
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
      const larger = Buffer.allocUnsafe(Math.max(this.#out.length * 2, this.#at + bytes))
      larger.set(this.#out.subarray(0, this.#at))
      this.#out = larger
    }
    return this.#out
  }

  #read(id: string): unknown {
    const kind = this.#in[this.#at++]!
    if (kind >= SHARED_HERE) return this.#sharedValues[kind - SHARED_HERE]
    if (kind === ROW_ID) return id
    if (kind === DIGEST) return this.#readHex(DIGEST_BYTES)
    if (kind === TIME || kind === SAME_TIME) return this.#readTime(kind)
    if (kind === TEXT) return this.#readBytes()
    if (kind === SHARED) return this.#sharedValues[this.#readCount()]
    if (kind === JSON_TEXT) return JSON.parse(this.#readBytes())
    const prefix = this.#sharedValues[this.#readCount()]
    const hex = this.#readHex(UUID_BYTES)
    return `${prefix}${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
  }

  #readTime(kind: typeof TIME | typeof SAME_TIME): string {
    if (kind === TIME) this.#passTime()
    const atMs = this.#in.readUIntLE(this.#timeAt, TIME_BYTES)
    if (this.#lastTime.atMs !== atMs) this.#lastTime = { text: new Date(atMs).toISOString(), atMs }
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
