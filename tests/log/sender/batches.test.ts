// How many records the sender sends at once, and when it says how far it is.
import { afterAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { codeOf } from '../../../src/lib/process/error-code.ts'
import { PACKED_LIMITS } from '../../../src/log/append-limits.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import { type Files, nodeFiles } from '../../../src/log/files.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import { type EventLog, IndefiniteAppend, LogUnavailable } from '../../../src/log/port.ts'
import { SegmentReader } from '../../../src/log/segments/reader.ts'
import { type ShipOptions, type ShipProgress, shipSpool } from '../../../src/log/sender/ship.ts'
import { readWatermark } from '../../../src/log/spool/directory.ts'
import type { LocalSpool } from '../../../src/log/spool/open.ts'
import { eventually } from '../../services/eventually.ts'
import { diskError } from '../small-disk.ts'
import { openTestSpool, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let folders = 0
const fresh = () => join(folder.path, String(folders++))

/** Longer than any test: who waits for it waits for ever. */
const FOR_EVER_MS = 3_600_000

const targets = {
  requests: { topic: 'requests', partitions: 1 },
  operations: { topic: 'operations', partitions: 1 },
} as const

/** A sender that runs until it is stopped, and the sizes of its appends. */
const running = (spool: LocalSpool, more: Partial<ShipOptions>) => {
  const sizes: number[] = []
  const stopping = new AbortController()
  const log = memoryLog({
    nowMs: Date.now,
    faults: {
      beforeAppend: ({ records }) => {
        sizes.push(records.length)
        return 'none'
      },
    },
  })
  const options: ShipOptions = {
    ...{ directory: spool.directory, log, targets, drain: false, signal: stopping.signal, nowMs: Date.now },
    more: () => new Promise((resolve) => setImmediate(resolve)),
    onProgress: () => undefined,
    ...more,
  }
  const shipping = shipSpool(options)
  return {
    sizes,
    stop: async () => {
      stopping.abort()
      await shipping
    },
  }
}

const fill = async (spool: LocalSpool, count: number) => {
  for (let n = 0; n < count; n++) await spool.append('requests', 'request.settled', 'one', `{"n":${n}}`)
}

test('what comes alone is sent at once; what follows gathers, and is sent by whoever goes on', async () => {
  const spool = await openTestSpool(fresh())
  const sender = running(spool, { gatherMs: FOR_EVER_MS })
  await fill(spool, 1)
  await eventually('the first is shipped', () => readWatermark(spool.directory, 'sender', 'spool') === 1)
  await fill(spool, 30)
  // Stopped while it gathers: at once, and nothing more is sent.
  await sender.stop()
  expect(sender.sizes).toEqual([1])
  const next = running(spool, { gatherMs: FOR_EVER_MS })
  await eventually('the rest is shipped', () => readWatermark(spool.directory, 'sender', 'spool') === 31)
  await next.stop()
  expect(next.sizes).toEqual([30])
  await spool.close()
})

test('as many are sent together as the log says that it takes; what turns out to be too much is sent in halves, in order, and nothing is set aside', async () => {
  const spool = await openTestSpool(fresh())
  await fill(spool, 2_500)
  const taken: number[] = []
  const plain = memoryLog({ nowMs: Date.now })
  const log: EventLog = {
    ...plain,
    limits: { ...PACKED_LIMITS, bytes: 1_048_576 },
    append: async (topic, partition, records, signal) => {
      taken.push(records.length)
      await plain.append(topic, partition, records, signal)
    },
  }
  const told: ShipProgress[] = []
  const sender = running(spool, { log, onProgress: (progress) => told.push(progress) })
  await eventually('all are shipped', () => readWatermark(spool.directory, 'sender', 'spool') === 2_500)
  await sender.stop()
  // This log takes 256 at most, which is learnt for a while, also of what was read already.
  expect(taken).toEqual([1_024, 256, 256, 256, 256, 256, 256, 256, 256, 256, 196])
  expect(told.at(-1)).toMatchObject({ shipped: 2_500, refused: 0, resent: 0 })
  const numbers: number[] = []
  for await (const batch of plain.read('requests', 0, 0, new AbortController().signal)) {
    for (const { value } of batch) numbers.push((readEnvelope(value!)!.data as { n: number }).n)
    if (numbers.length >= 2_500) break
  }
  expect(numbers).toEqual(Array.from({ length: 2_500 }, (_, n) => n))
  await spool.close()
})

test('where many together never get an answer, fewer are sent', async () => {
  const spool = await openTestSpool(fresh())
  await fill(spool, 1_000)
  const taken: number[] = []
  const plain = memoryLog({ nowMs: Date.now })
  const log: EventLog = {
    ...plain,
    limits: { ...PACKED_LIMITS, bytes: 1_048_576 },
    append: async (topic, partition, records, signal) => {
      taken.push(records.length)
      if (records.length > 256) throw new IndefiniteAppend('no answer in time')
      await plain.append(topic, partition, records, signal)
    },
  }
  const sender = running(spool, { log, backoffMs: () => 0 })
  await eventually('all are shipped', () => readWatermark(spool.directory, 'sender', 'spool') === 1_000)
  await sender.stop()
  expect(taken).toEqual([1_000, 1_000, 1_000, 250, 250, 250, 250])
  expect(await plain.end('requests', 0)).toBe(1_000)
  await spool.close()
})

test('a log that is away is no reason to send fewer', async () => {
  const spool = await openTestSpool(fresh())
  await fill(spool, 1_000)
  const taken: number[] = []
  const plain = memoryLog({ nowMs: Date.now })
  const log: EventLog = {
    ...plain,
    limits: PACKED_LIMITS,
    append: async (_topic, _partition, records) => {
      taken.push(records.length)
      if (taken.length < 6) throw new LogUnavailable('no broker')
    },
  }
  const sender = running(spool, { log, backoffMs: () => 0 })
  await eventually('all are shipped', () => readWatermark(spool.directory, 'sender', 'spool') === 1_000)
  await sender.stop()
  expect(taken).toEqual([1_000, 1_000, 1_000, 1_000, 1_000, 1_000])
  await spool.close()
})

test('few that are long are fewer too, where together they never get an answer', async () => {
  const spool = await openTestSpool(fresh())
  for (let n = 0; n < 200; n++)
    await spool.append('requests', 'request.settled', 'one', JSON.stringify('x'.repeat(8_000)))
  const taken: number[] = []
  const plain = memoryLog({ nowMs: Date.now })
  const log: EventLog = {
    ...plain,
    limits: PACKED_LIMITS,
    append: async (topic, partition, records, signal) => {
      const bytes = records.reduce((sum, { value }) => sum + value!.length, 0)
      taken.push(records.length)
      if (bytes > 448 * 1_024) throw new IndefiniteAppend('no answer in time')
      await plain.append(topic, partition, records, signal)
    },
  }
  const sender = running(spool, { log, backoffMs: () => 0 })
  await eventually('all are shipped', () => readWatermark(spool.directory, 'sender', 'spool') === 200)
  await sender.stop()
  expect(taken).toEqual([200, 200, 200, 50, 50, 50, 50])
  await spool.close()
})

test('no more is read at once than so many bytes, and one record at least', async () => {
  const spool = await openTestSpool(fresh())
  for (let n = 0; n < 30; n++)
    await spool.append('requests', 'request.settled', 'one', JSON.stringify('x'.repeat(1_000)))
  const cursor = new SegmentReader({ directory: spool.directory })
  cursor.seek({ record: 0 })
  expect([cursor.next(100, 5_000).length, cursor.next(3, 5_000).length, cursor.next(100, 1).length]).toEqual([5, 3, 1])
  expect(cursor.next(100).map(({ record }) => record)).toEqual(Array.from({ length: 21 }, (_, n) => n + 9))
  cursor.close()
  await spool.close()
})

test('nothing gathers while more stands in the spool than one batch takes, nor where the spool is only emptied', async () => {
  const spool = await openTestSpool(fresh())
  await fill(spool, 1_000)
  const sender = running(spool, { gatherMs: FOR_EVER_MS })
  await eventually('all are shipped', () => readWatermark(spool.directory, 'sender', 'spool') === 1_000)
  await sender.stop()
  expect(sender.sizes.length).toBeGreaterThan(3)
  await fill(spool, 10)
  const drained = running(spool, { gatherMs: FOR_EVER_MS, drain: true })
  await eventually('the rest is shipped', () => readWatermark(spool.directory, 'sender', 'spool') === 1_010)
  await drained.stop()
  await spool.close()
})

test('memory is used again, and every record arrives as it was written: of all sizes, over many batches and buffers', async () => {
  const spool = await openTestSpool(fresh(), { segmentBytes: 3 * 1024 * 1024 })
  const written: string[] = []
  for (let n = 0; n < 4_000; n++) {
    // Most are small; some are as large as a record may be.
    const size = n % 97 === 0 ? 60_000 : (n * 7_919) % 2_500
    const data = JSON.stringify({ n, text: String.fromCharCode(97 + (n % 26)).repeat(size) })
    written.push(data)
    await spool.append('requests', 'request.settled', `subject-${n % 3}`, data)
  }
  const log = memoryLog({ nowMs: Date.now })
  const more = () => Promise.resolve()
  const { signal } = new AbortController()
  const options = { directory: spool.directory, log, targets, drain: true, signal, nowMs: Date.now }
  expect(await shipSpool({ ...options, more, onProgress: () => undefined })).toBe(true)
  const arrived = log.records('requests', 0).map(({ value }) => JSON.stringify(readEnvelope(value!)!.data))
  expect(arrived.length).toBe(written.length)
  for (const [index, data] of written.entries()) expect(arrived[index]).toBe(data)
  await spool.close()
})

test('the watermark is written now and then while batches follow each other, and before anybody waits', async () => {
  const spool = await openTestSpool(fresh())
  let clockMs = 1_000
  const said: number[] = []
  const sender = running(spool, {
    nowMs: () => clockMs,
    onProgress: ({ record }) => said.push(record),
    // Nobody waits before all is shipped, and then for ever.
    more: (signal) => new Promise((resolve) => signal.addEventListener('abort', () => resolve())),
    gatherMs: 1,
  })
  await fill(spool, 1)
  await sender.stop()
  expect(readWatermark(spool.directory, 'sender', 'spool')).toBe(said.at(-1) ?? 0)
  await fill(spool, 2_000)
  clockMs += 1
  const watermarks = new Set<number>()
  const next = running(spool, {
    nowMs: () => clockMs,
    onProgress: ({ record }) => {
      said.push(record)
      watermarks.add(readWatermark(spool.directory, 'sender', 'spool'))
    },
    drain: true,
  })
  await eventually('all are shipped', () => said.at(-1) === 2_001)
  await next.stop()
  // Eight batches within no time, the first of which is the first after a long while.
  expect(watermarks.size).toBe(1)
  expect(readWatermark(spool.directory, 'sender', 'spool')).toBe(2_001)
  await spool.close()
})

test('where batches gather, not each is told of, but always how far it is before anybody waits', async () => {
  const spool = await openTestSpool(fresh())
  // As many as batches take: nothing is left over that would show the end.
  for (let n = 0; n < 8 * 256; n++) await spool.append('requests', 'request.settled', 'one', '{}')
  const said: number[] = []
  const options = { nowMs: () => 1_000, onProgress: ({ record }: { readonly record: number }) => said.push(record) }
  const sender = running(spool, { ...options, gatherMs: FOR_EVER_MS })
  await eventually('the end is told', () => said.at(-1) === 8 * 256)
  expect(said.length).toBeLessThanOrEqual(2)
  await sender.stop()
  await fill(spool, 700)
  const told = running(spool, { ...options, gatherMs: 0 })
  await eventually('the rest is told', () => said.at(-1) === 8 * 256 + 700)
  await told.stop()
  expect(said.slice(-3)).toEqual([256, 512, 700].map((more) => 8 * 256 + more))
  await spool.close()
})

test('how far it is is told before it gathers for long, and again by who comes after one that ended untold', async () => {
  const spool = await openTestSpool(fresh())
  await fill(spool, 600)
  const said: number[] = []
  const onProgress = ({ record }: { readonly record: number }) => said.push(record)
  const nowMs = () => 1_000
  const sender = running(spool, { nowMs, onProgress, gatherMs: FOR_EVER_MS })
  // The second of two batches reaches the end, after no time.
  await eventually('the end is told', () => said.at(-1) === 600)
  await sender.stop()
  said.length = 0
  const next = running(spool, { nowMs, onProgress, gatherMs: 50 })
  await eventually('it is told once more', () => said.at(-1) === 600)
  await next.stop()
  await spool.close()
})

test('a disk that does not take the watermark is told, and costs no descriptor', async () => {
  const spool = await openTestSpool(fresh())
  await fill(spool, 3)
  const opened = new Set<number>()
  const files: Files = {
    ...nodeFiles,
    open: (path) => {
      const descriptor = nodeFiles.open(path)
      opened.add(descriptor)
      return descriptor
    },
    close: (descriptor) => {
      nodeFiles.close(descriptor)
      opened.delete(descriptor)
    },
    makeDirectory: () => {
      throw diskError('ENOSPC')
    },
  }
  const { signal } = new AbortController()
  const options = { directory: spool.directory, log: memoryLog({ nowMs: Date.now }), targets, drain: true, signal }
  const more = () => Promise.resolve()
  const shipping = shipSpool({ ...options, files, more, nowMs: Date.now, onProgress: () => undefined })
  expect(await shipping.catch(codeOf)).toBe('ENOSPC')
  expect([...opened]).toEqual([])
  await spool.close()
})
