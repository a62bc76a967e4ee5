// Produce, the request that is made for every outcome: record batch and frame are written straight into one buffer, and sent as they stand.
// kafkajs made an object and several buffers of each record and a copy of the whole at each of five levels. What this costs instead: docs/decisions/0038.
import { crc32c } from '../lib/crc32c.ts'
import { ByteReader, ByteWriter } from './kafka-bytes.ts'
import type { Api } from './kafka-wire.ts'
import type { NewRecord } from './port.ts'
import { mostBytesOf } from './port-limits.ts'

export const PRODUCE: Api = { name: 'Produce', key: 0, version: 9 }

export interface ProduceQuery {
  readonly correlationId: number
  readonly clientId: string
  readonly topic: string
  readonly partition: number
  /** How long the broker waits for its replicas. */
  readonly timeoutMs: number
  readonly records: readonly NewRecord[]
  /** Of the records, Unix milliseconds. Topics have LogAppendTime, so the broker writes its own over it. */
  readonly nowMs: number
}

const ALL_IN_SYNC = -1
/** Of a batch before its records, and of a record without key and value, at most. */
const BATCH_HEAD_BYTES = 61
const RECORD_HEAD_BYTES = 24
/** Of the frame before the batch, without the names in it; what comes behind the batch. */
const FRAME_HEAD_BYTES = 64
const FRAME_TAIL = Buffer.from([0, 0, 0])

/** Most appends are far smaller; so many of one process are under way at once. */
const KEPT_BYTES = 512 * 1024
const KEPT_BUFFERS = 4

/** Buffers of answered requests, to be written into again: fresh memory for each is cold, and costs as much as filling it. */
export class ProduceBuffers {
  private readonly free: Buffer[] = []

  take(bytes: number): Buffer {
    return bytes > KEPT_BYTES ? Buffer.allocUnsafeSlow(bytes) : (this.free.pop() ?? Buffer.allocUnsafeSlow(KEPT_BYTES))
  }

  giveBack(buffer: Buffer): void {
    if (buffer.length === KEPT_BYTES && this.free.length < KEPT_BUFFERS) this.free.push(buffer)
  }
}

/** Bytes that a buffer for this request needs at most. */
export const produceBound = ({ clientId, topic, records }: Pick<ProduceQuery, 'clientId' | 'topic' | 'records'>) => {
  let bytes = FRAME_HEAD_BYTES + 3 * (clientId.length + topic.length) + BATCH_HEAD_BYTES + FRAME_TAIL.length
  for (const record of records) {
    bytes += RECORD_HEAD_BYTES + (record.key === null ? 0 : 3 * record.key.length) + mostBytesOf(record)
  }
  return bytes
}

/** The whole request with its frame, as a part of `into`, which has `produceBound` bytes. */
export const writeProduce = (into: Buffer, query: ProduceQuery): Buffer => {
  // The head holds the length of the batch, so the batch is written first, and the head ends where it begins.
  const batchAt = FRAME_HEAD_BYTES + 3 * (query.clientId.length + query.topic.length)
  const batchEnd = writeBatch(into, batchAt, query.records, query.nowMs)
  const end = batchEnd + FRAME_TAIL.copy(into, batchEnd)
  const head = frameHead(query, batchEnd - batchAt)
  const start = batchAt - head.length
  head.copy(into, start)
  into.writeInt32BE(end - start - 4, start)
  return into.subarray(start, end)
}

const frameHead = (query: ProduceQuery, batchBytes: number): Buffer => {
  const out = new ByteWriter().int32(0).int16(PRODUCE.key).int16(PRODUCE.version).int32(query.correlationId)
  const client = Buffer.from(query.clientId)
  out.int16(client.length).raw(client).untagged()
  // In no transaction.
  out.uvarint(0).int16(ALL_IN_SYNC).int32(query.timeoutMs)
  // One topic, one partition of it.
  out.uvarint(2).compactText(query.topic)
  return out
    .uvarint(2)
    .int32(query.partition)
    .uvarint(batchBytes + 1)
    .bytes()
}

/** A record batch of format 2: not compressed, of no producer, in no transaction. Answers where it ends. */
export const writeBatch = (into: Buffer, at: number, records: readonly NewRecord[], nowMs: number): number => {
  const writer = new RecordWriter(into)
  let end = at + BATCH_HEAD_BYTES
  for (let index = 0; index < records.length; index++) end = writer.write(end, index, records[index]!)
  // First offset and leader epoch are the broker's to fill in; both stand before what the checksum covers.
  into.fill(0, at, at + 16)
  into.writeInt32BE(end - at - 12, at + 8)
  into[at + 16] = 2
  into.writeInt16BE(0, at + 21)
  into.writeInt32BE(records.length - 1, at + 23)
  writeTime(into, at + 27, nowMs)
  writeTime(into, at + 35, nowMs)
  // Producer, its epoch, first sequence: -1, none.
  into.fill(0xff, at + 43, at + 57)
  into.writeInt32BE(records.length, at + 57)
  into.writeUInt32BE(crc32c(into, at + 21, end), at + 17)
  return end
}

const writeTime = (into: Buffer, at: number, timeMs: number): void => {
  into.writeInt32BE(Math.floor(timeMs / 2 ** 32), at)
  into.writeUInt32BE(timeMs % 2 ** 32, at + 4)
}

/** Writes records one behind the other. */
class RecordWriter {
  /** Of the record before: records come in runs of a key, which is then copied. */
  private key: string | null = null
  private keyBytes = -1
  private keyAt = 0

  constructor(private readonly into: Buffer) {}

  write(at: number, index: number, record: NewRecord): number {
    const { into } = this
    const { key } = record
    if (key === null) this.keyBytes = -1
    else if (key !== this.key) this.keyBytes = Buffer.byteLength(key)
    // How long the value is stands before it, in as many bytes as that takes, and may be known only once it is written.
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

  /** What stands between the length of the record and its value, and the byte behind that. */
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

const varintBytes = (value: number): number => {
  const unsigned = zigzag(value)
  return unsigned < 0x80 ? 1 : unsigned < 0x4000 ? 2 : unsigned < 0x20_0000 ? 3 : unsigned < 0x1000_0000 ? 4 : 5
}

const writeVarint = (into: Buffer, at: number, value: number): number => {
  let rest = zigzag(value)
  let end = at
  for (; rest >= 0x80; rest >>>= 7) into[end++] = (rest & 0x7f) | 0x80
  into[end++] = rest
  return end
}

export interface Produced {
  /** The broker's code for the partition. */
  readonly error: number
  /** How long the broker wants to be left alone. */
  readonly throttleMs: number
}

export const readProduce = (bytes: Uint8Array): Produced => {
  const from = new ByteReader(bytes)
  from.tagged()
  const [error] = from.compactArray(() => {
    from.compactText()
    const [code] = from.compactArray(() => producedPartition(from))
    from.tagged()
    return code
  })
  if (error === undefined) throw new Error('Produce was answered without a partition')
  return { error, throttleMs: from.int32() }
}

const producedPartition = (from: ByteReader): number => {
  from.int32()
  const error = from.int16()
  // First offset, log append time, where the log begins.
  from.take(24)
  from.compactArray(() => {
    from.int32()
    from.compactText()
    from.tagged()
  })
  from.compactText()
  from.tagged()
  return error
}
