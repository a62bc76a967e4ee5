// Reads and writes the bytes of Kafka's protocol: big-endian numbers, varints, and the "compact" and "tagged" forms of
// its newer versions.

/** A read past the end: the message does not match its version. */
export class ShortRead extends Error {
  override readonly name = 'ShortRead'
}

const decoder = new TextDecoder()

export class ByteReader {
  private readonly view: DataView
  offset = 0

  constructor(readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get remaining(): number {
    return this.bytes.byteLength - this.offset
  }

  private advance(length: number): number {
    const at = this.offset
    if (length < 0 || length > this.remaining) throw new ShortRead(`${length} bytes wanted, ${this.remaining} left`)
    this.offset = at + length
    return at
  }

  int8 = (): number => this.view.getInt8(this.advance(1))
  int16 = (): number => this.view.getInt16(this.advance(2))
  int32 = (): number => this.view.getInt32(this.advance(4))
  uint32 = (): number => this.view.getUint32(this.advance(4))
  /** Offsets and times: safe integers in practice, so a number. */
  int64 = (): number => {
    const at = this.advance(8)
    return this.view.getInt32(at) * 2 ** 32 + this.view.getUint32(at + 4)
  }

  /** A view, not a copy. */
  take = (length: number): Uint8Array => {
    const at = this.advance(length)
    return this.bytes.subarray(at, at + length)
  }

  uvarint = (): number => {
    let value = 0
    for (let factor = 1; factor <= 2 ** 28; factor *= 128) {
      const byte = this.int8() & 0xff
      value += (byte & 0x7f) * factor
      if (byte < 0x80) return value
    }
    throw new ShortRead('a varint longer than 32 bits')
  }

  /** Zigzag, up to 64 bits; exact to 2^53. */
  varint = (): number => {
    let value = 0
    for (let factor = 1; factor <= 2 ** 63; factor *= 128) {
      const byte = this.int8() & 0xff
      value += (byte & 0x7f) * factor
      if (byte < 0x80) return value % 2 === 0 ? value / 2 : -(value + 1) / 2
    }
    throw new ShortRead('a varint longer than 64 bits')
  }

  text = (length: number): string => decoder.decode(this.take(length))
  compactText = (): string | null => {
    const length = this.uvarint()
    return length === 0 ? null : this.text(length - 1)
  }
  compactBytes = (): Uint8Array | null => {
    const length = this.uvarint()
    return length === 0 ? null : this.take(length - 1)
  }
  compactArray = <T>(item: () => T): T[] => {
    const length = this.uvarint() - 1
    if (length > this.remaining) throw new ShortRead(`an array of ${length} items in ${this.remaining} bytes`)
    return Array.from({ length: Math.max(0, length) }, item)
  }

  /** Tagged fields: the listed ones are read from their own bytes, the others skipped. */
  tagged = (fields: Readonly<Record<number, (field: ByteReader) => void>> = {}): void => {
    const count = this.uvarint()
    for (let index = 0; index < count; index++) {
      const tag = this.uvarint()
      const field = this.take(this.uvarint())
      fields[tag]?.(new ByteReader(field))
    }
  }
}

export class ByteWriter {
  private buffer = Buffer.alloc(256)
  private length = 0

  private reserve(extra: number): number {
    const at = this.length
    if (at + extra > this.buffer.length) {
      const larger = Buffer.alloc(Math.max(this.buffer.length * 2, at + extra))
      this.buffer.copy(larger)
      this.buffer = larger
    }
    this.length = at + extra
    return at
  }

  bytes = (): Buffer => this.buffer.subarray(0, this.length)

  int8(value: number): this {
    const at = this.reserve(1)
    this.buffer.writeInt8(value, at)
    return this
  }
  int16(value: number): this {
    const at = this.reserve(2)
    this.buffer.writeInt16BE(value, at)
    return this
  }
  int32(value: number): this {
    const at = this.reserve(4)
    this.buffer.writeInt32BE(value, at)
    return this
  }
  int64(value: number): this {
    const at = this.reserve(8)
    this.buffer.writeBigInt64BE(BigInt(value), at)
    return this
  }
  uvarint(value: number): this {
    let rest = value
    while (rest >= 0x80) {
      this.byte((rest & 0x7f) | 0x80)
      rest = Math.floor(rest / 128)
    }
    return this.byte(rest)
  }
  private byte(value: number): this {
    const at = this.reserve(1)
    this.buffer.writeUInt8(value, at)
    return this
  }
  raw(bytes: Uint8Array): this {
    const at = this.reserve(bytes.byteLength)
    this.buffer.set(bytes, at)
    return this
  }
  compactText(text: string): this {
    const bytes = Buffer.from(text)
    return this.uvarint(bytes.byteLength + 1).raw(bytes)
  }
  compactArray<T>(items: readonly T[], item: (value: T) => void): this {
    this.uvarint(items.length + 1)
    for (const value of items) item(value)
    return this
  }
  /** No tagged fields. */
  untagged(): this {
    return this.uvarint(0)
  }
}
