import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { cpSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { LogGap, LogReplaced } from '../../../src/log/port.ts'
import { type Frame, readFrame } from '../../../src/log/segments/frame.ts'
import { SegmentReader } from '../../../src/log/segments/reader.ts'
import { listSegments, segmentPath } from '../../../src/log/segments/writer.ts'
import { spoolDirectory } from '../../../src/log/spool/directory.ts'
import { openTestSpool, readAll, temporaryFolder } from '../support.ts'

const RECORDS = 40
const textOf = (index: number) => JSON.stringify({ id: `req_${index}`, text: `é${'x'.repeat(index * 3)}` })
const folder = temporaryFolder()
const original = join(folder.path, 'original')
let bytes: Buffer
let frames: Frame[]
let copies = 0

/** A copy of the original spool whose only segment holds these bytes. */
const copyWith = (content: Uint8Array): string => {
  const dataDir = join(folder.path, `copy-${copies++}`)
  cpSync(original, dataDir, { recursive: true })
  writeFileSync(segmentPath(spoolDirectory(dataDir, 0), 1), content)
  return dataDir
}

beforeAll(async () => {
  const spool = await openTestSpool(original)
  for (let index = 0; index < RECORDS; index++) {
    await spool.append(index % 3 === 0 ? 'operations' : 'requests', 'request.settled', `tenant ${index}`, textOf(index))
  }
  await spool.close()
  bytes = readFileSync(segmentPath(spool.directory, 1))
  frames = []
  for (let at = 0; at < bytes.length; ) {
    const frame = readFrame(bytes, at, bytes.length)
    if (typeof frame !== 'object') throw new Error('the original is damaged')
    frames.push(frame)
    at = frame.end
  }
})
afterAll(() => folder.remove())

const records = () => frames.filter((frame) => frame.topic !== 'header')

describe('a segment that a crash or a disk has spoiled', () => {
  test('cut anywhere, it loses at most the record that was cut, and goes on behind it', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length), async (cut) => {
        const dataDir = copyWith(bytes.subarray(0, cut))
        const spool = await openTestSpool(dataDir)
        await spool.append('requests', 'request.settled', 'after', '{}')
        await spool.close()
        const whole = records().filter((frame) => frame.end <= cut)
        const { records: read, damage } = readAll(spool.directory)
        expect(damage).toEqual([])
        expect(read.slice(0, -1).map(({ record, data }) => [record, data])).toEqual(
          whole.map(({ record, data }) => [record, data]),
        )
        const last = read.at(-1)!
        expect(last.subject).toBe('after')
        expect(last.record).toBeGreaterThanOrEqual(whole.length)
        expect(last.record).toBeLessThanOrEqual(whole.length + 1)
      }),
      { numRuns: 60 },
    )
  })

  test('with bits flipped, the records that were hit are set aside and counted, all others are read, none is wrong', async () => {
    const flips = fc.array(fc.tuple(fc.nat(bytes.length - 1), fc.nat(7)), { minLength: 1, maxLength: 4 })
    await fc.assert(
      fc.asyncProperty(flips, async (places) => {
        const content = Buffer.from(bytes)
        for (const [at, bit] of places) content[at] = content[at]! ^ (1 << bit)
        const hit = (frame: Frame) =>
          !content.subarray(frame.start, frame.end).equals(bytes.subarray(frame.start, frame.end))
        const headersLeft = frames.filter((frame) => frame.topic === 'header' && !hit(frame)).length
        const dataDir = copyWith(content)
        const spool = await openTestSpool(dataDir)
        const { damaged, tornBytes } = spool.status()
        await spool.append('requests', 'request.settled', 'after', '{}')
        await spool.close()
        const spoiled = frames.some(hit)
        expect(damaged > 0 || tornBytes > 0).toBe(spoiled)
        const survivors = headersLeft === 0 ? [] : records().filter((frame) => !hit(frame))
        const read = readAll(spool.directory).records
        expect(read.slice(0, -1).map(({ record, topic, offset, data }) => [record, topic, offset, data])).toEqual(
          survivors.map(({ record, topic, offset, data }) => [record, topic, offset, data]),
        )
        expect(read.at(-1)!.subject).toBe('after')
      }),
      { numRuns: 100 },
    )
  })

  test('a reader that follows meets the same damage: it waits while the segment may grow, and passes over it when the next one begins', async () => {
    const content = Buffer.from(bytes)
    const victim = records().at(-1)!
    content[victim.end - 1]! ^= 1
    const dataDir = copyWith(content)
    const damage: number[] = []
    const cursor = new SegmentReader({
      directory: spoolDirectory(dataDir, 0),
      onDamage: (found) => damage.push(found.position),
    })
    expect(cursor.seek({ record: 0 })).toBe(true)
    expect(cursor.next(1_000).length).toBe(RECORDS - 1)
    expect([cursor.next(1).length, cursor.atEnd, damage.length]).toEqual([0, true, 0])
    cpSync(segmentPath(spoolDirectory(original, 0), 1), segmentPath(spoolDirectory(dataDir, 0), 2))
    expect(cursor.next(10).map((record) => record.record)).toEqual([victim.record])
    expect(damage).toEqual([victim.start])
    cursor.close()
  })
})

describe('several segments', () => {
  const fill = async (dataDir: string, count: number) => {
    const spool = await openTestSpool(dataDir, { segmentBytes: 2_000 })
    for (let index = 0; index < count; index++)
      await spool.append('requests', 'feedback.given', 'tenant', textOf(index))
    await spool.close()
    return spool.directory
  }

  test('are read as one, from any record, by any number of openings', async () => {
    const dataDir = join(folder.path, 'several')
    for (const count of [30, 1, 25]) await fill(dataDir, count)
    const directory = spoolDirectory(dataDir, 0)
    expect(listSegments(directory).length).toBeGreaterThan(5)
    for (const from of [0, 1, 17, 30, 31, 55]) {
      expect(readAll(directory, from).records.map((record) => record.record)).toEqual(
        Array.from({ length: 56 - from }, (_, index) => from + index),
      )
    }
    const epochs = new Set(readAll(directory).records.map((record) => record.epoch))
    expect(epochs.size).toBe(3)
    const [last] = readAll(directory, 55).records
    expect([last!.sequence, last!.offset]).toEqual([24, 55])
  })

  test('are read in passing: the same texts, from one piece of memory', async () => {
    const dataDir = join(folder.path, 'passing')
    const spool = await openTestSpool(dataDir, { segmentBytes: 900_000 })
    const textAt = (index: number) => JSON.stringify({ index, text: 'é'.repeat((index * 7_919) % 30_000) })
    for (let index = 0; index < 120; index++)
      await spool.append(index % 10 === 0 ? 'operations' : 'requests', 'feedback.given', `ten_${index}`, textAt(index))
    await spool.close()
    const cursor = new SegmentReader({ directory: spool.directory, topic: 'requests', passing: true })
    expect(cursor.seek({ topic: 'requests', offset: 0 })).toBe(true)
    const seen: [number, string, string][] = []
    const memory = new Set<ArrayBufferLike>()
    do {
      const into = Buffer.alloc(100_000)
      for (const record of cursor.next(64)) {
        const copied = into.toString('utf8', 3, record.writeData(into, 3))
        seen.push([record.record, record.subject, copied])
        expect(record.data).toBe(copied)
      }
      memory.add((cursor as unknown as { frames: { buffer: Buffer } }).frames.buffer.buffer)
    } while (!cursor.atEnd)
    cursor.close()
    const wanted = Array.from({ length: 120 }, (_, index) => index).filter((index) => index % 10 !== 0)
    expect(seen).toEqual(wanted.map((index) => [index, `ten_${index}`, textAt(index)]))
    expect(memory.size).toBe(1)
  })

  test('copy what is open no oftener than it doubles, however much is open', async () => {
    const dataDir = join(folder.path, 'open')
    const spool = await openTestSpool(dataDir, { segmentBytes: 2_000 })
    const admission = (index: number) => JSON.stringify({ id: `req_${index}`, text: 'x'.repeat(100) })
    for (let index = 0; index < 1_000; index++) {
      await spool.append('requests', 'request.admitted', 'tenant', admission(index))
    }
    await spool.close()
    const segments = listSegments(spool.directory)
    const written = segments.reduce((sum, { path }) => sum + statSync(path).size, 0)
    const own = 1_000 * admission(999).length
    expect([segments.length > 3, segments.length < 20, written < 8 * own]).toEqual([true, true, true])
    expect(readAll(spool.directory).records.length).toBe(1_000)
  })

  test('one that is missing in the middle is a gap; a position that was deleted is LogReplaced', async () => {
    const dataDir = join(folder.path, 'missing')
    const directory = await fill(dataDir, 60)
    const [first, second, third] = listSegments(directory)
    await Bun.file(second!.path).delete()
    expect(() => readAll(directory)).toThrow(LogGap)
    await Bun.file(first!.path).delete()
    expect(() => readAll(directory, 1)).toThrow(LogReplaced)
    expect(readAll(directory, 0).records.at(-1)!.record).toBe(59)
    truncateSync(third!.path, 0)
    expect(readAll(directory, 58).records.map((record) => record.record)).toEqual([58, 59])
  })
})
