import { describe, expect, test } from 'bun:test'
import { ByteReader, ByteWriter, ShortRead } from '../../../src/log/kafka/bytes.ts'
import { acceptBatches, type RecordBatch, readBatches, takeBatches } from '../../../src/log/kafka/records.ts'
import { LogGap } from '../../../src/log/port.ts'

const encoder = new TextEncoder()
const PLAIN = { compacted: false, name: 't/0' }
const COMPACTED = { compacted: true, name: 't/0' }

const record = (offset: number) => ({ offset, atMs: 1, key: null, value: encoder.encode(String(offset)) })
const batch = (offsets: readonly number[], lastOffset = offsets.at(-1)!, firstOffset = offsets[0]!): RecordBatch => ({
  firstOffset,
  lastOffset,
  epoch: 4,
  bytes: 1,
  records: offsets.map(record),
})
const accept = (batches: readonly RecordBatch[], next: number, rule = PLAIN) =>
  acceptBatches(batches, { next, epoch: -1 }, rule)
const offsetsOf = ({ records }: { records: readonly { offset: number }[] }) => records.map(({ offset }) => offset)

describe('what follows on from the next expected offset', () => {
  test('what lies below is dropped: a batch comes whole even when its middle was asked for', () => {
    const accepted = accept([batch([5, 6, 7, 8]), batch([9])], 7)
    expect(offsetsOf(accepted)).toEqual([7, 8, 9])
    expect(accepted).toMatchObject({ next: 10, epoch: 4, gap: null })
  })

  test('a batch that lies below altogether changes nothing', () => {
    expect(accept([batch([1, 2])], 7)).toMatchObject({ records: [], next: 7, gap: null })
  })

  test.each([
    ['between batches', [batch([3, 4]), batch([6])], 5, [3, 4]],
    ['within a batch', [batch([3, 5])], 4, [3]],
    ['at the start', [batch([4])], 3, []],
    ['at the end of a batch', [batch([3, 4], 5)], 5, [3, 4]],
    ['where a whole batch is empty', [batch([3]), { ...batch([], 4, 4), records: [] }], 4, [3]],
  ] as const)('a hole %s is a gap, after what came before it', (_, batches, next, before) => {
    const accepted = accept(batches, 3)
    expect(offsetsOf(accepted)).toEqual([...before])
    expect(accepted.gap).toBeInstanceOf(LogGap)
    expect(accepted.next).toBe(next)
  })

  test('in a compacted topic holes are passed over, also at the end of a batch', () => {
    const accepted = accept([batch([3, 5], 8), batch([12], 14)], 1, COMPACTED)
    expect(offsetsOf(accepted)).toEqual([3, 5, 12])
    expect(accepted).toMatchObject({ next: 15, gap: null })
  })
})

interface WireRecord {
  readonly key: string | null
  readonly value: string | null
  readonly deltaMs: number
}

/** A record batch of format 2, as a broker stores it. */
const wireBatch = (firstOffset: number, records: readonly WireRecord[], attributes = 0): Buffer => {
  const zigzag = (out: ByteWriter, value: number) => out.uvarint(value < 0 ? -value * 2 - 1 : value * 2)
  const body = new ByteWriter()
  records.forEach(({ key, value, deltaMs }, index) => {
    const one = new ByteWriter().int8(0)
    zigzag(one, deltaMs)
    zigzag(one, index)
    for (const text of [key, value]) {
      zigzag(one, text === null ? -1 : Buffer.byteLength(text))
      if (text !== null) one.raw(encoder.encode(text))
    }
    zigzag(one, 0)
    zigzag(body, one.bytes().length)
    body.raw(one.bytes())
  })
  const plain = Uint8Array.from(body.bytes())
  const packed = [plain, Bun.gzipSync(plain), plain, plain, Bun.zstdCompressSync(plain), plain][attributes & 7]!
  const rest = new ByteWriter().int32(4).int8(2).int32(0).int8(0).int8(attributes)
  rest
    .int32(records.length - 1)
    .int64(1_000)
    .int64(9_000)
  rest.int64(-1).int8(-1).int8(-1).int32(-1).int32(records.length).raw(packed)
  return Buffer.from(new ByteWriter().int64(firstOffset).int32(rest.bytes().length).raw(rest.bytes()).bytes())
}

describe('record batches', () => {
  const two = [
    { key: 'k€', value: 'a', deltaMs: 0 },
    { key: null, value: null, deltaMs: 250 },
  ]

  test('records with their offsets, keys, values and times; the epoch of the batch', () => {
    const [read] = readBatches(wireBatch(2 ** 40, two))
    expect(read).toEqual({
      firstOffset: 2 ** 40,
      lastOffset: 2 ** 40 + 1,
      epoch: 4,
      bytes: 20,
      records: [
        { offset: 2 ** 40, atMs: 1_000, key: 'k€', value: encoder.encode('a') },
        { offset: 2 ** 40 + 1, atMs: 1_250, key: null, value: null },
      ],
    })
  })

  test('with log append time, every record has the time of its batch', () => {
    expect(readBatches(wireBatch(0, two, 0x08))[0]!.records.map(({ atMs }) => atMs)).toEqual([9_000, 9_000])
  })

  test('what somebody packed is read, an unknown compression is named', () => {
    for (const codec of [1, 4]) {
      expect(readBatches(wireBatch(3, two, codec))[0]!.records.map(({ key }) => key)).toEqual(['k€', null])
    }
    expect(() => readBatches(wireBatch(3, two, 5))).toThrow('offset 3: compression 5')
  })

  test('a marker of a transaction is a record without key and value, so that no offset is missing', () => {
    const [marker] = readBatches(wireBatch(6, [{ key: 'xx', value: 'commit', deltaMs: 0 }], 0x20))
    expect(marker!.records).toEqual([{ offset: 6, atMs: 1_000, key: null, value: null }])
  })

  test('a batch that is cut off anywhere is left for the next fetch', () => {
    const first = wireBatch(0, two)
    const second = wireBatch(2, two)
    for (let length = first.length; length < first.length + second.length; length++) {
      const read = readBatches(Buffer.concat([first, second]).subarray(0, length))
      expect(read.map(({ firstOffset }) => firstOffset)).toEqual([0])
    }
  })

  test('of batches that hold much once they are unpacked, enough are read at once, and the rest of the piece later', () => {
    const long = [{ key: 'k', value: 'a'.repeat(100_000), deltaMs: 0 }]
    const piece = Buffer.concat([0, 1, 2, 3, 4].map((offset) => wireBatch(offset, long, 4)))
    expect(piece.length).toBeLessThan(1_000)
    const offsets: number[][] = []
    for (let rest: Uint8Array | null = piece; rest !== null; ) {
      const taken = takeBatches(rest, 150_000)
      offsets.push(taken.batches.map(({ firstOffset }) => firstOffset))
      rest = taken.rest
    }
    expect(offsets).toEqual([[0, 1], [2, 3], [4]])
    // One that is longer than what is enough is read all the same; what is cut off behind it, never.
    const cut = takeBatches(piece.subarray(0, piece.length - 1), 1)
    expect(cut.batches.map(({ firstOffset }) => firstOffset)).toEqual([0])
    const [, , , fourth, fifth] = [0, 1, 2, 3, 4].map((index) => piece.subarray((index * piece.length) / 5))
    expect(takeBatches(fourth!, 1).rest?.length).toBe(fifth!.length)
    expect(takeBatches(fifth!.subarray(0, -1), 1)).toEqual({ batches: [], rest: null })
  })

  test('bytes that are no batch are an error, never an endless read', () => {
    const broken = wireBatch(0, two)
    broken.writeUInt8(1, 16)
    expect(() => readBatches(broken)).toThrow('format 1')
    expect(() => new ByteReader(new Uint8Array([0xff, 0xff, 0xff, 0xff, 0xff, 0xff])).uvarint()).toThrow(ShortRead)
    expect(() => new ByteReader(new Uint8Array([0xff, 0x0f])).compactArray(() => 0)).toThrow(ShortRead)
  })
})
