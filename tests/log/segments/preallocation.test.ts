import { afterAll, describe, expect, test } from 'bun:test'
import { closeSync, cpSync, openSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { type Files, nodeFiles } from '../../../src/log/files.ts'
import { SegmentRoom } from '../../../src/log/segments/preallocation.ts'
import { type Damage, SegmentCursor } from '../../../src/log/segments/reader.ts'
import { listSegments } from '../../../src/log/segments/writer.ts'
import { spoolDirectory } from '../../../src/log/spool/directory.ts'
import type { LocalSpool } from '../../../src/log/spool/open.ts'
import { SmallDisk } from '../small-disk.ts'
import { openTestSpool, readAll, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let made = 0
const fresh = (): string => join(folder.path, `data-${made++}`)

/** Room comes in steps of an eighth of it. */
const SEGMENT_BYTES = 16_000
const STEP_BYTES = 2_000

const append = (spool: LocalSpool, index: number, chars = 0) =>
  spool.append('requests', 'request.settled', 'tenant', JSON.stringify({ index, text: 'x'.repeat(chars) }))
const indexOf = ({ data }: { readonly data: string }): number => JSON.parse(data).index
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index)
const sizeOf = (spool: LocalSpool): number => statSync(listSegments(spool.directory).at(-1)!.path).size
const zerosAtEnd = (path: string): number => {
  const bytes = readFileSync(path)
  return bytes.length - 1 - bytes.findLastIndex((byte) => byte !== 0)
}

/** A spool with records and room behind them, as `kill -9` leaves it. */
const killed = async (count: number): Promise<string> => {
  const dataDir = fresh()
  const spool = await openTestSpool(dataDir, { segmentBytes: SEGMENT_BYTES })
  for (let index = 0; index < count; index++) await append(spool, index, 150)
  const copy = fresh()
  cpSync(dataDir, copy, { recursive: true })
  await spool.close()
  return copy
}

describe('room ahead of the records', () => {
  /** What is written, as `start-end`: nothing but zeros, and nothing else is asked of the files. */
  const noted = () => {
    const did: string[] = []
    const files = {
      write: (_: number, bytes: Uint8Array, start: number, length: number, position: number) => {
        expect(bytes.subarray(start, start + length).every((byte) => byte === 0)).toBe(true)
        did.push(`zeros ${position}-${position + length}`)
        return length
      },
    } as Partial<Files> as Files
    return { did, files }
  }

  test('is made up to the next step, once a segment is a step long', () => {
    const { did, files } = noted()
    const room = new SegmentRoom(files, 8_000)
    room.begin()
    room.make(1, 900, 50, 8_000)
    expect([did, room.isBeyond(900)]).toEqual([[], false])
    room.make(1, 1_100, 100, 8_000)
    expect(did.splice(0)).toEqual(['zeros 1100-2000'])
    room.make(1, 1_200, 800, 8_000)
    expect(did).toEqual([])
    room.make(1, 1_990, 2_020, 8_000)
    expect(did.splice(0)).toEqual(['zeros 2000-5000'])
    room.make(1, 4_900, 200, 8_000)
    expect(did.splice(0)).toEqual(['zeros 5000-6000'])
    room.make(1, 7_500, 400, 7_950)
    expect(did.splice(0)).toEqual(['zeros 7500-7950'])
    expect([room.isBeyond(7_949), room.isBeyond(7_950)]).toEqual([true, false])
    room.begin()
    expect(room.isBeyond(0)).toBe(false)
  })

  test('of a large segment comes in steps of 256 KiB', () => {
    const { did, files } = noted()
    new SegmentRoom(files, 64 * 1024 * 1024).make(1, 300_000, 100, 64 * 1024 * 1024)
    expect(did).toEqual(['zeros 300000-524288'])
  })

  test('a disk that has none is not asked again in this segment, and the records go on', async () => {
    const disk = new SmallDisk()
    const spool = await openTestSpool(fresh(), { segmentBytes: SEGMENT_BYTES, files: disk.files })
    for (let index = 0; index < 5; index++) await append(spool, index, 150)
    expect(sizeOf(spool)).toBeLessThan(STEP_BYTES)
    disk.left = STEP_BYTES - sizeOf(spool) + 800
    for (let index = 5; index < 9; index++) await append(spool, index, 150)
    expect([spool.status().writeFailures, sizeOf(spool) > STEP_BYTES, disk.left]).toEqual([0, true, 0])
    disk.left = Number.POSITIVE_INFINITY
    for (let index = 9; index < 90; index++) await append(spool, index, 150)
    await spool.close()
    const { records, damage } = readAll(spool.directory)
    expect([records.map(indexOf), damage]).toEqual([upTo(90), []])
  })

  test('is there while a segment is written, and gone when it is given up', async () => {
    const spool = await openTestSpool(fresh(), { segmentBytes: SEGMENT_BYTES })
    for (let index = 0; index < 40; index++) await append(spool, index, 150)
    expect(sizeOf(spool) % STEP_BYTES).toBe(0)
    expect(zerosAtEnd(listSegments(spool.directory).at(-1)!.path)).toBeGreaterThan(0)
    for (let index = 40; index < 200; index++) await append(spool, index, 150)
    await spool.close()
    expect(listSegments(spool.directory).length).toBeGreaterThan(2)
    for (const { path } of listSegments(spool.directory)) expect(zerosAtEnd(path)).toBe(0)
  })

  test('is not made where a power cut may not take what was acknowledged', async () => {
    const spool = await openTestSpool(fresh(), { segmentBytes: SEGMENT_BYTES, durability: 'host' })
    for (let index = 0; index < 40; index++) {
      await append(spool, index, 150)
      expect(zerosAtEnd(listSegments(spool.directory).at(-1)!.path)).toBe(0)
    }
    await spool.close()
  })
})

describe('what a kill leaves', () => {
  test('is no damage: all records are there, and the next number is the next one', async () => {
    const dataDir = await killed(45)
    const directory = spoolDirectory(dataDir, 0)
    expect(zerosAtEnd(listSegments(directory).at(-1)!.path)).toBeGreaterThan(0)
    expect(readAll(directory).records.map(indexOf)).toEqual(upTo(45))
    const spool = await openTestSpool(dataDir, { segmentBytes: SEGMENT_BYTES })
    expect(spool.status()).toMatchObject({ damaged: 0, tornBytes: 0, records: 45 })
    await append(spool, 45)
    const { records, damage } = readAll(directory)
    expect([records.map(indexOf), damage]).toEqual([upTo(46), []])
    for (const { path } of listSegments(directory).slice(0, -1)) expect(zerosAtEnd(path)).toBe(0)
    await spool.close()
  })

  test('is none either where nobody opens it before the next segment stands behind it', async () => {
    const dataDir = await killed(45)
    const directory = spoolDirectory(dataDir, 0)
    const last = listSegments(directory).at(-1)!
    const before = readFileSync(last.path)
    const spool = await openTestSpool(dataDir, { segmentBytes: SEGMENT_BYTES })
    await append(spool, 45)
    await spool.close()
    writeFileSync(last.path, before)
    const { records, damage } = readAll(directory)
    expect([records.map(indexOf), damage]).toEqual([upTo(46), []])
  })

  test('half a record in it is torn, and set aside without the zeros', async () => {
    const dataDir = await killed(45)
    const { path } = listSegments(spoolDirectory(dataDir, 0)).at(-1)!
    const bytes = readFileSync(path)
    const end = bytes.length - zerosAtEnd(path)
    bytes.write('half a fra', end)
    writeFileSync(path, bytes)
    const spool = await openTestSpool(dataDir)
    expect(spool.status()).toMatchObject({ damaged: 0, tornBytes: 10 })
    expect(statSync(path).size).toBe(end)
    await spool.close()
  })

  test('records that a power cut left behind zeros are read, and what is missing is damage', async () => {
    const dataDir = await killed(45)
    const { path } = listSegments(spoolDirectory(dataDir, 0)).at(-1)!
    const bytes = readFileSync(path)
    const [victim] = readAll(spoolDirectory(dataDir, 0)).records.slice(-3)
    const at = bytes.indexOf(victim!.data) - victim!.type.length - victim!.subject.length - 48
    bytes.fill(0, at, at + 200)
    writeFileSync(path, bytes)
    // Also by who reads it before somebody has opened it, and nothing stands behind it.
    expect(readAll(spoolDirectory(dataDir, 0)).records.length).toBe(44)
    const spool = await openTestSpool(dataDir)
    expect(spool.status()).toMatchObject({ damaged: 1, tornBytes: 0 })
    const { records, damage } = readAll(spool.directory)
    expect(records.map(indexOf)).toEqual(upTo(45).filter((index) => index !== 42))
    expect(damage.map(({ position }) => position)).toEqual([at])
    await spool.close()
  })
})

describe('zeros that are no room', () => {
  const zeroed = (path: string, from: number, to?: number): void => {
    const bytes = readFileSync(path)
    bytes.fill(0, from, to)
    writeFileSync(path, bytes)
  }
  const placeOf = (path: string, text: string): number => readFileSync(path).indexOf(text) - 48 - 15 - 6

  test('where none is made they are torn, and the number of what was lost is not given out again', async () => {
    const dataDir = fresh()
    const spool = await openTestSpool(dataDir, { durability: 'host' })
    for (let index = 0; index < 20; index++) await append(spool, index, 150)
    await spool.close()
    const { path } = listSegments(spool.directory).at(-1)!
    zeroed(path, placeOf(path, '{"index":19,'))
    const again = await openTestSpool(dataDir, { durability: 'host' })
    expect(again.status()).toMatchObject({ damaged: 0, records: 20 })
    expect(again.status().tornBytes).toBeGreaterThan(200)
    await append(again, 20)
    expect(readAll(again.directory).records.map(({ record }) => record)).toEqual([...upTo(19), 20])
    await again.close()
  })

  test('at the end of a segment that others follow they are damage where numbers are missing', async () => {
    const spool = await openTestSpool(fresh(), { segmentBytes: SEGMENT_BYTES })
    for (let index = 0; index < 200; index++) await append(spool, index, 150)
    await spool.close()
    const [, second] = listSegments(spool.directory)
    const all = readAll(spool.directory).records
    const last = all.findLast(({ data }) => readFileSync(second!.path).includes(data))!
    const from = placeOf(second!.path, `{"index":${indexOf(last) - 3},`)
    zeroed(second!.path, from)
    const { records, damage } = readAll(spool.directory)
    expect(records.length).toBe(196)
    expect(damage.map(({ ordinal, position, bytes }) => [ordinal, position, bytes.length])).toEqual([
      [2, from, second!.bytes - from],
    ])
  })

  test('of a file that has nothing else they are torn, and its numbers do not begin again', async () => {
    const dataDir = fresh()
    const spool = await openTestSpool(dataDir, { segmentBytes: SEGMENT_BYTES })
    for (let index = 0; index < 20; index++) await append(spool, index, 150)
    await spool.close()
    const [only] = listSegments(spool.directory)
    zeroed(only!.path, 0)
    const again = await openTestSpool(dataDir)
    expect(again.status().tornBytes).toBe(only!.bytes)
    await append(again, 20)
    expect(readAll(again.directory).records.map(({ record }) => record)).toEqual([1])
    await again.close()
  })

  test('in place of records while the segment is written, they stop nobody', async () => {
    const spool = await openTestSpool(fresh())
    const { directory } = spool
    for (let index = 0; index < 40; index++) await append(spool, index, 8_000)
    const damage: number[] = []
    const cursor = new SegmentCursor({ directory, onDamage: ({ position }) => damage.push(position) })
    cursor.seek({ record: 0 })
    const read: number[] = []
    const follow = () => {
      do read.push(...cursor.next(16).map(indexOf))
      while (!cursor.atEnd)
    }
    follow()
    for (let index = 40; index < 46; index++) await append(spool, index, 1_000)
    const { path } = listSegments(directory).at(-1)!
    const at = placeOf(path, '{"index":42,')
    const file = openSync(path, 'r+')
    writeSync(file, new Uint8Array(150), 0, 150, at)
    closeSync(file)
    for (let index = 46; index < 100; index++) {
      await append(spool, index, 1_000)
      follow()
    }
    expect([read, damage]).toEqual([upTo(100).filter((index) => index !== 42), [at]])
    cursor.close()
    await spool.close()
  })
})

describe('a reader that follows', () => {
  /** What a reader sees of bytes that are written meanwhile: some of those that it reads for the first time are not there yet. */
  const staleFiles = (places: readonly (readonly [number, number])[]): Files => {
    let reads = 0
    const shown = new Map<number, number>()
    return {
      ...nodeFiles,
      read(descriptor, bytes, start, length, position) {
        const count = nodeFiles.read(descriptor, bytes, start, length, position)
        const isNewFrom = Math.max(0, (shown.get(descriptor) ?? 0) - position)
        const [from, run] = places[reads++ % places.length]!
        const missing = Math.min(isNewFrom + from, count)
        bytes.fill(0, start + missing, start + Math.min(missing + run, count))
        shown.set(descriptor, Math.max(shown.get(descriptor) ?? 0, position + count))
        return count
      },
    }
  }
  const place = fc.tuple(fc.nat(6_000), fc.nat(4_000))
  const sizes = fc.array(fc.nat(700), { minLength: 10, maxLength: 120 })

  test('gets every record once and in order, whatever it reads while it is written', async () => {
    await fc.assert(
      fc.asyncProperty(
        sizes,
        fc.array(place, { minLength: 1, maxLength: 9 }),
        fc.boolean(),
        async (all, places, passing) => {
          const spool = await openTestSpool(fresh(), { segmentBytes: SEGMENT_BYTES })
          const damage: Damage[] = []
          const cursor = new SegmentCursor({
            directory: spool.directory,
            files: staleFiles(places),
            passing,
            onDamage: (found) => damage.push(found),
          })
          const read: number[] = []
          const follow = () => {
            do read.push(...cursor.next(16).map(indexOf))
            while (!cursor.atEnd)
          }
          for (const [index, chars] of all.entries()) {
            const written = append(spool, index, chars)
            if (index === 0) {
              await written
              expect(cursor.seek({ record: 0 })).toBe(true)
            }
            if (chars % 3 > 0) await written
            if (chars % 5 === 0) follow()
          }
          await append(spool, all.length)
          for (let times = 0; times < 30 && read.length <= all.length; times++) follow()
          expect([read, damage]).toEqual([upTo(all.length + 1), []])
          cursor.close()
          await spool.close()
        },
      ),
      { numRuns: 150 },
    )
  })

  test('reads little of the room at the end, however often it looks', async () => {
    const spool = await openTestSpool(fresh())
    for (let index = 0; index < 400; index++) await append(spool, index, 1_000)
    expect(sizeOf(spool)).toBe(512 * 1024)
    let bytesRead = 0
    const read: Files['read'] = (...parameters) => {
      const count = nodeFiles.read(...parameters)
      bytesRead += count
      return count
    }
    const cursor = new SegmentCursor({ directory: spool.directory, files: { ...nodeFiles, read } })
    cursor.seek({ record: 0 })
    let records = 0
    do records += cursor.next(1_000).length
    while (!cursor.atEnd)
    expect(records).toBe(400)
    bytesRead = 0
    for (let times = 0; times < 1_000; times++) expect([cursor.next(10).length, cursor.atEnd]).toEqual([0, true])
    expect(bytesRead).toBeLessThanOrEqual(1_050 * 32 * 1024)
    await append(spool, 400, 1_000)
    expect(cursor.next(10).map(indexOf)).toEqual([400])
    cursor.close()
    await spool.close()
  })
})
