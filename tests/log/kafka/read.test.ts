// A reader of one partition, with answers of a broker made here: what a fetched piece holds is handed on in parts.
import { expect, test } from 'bun:test'
import { ByteWriter } from '../../../src/log/kafka/bytes.ts'
import type { Cluster } from '../../../src/log/kafka/cluster.ts'
import { recordPacker } from '../../../src/log/kafka/packed-batch.ts'
import { writeBatch } from '../../../src/log/kafka/produce.ts'
import { follow } from '../../../src/log/kafka/read.ts'

/** Of each batch: 1 MB of values, packed to a twentieth. */
const RECORDS = 500
const BATCHES = 12
const PLACE = { topic: 't', partition: 0, from: 0 }
const RULE = { compacted: false, retainedForEver: false }

const sampleOf = (offset: number) => Buffer.from(`{"n":${offset},"same":"${'abcdefgh'.repeat(250)}"}`)
const batchAt = (first: number): Buffer => {
  const like = {}
  const records = Array.from({ length: RECORDS }, (_, index) => ({ key: 'k', value: sampleOf(first + index), like }))
  const into = Buffer.alloc(4 * 1_048_576)
  const batch = Buffer.from(into.subarray(0, writeBatch(into, 0, records, 1_000, recordPacker())))
  batch.writeBigInt64BE(BigInt(first), 0)
  return batch
}
const batches = Array.from({ length: BATCHES }, (_, index) => batchAt(index * RECORDS))
const from = (offset: number): Buffer => Buffer.concat(batches.slice(Math.floor(offset / RECORDS)))

/** What a broker answers to Fetch 13. */
const answer = (records: Buffer): Uint8Array => {
  const out = new ByteWriter().untagged().int32(0).int16(0).int32(0).uvarint(2)
  out.raw(Buffer.alloc(16)).uvarint(2).int32(0).int16(0).int64(0).int64(0).int64(0).uvarint(1).int32(0)
  return out
    .uvarint(records.length + 1)
    .raw(records)
    .untagged()
    .untagged()
    .untagged()
    .bytes()
}

/** Follows until it has everything, or throws; `fetched` answers a fetch from an offset. */
const readAll = async (fetched: (offset: number, fetches: number) => Buffer) => {
  const stop = new AbortController()
  const offsets: number[] = []
  const sizes: number[] = []
  let fetches = 0
  const request = async () => answer(fetched((offsets.at(-1) ?? -1) + 1, fetches++))
  const connection = { open: true, request, close: () => undefined }
  const cluster = {
    leader: async () => ({ topicId: 'x', leaderEpoch: 1, address: { host: 'h', port: 1 } }),
    own: async () => connection,
    responded: () => undefined,
    forget: () => undefined,
  } as unknown as Cluster
  for await (const records of follow(cluster, PLACE, RULE, new Map(), stop.signal)) {
    sizes.push(records.length)
    for (const { offset, value } of records) {
      if (!sampleOf(offset).equals(value!)) throw new Error(`offset ${offset} has another value`)
      offsets.push(offset)
    }
    if (offsets.length >= RECORDS * BATCHES) stop.abort()
  }
  return { offsets, sizes, fetches }
}
const EVERY = Array.from({ length: RECORDS * BATCHES }, (_, offset) => offset)

test('a fetched piece of packed records is handed on a MiB or so at a time, every offset once', async () => {
  const { offsets, sizes, fetches } = await readAll((offset) => from(offset))
  expect(offsets).toEqual(EVERY)
  expect(Math.max(...sizes)).toBeLessThanOrEqual(2 * RECORDS)
  expect(fetches).toBe(1)
})

test('what is cut off within a batch comes with the next fetch', async () => {
  const { offsets, fetches } = await readAll((offset, count) =>
    from(offset).subarray(0, count % 2 === 0 ? 200_000 : 120_000),
  )
  expect(offsets).toEqual(EVERY)
  expect(fetches).toBeLessThan(BATCHES)
})

test('damage behind what was handed on is fetched anew, not looked at again', async () => {
  const damaged = from(0)
  damaged.writeUInt8(9, batches.slice(0, 4).reduce((sum, { length }) => sum + length, 0) + 16)
  const { offsets, fetches } = await readAll((offset, count) => (count === 0 ? damaged : from(offset)))
  expect(offsets).toEqual(EVERY)
  expect(fetches).toBe(2)
})
