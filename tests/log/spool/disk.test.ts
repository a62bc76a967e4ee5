// A spool whose disk is full, or fails.
import { afterAll, describe, expect, test } from 'bun:test'
import { appendFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { type Files, nodeFiles } from '../../../src/log/files.ts'
import { SegmentReader } from '../../../src/log/segments/reader.ts'
import { listSegments } from '../../../src/log/segments/writer.ts'
import { SpoolClosed } from '../../../src/log/spool/port.ts'
import { appendTo, diskError, SmallDisk } from '../small-disk.ts'
import { openTestSpool, readAll, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let folders = 0
const dataDir = () => join(folder.path, String(folders++))
/** The number of the next record, as whoever reads the segments knows it. */
const endOf = (directory: string): number => {
  const cursor = new SegmentReader({ directory, files: nodeFiles, onDamage() {} })
  cursor.seek({ record: 0 })
  while (!cursor.atEnd || cursor.next(10).length > 0) cursor.next(10)
  cursor.close()
  return cursor.ends.record
}

describe('the disk is full', () => {
  test('admission closes, what is in flight is recorded from the ballast, and admission reopens when there is room', async () => {
    const disk = new SmallDisk()
    const spool = await openTestSpool(dataDir(), { files: disk.files, ballastBytes: 64 * 1024 })
    const admissions = await Promise.all(Array.from({ length: 20 }, (_, index) => appendTo(spool, `a${index}`, true)))
    disk.left = 100
    const settled = await Promise.all(Array.from({ length: 20 }, (_, index) => appendTo(spool, `s${index}`)))
    expect(spool.admission.open).toBe(false)
    expect(existsSync(join(spool.directory, 'ballast'))).toBe(false)
    expect(await appendTo(spool, 'refused', true).catch((error: unknown) => error)).toBeInstanceOf(SpoolClosed)
    await appendTo(spool, 'late')
    const { records, damage } = readAll(spool.directory)
    expect(records.map((record) => (JSON.parse(record.data) as { id: string }).id)).toEqual([
      ...admissions.map((_, index) => `a${index}`),
      ...settled.map((_, index) => `s${index}`),
      'late',
    ])
    expect(damage).toEqual([])
    spool.refresh()
    expect(spool.admission.open).toBe(false)
    disk.left = Number.POSITIVE_INFINITY
    spool.refresh()
    expect([spool.admission.open, existsSync(join(spool.directory, 'ballast'))]).toEqual([true, true])
    await appendTo(spool, 'again', true)
    await spool.close()
  })

  test('with nothing left at all, a record is refused, never half acknowledged; what was acknowledged is there', async () => {
    const disk = new SmallDisk()
    const spool = await openTestSpool(dataDir(), { files: disk.files })
    const acknowledged: string[] = [await appendTo(spool, 'first')]
    // Packed, a few tens of KiB are written whole or not at all.
    const longText = () => Buffer.from(crypto.getRandomValues(new Uint8Array(6_000))).toString('base64')
    disk.left = 100_000
    const results = await Promise.allSettled(Array.from({ length: 30 }, () => appendTo(spool, longText())))
    for (const result of results) {
      if (result.status === 'fulfilled') acknowledged.push(result.value)
      else expect(result.reason).toBeInstanceOf(SpoolClosed)
    }
    expect(spool.status().rejected).toBe(31 - acknowledged.length)
    expect(spool.status().rejected).toBeGreaterThan(0)
    expect(acknowledged.length).toBeGreaterThan(1)
    disk.left = Number.POSITIVE_INFINITY
    spool.refresh()
    acknowledged.push(await appendTo(spool, 'last', true))
    await spool.close()
    const { records, damage } = readAll(spool.directory)
    expect(damage).toEqual([])
    expect(records.map((record) => `${record.instance}.${record.epoch}.${record.sequence}`)).toEqual(acknowledged)
  })

  test('what reads on learns of numbers that no record got as soon as there is room, without another record', async () => {
    const disk = new SmallDisk()
    const directory = dataDir()
    const spool = await openTestSpool(directory, { files: disk.files, ballastBytes: 0 })
    await appendTo(spool, 'first')
    disk.left = 0
    await expect(appendTo(spool, 'lost')).rejects.toBeInstanceOf(SpoolClosed)
    spool.refresh()
    expect(endOf(spool.directory)).toBe(1)
    disk.left = Number.POSITIVE_INFINITY
    spool.refresh()
    expect(endOf(spool.directory)).toBe(2)
    await spool.close()
  })

  test('so it does of those that a start on a full disk passed over', async () => {
    const directory = dataDir()
    const before = await openTestSpool(directory)
    await appendTo(before, 'first')
    await before.close()
    appendFileSync(listSegments(before.directory).at(-1)!.path, 'half a fra')
    const disk = new SmallDisk()
    disk.left = 0
    const spool = await openTestSpool(directory, { files: disk.files, ballastBytes: 0 })
    expect(endOf(spool.directory)).toBe(1)
    disk.left = Number.POSITIVE_INFINITY
    spool.refresh()
    expect(endOf(spool.directory)).toBe(2)
    await spool.close()
  })

  test('a disk that fails for one segment gets another one', async () => {
    const disk = new SmallDisk()
    const spool = await openTestSpool(dataDir(), { files: disk.files })
    await appendTo(spool, 'before')
    const write = disk.files.write
    let failures = 1
    Object.assign(disk.files, {
      write: (...parameters: Parameters<Files['write']>) => {
        if (failures-- > 0) throw diskError('EIO')
        return write(...parameters)
      },
    })
    await appendTo(spool, 'during')
    expect([spool.status().writeFailures, listSegments(spool.directory).length]).toEqual([1, 2])
    expect(readAll(spool.directory).records.length).toBe(2)
    await spool.close()
  })
})
