// Packed records that a crash or a disk has spoiled.
import { afterAll, describe, expect, test } from 'bun:test'
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { BLOCK_BYTES } from '../../../src/lib/compression/lz4-pack.ts'
import {
  FRAME_HEAD_BYTES,
  frameAround,
  MOST_PACKED,
  readFrame,
  type StoredFrame,
} from '../../../src/log/segments/frame.ts'
import { framesIn } from '../../../src/log/segments/packed-frames.ts'
import { SegmentReader } from '../../../src/log/segments/reader.ts'
import { openTestSpool, readAll, temporaryFolder } from '../support.ts'
import { appendAll, bytesOf, likeEachOther, storedIn, textsOf } from './packed.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let made = 0
const fresh = (): string => join(folder.path, `data-${made++}`)

describe('packed records that a crash or a disk has spoiled', () => {
  /** A spool of packed and plain frames, by what its only segment holds. */
  const original = async () => {
    const dataDir = fresh()
    const spool = await openTestSpool(dataDir)
    for (const count of [20, 3, 40, 1, 32]) await appendAll(spool, textsOf(likeEachOther(count)), likeEachOther(count))
    await spool.close()
    const bytes = bytesOf(spool)
    const with_ = (content: Uint8Array): string => {
      const copy = fresh()
      cpSync(dataDir, copy, { recursive: true })
      writeFileSync(join(copy, 'spool', '0', '0000000001.segment'), content)
      return copy
    }
    return { bytes, stored: storedIn(bytes), with: with_ }
  }
  const recordsOf = (bytes: Buffer, stored: readonly StoredFrame[]) =>
    stored.filter(({ topic }) => topic !== 'header').flatMap((frame) => framesIn(bytes, frame)!)

  test('cut anywhere, they are lost with those that they were written with, and no number is given out twice', async () => {
    const { bytes, stored, with: withContent } = await original()
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length), async (cut) => {
        const spool = await openTestSpool(withContent(bytes.subarray(0, cut)))
        const whole = recordsOf(
          bytes,
          stored.filter(({ end }) => end <= cut),
        )
        // Cut, and not where one frame ends: whoever read on before has the numbers of the one that was cut.
        const torn = stored.find(({ start, end }) => start < cut && cut < end)
        const isHeaded = torn !== undefined && cut - torn.start >= FRAME_HEAD_BYTES
        const lost = isHeaded && torn.topic !== 'header' ? framesIn(bytes, torn)!.length : 0
        expect(spool.end).toBeGreaterThanOrEqual(whole.length + lost)
        expect(spool.end).toBeLessThanOrEqual(whole.length + lost + MOST_PACKED)
        await appendAll(spool, ['{"after":1}'], likeEachOther(1))
        await spool.close()
        const { records, damage } = readAll(spool.directory)
        expect(damage).toEqual([])
        expect(records.map(({ data }) => data)).toEqual([...whole.map(({ data }) => data), '{"after":1}'])
      }),
      { numRuns: 60 },
    )
  })

  test('with bits flipped, those of the frames that were hit are set aside and counted, all others are read, none is wrong', async () => {
    const { bytes, stored, with: withContent } = await original()
    const flips = fc.array(fc.tuple(fc.nat(bytes.length - 1), fc.nat(7)), { minLength: 1, maxLength: 3 })
    await fc.assert(
      fc.asyncProperty(flips, async (places) => {
        const content = Buffer.from(bytes)
        for (const [at, bit] of places) content[at] = content[at]! ^ (1 << bit)
        const isHit = ({ start, end }: StoredFrame) => !content.subarray(start, end).equals(bytes.subarray(start, end))
        const isHeaded = stored.some((frame) => frame.topic === 'header' && !isHit(frame))
        const left = isHeaded
          ? recordsOf(
              bytes,
              stored.filter((frame) => !isHit(frame)),
            )
          : []
        const spool = await openTestSpool(withContent(content))
        const { damaged, tornBytes } = spool.status()
        expect(damaged > 0 || tornBytes > 0).toBe(stored.some(isHit))
        // All of them may have been read before they were hit.
        expect(spool.end).toBeGreaterThanOrEqual(recordsOf(bytes, stored).length)
        await appendAll(spool, ['{"after":1}'], likeEachOther(1))
        await spool.close()
        const { records } = readAll(spool.directory)
        expect(records.slice(0, -1).map(({ record, data }) => [record, data])).toEqual(
          left.map(({ record, data }) => [record, data]),
        )
        expect(records.at(-1)!.data).toBe('{"after":1}')
      }),
      { numRuns: 100 },
    )
  })

  test('whose frame is whole and holds something else are damage, for who follows and for a start', async () => {
    const { bytes, stored, with: withContent } = await original()
    const at = stored.findIndex(({ topic, record }) => topic === 'packed' && record > 20)
    const packed = stored[at]!
    const others = recordsOf(
      bytes,
      stored.filter((frame) => frame !== packed),
    ).map(({ data }) => data)
    const { record, offset, sequence, atMs } = packed as StoredFrame
    const numbers = { record, offset, sequence, atMs }
    for (const wrong of [
      { ...numbers, sequence: sequence - 1 },
      { ...numbers, sequence: sequence + 1 },
      { ...numbers, record: record + 1 },
      { ...numbers, offset: offset - 1 },
      { ...numbers, offset: BLOCK_BYTES },
      { ...numbers, offset: 1e15 },
      { ...numbers, offset: Number.NaN },
      { ...numbers, offset: -1 },
    ]) {
      const content = Buffer.from(bytes)
      frameAround(content, packed.start, packed.end, wrong, wrong.sequence)
      const dataDir = withContent(content)
      const { records, damage } = readAll(join(dataDir, 'spool', '0'))
      expect(records.map(({ data }) => data)).toEqual(others)
      expect(damage.map(({ position, bytes: set }) => [position, set.length])).toEqual([
        [packed.start, packed.end - packed.start],
      ])
      const spool = await openTestSpool(dataDir)
      expect([spool.status().damaged, spool.end]).toEqual([1, 96])
      await spool.close()
    }
  })

  test('at the end leave their numbers taken: a reader that had them goes on behind them', async () => {
    const heads = Array.from({ length: 8 * FRAME_HEAD_BYTES }, (_, bit) => bit)
    const { bytes, stored, with: withContent } = await original()
    for (const how of ['flipped', 'of another number', 'of a lost head', ...heads] as const) {
      const content = Buffer.from(bytes)
      const { start, end, record, offset, sequence, atMs } = stored.at(-1)! as StoredFrame
      expect([record, sequence]).toEqual([64, 32])
      if (how === 'flipped') content[end - 9]! ^= 4
      else if (how === 'of a lost head') content.fill(0, start, start + FRAME_HEAD_BYTES)
      else if (typeof how === 'number') content[start + (how >> 3)]! ^= 1 << (how & 7)
      else frameAround(content, start, end, { record, offset, sequence: sequence - 1, atMs }, sequence)
      const dataDir = withContent(bytes)
      const directory = join(dataDir, 'spool', '0')
      const cursor = new SegmentReader({ directory })
      cursor.seek({ record: 0 })
      expect(cursor.next(1_000).length).toBe(96)
      writeFileSync(join(directory, '0000000001.segment'), content)
      const spool = await openTestSpool(dataDir)
      expect(spool.status().tornBytes).toBe(end - start)
      const all = likeEachOther(40)
      await appendAll(spool, textsOf(all), all)
      const read: string[] = []
      do read.push(...cursor.next(1_000).map(({ data }) => data))
      while (!cursor.atEnd)
      expect(read).toEqual(textsOf(all))
      cursor.close()
      await spool.close()
    }
  })

  test('never lead a reader to one that is packed in a damaged frame by itself', async () => {
    const { bytes, stored } = await original()
    const { start, end } = stored.find(({ topic }) => topic === 'packed')!
    // The first frame stands there as it is: whoever looks for the next frame finds the beginning of it.
    const inner = bytes.indexOf('type.1', start)
    expect(inner).toBeGreaterThan(start)
    expect(readFrame(bytes, inner - FRAME_HEAD_BYTES, end)).toBe('damaged')
  })
})
