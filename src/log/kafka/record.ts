// One record of a record batch (format 2), as it is written.

import { mostBytesOf } from '../append-limits.ts'
import type { NewRecord } from '../port.ts'

/** Upper bound of a record without key and value. */
const RECORD_HEAD_BYTES = 24

/** Upper bound of the bytes of a record. */
export const recordBound = (record: NewRecord): number =>
  RECORD_HEAD_BYTES + (record.key === null ? 0 : 3 * record.key.length) + mostBytesOf(record)

/** Writes consecutive records. */
export class RecordWriter {
  /** Key of the previous record: records come in runs of a key, which is then copied. */
  private key: string | null = null
  private keyBytes = -1
  private keyAt = 0

  constructor(private readonly into: Buffer) {}

  write(at: number, index: number, record: NewRecord): number {
    const { into } = this
    const { key } = record
    if (key === null) this.keyBytes = -1
    else if (key !== this.key) this.keyBytes = Buffer.byteLength(key)
    // The length of the value precedes it as a varint, and may be known only after the value is written.
    let valueAt = at + this.headBytes(index, record.valueBound ?? record.value?.byteLength ?? -1)
    let bytes = -1
    if (record.writeValue !== undefined) bytes = record.writeValue(into, valueAt) - valueAt
    else if (record.value !== null) {
      bytes = record.value.byteLength
      into.set(record.value, valueAt)
    }
    const before = at + this.headBytes(index, bytes)
    if (before !== valueAt) into.copyWithin(before, valueAt, valueAt + bytes)
    valueAt = this.writeHead(at, index, key, bytes)
    const end = valueAt + Math.max(0, bytes)
    // No headers.
    into[end] = 0
    return end + 1
  }

  /** The bytes between the length of the record and its value, and the byte behind the value. */
  private fixedBytes(index: number, valueBytes: number): number {
    const { keyBytes } = this
    return 3 + varintBytes(index) + varintBytes(keyBytes) + Math.max(0, keyBytes) + varintBytes(valueBytes)
  }

  private headBytes(index: number, valueBytes: number): number {
    const fixed = this.fixedBytes(index, valueBytes)
    return varintBytes(fixed + Math.max(0, valueBytes)) + fixed - 1
  }

  private writeHead(at: number, index: number, key: string | null, valueBytes: number): number {
    const { into } = this
    let end = writeVarint(into, at, this.fixedBytes(index, valueBytes) + Math.max(0, valueBytes))
    // Attributes, and the time since the first record.
    into[end++] = 0
    into[end++] = 0
    end = writeVarint(into, end, index)
    end = writeVarint(into, end, this.keyBytes)
    if (key !== null) {
      if (key === this.key) into.copyWithin(end, this.keyAt, this.keyAt + this.keyBytes)
      else into.write(key, end)
      this.keyAt = end
      end += this.keyBytes
    }
    this.key = key
    return writeVarint(into, end, valueBytes)
  }
}

/** Zigzag of an int32. */
const zigzag = (value: number): number => ((value << 1) ^ (value >> 31)) >>> 0

const varintBytes = (value: number): number => uvarintBytes(zigzag(value))

export const uvarintBytes = (value: number): number =>
  value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x20_0000 ? 3 : value < 0x1000_0000 ? 4 : 5

const writeVarint = (into: Buffer, at: number, value: number): number => writeUvarint(into, at, zigzag(value))

export const writeUvarint = (into: Buffer, at: number, value: number): number => {
  let rest = value
  let end = at
  for (; rest >= 0x80; rest >>>= 7) into[end++] = (rest & 0x7f) | 0x80
  into[end++] = rest
  return end
}
