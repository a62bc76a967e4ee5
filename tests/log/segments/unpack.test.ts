import { expect, test } from 'bun:test'
import { BLOCK_BYTES } from '../../../src/lib/compression/lz4-pack.ts'
import { PACKED_LIMITS } from '../../../src/log/append-limits.ts'
import { addFrame, emptyBatch } from '../../../src/log/segments/batch.ts'
import { SPARE_BUFFERS } from '../../../src/log/segments/chunk-buffers.ts'
import { type PackedFrame, readFrame } from '../../../src/log/segments/frame.ts'
import { subjectOf } from '../../../src/log/segments/frame-subject.ts'
import { BatchPacker } from '../../../src/log/segments/pack.ts'
import { UnpackedFrames } from '../../../src/log/segments/unpack.ts'

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

test('a batch of the sender is unpacked into memory of the batches before it, also after a larger one', () => {
  const { bytes, packed } = unit()
  const frames = new UnpackedFrames(true)
  const unitsOfBatch = Math.ceil(PACKED_LIMITS.bytes / BLOCK_BYTES)
  const known = new Set<Buffer>()
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
    const fresh = [...used].filter((buffer) => !known.has(buffer))
    if (units <= unitsOfBatch) expect(used.size).toBeLessThanOrEqual(SPARE_BUFFERS)
    if (known.size >= SPARE_BUFFERS) expect(fresh.length).toBeLessThanOrEqual(Math.max(0, used.size - SPARE_BUFFERS))
    for (const buffer of used) known.add(buffer)
  }
})
