// Produce, the request for every outcome: record batch and frame are written straight into one buffer and sent as they
// are. kafkajs makes an object and several buffers of each record and a copy of the whole at each of five levels
// (docs/decisions/0038-produce-of-our-own.md).
import { crc32c } from '../../lib/compression/compression.ts'
import type { NewRecord } from '../port.ts'
import { ByteReader, ByteWriter } from './bytes.ts'
import { packedMore, type RecordPacker } from './packed-batch.ts'
import { RecordWriter, recordBound, uvarintBytes, writeUvarint } from './record.ts'
import type { Api } from './wire.ts'

export const PRODUCE: Api = { name: 'Produce', key: 0, version: 9 }

/** Records for one partition. */
export interface ProduceAppend {
  readonly topic: string
  readonly partition: number
  readonly records: readonly NewRecord[]
}

export interface ProduceQuery {
  readonly correlationId: number
  readonly clientId: string
  /** The broker's timeout for its replicas. */
  readonly timeoutMs: number
  /** Time of the records, Unix milliseconds. Topics have LogAppendTime, so the broker replaces it. */
  readonly nowMs: number
  /** Null: nothing is packed. */
  readonly packer: RecordPacker | null
  /** At least one, and none of the same partition as another. */
  readonly appends: readonly ProduceAppend[]
}

const ALL_IN_SYNC = -1
/** Size of the head of a batch, before its records. */
const BATCH_HEAD_BYTES = 61
/** Size of the request without names and batches; then of a partition in it, without its topic's name. */
const FRAME_BYTES = 64
const PARTITION_BYTES = 24

/** Upper bound of the bytes of this request. */
export const produceBound = ({ clientId, appends }: Pick<ProduceQuery, 'clientId' | 'appends'>): number => {
  let bytes = FRAME_BYTES + 3 * clientId.length
  for (const append of appends) bytes += appendBound(append)
  return bytes
}

/** The share of one append in that. */
export const appendBound = ({ topic, records }: ProduceAppend): number =>
  PARTITION_BYTES + 3 * topic.length + batchBound(records)

const batchBound = (records: readonly NewRecord[]): number => {
  let bytes = BATCH_HEAD_BYTES
  for (const record of records) bytes += recordBound(record)
  return bytes + packedMore(records.length)
}

/** The whole request with its frame, as a part of `into`, which has room for `produceBound` bytes. */
export const writeProduce = (into: Buffer, query: ProduceQuery): Buffer => {
  const topics = Map.groupBy(query.appends, ({ topic }) => topic)
  let end = frameHead(query, topics.size).copy(into)
  for (const [topic, appends] of topics) {
    const head = new ByteWriter().compactText(topic).uvarint(appends.length + 1)
    end += head.bytes().copy(into, end)
    for (const append of appends) end = writePartition(into, end, append, query)
    into[end++] = NO_TAGS
  }
  into[end++] = NO_TAGS
  into.writeInt32BE(end - 4)
  return into.subarray(0, end)
}
const NO_TAGS = 0

const frameHead = ({ correlationId, clientId, timeoutMs }: ProduceQuery, topics: number): Buffer => {
  const client = Buffer.from(clientId)
  const out = new ByteWriter().int32(0).int16(PRODUCE.key).int16(PRODUCE.version).int32(correlationId)
  out.int16(client.length).raw(client).untagged()
  // In no transaction.
  out.uvarint(0).int16(ALL_IN_SYNC).int32(timeoutMs)
  return out.uvarint(topics + 1).bytes()
}

const writePartition = (
  into: Buffer,
  at: number,
  { partition, records }: ProduceAppend,
  { nowMs, packer }: ProduceQuery,
): number => {
  into.writeInt32BE(partition, at)
  // As with a record, the length precedes the batch and is known once the batch is written.
  const guessed = at + 4 + uvarintBytes(batchBound(records) + 1)
  const bytes = writeBatch(into, guessed, records, nowMs, packer) - guessed
  const batchAt = writeUvarint(into, at + 4, bytes + 1)
  if (batchAt !== guessed) into.copyWithin(batchAt, guessed, guessed + bytes)
  into[batchAt + bytes] = NO_TAGS
  return batchAt + bytes + 1
}

/** Writes a record batch of format 2, without producer or transaction. Returns its end. */
export const writeBatch = (
  into: Buffer,
  at: number,
  records: readonly NewRecord[],
  nowMs: number,
  packer: RecordPacker | null,
): number => {
  const recordsAt = at + BATCH_HEAD_BYTES
  const packedEnd = packer?.write(into, recordsAt, records) ?? null
  const end = packedEnd ?? writeRecords(into, recordsAt, records)
  // The broker fills in first offset and leader epoch; the checksum does not cover them.
  into.fill(0, at, at + 16)
  into.writeInt32BE(end - at - 12, at + 8)
  into[at + 16] = 2
  into.writeInt16BE(packedEnd === null ? NOT_PACKED : LZ4, at + 21)
  into.writeInt32BE(records.length - 1, at + 23)
  writeTime(into, at + 27, nowMs)
  writeTime(into, at + 35, nowMs)
  // Producer, its epoch, first sequence: -1 for none.
  into.fill(0xff, at + 43, at + 57)
  into.writeInt32BE(records.length, at + 57)
  into.writeUInt32BE(crc32c(into, at + 21, end), at + 17)
  return end
}

/** Attributes of a batch. */
const NOT_PACKED = 0
const LZ4 = 3

const writeRecords = (into: Buffer, at: number, records: readonly NewRecord[]): number => {
  const writer = new RecordWriter(into)
  let end = at
  for (let index = 0; index < records.length; index++) end = writer.write(end, index, records[index]!)
  return end
}

const writeTime = (into: Buffer, at: number, timeMs: number): void => {
  into.writeInt32BE(Math.floor(timeMs / 2 ** 32), at)
  into.writeUInt32BE(timeMs % 2 ** 32, at + 4)
}

export interface Produced {
  readonly partitions: readonly ProducedPartition[]
  /** How long the broker wants no requests. */
  readonly throttleMs: number
}

export interface ProducedPartition {
  readonly topic: string
  readonly partition: number
  /** The broker's code. */
  readonly error: number
}

export const readProduce = (bytes: Uint8Array): Produced => {
  const from = new ByteReader(bytes)
  from.tagged()
  const topics = from.compactArray(() => {
    const topic = from.compactText() ?? ''
    const partitions = from.compactArray(() => producedPartition(from, topic))
    from.tagged()
    return partitions
  })
  return { partitions: topics.flat(), throttleMs: from.int32() }
}

const producedPartition = (from: ByteReader, topic: string): ProducedPartition => {
  const partition = from.int32()
  const error = from.int16()
  // First offset, log append time, first offset of the log.
  from.take(24)
  from.compactArray(() => {
    from.int32()
    from.compactText()
    from.tagged()
  })
  from.compactText()
  from.tagged()
  return { topic, partition, error }
}
