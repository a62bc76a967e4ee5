// Zeros in a segment file, as a power cut and earlier versions leave them: behind its records they are the end of the
// log, in place of records they are damage.
import { afterAll, describe, expect, test } from 'bun:test'
import {
  appendFileSync,
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { type Files, nodeFiles } from '../../../src/log/files.ts'
import { type Damage, SegmentReader } from '../../../src/log/segments/reader.ts'
import { listSegments } from '../../../src/log/segments/writer.ts'
import { spoolDirectory } from '../../../src/log/spool/directory.ts'
import type { LocalSpool } from '../../../src/log/spool/open.ts'
import { openTestSpool, readAll, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let made = 0
const fresh = (): string => join(folder.path, `data-${made++}`)

const SEGMENT_BYTES = 16_000
const ZEROS = Buffer.alloc(200_000)

const append = (spool: LocalSpool, index: number, chars = 0) =>
  spool.append('requests', 'request.settled', 'tenant', JSON.stringify({ index, text: 'x'.repeat(chars) }))
const indexOf = ({ data }: { readonly data: string }): number => JSON.parse(data).index
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index)
const setAside = (directory: string): string[] => {
  const path = join(directory, 'set-aside')
  return existsSync(path) ? readdirSync(path).map((name) => readFileSync(join(path, name), 'utf8')) : []
}

/** A spool of so many records that was closed. */
const closed = async (count: number): Promise<string> => {
  const dataDir = fresh()
  const spool = await openTestSpool(dataDir, { segmentBytes: SEGMENT_BYTES })
  for (let index = 0; index < count; index++) await append(spool, index, 150)
  await spool.close()
  return dataDir
}

describe('zeros behind the last record', () => {
  test('are the end of the log: a reader stops there, a start cuts them off and goes on', async () => {
    const dataDir = await closed(45)
    const directory = spoolDirectory(dataDir, 0)
    const { path, bytes } = listSegments(directory).at(-1)!
    appendFileSync(path, ZEROS)
    const before = readAll(directory)
    expect([before.records.map(indexOf), before.damage]).toEqual([upTo(45), []])
    const spool = await openTestSpool(dataDir, { segmentBytes: SEGMENT_BYTES })
    expect(spool.status()).toMatchObject({ damaged: 0, tornBytes: ZEROS.length })
    expect([statSync(path).size, setAside(directory)]).toEqual([bytes, []])
    for (let index = 45; index < 60; index++) await append(spool, index, 150)
    await spool.close()
    const { records, damage } = readAll(directory)
    expect([records.map(indexOf), damage]).toEqual([upTo(60), []])
    expect(new Set(records.map(({ record }) => record)).size).toBe(60)
    const again = await openTestSpool(dataDir)
    expect(again.status()).toMatchObject({ damaged: 0, tornBytes: 0 })
    await again.close()
  })

  test('are read again by a reader that has met them, once the log goes on', async () => {
    const dataDir = await closed(45)
    const directory = spoolDirectory(dataDir, 0)
    appendFileSync(listSegments(directory).at(-1)!.path, ZEROS)
    const damage: Damage[] = []
    const cursor = new SegmentReader({ directory, onDamage: (found) => damage.push(found) })
    cursor.seek({ record: 0 })
    const read: number[] = []
    const follow = () => {
      do read.push(...cursor.next(16).map(indexOf))
      while (!cursor.atEnd)
    }
    follow()
    expect(read).toEqual(upTo(45))
    const spool = await openTestSpool(dataDir, { segmentBytes: SEGMENT_BYTES })
    await append(spool, 45)
    follow()
    expect([read, damage]).toEqual([upTo(46), []])
    cursor.close()
    await spool.close()
  })

  test('behind half a record are not set aside with it', async () => {
    const dataDir = await closed(45)
    const directory = spoolDirectory(dataDir, 0)
    const { path, bytes } = listSegments(directory).at(-1)!
    appendFileSync(path, Buffer.concat([Buffer.from('half a fra'), ZEROS]))
    const spool = await openTestSpool(dataDir)
    expect(spool.status()).toMatchObject({ damaged: 0, tornBytes: 10 + ZEROS.length })
    expect([statSync(path).size, setAside(directory)]).toEqual([bytes, ['half a fra']])
    await spool.close()
  })
})

describe('zeros in place of records', () => {
  test('are damage, and the records behind them are read', async () => {
    const dataDir = await closed(45)
    const directory = spoolDirectory(dataDir, 0)
    const { path } = listSegments(directory).at(-1)!
    const bytes = readFileSync(path)
    const [victim] = readAll(directory).records.slice(-3)
    const at = bytes.indexOf(victim!.data) - victim!.type.length - victim!.subject.length - 48
    bytes.fill(0, at, at + 200)
    writeFileSync(path, bytes)
    expect(readAll(directory).records.length).toBe(44)
    const spool = await openTestSpool(dataDir)
    expect(spool.status()).toMatchObject({ damaged: 1, tornBytes: 0 })
    const { records, damage } = readAll(spool.directory)
    expect(records.map(indexOf)).toEqual(upTo(45).filter((index) => index !== 42))
    expect(damage.map(({ position }) => position)).toEqual([at])
    await spool.close()
  })

  const zeroed = (path: string, from: number, to?: number): void => {
    const bytes = readFileSync(path)
    bytes.fill(0, from, to)
    writeFileSync(path, bytes)
  }
  const placeOf = (path: string, text: string): number => readFileSync(path).indexOf(text) - 48 - 15 - 6

  test('at the end of the log are torn, and the number of what was lost is not given out again', async () => {
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

  test('at the end of a segment that others follow are damage', async () => {
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

  test('of a whole file are torn, and its numbers do not begin again', async () => {
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

  test('do not stop a reader that follows the segment while it is written', async () => {
    const spool = await openTestSpool(fresh())
    const { directory } = spool
    for (let index = 0; index < 40; index++) await append(spool, index, 8_000)
    const damage: number[] = []
    const cursor = new SegmentReader({ directory, onDamage: ({ position }) => damage.push(position) })
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
  /** Reads give fewer bytes than asked for. */
  const shortReads = (lengths: readonly number[]): Files => {
    let reads = 0
    return {
      ...nodeFiles,
      read: (descriptor, bytes, start, length, position) =>
        nodeFiles.read(descriptor, bytes, start, Math.min(length, lengths[reads++ % lengths.length]!), position),
    }
  }
  const lengths = fc.array(fc.integer({ min: 1, max: 9_000 }), { minLength: 1, maxLength: 9 })
  const sizes = fc.array(fc.nat(700), { minLength: 10, maxLength: 120 })

  test('gets every record once and in order, however few bytes a read gives', async () => {
    await fc.assert(
      fc.asyncProperty(sizes, lengths, fc.boolean(), async (all, given, passing) => {
        const spool = await openTestSpool(fresh(), { segmentBytes: SEGMENT_BYTES })
        const damage: Damage[] = []
        const { directory } = spool
        const onDamage = (found: Damage) => damage.push(found)
        const cursor = new SegmentReader({ directory, files: shortReads(given), passing, onDamage })
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
        follow()
        expect([read, damage]).toEqual([upTo(all.length + 1), []])
        cursor.close()
        await spool.close()
      }),
      { numRuns: 50 },
    )
  })
})
