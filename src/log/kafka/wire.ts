// The three requests whose kafkajs versions lack topic ids and leader epochs. Bodies only: kafkajs frames and sends
// them.
import { ByteReader, ByteWriter } from './bytes.ts'

export interface Api {
  readonly name: string
  readonly key: number
  readonly version: number
}
export const FETCH: Api = { name: 'Fetch', key: 1, version: 13 }
export const LIST_OFFSETS: Api = { name: 'ListOffsets', key: 2, version: 7 }
export const METADATA: Api = { name: 'Metadata', key: 3, version: 12 }

/** Error codes of the protocol that are distinguished here. */
export const CODE = {
  none: 0,
  offsetOutOfRange: 1,
  corruptMessage: 2,
  unknownTopic: 3,
  messageTooLarge: 10,
  invalidTopic: 17,
  recordListTooLarge: 18,
  notEnoughReplicas: 19,
  topicAuthorizationFailed: 29,
  clusterAuthorizationFailed: 31,
  topicAlreadyExists: 36,
  policyViolation: 44,
  unsupportedCompression: 76,
  invalidRecord: 87,
} as const
/** The client is not authorised: its ACLs need a change. */
export const DENIED: ReadonlySet<number> = new Set([CODE.topicAuthorizationFailed, CODE.clusterAuthorizationFailed])

export interface PartitionMetadata {
  readonly error: number
  readonly partition: number
  /** Node id, -1 for none. */
  readonly leader: number
  readonly leaderEpoch: number
  readonly replicas: readonly number[]
}
export interface TopicMetadata {
  readonly error: number
  readonly name: string
  /** 32 hex digits; new with every creation of a topic. */
  readonly id: string
  readonly partitions: readonly PartitionMetadata[]
}
export interface Metadata {
  readonly brokers: readonly { readonly node: number; readonly host: string; readonly port: number }[]
  readonly controller: number
  readonly topics: readonly TopicMetadata[]
}

const NO_ID = new Uint8Array(16)
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

/** Queries these topics only, and never creates one. */
export const metadataRequest = (topics: readonly string[]): Buffer => {
  const out = new ByteWriter().untagged()
  out.compactArray(topics, (name) => out.raw(NO_ID).compactText(name).untagged())
  return out.int8(0).int8(0).untagged().bytes()
}

export const readMetadata = (bytes: Uint8Array): Metadata => {
  const from = new ByteReader(bytes)
  from.tagged()
  from.int32()
  const brokers = from.compactArray(() => {
    const broker = { node: from.int32(), host: from.compactText() ?? '', port: from.int32() }
    from.compactText()
    from.tagged()
    return broker
  })
  from.compactText()
  const controller = from.int32()
  const topics = from.compactArray(() => {
    const topic = { error: from.int16(), name: from.compactText() ?? '', id: hex(from.take(16)) }
    from.int8()
    const partitions = from.compactArray(() => partitionMetadata(from))
    from.int32()
    from.tagged()
    return { ...topic, partitions }
  })
  return { brokers, controller, topics }
}

const partitionMetadata = (from: ByteReader): PartitionMetadata => {
  const found = { error: from.int16(), partition: from.int32(), leader: from.int32(), leaderEpoch: from.int32() }
  const replicas = from.compactArray(() => from.int32())
  from.compactArray(() => from.int32())
  from.compactArray(() => from.int32())
  from.tagged()
  return { ...found, replicas }
}

export const EARLIEST = -2
export const LATEST = -1
const UNCOMMITTED = 0

/** `at`: EARLIEST or LATEST. The epoch fences a deposed leader. */
export const listOffsetsRequest = (topic: string, partition: number, leaderEpoch: number, at: number): Buffer => {
  const out = new ByteWriter().untagged().int32(-1).int8(UNCOMMITTED)
  out.compactArray([topic], (name) => {
    out.compactText(name)
    out.compactArray([partition], (index) => out.int32(index).int32(leaderEpoch).int64(at).untagged()).untagged()
  })
  return out.untagged().bytes()
}

export const readListOffsets = (bytes: Uint8Array): { readonly error: number; readonly offset: number } => {
  const from = new ByteReader(bytes)
  from.tagged()
  from.int32()
  const [topic] = from.compactArray(() => {
    from.compactText()
    const [found] = from.compactArray(() => {
      from.int32()
      const error = from.int16()
      from.int64()
      const offset = from.int64()
      from.int32()
      from.tagged()
      return { error, offset }
    })
    from.tagged()
    return found
  })
  if (topic === undefined) throw new Error('ListOffsets was answered without a partition')
  return topic
}

export interface FetchQuery {
  readonly topicId: string
  readonly partition: number
  readonly leaderEpoch: number
  readonly offset: number
  /** Epoch of the last record that was read, -1 for none: with it the broker reports a diverged history. */
  readonly lastEpoch: number
  readonly maxWaitMs: number
  readonly maxBytes: number
}
export interface Fetched {
  readonly error: number
  /** Not null when the history that `lastEpoch` belongs to is not (or no longer) the partition's. */
  readonly divergedAt: { readonly epoch: number; readonly end: number } | null
  /** Record batches, the last one perhaps cut off. A view into the response. */
  readonly records: Uint8Array
}

export const fetchRequest = (query: FetchQuery): Buffer => {
  const out = new ByteWriter().untagged()
  // Replica -1: a consumer. Session 0, epoch -1: no fetch session, every request is complete.
  out.int32(-1).int32(query.maxWaitMs).int32(1).int32(query.maxBytes).int8(UNCOMMITTED).int32(0).int32(-1)
  out.compactArray([query], ({ topicId, partition, leaderEpoch, offset, lastEpoch, maxBytes }) => {
    out.raw(Buffer.from(topicId, 'hex'))
    out.compactArray([partition], (index) =>
      out.int32(index).int32(leaderEpoch).int64(offset).int32(lastEpoch).int64(-1).int32(maxBytes).untagged(),
    )
    out.untagged()
  })
  out.compactArray([], () => undefined)
  return out.compactText('').untagged().bytes()
}

export const readFetch = (bytes: Uint8Array): Fetched => {
  const from = new ByteReader(bytes)
  from.tagged()
  from.int32()
  const error = from.int16()
  from.int32()
  const [topic] = from.compactArray(() => {
    from.take(16)
    const [found] = from.compactArray(() => fetchedPartition(from))
    from.tagged()
    return found
  })
  if (topic !== undefined && error === CODE.none) return topic
  if (error === CODE.none) throw new Error('Fetch was answered without a partition')
  return { error, divergedAt: null, records: new Uint8Array(0) }
}

const fetchedPartition = (from: ByteReader): Fetched => {
  from.int32()
  const error = from.int16()
  from.int64()
  from.int64()
  from.int64()
  from.compactArray(() => {
    from.int64()
    from.int64()
    from.tagged()
  })
  from.int32()
  const records = from.compactBytes() ?? new Uint8Array(0)
  let divergedAt: Fetched['divergedAt'] = null
  from.tagged({
    0: (field) => {
      const found = { epoch: field.int32(), end: field.int64() }
      if (found.epoch >= 0 || found.end >= 0) divergedAt = found
    },
  })
  return { error, divergedAt, records }
}
