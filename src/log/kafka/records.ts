// Record batches (format 2) as the log holds them, and the rule that no offset is skipped.

import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { unpackLz4, unpackSnappy } from '../../lib/compression/compression.ts'
import { LogGap, type LogRecord } from '../port.ts'
import { ByteReader } from './bytes.ts'

// The compressions that producers may choose. Gateways use LZ4 or none, but any producer with write access may use
// each of them (it may be the default of its client). A batch that cannot be read would block every reader of its
// partition for ever.

/** No batch of a gateway holds 3 MiB; a broker accepts what packs into one. */
const MAX_BATCH_BYTES = 64 * 1_048_576

type Unpack = (packed: Uint8Array, limit: number) => Uint8Array

/** Decompression by the number of the codec in a batch's attributes. */
const CODECS: Readonly<Record<number, Unpack>> = {
  1: (packed, maxOutputLength) => gunzipSync(packed, { maxOutputLength }),
  2: unpackSnappy,
  3: unpackLz4,
  4: (packed, maxOutputLength) => zstdDecompressSync(packed, { maxOutputLength }),
}

/** The records of a batch as they are without compression. Throws with the offset on what cannot be read. */
export const unpackRecords = (codec: number, packed: Uint8Array, firstOffset: number): Uint8Array => {
  const unpack = CODECS[codec]
  if (unpack === undefined) throw new Error(`record batch at offset ${firstOffset}: compression ${codec} is not known`)
  try {
    return unpack(packed, MAX_BATCH_BYTES)
  } catch (error) {
    throw new Error(`record batch at offset ${firstOffset}: compression ${codec} cannot be read: ${String(error)}`)
  }
}

export interface RecordBatch {
  readonly firstOffset: number
  /** Last offset of the batch, whether or not compaction left its last record. */
  readonly lastOffset: number
  readonly epoch: number
  /** Size of the records, unpacked. */
  readonly bytes: number
  readonly records: readonly LogRecord[]
}

const HEADER_BYTES = 12
const LOG_APPEND_TIME = 0x08
const CONTROL = 0x20

/**
 * The whole batches in fetched bytes; a batch cut off at the end comes with the next fetch. Throws on bytes that are
 * no batch.
 */
export const readBatches = (bytes: Uint8Array): RecordBatch[] => takeBatches(bytes, Number.POSITIVE_INFINITY).batches

/**
 * As many batches as hold `enough` bytes unpacked, one at least, and the rest: packed, fetched bytes may hold many
 * times their size.
 */
export const takeBatches = (bytes: Uint8Array, enough: number): { batches: RecordBatch[]; rest: Uint8Array | null } => {
  const from = new ByteReader(bytes)
  const batches: RecordBatch[] = []
  let unpacked = 0
  while (from.remaining >= HEADER_BYTES) {
    const firstOffset = from.int64()
    const length = from.int32()
    if (length > from.remaining) break
    const batch = readBatch(firstOffset, new ByteReader(from.take(length)))
    batches.push(batch)
    unpacked += batch.bytes
    if (unpacked >= enough) return { batches, rest: from.remaining === 0 ? null : from.take(from.remaining) }
  }
  return { batches, rest: null }
}

const readBatch = (firstOffset: number, from: ByteReader): RecordBatch => {
  const epoch = from.int32()
  const magic = from.int8()
  if (magic !== 2) throw new Error(`record batch of format ${magic} at offset ${firstOffset}: only format 2 is read`)
  from.uint32()
  const attributes = from.int16()
  const lastOffset = firstOffset + from.int32()
  const firstMs = from.int64()
  const maxMs = from.int64()
  from.take(14)
  const count = from.int32()
  const context = { firstOffset, firstMs, appendMs: (attributes & LOG_APPEND_TIME) === 0 ? null : maxMs }
  const codec = attributes & 7
  const body = codec === 0 ? from : new ByteReader(unpackRecords(codec, from.take(from.remaining), firstOffset))
  const bytes = body.remaining
  const records = Array.from({ length: count }, () => readRecord(body, context))
  // The marker of a foreign transaction takes an offset. It becomes a record without key and value: no offset is left
  // out.
  const plain = (attributes & CONTROL) === 0
  return {
    firstOffset,
    lastOffset,
    epoch,
    bytes,
    records: plain ? records : records.map((record) => ({ ...record, key: null, value: null })),
  }
}

const readRecord = (
  from: ByteReader,
  context: { firstOffset: number; firstMs: number; appendMs: number | null },
): LogRecord => {
  const end = from.varint() + from.offset
  from.int8()
  const atMs = context.appendMs ?? context.firstMs
  const deltaMs = from.varint()
  const offset = context.firstOffset + from.varint()
  const keyLength = from.varint()
  const key = keyLength < 0 ? null : from.text(keyLength)
  const valueLength = from.varint()
  // A copy: a view would retain the whole fetched buffer for as long as the record.
  const value = valueLength < 0 ? null : from.take(valueLength).slice()
  from.take(end - from.offset)
  return { offset, atMs: context.appendMs === null ? atMs + deltaMs : atMs, key, value }
}

export interface Accepted {
  readonly records: readonly LogRecord[]
  /** The next offset to fetch. */
  readonly next: number
  /** Epoch of the last batch, or the one given when there was none. */
  readonly epoch: number
  /** Thrown after `records` were returned. */
  readonly gap: LogGap | null
}

/**
 * The records of fetched batches from `next` on: earlier ones are dropped (a batch is always fetched whole), a hole is
 * a gap. In a compacted topic holes are ordinary, also at the end of a batch.
 */
export const acceptBatches = (
  batches: readonly RecordBatch[],
  start: { next: number; epoch: number },
  { compacted, name }: { compacted: boolean; name: string },
): Accepted => {
  const records: LogRecord[] = []
  let { next, epoch } = start
  const gapAt = (found: number): Accepted => {
    const gap = new LogGap(`${name}: expected offset ${next}, got ${found}: records in between are missing`)
    return { records, next, epoch, gap }
  }
  for (const batch of batches) {
    for (const record of batch.records) {
      if (record.offset < next) continue
      if (record.offset > next && !compacted) return gapAt(record.offset)
      records.push(record)
      next = record.offset + 1
    }
    epoch = batch.epoch
    if (batch.lastOffset >= next) {
      if (!compacted) return gapAt(batch.lastOffset + 1)
      next = batch.lastOffset + 1
    }
  }
  return { records, next, epoch, gap: null }
}
