// `log.durability: host`: what the disk refuses to sync is written once more at the head of a later segment, and a power cut may take the end of any segment.
import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { readFrame, type SegmentHeader, writeFrame } from '../../src/log/frame.ts'
import { SegmentCursor } from '../../src/log/segment-cursor.ts'
import { segmentHead } from '../../src/log/segment-header.ts'
import { segmentPath } from '../../src/log/segments.ts'
import { temporaryFolder } from './support.ts'

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
}

const topicOf = (record: number) => (record % 3 === 0 ? 'operations' : 'requests')

const bytesOf = ({ epoch = 'a', unsynced, records, begins }: Segment): Buffer => {
  const record = records[0] ?? begins ?? 0
  const header: SegmentHeader = {
    ...{ format: 1, instance: 'one', epoch, record, requests: record, operations: record, carried: 0, copies: 2 },
    ...{ ...(unsynced !== undefined && { unsynced }), at_ms: 1 },
  }
  const frames = records.map((number) => {
    const buffer = Buffer.alloc(4_096)
    const numbers = { record: number, offset: number, sequence: number, atMs: 1 }
    return buffer.subarray(0, writeFrame(buffer, 0, topicOf(number), numbers, 't', 's', 'x'.repeat(number % 40)))
  })
  return Buffer.concat([segmentHead(header, []), ...frames])
}

const write = (segments: readonly Segment[]): string => {
  const directory = join(folder.path, String(folders++))
  mkdirSync(directory)
  for (const [index, segment] of segments.entries()) writeFileSync(segmentPath(directory, index + 1), bytesOf(segment))
  return directory
}

const readFrom = (directory: string, record: number, limit = 1_000, passing = false): number[] => {
  const cursor = new SegmentCursor({ directory, passing })
  expect(cursor.seek({ record })).toBe(true)
  const found: number[] = []
  do found.push(...cursor.next(limit).map((read) => read.record))
  while (!cursor.atEnd)
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
    if (frame.topic !== 'header') found.push(frame.record)
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

test('wherever segments end, a reader has every record that survived anywhere once and in order', () => {
  const share = fc.oneof(fc.constant(0), fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true }))
  const world = fc.record({
    ends: fc.tuple(fc.nat(8), fc.nat(8), fc.nat(8), fc.nat(8)),
    back: fc.nat(8),
    cuts: fc.tuple(share, share, share),
    from: fc.nat(30),
    limit: fc.integer({ min: 1, max: 5 }),
    passing: fc.boolean(),
  })
  fc.assert(
    fc.property(world, ({ ends, back, cuts, from, limit, passing }) => {
      const durable = 1 + ends[0]
      const first = durable + ends[1]
      const second = first + ends[2]
      const last = second + ends[3]
      const doubted = durable - Math.min(back, durable - 1)
      const directory = write([
        { records: range(0, first) },
        { records: range(first, second), unsynced: doubted, begins: first },
        { records: range(doubted, last), unsynced: doubted, begins: doubted },
        { records: [last], epoch: 'b' },
      ])
      // What was durable stays; of the rest any end goes.
      const kept = bytesOf({ records: range(0, doubted) }).length
      for (const [index, share] of cuts.entries()) {
        const path = segmentPath(directory, index + 1)
        const whole = readFileSync(path).length
        const least = index === 0 ? kept : bytesOf({ records: [], unsynced: doubted, begins: doubted }).length
        truncateSync(path, Math.round(Math.min(whole, least) + share * Math.max(0, whole - least)))
      }
      const all = new Set(range(1, 5).flatMap((ordinal) => survivors(segmentPath(directory, ordinal))))
      const expected = [...all].sort((a, b) => a - b).filter((record) => record >= from)
      expect(readFrom(directory, Math.min(from, last), limit, passing)).toEqual(
        expected.length === 0 ? [last] : expected,
      )
    }),
    { numRuns: 300 },
  )
})
