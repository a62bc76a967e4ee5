import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { unpackLz4 } from '../../../src/lib/compression/lz4.ts'
import { recordPacker } from '../../../src/log/kafka/packed-batch.ts'
import { type ProduceAppend, produceBound, writeBatch, writeProduce } from '../../../src/log/kafka/produce.ts'
import { readBatches } from '../../../src/log/kafka/records.ts'
import type { NewRecord } from '../../../src/log/port.ts'

const NOW_MS = Date.UTC(2026, 10, 27, 12)
const packer = recordPacker()
const encoder = new TextEncoder()
const ATTRIBUTES_AT = 21
const RECORDS_AT = 61
const LZ4 = 3

const query = (records: readonly NewRecord[]) => {
  const appends: ProduceAppend[] = [{ topic: 'requests', partition: 3, records }]
  return { correlationId: 7, clientId: 'gatelog', timeoutMs: 1_700, nowMs: NOW_MS, packer, appends }
}

/** Written to memory with other content, of exactly the size that `produceBound` gives. */
const batchOf = (records: readonly NewRecord[], how = packer): Buffer => {
  const into = Buffer.alloc(produceBound(query(records)), 0xaa)
  return into.subarray(0, writeBatch(into, 0, records, NOW_MS, how))
}
const isPacked = (batch: Buffer): boolean => batch.readUInt16BE(ATTRIBUTES_AT) === LZ4
const read = (batch: Buffer) => readBatches(batch)[0]!.records.map(({ key, value }) => ({ key, value }))
const plain = (records: readonly NewRecord[]) => records.map(({ key, value }) => ({ key, value }))

const KINDS = Array.from({ length: 20 }, (_, index) => ({ name: `kind-${index}`, text: 'x'.repeat(40 * index) }))

/**
 * Records that differ from others of their `like` in a number only, that have other content than their `like`, or that
 * are shorter than their `valueBound`.
 */
const record: fc.Arbitrary<NewRecord> = fc
  .record({
    kind: fc.option(fc.nat({ max: KINDS.length - 1 })),
    number: fc.nat(),
    noise: fc.option(fc.uint8Array({ maxLength: 200 })),
    key: fc.option(
      fc.oneof(fc.constantFrom('ten_1/ins_1', 'ten_2/ins_1'), fc.string({ unit: 'grapheme', maxLength: 60 })),
    ),
    isTombstone: fc.boolean(),
    more: fc.option(fc.nat({ max: 9_000 })),
  })
  .map(({ kind, number, noise, key, isTombstone, more }) => {
    if (kind === null) return { key, value: isTombstone ? null : (noise ?? new Uint8Array(0)) }
    const like = KINDS[kind]!
    const text = encoder.encode(JSON.stringify({ number, kind: like.name, text: like.text }))
    const value = noise === null ? text : Uint8Array.from([...noise, ...text])
    const writeValue = (into: Buffer, at: number) => {
      into.set(value, at)
      return at + value.length
    }
    return more === null ? { key, value, like } : { key, value, like, valueBound: value.length + more, writeValue }
  })

describe('packed records', () => {
  test('are the records that were given, in as much room as was asked for', () => {
    fc.assert(
      fc.property(fc.array(record, { minLength: 8, maxLength: 256 }), (records) => {
        const batch = batchOf(records)
        expect(isPacked(batch)).toBe(true)
        expect(read(batch)).toEqual(plain(records))
      }),
      { numRuns: 100 },
    )
  })

  test('are, unpacked, byte for byte what stands there without packing', () => {
    fc.assert(
      fc.property(fc.array(record, { minLength: 8, maxLength: 100 }), (records) => {
        const unpacked = unpackLz4(batchOf(records).subarray(RECORDS_AT), 64 * 1_048_576)
        expect(Buffer.from(unpacked).equals(batchOf(records, null).subarray(RECORDS_AT))).toBe(true)
      }),
      { numRuns: 60 },
    )
  })

  test('of a gateway take less than a tenth where they differ in numbers only, over many blocks', () => {
    const [like] = KINDS
    const value = (number: number) => encoder.encode(`{"number":${number},"same":"${'abcdefgh'.repeat(200)}"}`)
    const records = Array.from({ length: 256 }, (_, index) => ({
      key: 'ten_1',
      value: value(1_000 + index),
      like: like!,
    }))
    const batch = batchOf(records)
    expect(read(batch)).toEqual(plain(records))
    expect(batchOf(records, null).length).toBeGreaterThan(400_000)
    expect(batch.length).toBeLessThan(40_000)
  })

  test('two kinds in turn are each like their own, and one whose length changes like the last of its length', () => {
    const same = (kind: number) => Array.from({ length: 150 }, (_, index) => 100 + ((index * (kind + 3) * 7) % 900))
    const records = Array.from({ length: 120 }, (_, index) => {
      const kind = index % 2
      const number = index % 3 === 0 ? 10_000 + index : 100 + index
      const value = encoder.encode(`{"number":${number},"same":"${same(kind).join('-')}"}`)
      return { key: 'ten_1', value, like: KINDS[kind]! }
    })
    const batch = batchOf(records)
    expect(read(batch)).toEqual(plain(records))
    expect(batch.length).toBeLessThan(10_000)
    expect(batchOf(records, null).length).toBeGreaterThan(70_000)
  })

  test('of many tenants, each of a kind of its own, are like those of others where they have as many bytes', () => {
    const records = Array.from({ length: 300 }, (_, index) => {
      const like = KINDS[index % KINDS.length]!
      const value = encoder.encode(
        `{"tenant":"ten_${(index % KINDS.length) + 100}","same":"${'abcdefghij-'.repeat(150)}"}`,
      )
      return { key: `ten_${index % KINDS.length}`, value, like }
    })
    const batch = batchOf(records)
    expect(read(batch)).toEqual(plain(records))
    expect(batch.length * 8).toBeLessThan(batchOf(records, null).length)
  })

  test('a record that takes a block of its own has its own key, whatever stood where it is written', () => {
    const sizes = [10, 65_000, 20, 64_000, 30, 65_100, 40, 63_000]
    const records = sizes.map((bytes) => ({ key: 'ten_1/ins_1', value: new Uint8Array(bytes).fill(0x61) }))
    expect(isPacked(batchOf(records))).toBe(true)
    expect(read(batchOf(records))).toEqual(plain(records))
  })

  test('stand as they are where there are fewer than eight, where one is longer than a block, and where nobody packs', () => {
    const few = Array.from({ length: 7 }, (_, index) => ({ key: 'k', value: encoder.encode(`v${index}`) }))
    const long = [...few, { key: 'k', value: new Uint8Array(65_530).fill(7) }]
    for (const records of [few, long]) {
      expect(batchOf(records).equals(batchOf(records, null))).toBe(true)
      expect(isPacked(batchOf(records))).toBe(false)
    }
    const enough = [...few, { key: 'k', value: encoder.encode('v7') }]
    expect(isPacked(batchOf(enough))).toBe(true)
    expect(isPacked(batchOf(enough, null))).toBe(false)
  })

  test('of noise take a few bytes more than they are, which were asked for', () => {
    let seed = 1
    const noise = () => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
      return seed & 0xff
    }
    const records = Array.from({ length: 8 }, () => ({ key: null, value: Uint8Array.from({ length: 60_000 }, noise) }))
    const batch = batchOf(records)
    expect(isPacked(batch)).toBe(true)
    expect(read(batch)).toEqual(plain(records))
    expect(batch.length - batchOf(records, null).length).toBeLessThan(100)
  })

  test('a request of several partitions keeps within its bound', () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(record, { minLength: 1, maxLength: 20 }), { minLength: 1, maxLength: 4 }),
        (all) => {
          const appends = all.map((records, partition) => ({ topic: 'requests', partition, records }))
          const bound = produceBound({ clientId: 'gatelog', appends })
          const into = Buffer.alloc(bound + 8, 0xaa)
          writeProduce(into.subarray(0, bound), { ...query([]), appends })
          expect(into.subarray(bound).every((byte) => byte === 0xaa)).toBe(true)
        },
      ),
      { numRuns: 60 },
    )
  })
})
