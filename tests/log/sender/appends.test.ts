// What the sender makes of what it reads at once: full appends, and a word where something is missing.
import { afterAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKED_LIMITS } from '../../../src/log/append-limits.ts'
import { nodeFiles } from '../../../src/log/files.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import { type EventLog, LogGap } from '../../../src/log/port.ts'
import { readFrame } from '../../../src/log/segments/frame.ts'
import { listSegments } from '../../../src/log/segments/writer.ts'
import { shipSpool } from '../../../src/log/sender/ship.ts'
import { openTestSpool, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())

const targets = {
  requests: { topic: 'requests', partitions: 1 },
  operations: { topic: 'operations', partitions: 1 },
} as const

/** Ships all that a folder holds. */
const drained = (directory: string, log: EventLog): Promise<boolean> =>
  shipSpool({
    ...{ directory, log, targets, drain: true, signal: new AbortController().signal, nowMs: Date.now },
    more: () => Promise.resolve(),
    onProgress: () => undefined,
  })

/** How many records a segment holds. */
const recordsIn = (path: string): number => {
  const bytes = readFileSync(path)
  let count = 0
  for (let at = 0; ; ) {
    const frame = readFrame(bytes, at, bytes.length)
    if (typeof frame !== 'object') return count
    if (frame.topic === 'requests') count++
    at = frame.end
  }
}

test('what is read at once fills an append, and leaves no second for a few', async () => {
  const spool = await openTestSpool(join(folder.path, 'full'))
  for (let n = 0; n < 3_000; n++)
    await spool.append('requests', 'request.settled', 'one', JSON.stringify('x'.repeat(2_800)))
  const taken: number[] = []
  const plain = memoryLog({ nowMs: Date.now })
  const append: EventLog['append'] = async (topic, partition, records, signal) => {
    taken.push(records.length)
    await plain.append(topic, partition, records.slice(0, 1), signal)
  }
  expect(await drained(spool.directory, { ...plain, limits: PACKED_LIMITS, append })).toBe(true)
  await spool.close()
  const full = taken.slice(0, -1)
  // Of 2 MiB each, with room for one record of 64 KiB.
  expect(Math.min(...full)).toBeGreaterThan((2 * 1_024 * 1_024 - 3 * 65_536) / 3_300)
  expect([full.length, taken.reduce((sum, count) => sum + count)]).toEqual([4, 3_000])
})

test('a segment that is missing in the middle is told, behind all that stands before it', async () => {
  const spool = await openTestSpool(join(folder.path, 'gap'), { segmentBytes: 2_000 })
  for (let n = 0; n < 100; n++) await spool.append('requests', 'request.settled', 'one', `{"n":${n}}`)
  await spool.close()
  const [first, second] = listSegments(spool.directory)
  const held = recordsIn(first!.path)
  nodeFiles.remove(second!.path)
  const log = memoryLog({ nowMs: Date.now })
  const shipping = drained(spool.directory, log)
  expect(await shipping.catch((error: unknown) => error)).toBeInstanceOf(LogGap)
  expect([held > 0, log.records('requests', 0).length]).toEqual([true, held])
})
