import { afterAll, expect, test } from 'bun:test'
import { truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { embeddedLog } from '../../../src/log/embedded/log.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import { nodeFiles } from '../../../src/log/files.ts'
import { type LogRecord, LogReplaced, RecordRefused } from '../../../src/log/port.ts'
import { listSegments } from '../../../src/log/segments/writer.ts'
import { writeWatermark } from '../../../src/log/spool/directory.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { numberOf, take } from '../../contract/event-log.ts'
import { idOf } from '../appended.ts'
import { openTestSpool, startProcess, temporaryFolder } from '../support.ts'

const REQUESTS = TOPICS.requests.name
const OPERATIONS = TOPICS.operations.name
const folder = temporaryFolder()
afterAll(() => folder.remove())
let folders = 0
const fresh = () => {
  const dataDir = join(folder.path, String(folders++))
  return { dataDir, log: embeddedLog({ dataDir, nowMs: Date.now, spoolPollMs: 2 }) }
}

const failureOf = async (reading: AsyncIterable<readonly LogRecord[]>): Promise<unknown> => {
  try {
    for await (const batch of reading) void batch
    return null
  } catch (error) {
    return error
  }
}

test('a spool is a partition: its records are envelopes, each topic has offsets of its own', async () => {
  const { dataDir, log } = fresh()
  expect(await log.partitions(REQUESTS)).toEqual([])
  const waiting = take(log, REQUESTS, 0, 1)
  const spool = await openTestSpool(dataDir)
  const ids: string[] = []
  for (let index = 0; index < 300; index++) {
    ids.push(await idOf(spool.append('requests', 'request.settled', 'tenant "é"', `{"n":${index}}`)))
    await spool.append('operations', 'probe.ran', 'p', `{"n":${-index}}`)
  }
  expect(await log.partitions(REQUESTS)).toEqual([0])
  const all = await take(log, REQUESTS, 0, 300)
  expect(all.map((record) => record.offset)).toEqual(Array.from({ length: 300 }, (_, index) => index))
  const envelopes = all.map((record) => readEnvelope(record.value!)!)
  expect(envelopes.map((envelope) => envelope.data)).toEqual(Array.from({ length: 300 }, (_, n) => ({ n })))
  expect(envelopes.map((envelope) => envelope.id)).toEqual(ids)
  expect([envelopes[7]!.type, envelopes[7]!.subject, envelopes[7]!.sequence]).toEqual([
    'request.settled',
    'tenant "é"',
    7,
  ])
  expect(all[0]!.key).toBe('tenant "é"')
  expect((await waiting)[0]!.offset).toBe(0)
  const operations = await take(log, OPERATIONS, 290, 10)
  expect(operations.map((record) => (readEnvelope(record.value!)!.data as { n: number }).n)).toEqual(
    Array.from({ length: 10 }, (_, index) => -290 - index),
  )
  expect([await log.end(REQUESTS, 0), await log.end(OPERATIONS, 0), await log.end(REQUESTS, 7)]).toEqual([300, 300, 0])
  await spool.append('requests', 'request.settled', 't', '{}')
  expect(await log.end(REQUESTS, 0)).toBe(301)
  expect(
    await log.append(REQUESTS, 0, [{ key: null, value: new Uint8Array(1) }]).catch((error: unknown) => error),
  ).toBeInstanceOf(RecordRefused)
  await spool.close()
  await log.close()
})

test('who wants one type gets it whole, and of the others the ends of each batch', async () => {
  const { dataDir, log } = fresh()
  const spool = await openTestSpool(dataDir)
  const typeAt = (index: number) => (index % 100 === 70 ? 'feedback.given' : 'request.settled')
  for (let index = 0; index < 1_000; index++) await spool.append('requests', typeAt(index), 't', `{"n":${index}}`)
  const reading = new AbortController()
  const batches: LogRecord[][] = []
  for await (const batch of log.read(REQUESTS, 0, 5, reading.signal, { only: 'feedback.given' })) {
    batches.push([...batch])
    if (batch.at(-1)!.offset === 999) reading.abort()
  }
  const bounds = batches.map((batch) => [batch[0]!.offset, batch.at(-1)!.offset])
  expect(bounds.map(([first]) => first)).toEqual([5, ...bounds.slice(0, -1).map(([, last]) => last! + 1)])
  const all = batches.flat()
  expect(all.length).toBeLessThan(10 + 2 * batches.length + 1)
  // Read once everything has been read: their bytes are their own.
  for (const { offset, value } of all) {
    const { type, data } = readEnvelope(value!)!
    expect([type, data]).toEqual([typeAt(offset), { n: offset }])
  }
  const given = all.filter(({ offset }) => typeAt(offset) === 'feedback.given').map(({ offset }) => offset)
  expect(given).toEqual(Array.from({ length: 10 }, (_, hundred) => 100 * hundred + 70))
})

test('a reader follows another process through its segments, every offset once', async () => {
  const { dataDir, log } = fresh()
  const writer = startProcess('appender.ts', dataDir, 'process', '200')
  await writer.line()
  const [records, lines] = await Promise.all([take(log, REQUESTS, 0, 8 * 360), writer.rest()])
  expect(lines.at(-1)).toBe('done')
  const ids = records.map((record) => readEnvelope(record.value!)!.id)
  expect(new Set(ids).size).toBe(8 * 360)
  expect(await log.end(REQUESTS, 0)).toBe(8 * 360)
  await log.close()
})

test('after a restart of the writer it goes on; what was torn away comes as a record without bytes', async () => {
  const { dataDir, log } = fresh()
  const first = await openTestSpool(dataDir)
  for (let index = 0; index < 5; index++) await first.append('requests', 'request.settled', 't', `{"n":${index}}`)
  await first.close()
  const [segment] = listSegments(first.directory)
  truncateSync(segment!.path, segment!.bytes - 3)
  const stop = new AbortController()
  const seen: LogRecord[] = []
  const reading = (async () => {
    for await (const batch of log.read(REQUESTS, 0, 0, stop.signal)) {
      seen.push(...batch)
      if (seen.length === 6) break
    }
  })()
  const second = await openTestSpool(dataDir)
  expect(second.status().tornBytes).toBeGreaterThan(0)
  await second.append('requests', 'request.settled', 't', '{"n":5}')
  await reading
  stop.abort()
  expect(seen.map((record) => [record.offset, record.value!.length > 0])).toEqual([
    [0, true],
    [1, true],
    [2, true],
    [3, true],
    [4, false],
    [5, true],
  ])
  expect(readEnvelope(seen[4]!.value!)).toBeNull()
  await second.close()
  await log.close()
})

test('a position that the spool does not have is LogReplaced; 0 begins at what is kept', async () => {
  const { dataDir, log } = fresh()
  const keeping = { until: 'projected', consumers: { requests: ['requests'], operations: [] }, retentionMs: 0 } as const
  let nowMs = 1_000
  const spool = await openTestSpool(dataDir, { keeping, segmentBytes: 2_000, nowMs: () => nowMs++ })
  for (let index = 0; index < 60; index++)
    await spool.append('requests', 'request.settled', 't', JSON.stringify('x'.repeat(100)))
  const never = new AbortController().signal
  expect(await failureOf(log.read(REQUESTS, 0, 61, never))).toBeInstanceOf(LogReplaced)
  expect(await failureOf(log.read(REQUESTS, 3, 1, never))).toBeInstanceOf(LogReplaced)
  writeWatermark(spool.directory, 'requests', 'requests', 40)
  spool.refresh()
  expect(await failureOf(log.read(REQUESTS, 0, 1, never))).toBeInstanceOf(LogReplaced)
  const kept = await take(log, REQUESTS, 0, 10)
  expect(kept[0]!.offset).toBeGreaterThan(10)
  expect(kept[0]!.offset).toBeLessThanOrEqual(40)
  expect((await take(log, REQUESTS, 40, 20)).at(-1)!.offset).toBe(59)
  await spool.close()
  await log.close()
})

test('what a reader gets was synced before: a power cut cannot take it back', async () => {
  const { dataDir } = fresh()
  const spool = await openTestSpool(dataDir)
  await spool.append('requests', 'request.settled', 't', '{}')
  const happened: string[] = []
  const sync = async (descriptor: number) => {
    await nodeFiles.sync(descriptor)
    happened.push('synced')
  }
  const log = embeddedLog({ dataDir, nowMs: Date.now, files: { ...nodeFiles, sync } })
  for (const from of [0, 1]) {
    await take(log, REQUESTS, from, 1)
    happened.push('delivered')
    await spool.append('requests', 'request.settled', 't', '{}')
  }
  expect(happened).toEqual(['synced', 'delivered', 'synced', 'delivered'])
  await spool.close()
  await log.close()
})

test('a segment that lost both headers costs its records, which come without bytes', async () => {
  const { dataDir, log } = fresh()
  const spool = await openTestSpool(dataDir, { segmentBytes: 1_000 })
  for (let index = 0; index < 30; index++)
    await spool.append('requests', 'request.settled', 't', JSON.stringify('x'.repeat(100)))
  await spool.close()
  const segments = listSegments(spool.directory)
  writeFileSync(segments[1]!.path, new Uint8Array(500))
  const all = await take(log, REQUESTS, 0, 30)
  expect(all.map((record) => record.offset)).toEqual(Array.from({ length: 30 }, (_, index) => index))
  const lost = all.filter((record) => record.value!.length === 0)
  expect(lost.length).toBeGreaterThan(0)
  expect(lost.length).toBeLessThan(10)
  expect(log.damagedBytes()).toBe(500)
  await log.close()
})

test('processes that share a topic: killed at any moment, nothing acknowledged is lost and every reader sees the same', async () => {
  const { dataDir, log } = fresh()
  const writers = [0, 1, 2].map((number) => startProcess('sharer.ts', dataDir, String(number)))
  const acknowledged: number[] = []
  for (const writer of writers) {
    for (let lines = 0; lines < 60; lines++) acknowledged.push(Number(await writer.line()))
    await writer.kill()
    acknowledged.push(...(await writer.rest()).map(Number))
  }
  const end = await log.end(TOPICS.control.name, 0)
  const other = embeddedLog({ dataDir, nowMs: Date.now })
  const [one, two] = await Promise.all([
    take(log, TOPICS.control.name, 0, end),
    take(other, TOPICS.control.name, 0, end),
  ])
  expect(one.map(numberOf)).toEqual(two.map(numberOf))
  const there = new Set(one.map(numberOf))
  expect(there.size).toBe(end)
  expect(acknowledged.filter((number) => !there.has(number))).toEqual([])
  await log.append(TOPICS.control.name, 0, [{ key: null, value: new TextEncoder().encode('0') }])
  await other.close()
  await log.close()
})

test('an erased value is in no file any more, and its offset still reads', async () => {
  const { dataDir, log } = fresh()
  const topic = TOPICS.keys.name
  const bytes = (text: string) => new TextEncoder().encode(text)
  const rest = Array.from({ length: 20 }, (_, index) => ({ key: `other-${index}`, value: bytes('y'.repeat(500)) }))
  await log.append(topic, 0, [{ key: 'erased', value: bytes(`first ${'wrapped-secret'}`) }, ...rest])
  await log.append(topic, 0, [{ key: 'erased', value: bytes(`second ${'wrapped-secret'}`) }])
  await log.append(topic, 0, [{ key: 'erased', value: null }])
  for (const end of ['', '-wal', '-shm']) {
    const file = Bun.file(join(dataDir, 'log', `${topic}.sqlite${end}`))
    expect((await file.text()).includes('wrapped-secret')).toBe(false)
  }
  const all = await take(log, topic, 0, 23)
  expect(all.map(({ offset }) => offset)).toEqual(Array.from({ length: 23 }, (_, offset) => offset))
  // The values that were replaced are nobody's now: only the tombstone has the key.
  const emptied = all.filter(({ value }) => value === null).map(({ offset, key }) => [offset, key])
  expect(emptied).toEqual([
    [0, null],
    [21, null],
    [22, 'erased'],
  ])
  await log.close()
})
