// Input and output of the LZ-family decoders: an output that grows up to a bound and copies earlier output, and a byte
// reader.

/** The packed bytes violate their format, or hold more than the limit. */
export class MalformedPacked extends Error {
  override readonly name = 'MalformedPacked'
}

const SMALLEST = 1_024

export class OutputBuffer {
  private buffer: Uint8Array
  private length = 0

  /** `expected`: the likely number of bytes. Throws `MalformedPacked` when it exceeds `limit`. */
  constructor(
    expected: number,
    private readonly limit: number,
  ) {
    this.buffer = new Uint8Array(0)
    this.reserve(Math.max(SMALLEST, Math.min(expected, limit)))
    if (expected > limit) throw new MalformedPacked(`more than ${limit} bytes`)
  }

  private reserve(extra: number): void {
    const needed = this.length + extra
    if (needed <= this.buffer.length) return
    const larger = new Uint8Array(Math.max(needed, this.buffer.length * 2))
    larger.set(this.buffer.subarray(0, this.length))
    this.buffer = larger
  }

  private grow(extra: number): void {
    if (this.length + extra > this.limit) throw new MalformedPacked(`more than ${this.limit} bytes`)
    this.reserve(extra)
  }

  append(bytes: Uint8Array): void {
    this.grow(bytes.length)
    this.buffer.set(bytes, this.length)
    this.length += bytes.length
  }

  /** Repeats the output of `distance` bytes ago; the copy may overlap what it writes. */
  repeat(distance: number, length: number): void {
    if (distance <= 0 || distance > this.length) throw new MalformedPacked('a copy of what was never written')
    this.grow(length)
    const { buffer } = this
    const from = this.length - distance
    if (distance >= length) buffer.copyWithin(this.length, from, from + length)
    else for (let index = 0; index < length; index++) buffer[this.length + index] = buffer[from + index]!
    this.length += length
  }

  /** A view of the output. */
  bytes(): Uint8Array {
    return this.buffer.subarray(0, this.length)
  }
}

/** Reads packed bytes in sequence; throws `MalformedPacked` at their end. */
export class PackedReader {
  at = 0

  constructor(private readonly packed: Uint8Array) {}

  get left(): number {
    return this.packed.length - this.at
  }

  byte(): number {
    if (this.at >= this.packed.length) throw new MalformedPacked('it ends too early')
    return this.packed[this.at++]!
  }

  /** A little-endian number of one to four bytes. */
  number(bytes: number): number {
    let value = 0
    for (let index = 0, factor = 1; index < bytes; index++, factor *= 256) value += this.byte() * factor
    return value
  }

  /** A view of the next `length` bytes. */
  take(length: number): Uint8Array {
    if (length > this.left) throw new MalformedPacked('it ends too early')
    this.at += length
    return this.packed.subarray(this.at - length, this.at)
  }
}
