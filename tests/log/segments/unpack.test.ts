import { expect, test } from 'bun:test'
import { BLOCK_BYTES } from '../../../src/lib/compression/lz4-pack.ts'
import { PACKED_LIMITS } from '../../../src/log/append-limits.ts'
import { addFrame, emptyBatch } from '../../../src/log/segments/batch.ts'
import { CHUNK_BUFFER_BYTES, ChunkBuffers } from '../../../src/log/segments/chunk-buffers.ts'
import { type PackedFrame, readFrame } from '../../../src/log/segments/frame.ts'
import { subjectOf } from '../../../src/log/segments/frame-subject.ts'
import { BatchPacker } from '../../../src/log/segments/pack.ts'
import { OWN_BUFFERS, UnpackedFrames } from '../../../src/log/segments/unpack.ts'

const COUNT = 16
const data = (record: number) => JSON.stringify({ record, text: 'x'.repeat(3_800) })

/** One unit of some 62 KB. */
const unit = (): { bytes: Buffer; packed: PackedFrame } => {
  const batch = emptyBatch({ record: 0, requests: 0, operations: 0 })
  for (let record = 0; record < COUNT; record++) {
    const numbers = { record, offset: record, sequence: record, atMs: 1 }
    addFrame(batch, 'requests', numbers, subjectOf('request.settled', 'one'), data(record))
  }
  const { buffer, ends } = BatchPacker.make()!.pack(batch)!
  expect(ends.length).toBe(1)
  const bytes = Buffer.from(buffer.subarray(0, ends[0]))
  return { bytes, packed: readFrame(bytes, 0, bytes.length) as PackedFrame }
}

test('buffers of its own are given out first, however many are in use now and then, and none twice', () => {
  const own = Array.from({ length: 3 }, () => Buffer.allocUnsafe(CHUNK_BUFFER_BYTES))
  const buffers = new ChunkBuffers(true, own)
  let atHand: Buffer = Buffer.allocUnsafe(0)
  for (const used of [2, 20, 3, 20, 20, 1, 4, 3]) {
    const taken = Array.from({ length: used }, () => {
      atHand = buffers.another(1, atHand)
      return atHand
    })
    expect(new Set(taken).size).toBe(used)
    expect(taken.slice(0, 3).every((buffer) => own.some((one) => one === buffer))).toBe(true)
    buffers.leave(atHand)
    atHand = Buffer.allocUnsafe(0)
    buffers.recycle()
  }
})

test('a batch of the sender fits memory of the unpacker, and after a larger one so does the next', () => {
  const { bytes, packed } = unit()
  const frames = new UnpackedFrames(true)
  const unitsOfBatch = Math.ceil(PACKED_LIMITS.bytes / BLOCK_BYTES)
  let own: ArrayBufferLike | null = null
  for (const units of [1, unitsOfBatch, 3 * unitsOfBatch, 1, 3 * unitsOfBatch, unitsOfBatch]) {
    frames.recycle()
    const used = new Set<Buffer>()
    const given: string[] = []
    const texts: (() => string)[] = []
    for (let index = 0; index < units; index++) {
      expect(frames.add(bytes, packed, index === 0)).toBe(true)
      used.add(frames.buffer)
      for (let frame = frames.next(); frame !== null; frame = frames.next()) {
        const { data: text } = frame
        const kept = frame
        given.push(text)
        texts.push(() => kept.data)
      }
    }
    const expected = Array.from({ length: units * COUNT }, (_, at) => data(at % COUNT))
    expect([given, texts.map((text) => text())]).toEqual([expected, expected])
    const memories = [...used].map(({ buffer }) => buffer)
    own ??= memories[0]!
    expect(memories.filter((memory) => memory === own).length).toBe(Math.min(OWN_BUFFERS, used.size))
    if (units <= unitsOfBatch) expect(used.size).toBeLessThanOrEqual(OWN_BUFFERS)
  }
})
