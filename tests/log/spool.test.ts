import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Files, nodeFiles } from '../../src/log/files.ts'
import { RecordRefused } from '../../src/log/port.ts'
import { listSegments } from '../../src/log/segments.ts'
import type { LocalSpool } from '../../src/log/spool.ts'
import { writeWatermark } from '../../src/log/spool-directory.ts'
import { SpoolClosed } from '../../src/log/spool-port.ts'
import { openTestSpool, readAll, temporaryFolder } from './support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let folders = 0
const dataDir = () => join(folder.path, String(folders++))

const diskError = (code: string) => Object.assign(new Error(`injected ${code}`), { code })

/** A disk with so many bytes left, which may also break. Removing a file gives its bytes back. */
class SmallDisk {
  left = Number.POSITIVE_INFINITY
  broken: string | null = null
  syncFailures = 0
  syncs = 0
  syncedAfterFailure = 0
  private readonly failed = new Set<number>()
  private readonly sizes = new Map<string, number>()
  private readonly paths = new Map<number, string>()

  readonly files: Files = {
    ...nodeFiles,
    create: (path) => {
      if (this.broken !== null) throw diskError(this.broken)
      const descriptor = nodeFiles.create(path)
      this.paths.set(descriptor, path)
      this.failed.delete(descriptor)
      this.sizes.set(path, 0)
      return descriptor
    },
    write: (descriptor, bytes, start, length) => {
      if (this.broken !== null) throw diskError(this.broken)
      if (this.left <= 0) throw diskError('ENOSPC')
      const count = nodeFiles.write(descriptor, bytes, start, Math.min(length, this.left))
      this.left -= count
      const path = this.paths.get(descriptor)!
      this.sizes.set(path, (this.sizes.get(path) ?? 0) + count)
      return count
    },
    sync: async (descriptor) => {
      this.syncs++
      if (this.failed.has(descriptor)) this.syncedAfterFailure++
      if (this.syncFailures > 0) {
        this.syncFailures--
        this.failed.add(descriptor)
        throw diskError('EIO')
      }
      await nodeFiles.sync(descriptor)
    },
    remove: (path) => {
      nodeFiles.remove(path)
      this.left += this.sizes.get(path) ?? 0
      this.sizes.delete(path)
    },
    freeBytes: () => this.left,
  }
}

const appendTo = (spool: LocalSpool, text: string, admission = false) =>
  spool.append(
    'requests',
    admission ? 'request.admitted' : 'request.settled',
    'tenant',
    JSON.stringify({ id: text }),
    admission,
  )

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
    disk.left = 700
    const results = await Promise.allSettled(Array.from({ length: 30 }, (_, index) => appendTo(spool, `r${index}`)))
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

  test('host: when the disk keeps failing the caller is told, and admission closes', async () => {
    const disk = new SmallDisk()
    const spool = await openTestSpool(dataDir(), { files: disk.files, durability: 'host' })
    await appendTo(spool, 'before')
    disk.syncFailures = 100
    expect(await appendTo(spool, 'lost').catch((error: unknown) => error)).toBeInstanceOf(SpoolClosed)
    expect(spool.admission.open).toBe(false)
    disk.syncFailures = 0
    spool.refresh()
    await appendTo(spool, 'well again', true)
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
    expect(reasons.map(({ written }) => written)).toEqual(ids)
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

describe('what is kept', () => {
  const fill = async (spool: LocalSpool, count: number) => {
    for (let index = 0; index < count; index++) await appendTo(spool, `${index}${'x'.repeat(200)}`)
  }

  test('with a sender: a segment goes once it is shipped whole, the newest never', async () => {
    const spool = await openTestSpool(dataDir(), { segmentBytes: 2_000 })
    await fill(spool, 40)
    const before = listSegments(spool.directory).length
    spool.shipped(20)
    expect(readAll(spool.directory).records[0]!.record).toBeLessThanOrEqual(20)
    expect(readAll(spool.directory, 20).records.length).toBe(20)
    expect(listSegments(spool.directory).length).toBeLessThan(before)
    expect(spool.backlog().records).toBe(20)
    spool.shipped(40)
    expect([listSegments(spool.directory).length, spool.backlog()]).toEqual([
      1,
      { records: 0, bytes: 0, oldestMs: null },
    ])
    await spool.close()
    const again = await openTestSpool(join(spool.directory, '..', '..'))
    expect(again.end).toBe(40)
    await again.close()
  })

  test('embedded: until every read model has it and it is old enough, whatever comes first', async () => {
    let nowMs = 1_000_000
    const consumers = { requests: ['requests', 'usage'], operations: [] }
    const keeping = { until: 'projected', consumers, retentionMs: 60_000 } as const
    const spool = await openTestSpool(dataDir(), { segmentBytes: 2_000, keeping, nowMs: () => nowMs })
    await fill(spool, 40)
    const all = listSegments(spool.directory).length
    nowMs += 600_000
    await fill(spool, 1)
    spool.refresh()
    expect(listSegments(spool.directory).length).toBeGreaterThanOrEqual(all)
    writeWatermark(spool.directory, 'requests', 'requests', 41)
    spool.refresh()
    expect(spool.backlog().records).toBe(41)
    writeWatermark(spool.directory, 'usage', 'requests', 20)
    spool.refresh()
    expect(spool.backlog().records).toBe(21)
    expect(readAll(spool.directory, 20).records.length).toBe(21)
    expect(listSegments(spool.directory).length).toBeLessThan(all)
    writeWatermark(spool.directory, 'usage', 'requests', 41)
    await fill(spool, 40)
    spool.refresh()
    expect(readAll(spool.directory, 42).records.length).toBe(39)
    for (const consumer of consumers.requests) writeWatermark(spool.directory, consumer, 'requests', 81)
    spool.refresh()
    expect(spool.backlog().records).toBe(0)
    expect(listSegments(spool.directory).length).toBeGreaterThan(5)
    nowMs += 60_001
    spool.refresh()
    expect(listSegments(spool.directory).length).toBe(1)
    await spool.close()
  })

  test('a backlog beyond its bound closes admission until it is taken', async () => {
    const spool = await openTestSpool(dataDir(), { backlogBytes: 4_000 })
    await fill(spool, 30)
    spool.refresh()
    expect(spool.admission.open).toBe(false)
    expect(spool.admission.reason).toContain('wait to be shipped')
    await appendTo(spool, 'still recorded')
    spool.shipped(31)
    spool.refresh()
    expect(spool.admission.open).toBe(true)
    await spool.close()
  })
})

test('a record larger than any broker takes is refused; so is everything after close', async () => {
  const spool = await openTestSpool(dataDir())
  const large = JSON.stringify('x'.repeat(70_000))
  expect(await spool.append('requests', 'request.settled', 't', large).catch((error: unknown) => error)).toBeInstanceOf(
    RecordRefused,
  )
  await spool.close()
  expect(await appendTo(spool, 'late').catch((error: unknown) => error)).toBeInstanceOf(SpoolClosed)
})

test('ids count up from 0 in each topic, and start again with each epoch', async () => {
  const directory = dataDir()
  const first = await openTestSpool(directory)
  const ids = [
    await appendTo(first, 'a'),
    await first.append('operations', 'probe.ran', 's', '{}'),
    await appendTo(first, 'b'),
  ]
  expect(ids.map((id) => id.split('.'))).toEqual(
    [0, 0, 1].map((sequence) => [first.instance, first.epoch, String(sequence)]),
  )
  await first.close()
  const second = await openTestSpool(directory)
  expect([second.instance, second.epoch === first.epoch, second.end]).toEqual([first.instance, false, 3])
  expect((await appendTo(second, 'c')).endsWith(`${second.epoch}.0`)).toBe(true)
  await second.close()
})

test('open admissions are known from the last segments alone, with their attempts', async () => {
  const directory = dataDir()
  const spool = await openTestSpool(directory, { segmentBytes: 4_000 })
  const open = await appendTo(spool, 'req_open', true)
  const closed = await appendTo(spool, 'req_closed', true)
  await spool.append('requests', 'request.attempted', 'tenant', JSON.stringify({ id: 'req_open', n: 2 }))
  for (let index = 0; index < 100; index++) {
    const admission = await appendTo(spool, `req_${index}`, true)
    await spool.append(
      'requests',
      'request.settled',
      'tenant',
      JSON.stringify({ id: `req_${index}`, admission, raw_usage: { admission: open, '"admission":"': 1 } }),
    )
  }
  await spool.append(
    'requests',
    'request.settled',
    'tenant',
    JSON.stringify({ raw_usage: { admission: open }, admission: closed }),
  )
  await spool.close()
  const segments = listSegments(spool.directory)
  expect(segments.length).toBeGreaterThan(5)
  for (const segment of segments.slice(0, -1)) writeFileSync(segment.path, 'not readable any more')
  const again = await openTestSpool(directory)
  expect(
    again.openAtStart.map(({ recordId, subject, data, attempts }) => ({ recordId, subject, data, attempts })),
  ).toEqual([{ recordId: open, subject: 'tenant', data: '{"id":"req_open"}', attempts: ['{"id":"req_open","n":2}'] }])
  expect(again.end).toBe(204)
  await again.close()
})
