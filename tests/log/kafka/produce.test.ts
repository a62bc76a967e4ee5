import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { appendProblem, MAX_APPEND_BYTES, MAX_APPEND_RECORDS } from '../../../src/log/append-limits.ts'
import { ByteReader, ByteWriter } from '../../../src/log/kafka/bytes.ts'
import {
  PRODUCE,
  type ProduceQuery,
  produceBound,
  readProduce,
  writeBatch,
  writeProduce,
} from '../../../src/log/kafka/produce.ts'
import { readBatches } from '../../../src/log/kafka/records.ts'
import { MIN_MESSAGE_BYTES } from '../../../src/log/kafka/topic-rules.ts'
import type { LogRecord, NewRecord } from '../../../src/log/port.ts'

/**
 * The encoder and decoder of record batches in kafkajs: an independent implementation to compare ours with. It has no
 * types for them.
 */
const kafkajs = async <T>(file: string): Promise<T> => (await import(`kafkajs/src/protocol/${file}.js`)) as T
interface TheirRecord {
  readonly offset: string
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly timestamp: string
}
const { RecordBatch } = await kafkajs<{ RecordBatch(batch: object): Promise<{ buffer: Buffer }> }>(
  'recordBatch/v0/index',
)
const { default: Record } = await kafkajs<{ default(record: object): unknown }>('recordBatch/record/v0/index')
const { default: Decoder } = await kafkajs<{ default: new (bytes: Buffer) => unknown }>('decoder')
const { default: decodeBatch } = await kafkajs<{ default(from: unknown): Promise<{ records: TheirRecord[] }> }>(
  'recordBatch/v0/decoder',
)

const NOW_MS = Date.UTC(2026, 10, 22, 12)
const encoder = new TextEncoder()

const theirs = async (records: readonly NewRecord[]): Promise<Buffer> => {
  const encoded = records.map(({ key, value }, offsetDelta) =>
    Record({
      offsetDelta,
      key: key === null ? null : Buffer.from(key),
      value: value === null ? null : Buffer.from(value),
    }),
  )
  const batch = { firstTimestamp: NOW_MS, maxTimestamp: NOW_MS, producerEpoch: -1, firstSequence: -1 }
  return (await RecordBatch({ ...batch, records: encoded, lastOffsetDelta: records.length - 1 })).buffer
}

const query = (records: readonly NewRecord[], more: Partial<ProduceQuery> = {}): ProduceQuery => ({
  ...{
    correlationId: 7,
    clientId: 'gatelog',
    timeoutMs: 1_700,
    appends: [{ topic: 'requests', partition: 3, records }],
    nowMs: NOW_MS,
    packer: null,
  },
  ...more,
})

/** In memory that holds something else already. */
const batchOf = (records: readonly NewRecord[]): Buffer => {
  const into = Buffer.alloc(produceBound(query(records)), 0xaa)
  return into.subarray(5, writeBatch(into, 5, records, NOW_MS, null))
}

const bytes = fc.uint8Array({ maxLength: 300 })
const record: fc.Arbitrary<NewRecord> = fc.record({
  key: fc.option(fc.oneof(fc.string({ maxLength: 80 }), fc.string({ unit: 'grapheme', maxLength: 80 }))),
  value: fc.option(bytes),
})
const batch = fc.array(record, { minLength: 1, maxLength: 256 })

/** Lengths at which a varint takes another byte: 64, 8,192 and 1,048,576, about. */
const EDGES = [0, 1, 62, 63, 64, 65, 8_180, 8_191, 8_192, 8_193, 200_000, 1_048_575, 1_048_576]

describe('a record batch', () => {
  test('is byte for byte what kafkajs encodes', async () => {
    await fc.assert(
      fc.asyncProperty(batch, async (records) => expect(batchOf(records)).toEqual(await theirs(records))),
      { numRuns: 60 },
    )
    for (const length of EDGES) {
      const records = [{ key: 'k'.repeat(length % 9_000), value: new Uint8Array(length).fill(7) }]
      expect(batchOf(records).equals(await theirs(records))).toBe(true)
    }
  })

  test('is read back by our reader and by that of kafkajs: keys, values, tombstones, order', async () => {
    await fc.assert(
      fc.asyncProperty(batch, async (records) => {
        const written = batchOf(records)
        const [ours] = readBatches(written)
        const wanted = records.map(({ key, value }, offset) => ({ offset, atMs: NOW_MS, key, value }))
        expect(ours!.records).toEqual(wanted)
        expect([ours!.firstOffset, ours!.lastOffset]).toEqual([0, records.length - 1])
        const read = await decodeBatch(new Decoder(written))
        const found = read.records.map(
          ({ offset, key, value, timestamp }): LogRecord => ({
            offset: Number(offset),
            atMs: Number(timestamp),
            key: key?.toString() ?? null,
            value: value === null ? null : Uint8Array.from(value),
          }),
        )
        expect(found).toEqual(wanted)
      }),
      { numRuns: 60 },
    )
  })

  test('a value that is written in place is the value, whatever it was thought to take', async () => {
    for (const length of EDGES) {
      for (const more of [0, 1, 3, 70, 9_000]) {
        const value = Uint8Array.from({ length }, (_, index) => index * 7)
        const writeValue = (into: Buffer, at: number) => {
          into.set(value, at)
          return at + length
        }
        const written = { key: 'k', value, valueBound: length + more, writeValue }
        const plain = { key: 'k', value }
        expect(batchOf([plain, written, plain]).equals(await theirs([plain, plain, plain]))).toBe(true)
      }
    }
  })

  test('half a character in a key becomes what UTF-8 makes of it, and its length is told', () => {
    const [read] = readBatches(batchOf([{ key: 'a\ud800b', value: encoder.encode('v') }]))
    expect(read!.records[0]).toMatchObject({ key: 'a\ufffdb', value: encoder.encode('v') })
  })
})

describe('the request', () => {
  test('golden bytes', () => {
    const into = Buffer.alloc(1_000, 0xaa)
    const sent = writeProduce(
      into,
      query([
        { key: 'k', value: encoder.encode('v') },
        { key: null, value: null },
      ]),
    )
    expect(sent.toString('hex')).toBe(
      [
        ...['00000079', '0000', '0009', '00000007', '0007', Buffer.from('gatelog').toString('hex'), '00'],
        ...['00', 'ffff', '000006a4', '02', '09', Buffer.from('requests').toString('hex'), '02', '00000003'],
        ...['4e', GOLDEN_BATCH, '000000'],
      ].join(''),
    )
  })

  test('says acks=all, no transaction and its own length, and never needs more than its bound', () => {
    const names = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 })
    fc.assert(
      fc.property(batch, names, names, (records, clientId, topic) => {
        const asked = query(records, { clientId, appends: [{ topic, partition: 3, records }] })
        const bound = produceBound(asked)
        const into = Buffer.alloc(bound + 16, 0xaa)
        const sent = writeProduce(into.subarray(0, bound), asked)
        expect(into.subarray(bound).every((byte) => byte === 0xaa)).toBe(true)
        const from = new ByteReader(sent)
        expect(from.int32()).toBe(sent.length - 4)
        expect([from.int16(), from.int16(), from.int32()]).toEqual([PRODUCE.key, PRODUCE.version, 7])
        expect(from.text(from.int16())).toBe(clientId)
        from.tagged()
        expect([from.compactText(), from.int16(), from.int32()]).toEqual([null, -1, 1_700])
        const [read] = from.compactArray(() => {
          const name = from.compactText()
          const partitions = from.compactArray(() => {
            const found = { partition: from.int32(), batches: readBatches(from.compactBytes()!) }
            from.tagged()
            return found
          })
          from.tagged()
          return { name, partitions }
        })
        from.tagged()
        expect([from.remaining, read!.name, read!.partitions.length]).toEqual([0, topic, 1])
        expect(read!.partitions[0]!.partition).toBe(3)
        expect(read!.partitions[0]!.batches.map((one) => one.records.length)).toEqual([records.length])
      }),
      { numRuns: 100 },
    )
  })

  test('the largest append there may be is one that every topic takes, with keys as long as they come', () => {
    // A tenant's id and the longest name that an instance may have.
    const key = `${'t'.repeat(36)}/${'i'.repeat(128)}`
    const value = new Uint8Array(MAX_APPEND_BYTES / MAX_APPEND_RECORDS)
    const records = Array.from({ length: MAX_APPEND_RECORDS }, () => ({ key, value }))
    expect(appendProblem(records)).toBeNull()
    expect(batchOf(records).length).toBeLessThanOrEqual(MIN_MESSAGE_BYTES)
  })
})

/** An answer of version 9, with what newer brokers add to it. */
const answer = (partitions: readonly { readonly error: number; readonly message: string | null }[]): Buffer => {
  const out = new ByteWriter().untagged()
  out.compactArray(['requests'], (topic) => {
    out.compactText(topic).compactArray(partitions, ({ error, message }) => {
      out.int32(3).int16(error).int64(40).int64(-1).int64(0)
      out.compactArray(message === null ? [] : [0], (index) =>
        out.int32(index).compactText('of this record').untagged(),
      )
      if (message === null) out.uvarint(0)
      else out.compactText(message)
      out.uvarint(1).uvarint(9).uvarint(2).raw(Uint8Array.of(1, 2))
    })
    out.untagged()
  })
  return out.int32(250).untagged().bytes()
}

describe('the answer', () => {
  test.each([0, 6, 10, 87, -1])('error %i of the partition, with and without words, and how long to wait', (error) => {
    const read = { partitions: [{ topic: 'requests', partition: 3, error }], throttleMs: 250 }
    expect(readProduce(answer([{ error, message: null }]))).toEqual(read)
    expect(readProduce(answer([{ error, message: 'too large' }]))).toEqual(read)
  })

  test('one that names no partition, or ends early, is no answer', () => {
    expect(readProduce(answer([])).partitions).toEqual([])
    const whole = answer([{ error: 0, message: null }])
    for (let length = 0; length < whole.length - 1; length++) {
      expect(() => readProduce(whole.subarray(0, length))).toThrow()
    }
  })
})

/** Of two records, the second without key and value, at NOW_MS; made by kafkajs. */
const GOLDEN_BATCH =
  '0000000000000000000000410000000002116bf8cf000000000001000001a20320a200000001a20320a200ffffffffffffffffffffffffffff0000000210000000026b0276000c000002010100'
