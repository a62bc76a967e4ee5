// `log.durability: host`: records that the disk refuses to sync are written again at the head of a later segment, and a
// power cut may remove the end of any segment.
import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { embeddedLog } from '../../../src/log/embedded/log.ts'
import { nodeFiles } from '../../../src/log/files.ts'
import { readFrame, type SegmentHeader, writeFrame } from '../../../src/log/segments/frame.ts'
import { segmentHead } from '../../../src/log/segments/header.ts'
import { SegmentReader } from '../../../src/log/segments/reader.ts'
import { listSegments, segmentPath } from '../../../src/log/segments/writer.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { take } from '../../contract/event-log.ts'
import { openTestSpool, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let folders = 0

interface Segment {
  readonly epoch?: string
  /** The first record that is not durable when it begins. */
  readonly unsynced?: number
  readonly records: readonly number[]
  /** Begins here, where it has no records. */
  readonly begins?: number
  /** So many open admissions stand at its head. */
  readonly carried?: number
}

const topicOf = (record: number) => (record % 3 === 0 ? 'operations' : 'requests')
/** The numbers of a record, or of the head before it. */
const numbersAt = (record: number) => ({
  ...{ record, operations: Math.ceil(record / 3), requests: record - Math.ceil(record / 3) },
})

const bytesOf = ({ epoch = 'a', unsynced, records, begins, carried = 0 }: Segment): Buffer => {
  const numbers = numbersAt(records[0] ?? begins ?? 0)
  const header: SegmentHeader = {
    ...{ format: 2, instance: 'one', epoch, ...numbers, carried, copies: 2 },
    ...{ ...(unsynced !== undefined && { unsynced }), at_ms: 1 },
  }
  const frames = records.map((record) => {
    const buffer = Buffer.alloc(256)
    const topic = topicOf(record)
    const numbers = { record, offset: numbersAt(record)[topic], sequence: record, atMs: 1 }
    return buffer.subarray(
      0,
      writeFrame(buffer, 0, topic, numbers, { type: 't', subject: 's', data: 'x'.repeat(record % 40) }),
    )
  })
  const admission = { type: 'request.admitted', subject: 's', data: '{}' }
  return Buffer.concat([segmentHead(header, Array(carried).fill(admission)), ...frames])
}

const write = (segments: readonly Segment[]): string => {
  const directory = join(folder.path, String(folders++), 'spool', '0')
  mkdirSync(directory, { recursive: true })
  for (const [index, segment] of segments.entries()) writeFileSync(segmentPath(directory, index + 1), bytesOf(segment))
  return directory
}

const readFrom = (directory: string, record: number, limit = 1_000, passing = false): number[] => {
  const cursor = new SegmentReader({ directory, passing })
  expect(cursor.seek({ record })).toBe(true)
  const found: number[] = []
  do {
    const told: number[] = []
    const read = cursor
      .next(limit, Number.POSITIVE_INFINITY, ({ record }) => told.push(record))
      .map(({ record }) => record)
    expect(told).toEqual(read)
    found.push(...read)
  } while (!cursor.atEnd)
  cursor.close()
  return found
}

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index)

/** The records that stand whole in a file behind a whole header. */
const survivors = (path: string): number[] => {
  const bytes = readFileSync(path)
  const found: number[] = []
  for (let at = 0; at < bytes.length; ) {
    const frame = readFrame(bytes, at, bytes.length)
    if (typeof frame !== 'object') break
    if (frame.topic !== 'header' && frame.topic !== 'carried') found.push(frame.record)
    at = frame.end
  }
  return found
}

test('what a power cut took at the end of one segment is read from its copy behind the next one, in its order', () => {
  const directory = write([
    { records: [0, 1, 2] }, // 3 was lost here
    { records: [4, 5], unsynced: 3 },
    { records: [3, 4, 5, 6, 7], unsynced: 3 },
    { records: [8], epoch: 'b' },
  ])
  for (const from of range(0, 9)) expect(readFrom(directory, from)).toEqual(range(from, 9))
})

test('numbers that no record has are passed over, and what another process wrote is no copy', () => {
  const directory = write([{ records: [0, 1] }, { records: [5, 6] }, { records: [7], epoch: 'b' }])
  expect(readFrom(directory, 0)).toEqual([0, 1, 5, 6, 7])
})

test('copies are looked for only as far as a head that knows what is lost to have been durable', () => {
  // Syncs are under way whenever a segment is full, so each head doubts what came last.
  const segments = range(1, 100).map((at) => ({ records: [10 * at, 10 * at + 1], unsynced: 10 * at - 9 }))
  const directory = write([{ records: range(0, 2) }, ...segments])
  let opened = 0
  const open = (path: string) => {
    opened++
    return nodeFiles.open(path)
  }
  const cursor = new SegmentReader({ directory, files: { ...nodeFiles, open } })
  expect(cursor.seek({ record: 0 })).toBe(true)
  do cursor.next(100)
  while (!cursor.atEnd)
  cursor.close()
  // Each is opened for its header and to be read, and a few more for each of 99 gaps and the start.
  expect(opened).toBeLessThan(2 * 100 + 2 * 99 + 20)
})

const share = fc.oneof(fc.constant(0), fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true }))
/**
 * Three segments of a process whose syncs failed across the end of the first and the second segment, and one segment of
 * the next process. A power cut removes any ends of them.
 */
const worlds = fc.record({
  ends: fc.tuple(fc.nat(8), fc.nat(8), fc.nat(8), fc.nat(8)),
  back: fc.nat(8),
  carried: fc.nat(3),
  cuts: fc.tuple(share, share, share),
  from: fc.nat(30),
  limit: fc.integer({ min: 1, max: 5 }),
  passing: fc.boolean(),
})
type World = typeof worlds extends fc.Arbitrary<infer Value> ? Value : never

const make = ({ ends, back, carried, cuts }: World) => {
  const durable = 1 + ends[0]
  const first = durable + ends[1]
  const second = first + ends[2]
  const last = second + ends[3]
  const doubted = durable - Math.min(back, durable - 1)
  const directory = write([
    { records: range(0, first) },
    { records: range(first, second), unsynced: doubted, begins: first, carried },
    { records: range(doubted, last), unsynced: doubted, begins: doubted, carried },
    { records: [last], epoch: 'b' },
  ])
  // What was durable stays; of the rest any end goes.
  const kept = bytesOf({ records: range(0, doubted) }).length
  for (const [index, share] of cuts.entries()) {
    const path = segmentPath(directory, index + 1)
    const whole = readFileSync(path).length
    const least = index === 0 ? kept : bytesOf({ records: [], unsynced: doubted, begins: doubted, carried }).length
    truncateSync(path, Math.round(Math.min(whole, least) + share * Math.max(0, whole - least)))
  }
  const all = new Set(range(1, 5).flatMap((ordinal) => survivors(segmentPath(directory, ordinal))))
  return { directory, last, survived: [...all].sort((a, b) => a - b) }
}

test('wherever segments end, a reader has every record that survived anywhere once and in order', () => {
  fc.assert(
    fc.property(worlds, (world) => {
      const { directory, last, survived } = make(world)
      const { from, limit, passing } = world
      const expected = survived.filter((record) => record >= from)
      expect(readFrom(directory, Math.min(from, last), limit, passing)).toEqual(
        expected.length === 0 ? [last] : expected,
      )
    }),
    { numRuns: 300 },
  )
})

test('a reader of one topic, wherever it begins, says of no record that survived that it has passed it before it gives it', () => {
  fc.assert(
    fc.property(worlds, fc.constantFrom('requests', 'operations'), (world, topic) => {
      const { directory, last, survived } = make(world)
      const { limit, passing } = world
      const from = numbersAt(Math.min(world.from, last))[topic]
      const left = survived.filter((record) => topicOf(record) === topic).map((record) => numbersAt(record)[topic])
      const cursor = new SegmentReader({ directory, topic, passing })
      expect(cursor.seek({ topic, offset: from })).toBe(true)
      while (left.length > 0 && left[0]! < from) left.shift()
      do {
        for (const { offset } of cursor.next(limit)) if (offset >= from) expect(offset).toBe(left.shift()!)
        if (left.length > 0) expect(cursor.ends[topic]).toBeLessThanOrEqual(Math.max(left[0]!, from))
      } while (!cursor.atEnd)
      cursor.close()
      expect(left).toEqual([])
    }),
    { numRuns: 300 },
  )
})

test.each([
  ['more of them than a reader takes at once', [range(0, 100), range(900, 905), range(100, 910)], 0],
  ['heads that carry more than that', [range(0, 100), range(103, 105), range(100, 108)], 200],
  ['a head with nothing behind it', [range(0, 100), [], range(100, 108)], 200],
] as const)('the embedded log gives copies, and none of their offsets as empty: %s', async (_, records, carried) => {
  const directory = write([
    { records: records[0] },
    { records: records[1], unsynced: 100, begins: 103, carried },
    { records: records[2], unsynced: 100, carried },
    { records: [records[2].at(-1)! + 1], epoch: 'b' },
  ])
  const log = embeddedLog({ dataDir: join(directory, '../..'), nowMs: Date.now, spoolPollMs: 1 })
  const next = numbersAt(records[2].at(-1)! + 2)
  for (const topic of ['requests', 'operations'] as const) {
    const found = await take(log, TOPICS[topic].name, 0, next[topic])
    expect(found.filter(({ value }) => value!.length === 0).map(({ offset }) => offset)).toEqual([])
    expect(await log.end(TOPICS[topic].name, 0)).toBe(next[topic])
  }
  await log.close()
})

test.each([
  ['one', [range(0, 5)], 3],
  ['two', [range(0, 5), range(5, 8)], 5],
])('what stands only before copies that are torn is kept until it is shipped: %s', async (_, doubted, shipped) => {
  const all = doubted.flat()
  const directory = write([
    ...doubted.map((records, at) => ({ records, ...(at > 0 && { unsynced: 3 }) })),
    { records: [3], unsynced: 3 },
  ])
  const spool = await openTestSpool(join(directory, '../..'), { durability: 'host' })
  await spool.append('requests', 'request.settled', 's', '{}')
  spool.shipped(shipped)
  expect(readFrom(directory, shipped)).toEqual(range(shipped, all.length + 1))
  spool.shipped(all.length + 1)
  expect(listSegments(directory).map(({ ordinal }) => ordinal)).toEqual([doubted.length + 2])
  await spool.close()
})
