// What a spool keeps and for how long, its ids, and what it knows when it is opened again.
import { afterAll, describe, expect, test } from 'bun:test'
import { truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { RecordRefused } from '../../../src/log/port.ts'
import { SegmentReader } from '../../../src/log/segments/reader.ts'
import { listSegments } from '../../../src/log/segments/writer.ts'
import { writeWatermark } from '../../../src/log/spool/directory.ts'
import type { LocalSpool } from '../../../src/log/spool/open.ts'
import { type Appended, REFUSABLE, SpoolClosed } from '../../../src/log/spool/port.ts'
import { idOf } from '../appended.ts'
import { appendTo } from '../small-disk.ts'
import { openTestSpool, readAll, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let folders = 0
const dataDir = () => join(folder.path, String(folders++))

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

  test('the records of a turn are one batch, however many they are', async () => {
    const batches: number[] = []
    const spool = await openTestSpool(dataDir(), { onFlushed: (end) => batches.push(end) })
    const appended = Promise.all(Array.from({ length: 70 }, (_, index) => appendTo(spool, `r${index}`)))
    expect(batches).toEqual([])
    const ids = await appended
    expect([batches, new Set(ids).size]).toEqual([[70], 70])
    await spool.close()
    expect(readAll(spool.directory).records.length).toBe(70)
  })

  test('a segment that lost its head goes with the one behind it: there is no gap where it stood', async () => {
    const directory = dataDir()
    const first = await openTestSpool(directory, { segmentBytes: 2_000 })
    await fill(first, 1)
    await first.close()
    const [emptied] = listSegments(first.directory)
    truncateSync(emptied!.path)
    for (const shipped of [20, 40]) {
      const spool = await openTestSpool(directory, { segmentBytes: 2_000 })
      await fill(spool, 20)
      spool.shipped(shipped)
      expect(() => readAll(spool.directory)).not.toThrow()
      await spool.close()
    }
    expect(listSegments(first.directory).map(({ path }) => path)).not.toContain(emptied!.path)
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

test('S37: a record larger than any broker takes is refused; so is everything after close', async () => {
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
    await idOf(first.append('operations', 'probe.ran', 's', '{}')),
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
  // Records without their admission at hand: the spool searches their texts.
  const admitted = (id: string) => idOf(spool.append('requests', 'request.admitted', 'tenant', JSON.stringify({ id })))
  const open = await admitted('req_open')
  const closed = await admitted('req_closed')
  await spool.append('requests', 'request.attempted', 'tenant', JSON.stringify({ id: 'req_open', n: 2 }))
  for (let index = 0; index < 100; index++) {
    const admission = await admitted(`req_${index}`)
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

test('a settlement closes the admission that it names, and none of the same number in another spool', async () => {
  const mine = await openTestSpool(dataDir())
  const others = await openTestSpool(dataDir())
  const admit = (spool: LocalSpool) => spool.append('requests', 'request.admitted', 't', '{"id":"req"}', REFUSABLE)
  const [own, foreign] = [await admit(mine), await admit(others)]
  expect(own.sequence).toBe(foreign.sequence)
  const settle = (admission: Appended) => {
    const text = JSON.stringify({ id: 'req', admission: admission.id })
    return mine.append('requests', 'request.settled', 't', text, admission)
  }
  await settle(foreign)
  expect(mine.status().openAdmissions).toBe(1)
  await settle(own)
  expect(mine.status().openAdmissions).toBe(0)
  await Promise.all([mine.close(), others.close()])
})

test('a number that a consumer has passed is not given out again, also where its record never came to be', async () => {
  const directory = dataDir()
  const spool = await openTestSpool(directory)
  await appendTo(spool, 'written')
  // Noted while further records were pending; then the process died.
  writeWatermark(spool.directory, 'budgets', 'spool', 3)
  writeWatermark(spool.directory, 'projection', 'requests', 2)
  await spool.close()
  const again = await openTestSpool(directory)
  expect(again.end).toBe(3)
  // Nor does anybody wait for it, although nothing follows yet.
  const cursor = new SegmentReader({ directory: again.directory })
  cursor.seek({ record: 1 })
  while (!cursor.atEnd) expect(cursor.next(64)).toEqual([])
  expect(cursor.ends.record).toBe(3)
  cursor.close()
  await appendTo(again, 'after')
  expect(readAll(again.directory).records.map(({ record, offset }) => [record, offset])).toEqual([
    [0, 0],
    [3, 2],
  ])
  await again.close()
})
