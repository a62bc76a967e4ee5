// Records that name texts instead of spelling them: what is read is what was appended, whatever batch, file or memory it went through, and never another text.
import { afterAll, expect, test } from 'bun:test'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import fc from 'fast-check'
import { SharedText, wholeRecordText } from '../../src/lib/shared-text.ts'
import { type Frame, frameBound, readFrame, writeFrame } from '../../src/log/frame.ts'
import { emptyBatch, restOf } from '../../src/log/segment-batch.ts'
import { SegmentWriter, segmentPath } from '../../src/log/segments.ts'
import { KnownTexts } from '../../src/log/shared-data.ts'
import { openTestSpool, readAll, temporaryFolder } from './support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let spools = 0
const newSpool = () => openTestSpool(`${folder.path}/${spools++}`)

const long = (name: string) => `"${name}":"${'é'.repeat(50)}"`
const textsOf = (count: number) => Array.from({ length: count }, (_, i) => new SharedText(long(`text ${i}`)))
/** `{"n":<n>,<text>,"end":0}` with texts by their places. */
const recordOf = (n: number, texts: readonly SharedText[]) => [
  '{"n":',
  n,
  ...texts.flatMap((text) => [',', text]),
  ',"end":0}',
]

const frameOf = (data: Parameters<typeof writeFrame>[6], batch: number) => {
  const buffer = Buffer.alloc(frameBound('request.settled', 'ten_1/ins_1', data))
  const numbers = { record: 1, offset: 1, sequence: 1, atMs: 1 }
  return buffer.subarray(0, writeFrame(buffer, 0, 'requests', numbers, 'request.settled', 'ten_1/ins_1', data, batch))
}

/** Where each frame of records ends. */
const framesOf = (bytes: Buffer): Frame[] => {
  const known = new KnownTexts()
  const frames: Frame[] = []
  for (let at = 0; at < bytes.length; ) {
    const frame = readFrame(bytes, at, bytes.length, known)
    if (typeof frame === 'string') throw new Error(`${frame} at ${at}`)
    if (frame.topic === 'requests') frames.push(frame)
    at = frame.end
  }
  return frames
}

test('what is read is what was appended, in batches of any size, by readers of all kinds', async () => {
  const batches = fc.array(fc.array(fc.array(fc.nat(5), { maxLength: 4 }), { minLength: 1, maxLength: 6 }), {
    minLength: 1,
    maxLength: 6,
  })
  await fc.assert(
    fc.asyncProperty(batches, async (turns) => {
      const texts = textsOf(6)
      const spool = await newSpool()
      const expected: string[] = []
      for (const turn of turns) {
        const appended = turn.map((places) => {
          const record = recordOf(
            expected.length,
            places.map((place) => texts[place]!),
          )
          expected.push(wholeRecordText(record))
          return spool.append('requests', 'request.settled', 'ten_1/ins_1', record)
        })
        await Promise.all(appended)
      }
      await spool.close()
      const { records, damage } = readAll(spool.directory)
      expect(damage).toEqual([])
      expect(records.map(({ data }) => data)).toEqual(expected)
      for (const record of records) {
        const into = Buffer.alloc(3 + record.dataBytes)
        expect(record.writeData(into, 3)).toBe(into.length)
        expect(into.toString('utf8', 3)).toBe(record.data)
      }
    }),
    { numRuns: 60 },
  )
})

test('a batch spells each text once, the next one again', async () => {
  const [text] = textsOf(1)
  const sizes: number[] = []
  const spool = await newSpool()
  for (let turn = 0; turn < 2; turn++) {
    const turns = Array.from({ length: 10 }, (_, n) => spool.append('requests', 't', 's', recordOf(n, [text!])))
    await Promise.all(turns)
    sizes.push(statSync(segmentPath(spool.directory, 1)).size)
  }
  await spool.close()
  const bytes = readFileSync(segmentPath(spool.directory, 1))
  const spelled = bytes.toString('latin1').split(text!.bytes.toString('latin1')).length - 1
  expect(spelled).toBe(2)
  // The second batch by itself says all.
  expect(framesOf(bytes.subarray(sizes[0])).map(({ data }) => data)).toEqual(
    Array.from({ length: 10 }, (_, n) => wholeRecordText(recordOf(n, [text!]))),
  )
})

test('where the record that spells a text is damaged, others are read with what is known from before, or are damage too, never something else', async () => {
  const texts = textsOf(2)
  const spool = await newSpool()
  const turn = (from: number) =>
    Promise.all(
      [0, 1, 2].map((n) => spool.append('requests', 't', 's', recordOf(from + n, n === 2 ? texts : [texts[0]!]))),
    )
  await turn(0)
  await turn(3)
  await spool.close()
  const path = segmentPath(spool.directory, 1)
  const whole = readFileSync(path)
  const frames = framesOf(whole)
  const after = (...hit: number[]) => {
    const bytes = Buffer.from(whole)
    for (const at of hit) bytes[frames[at]!.end - 1]! ^= 1
    writeFileSync(path, bytes)
    const { records, damage } = readAll(spool.directory)
    for (const { record, data } of records) expect(data).toBe(frames[record]!.data)
    return { read: records.map(({ record }) => record), damaged: damage.length }
  }
  expect(after(3)).toEqual({ read: [0, 1, 2, 4, 5], damaged: 1 })
  expect(after(0)).toEqual({ read: [3, 4, 5], damaged: 1 })
  expect(after(2)).toEqual({ read: [0, 1, 3, 4, 5], damaged: 1 })
})

test('the rest of a batch whose beginning is in another file says by itself what that spelled', () => {
  const texts = textsOf(2)
  const batch = emptyBatch({ record: 7, requests: 3, operations: 0 })
  for (let n = 0; n < 4; n++) {
    const numbers = { record: 7 + n, offset: 3 + n, sequence: n, atMs: 1 }
    batch.bytes = writeFrame(batch.buffer, batch.bytes, 'requests', numbers, 't', 's', recordOf(n, texts), batch.name)
    batch.ends.push(batch.bytes)
    batch.topics.push('requests')
  }
  const rest = restOf(batch, 2)
  expect(rest.first).toEqual({ record: 9, requests: 5, operations: 0 })
  const frames = framesOf(Buffer.from(rest.buffer.subarray(0, rest.bytes)))
  expect(frames.map(({ record, offset, sequence, data }) => [record, offset, sequence, data])).toEqual(
    [2, 3].map((n) => [7 + n, 3 + n, n, wholeRecordText(recordOf(n, texts))]),
  )
  expect(rest.ends).toEqual(frames.map(({ end }) => end))
})

test('a record that is too long for names, and one without a batch, spells its texts', () => {
  const text = new SharedText(long('a'))
  const huge = ['"', 'x'.repeat(60_000), '"', text]
  for (const [data, batch] of [
    [huge, 5],
    [recordOf(1, [text]), 0],
  ] as const) {
    const frame = readFrame(frameOf(data, batch), 0, frameOf(data, batch).length)
    expect(frame).toMatchObject({ data: wholeRecordText(data) })
  }
})

test('a frame of any bytes with a right checksum is a frame or damage, not an error', () => {
  const text = new SharedText(long('a'))
  const frame = frameOf(recordOf(1, [text, text, text]), 77)
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 }), (changes) => {
      const bytes = Buffer.from(frame)
      const from = 48 + 'request.settledten_1/ins_1'.length
      for (const [at, value] of changes) bytes[from + (at % (bytes.length - from))] = value
      bytes.writeUInt32LE(Bun.hash.crc32(bytes.subarray(8)), 4)
      const read = readFrame(bytes, 0, bytes.length)
      if (typeof read === 'object') expect(Buffer.byteLength(read.data)).toBeGreaterThanOrEqual(0)
      else expect(read).toBe('damaged')
    }),
    { numRuns: 2_000 },
  )
})

test('of two texts with one name the last that was spelled counts, and what is known has a bound', () => {
  const known = new KnownTexts()
  known.spelled(1, Buffer.from('one'), 0, 3)
  expect(known.spelled(1, Buffer.from('two'), 0, 3).toString()).toBe('two')
  expect(known.find(1)?.toString()).toBe('two')
  const text = Buffer.alloc(64 * 1024, 120)
  for (let name = 2; name < 402; name++) {
    text.writeUInt32LE(name, 0)
    known.spelled(name, text, 0, text.length)
    // What a batch may need of itself: a mebibyte.
    for (let last = Math.max(2, name - 15); last <= name; last++) expect(known.find(last)?.readUInt32LE(0)).toBe(last)
  }
  const found = Array.from({ length: 400 }, (_, i) => known.find(i + 2)).filter((text) => text !== undefined)
  expect(found.length).toBeLessThan(160)
})

test('a write that fails in the middle of a batch goes on in a segment that is read by itself', () => {
  const written = new Map<string, Buffer[]>()
  const paths: string[] = []
  let room = Number.POSITIVE_INFINITY
  const files = {
    create: (path: string) => paths.push(path.replace('.new', '')) - 1,
    write: (descriptor: number, bytes: Buffer, from: number, count: number) => {
      if (room <= 0) throw new Error('ENOSPC')
      const size = Math.min(count, room)
      room -= size
      const path = paths[descriptor]!
      written.set(path, [...(written.get(path) ?? []), Buffer.from(bytes.subarray(from, from + size))])
      return size
    },
    truncate: (descriptor: number, size: number) => {
      const path = paths[descriptor]!
      written.set(path, [Buffer.concat(written.get(path)!).subarray(0, size)])
    },
    rename() {},
    close() {},
    remove() {},
  }
  const writer = new SegmentWriter({
    ...{ directory: '/d', instance: 'ins_1', epoch: 'e', nowMs: () => 1, segmentBytes: 1e9, nextOrdinal: 1 },
    ...{ next: { record: 0, requests: 0, operations: 0 }, keepUnsynced: false, carried: () => [] },
    files: files as never,
  })
  const texts = textsOf(2)
  const add = (n: number) => writer.add('requests', 't', 's', recordOf(n, texts), 1)
  add(0)
  writer.flush()
  for (let n = 1; n < 5; n++) add(n)
  // The first frame spells two texts and fits, the others do not.
  room = 480
  expect(() => writer.flush()).toThrow('ENOSPC')
  room = Number.POSITIVE_INFINITY
  const whole = writer.leave()
  expect(whole).toBeGreaterThan(0)
  expect(whole).toBeLessThan(4)
  writer.flush()
  const read = [...written.values()].map((pieces) => framesOf(Buffer.concat(pieces)).map(({ data }) => data))
  expect(read).toHaveLength(2)
  expect(read.flat()).toEqual([0, 1, 2, 3, 4].map((n) => wholeRecordText(recordOf(n, texts))))
})
