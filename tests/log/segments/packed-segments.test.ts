// Batches that are packed: how they are written, and what is read of them.

import { afterAll, describe, expect, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { nodeFiles } from '../../../src/log/files.ts'
import { wholeOf } from '../../../src/log/segments/batch.ts'
import { CHUNK_BUFFER_BYTES, SPARE_BUFFERS } from '../../../src/log/segments/chunk-buffers.ts'
import { readFrame, type StoredFrame } from '../../../src/log/segments/frame.ts'
import { SegmentFrames } from '../../../src/log/segments/frames.ts'
import { framesIn } from '../../../src/log/segments/packed-frames.ts'
import { SegmentReader, type SegmentReaderOptions } from '../../../src/log/segments/reader.ts'
import { listSegments } from '../../../src/log/segments/writer.ts'
import { REFUSABLE } from '../../../src/log/spool/port.ts'
import { SmallDisk } from '../small-disk.ts'
import { openTestSpool, readAll, temporaryFolder } from '../support.ts'
import { appendAll, bytesOf, given, likeEachOther, storedIn, textsOf } from './packed.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let made = 0
const fresh = (): string => join(folder.path, `data-${made++}`)

const FEWEST = 8

/** Texts as they are while they may be used, of all readers. */
const readBy = (
  directory: string,
  how: Partial<SegmentReaderOptions>,
  limit: number,
): { texts: string[]; kept: string[]; damage: number } => {
  let damage = 0
  const cursor = new SegmentReader({ directory, ...how, onDamage: () => damage++ })
  const texts: string[] = []
  const kept: (() => string)[] = []
  if (cursor.seek({ record: 0 }))
    do {
      const records = cursor.next(limit)
      for (const record of records) texts.push(record.data)
      if (how.passing !== true && how.recycling !== true) kept.push(...records.map((record) => () => record.data))
    } while (!cursor.atEnd)
  cursor.close()
  return { texts, kept: kept.map((text) => text()), damage }
}

describe('a batch of many records', () => {
  test('is read as it was written, by every kind of reader, over many segments', async () => {
    const batches = fc.array(fc.array(given, { minLength: 1, maxLength: 40 }), { minLength: 1, maxLength: 6 })
    await fc.assert(
      fc.asyncProperty(
        batches,
        fc.constantFrom(30_000, 300_000, undefined),
        fc.integer({ min: 1, max: 70 }),
        async (all, segmentBytes, limit) => {
          const spool = await openTestSpool(fresh(), segmentBytes === undefined ? {} : { segmentBytes })
          const texts: string[] = []
          const topics: boolean[] = []
          for (const batch of all) {
            const own = textsOf(batch, texts.length)
            await appendAll(spool, own, batch)
            texts.push(...own)
            topics.push(...batch.map(({ isOperation }) => isOperation))
          }
          const requests = texts.filter((_, at) => !topics[at])
          for (const how of [{}, { passing: true }, { recycling: true }]) {
            const read = readBy(spool.directory, how, limit)
            expect(read).toEqual({ texts, kept: read.kept, damage: 0 })
            if (!('passing' in how) && !('recycling' in how)) expect(read.kept).toEqual(texts)
            expect(readBy(spool.directory, { ...how, topic: 'requests' }, limit).texts).toEqual(requests)
          }
          const { records } = readAll(spool.directory)
          expect(records.map(({ record }) => record)).toEqual(texts.map((_, at) => at))
          await spool.close()
          const again = await openTestSpool(spool.directory.replace(/\/spool\/\d+$/, ''))
          expect([again.status().damaged, again.status().tornBytes, again.end]).toEqual([0, 0, texts.length])
          await again.close()
        },
      ),
      { numRuns: 40 },
    )
  })

  test('takes a tenth of the room where they are alike, one of few records is as it was, and so is each where all are to be on the disk', async () => {
    const spool = await openTestSpool(fresh())
    const few = likeEachOther(FEWEST - 1)
    await appendAll(spool, textsOf(few), few)
    const plain = bytesOf(spool).length
    expect(storedIn(bytesOf(spool)).some(({ topic }) => topic === 'packed')).toBe(false)
    const many = likeEachOther(32)
    await appendAll(spool, textsOf(many), many)
    const [packed, ...more] = storedIn(bytesOf(spool)).filter(({ topic }) => topic === 'packed')
    expect(more).toEqual([])
    expect(packed).toMatchObject({ record: few.length, sequence: 32, type: '', subject: '' })
    expect(bytesOf(spool).length - plain).toBeLessThan((plain / few.length) * 32 * 0.1)
    await spool.close()
    const host = await openTestSpool(fresh(), { durability: 'host' })
    await appendAll(host, textsOf(many), many)
    expect(storedIn(bytesOf(host)).filter(({ topic }) => topic === 'requests').length).toBe(32)
    await host.close()
  })

  test('fills a segment by what it is when it is not packed: a start reads as much as before', async () => {
    const spool = await openTestSpool(fresh(), { segmentBytes: 100_000 })
    const all = likeEachOther(32)
    for (let batch = 0; batch < 20; batch++) await appendAll(spool, textsOf(all), all)
    const segments = listSegments(spool.directory)
    expect(segments.length).toBeGreaterThanOrEqual(3)
    expect(Math.max(...segments.map(({ bytes }) => bytes))).toBeLessThan(40_000)
    await spool.close()
  })

  test('of a full disk is there up to what fitted, and what was acknowledged is what is read', async () => {
    for (const leftBytes of [40_000, 70_000, 150_000, 200_000]) {
      const disk = new SmallDisk()
      const spool = await openTestSpool(fresh(), { files: disk.files })
      await appendAll(spool, ['{}'], likeEachOther(1))
      disk.left = leftBytes
      const all = likeEachOther(31).map((one) => ({ ...one, isNoise: true, chars: 8_000 }))
      const results = await Promise.allSettled(
        textsOf(all).map((text) => spool.append('requests', 'request.settled', 'tenant', text)),
      )
      const written = results.filter(({ status }) => status === 'fulfilled').length
      // Eight fit a block of 64 KiB.
      expect(written).toBe(8 * Math.floor(leftBytes / 65_500))
      const { records, damage } = readAll(spool.directory)
      expect([records.length, damage]).toEqual([1 + written, []])
      disk.left = Number.POSITIVE_INFINITY
      spool.refresh()
      await appendAll(spool, ['{"last":1}'], likeEachOther(1))
      await spool.close()
      const after = readAll(spool.directory)
      expect([after.records.length, after.damage, after.records.at(-1)!.data]).toEqual([2 + written, [], '{"last":1}'])
    }
  })

  test('stays what it is while somebody may read it, however much comes behind it', async () => {
    const spool = await openTestSpool(fresh())
    const all = likeEachOther(32).map((one) => ({ ...one, chars: 4_000 }))
    const texts: string[] = []
    for (let batch = 0; batch < 48; batch++) {
      const own = textsOf(all, texts.length)
      await appendAll(spool, own, all)
      texts.push(...own)
    }
    const bytes = texts.reduce((sum, text) => sum + text.length, 0)
    // More than what a reader has of memory that is used again.
    expect(bytes).toBeGreaterThan(SPARE_BUFFERS * CHUNK_BUFFER_BYTES)
    for (const how of [{}, { recycling: true }, { passing: true }])
      for (const limit of [5, 100, 1_000, 2_000]) {
        const read = readBy(spool.directory, how, limit)
        expect([read.texts, read.damage]).toEqual([texts, 0])
        if (Object.keys(how).length === 0) expect(read.kept).toEqual(texts)
      }
    await spool.close()
  })

  test('is given out as a whole by who reads into the same memory all the time', async () => {
    const spool = await openTestSpool(fresh())
    const all = likeEachOther(32)
    await appendAll(spool, textsOf(all), all)
    const cursor = new SegmentReader({ directory: spool.directory, passing: true })
    cursor.seek({ record: 0 })
    expect(cursor.next(100).length).toBe(32)
    cursor.close()
    await spool.close()
  })

  test('with a record as long as they may be holds it as it is', async () => {
    const spool = await openTestSpool(fresh())
    const long = JSON.stringify({ text: 'x'.repeat(64 * 1024 - 11) })
    expect(long.length).toBe(64 * 1024)
    const texts = ['{"n":1}', long, '{"n":2}', long, long, ...Array.from({ length: 9 }, () => '{"n":3}')]
    await appendAll(spool, texts, likeEachOther(texts.length))
    const stored = storedIn(bytesOf(spool)).map(({ topic }) => topic)
    expect(stored.filter((topic) => topic !== 'header')).toEqual([
      'packed',
      'requests',
      'packed',
      'requests',
      'requests',
      'packed',
    ])
    expect(readAll(spool.directory).records.map(({ data }) => data)).toEqual(texts)
    await spool.close()
  })

  test('comes once more to who asks for it, and not from a file that was left', async () => {
    const spool = await openTestSpool(fresh())
    const all = likeEachOther(32)
    await appendAll(spool, textsOf(all), all)
    const { path } = listSegments(spool.directory).at(-1)!
    const frames = new SegmentFrames(nodeFiles, false, () => {})
    frames.open(path)
    let frame = frames.next(false)!
    while (frame.record < 3 || frame.topic === 'header') frame = frames.next(false)!
    const { data } = frame
    expect(frames.bytesOf(frame).toString()).toContain(data)
    frames.rewind(frame)
    expect(frames.next(false)).toMatchObject({ record: 3, data })
    expect(frames.next(false)!.record).toBe(4)
    frames.open(path)
    expect(frames.next(false)!.topic).toBe('header')
    frames.close()
    await spool.close()
  })

  test('tells a start which admissions are open', async () => {
    const dataDir = fresh()
    const spool = await openTestSpool(dataDir)
    const admissions = await Promise.all(
      Array.from({ length: 40 }, (_, at) =>
        spool.append('requests', 'request.admitted', 'tenant', JSON.stringify({ id: `req_${at}` }), REFUSABLE),
      ),
    )
    await Promise.all(
      admissions.slice(0, 25).map((admission, at) => {
        const text = JSON.stringify({ id: `req_${at}`, admission: admission.id })
        return spool.append('requests', 'request.settled', 'tenant', text, admission)
      }),
    )
    const copy = fresh()
    cpSync(dataDir, copy, { recursive: true })
    await spool.close()
    expect(storedIn(bytesOf(spool)).filter(({ topic }) => topic === 'packed').length).toBeGreaterThanOrEqual(2)
    const again = await openTestSpool(copy)
    expect(again.openAtStart.map(({ recordId }) => recordId)).toEqual(admissions.slice(25).map(({ id }) => id))
    await again.close()
  })
})

test('of what is written in part, units count that end where it ends', () => {
  const sealed = { buffer: Buffer.alloc(0), bytes: 300, ends: [100, 300], frames: [7, 9] }
  const whole = [0, 99, 100, 299, 300].map((written) => wholeOf(sealed, written))
  expect(whole.map(({ count, bytes }) => [count, bytes])).toEqual([
    [0, 0],
    [0, 0],
    [7, 100],
    [7, 100],
    [9, 300],
  ])
})

test('a packed frame is read as it was when they were made first', () => {
  const golden =
    '//5MMlZTnORwAQAABAAIAAAAAAAAABxAAAAAAADAkEAAAAAAAAAgQAAA4GXlHnpCbAEAAP93//5MMwAAAABWAAAAAA8LAAAAAAAAABxAAAAAAAAACEAAAAAAAAAAAAAA4GXlHnpCcmVxdWVzdC5zZXR0bGVkdGVuXzEvaW5zXzF7Im4iOjAsIsOpIjoic2FtZSBzYW1lIHNhbWUgc2FtZSBzYW1lIHNhbWUgc2FtZSBzYW1lIHNhbWUgIn2GAAP/BSBAAAAAAAAAEEAAAAAAAADwPwAQhgASHzGGADn/BSJAAAAAAAAAFEAAAAAAAAAAQAAghgASHzKGADn/BSRAAAAAAAAAGEAAAAAAAAAIQAAwhgASHzOGADn/BSZAAAAAAAAAHEAAAAAAAAAQQABAhgASHzSGADn/BShAAAAAAAAAIEAAAAAAAAAUQABQhgASHzWGADn/BSpAAAAAAAAAIkAAAAAAAAAYQABghgASHzaGADn/BSxAAAAAAAAAJEAAAAAAAAAcQABwhgASHzeGABXgZSBzYW1lIHNhbWUgIn0='
  const bytes = Buffer.from(golden, 'base64')
  const frame = readFrame(bytes, 0, bytes.length) as StoredFrame
  expect(frame.end).toBe(bytes.length)
  expect(
    framesIn(bytes, frame)!.map(({ topic, type, subject, data, record, offset, sequence, atMs }) => [
      topic,
      type,
      subject,
      data,
      record,
      offset,
      sequence,
      atMs,
    ]),
  ).toEqual(
    Array.from({ length: 8 }, (_, n) => [
      'requests',
      'request.settled',
      'ten_1/ins_1',
      `{"n":${n},"é":"${'same '.repeat(9)}"}`,
      7 + n,
      3 + n,
      n,
      1_795_000_000_000 + n,
    ]),
  )
})
