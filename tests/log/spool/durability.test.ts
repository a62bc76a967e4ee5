// What a caller may rely on when an append resolves, for each durability.
import { afterAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { listSegments } from '../../../src/log/segments/writer.ts'
import { SpoolClosed } from '../../../src/log/spool/port.ts'
import { appendTo, diskError, SmallDisk } from '../small-disk.ts'
import { openTestSpool, readAll, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let folders = 0
const dataDir = () => join(folder.path, String(folders++))

describe('durability', () => {
  test('host: one sync covers all that waited', async () => {
    const disk = new SmallDisk()
    const spool = await openTestSpool(dataDir(), { files: disk.files, durability: 'host' })
    await Promise.all(Array.from({ length: 500 }, (_, index) => appendTo(spool, `r${index}`)))
    expect(disk.syncs).toBeLessThanOrEqual(2)
    await spool.close()
  })

  test('host: a failed sync is never tried again on the same file; the records are written to another one', async () => {
    const disk = new SmallDisk()
    const spool = await openTestSpool(dataDir(), { files: disk.files, durability: 'host' })
    await appendTo(spool, 'before')
    disk.syncFailures = 1
    await Promise.all([appendTo(spool, 'one'), appendTo(spool, 'two')])
    expect([disk.syncedAfterFailure, spool.status().syncFailures, listSegments(spool.directory).length]).toEqual([
      0, 1, 2,
    ])
    await appendTo(spool, 'after')
    await spool.close()
    const { records } = readAll(spool.directory)
    expect(records.map((record) => record.record)).toEqual([0, 1, 2, 3])
    expect(readAll(spool.directory, 1).records.map((record) => record.record)).toEqual([1, 2, 3])
  })

  test('host: wherever writing it again breaks off, a reader finds what was written before', async () => {
    for (let left = 0; left < 1_500; left += 50) {
      const disk = new SmallDisk()
      let fails = false
      const sync = async (descriptor: number) => {
        if (!fails) return disk.files.sync(descriptor)
        fails = false
        disk.left = left
        throw diskError('EIO')
      }
      const spool = await openTestSpool(dataDir(), { files: { ...disk.files, sync }, durability: 'host' })
      await appendTo(spool, 'before', true)
      fails = true
      await appendTo(spool, 'after').catch(() => undefined)
      expect(readAll(spool.directory, 1).records.map((record) => record.record)).toEqual([1])
      disk.left = Number.POSITIVE_INFINITY
      await spool.close()
    }
  })

  test('host: when the disk keeps failing the caller is told, and admission closes', async () => {
    const disk = new SmallDisk()
    const spool = await openTestSpool(dataDir(), { files: disk.files, durability: 'host' })
    await appendTo(spool, 'before')
    disk.syncFailures = 100
    const refused = await appendTo(spool, 'lost').catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(SpoolClosed)
    // It stands in the file, so it will be in the log: who was told so can still settle it.
    expect((refused as SpoolClosed).written?.id).toBe(`${spool.instance}.${spool.epoch}.1`)
    expect(spool.admission.open).toBe(false)
    // That it can be written says nothing: admission opens again when what was refused is durable.
    spool.refresh()
    expect(spool.admission.open).toBe(false)
    disk.syncFailures = 0
    const { durable } = refused as SpoolClosed
    const isDurable = durable!.then(() => true)
    expect(await Promise.race([isDurable, Promise.resolve(false)])).toBe(false)
    await appendTo(spool, 'well again')
    expect(await isDurable).toBe(true)
    await appendTo(spool, 'admitted', true)
    expect(disk.syncedAfterFailure).toBe(0)
    await spool.close()
  })

  test('log: resolves when the sender has passed the record, not before', async () => {
    const spool = await openTestSpool(dataDir(), { durability: 'log' })
    let resolved = 0
    const appended = [appendTo(spool, 'one'), appendTo(spool, 'two')].map((append) => append.then(() => resolved++))
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    expect([readAll(spool.directory).records.length, resolved]).toEqual([2, 0])
    spool.shipped(1)
    await appended[0]
    expect(resolved).toBe(1)
    spool.shipped(2)
    await Promise.all(appended)
    await spool.close()
  })
})

describe('durability `log` while the log takes nothing', () => {
  test('callers wait for 5 s, nothing more is admitted, and the records are shipped later', async () => {
    let nowMs = 1_000_000
    const spool = await openTestSpool(dataDir(), { durability: 'log', nowMs: () => nowMs })
    const waiting = [appendTo(spool, 'one', true), appendTo(spool, 'two')]
    const outcomes = Promise.allSettled(waiting)
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    nowMs += 4_999
    spool.refresh()
    expect(spool.admission.open).toBe(true)
    nowMs += 1
    spool.refresh()
    const reasons = (await outcomes).map((outcome) => (outcome.status === 'rejected' ? outcome.reason : null))
    expect(reasons).toEqual([expect.any(SpoolClosed), expect.any(SpoolClosed)])
    const ids = readAll(spool.directory).records.map(({ sequence }) => `${spool.instance}.${spool.epoch}.${sequence}`)
    expect(reasons.map(({ written }) => written.id)).toEqual(ids)
    expect(spool.admission).toEqual({ open: false, reason: expect.stringContaining('the log') })
    expect(appendTo(spool, 'three', true)).rejects.toBeInstanceOf(SpoolClosed)
    spool.shipped(1)
    expect(spool.admission.open).toBe(false)
    spool.shipped(2)
    expect(spool.admission.open).toBe(true)
    const after = appendTo(spool, 'four', true)
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    spool.shipped(3)
    expect(await after).toEndWith('.2')
    await spool.close()
  })
})
