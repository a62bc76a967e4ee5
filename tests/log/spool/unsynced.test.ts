// Settlements that a power cut may still remove, with `log.durability: host`: after any loss, an admission is either
// settled or open, never neither and never both.
import { afterAll, describe, expect, test } from 'bun:test'
import { cpSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { SegmentReader } from '../../../src/log/segments/reader.ts'
import { listSegments } from '../../../src/log/segments/writer.ts'
import type { LocalSpool } from '../../../src/log/spool/open.ts'
import { type Appended, REFUSABLE } from '../../../src/log/spool/port.ts'
import { appended } from '../appended.ts'
import { SmallDisk } from '../small-disk.ts'
import { openTestSpool, readAll, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let folders = 0
const dataDir = () => join(folder.path, String(folders++))

/** A spool whose syncs can be held back; `flushed()` resolves when the next batch stands in the file. */
const openHeld = async (directory: string) => {
  const disk = new SmallDisk()
  const held: (() => void)[] = []
  const flushes: (() => void)[] = []
  const hold = { on: false, onHeld: () => {} }
  const spool = await openTestSpool(directory, {
    durability: 'host',
    segmentBytes: 1_000,
    onFlushed: () => flushes.shift()?.(),
    files: {
      ...disk.files,
      sync: async (descriptor) => {
        if (hold.on) {
          await new Promise<void>((resolve) => {
            held.push(resolve)
            hold.onHeld()
          })
        }
        await disk.files.sync(descriptor)
      },
    },
  })
  return {
    ...{ disk, spool, directory, hold },
    flushed: () => new Promise<void>((resolve) => flushes.push(resolve)),
    /** Resolves when a sync is held back. */
    holds: () =>
      held.length > 0
        ? Promise.resolve()
        : new Promise<void>((resolve) => {
            hold.onHeld = resolve
          }),
    /** The others stay. */
    letOne: () => held.shift()?.(),
    release() {
      hold.on = false
      for (const resolve of held.splice(0)) resolve()
    },
  }
}

type Held = Awaited<ReturnType<typeof openHeld>>

const admit = (spool: LocalSpool, id: string) =>
  spool.append('requests', 'request.admitted', 'tenant', JSON.stringify({ id }), REFUSABLE)

const settle = (spool: LocalSpool, id: string, admission: Appended) =>
  spool.append('requests', 'request.settled', 'tenant', JSON.stringify({ id, admission: admission.id }), admission)

/** Larger than a segment: what is written next begins another one. */
const fill = (spool: LocalSpool) => spool.append('operations', 'x', 'y', JSON.stringify('z'.repeat(1_500)))

const sizesOf = ({ directory }: LocalSpool) =>
  new Map(listSegments(directory).map(({ ordinal, bytes }) => [ordinal, bytes]))

/**
 * What a start finds after the process crashed here. `left`: a power cut as well; ordinal of a segment -> its bytes
 * that are left.
 */
const afterCrash = async ({ spool: { directory } }: Held, left?: ReadonlyMap<number, number>, copy = dataDir()) => {
  cpSync(directory, join(copy, 'spool', '1'), { recursive: true })
  const segments = listSegments(join(copy, 'spool', '1'))
  if (left !== undefined)
    for (const { path, ordinal, bytes } of segments) truncateSync(path, Math.min(bytes, left.get(ordinal) ?? 0))
  const spool = await openTestSpool(copy, { durability: 'host' })
  const settled = readAll(spool.directory).records.filter(({ type }) => type === 'request.settled')
  const found = { open: spool.openAtStart.map(({ recordId }) => recordId), settled: settled.length }
  await spool.close()
  return found
}

/** An admission whose settlement stands at the end of a segment and is not synced when the next one begins. */
const settledAtAnEnd = async () => {
  const held = await openHeld(dataDir())
  const { spool, hold } = held
  const admission = await admit(spool, 'req_1')
  const before = sizesOf(spool)
  hold.on = true
  const written = [held.flushed(), held.flushed()]
  const settled = settle(spool, 'req_1', admission)
  await written[0]
  const filled = fill(spool)
  await written[1]
  return { ...held, admission, before, done: Promise.all([settled, filled]) }
}

/** `before`, and every length that the newest segment can have. */
function* cuts(before: ReadonlyMap<number, number>, { directory }: LocalSpool) {
  const { ordinal, bytes } = listSegments(directory).at(-1)!
  for (let left = 0; left <= bytes; left += 40) yield new Map([...before, [ordinal, left]])
  yield new Map([...before, [ordinal, bytes]])
}

describe('settlements that are not durable yet', () => {
  test('wherever a power cut ends the next segment: their admissions are open', async () => {
    const held = await settledAtAnEnd()
    expect(listSegments(held.spool.directory).length).toBe(2)
    for (const left of cuts(held.before, held.spool))
      expect(await afterCrash(held, left)).toEqual({ open: [held.admission.id], settled: 0 })
    held.release()
    await held.done
    await held.spool.close()
  })

  test('where they are still there they count, wherever the next segment ends', async () => {
    const held = await settledAtAnEnd()
    expect(await afterCrash(held)).toEqual({ open: [], settled: 1 })
    for (const left of cuts(sizesOf(held.spool), held.spool))
      expect(await afterCrash(held, left)).toEqual({ open: [], settled: 1 })
    held.release()
    await held.done
    await held.spool.close()
  })

  test('one that came while a sync failed is durable with the next sync, and the next head knows it', async () => {
    const held = await openHeld(dataDir())
    const { spool, disk, hold } = held
    const admission = await admit(spool, 'req_1')
    hold.on = true
    const written = [held.flushed(), held.flushed(), held.flushed()]
    const other = admit(spool, 'req_2')
    await written[0]
    const settled = settle(spool, 'req_1', admission)
    await written[1]
    disk.syncFailures = 1
    held.letOne()
    await held.holds()
    held.letOne() // the same into another segment
    const open = await other
    const filled = fill(spool)
    await written[2]
    held.release()
    await Promise.all([settled, filled])
    spool.shipped(spool.end)
    expect(await afterCrash(held)).toEqual({ open: [open.id], settled: 0 })
    await spool.close()
  })

  test('one whose copy is torn is read where it stands, by a reader that has come to it', async () => {
    const held = await openHeld(dataDir())
    const { spool, disk, hold } = held
    const admission = await admit(spool, 'req_1')
    const place = { record: spool.end }
    hold.on = true
    const written = held.flushed()
    const settled = settle(spool, 'req_1', admission)
    await written
    disk.syncFailures = 1
    await held.holds()
    const before = sizesOf(spool)
    held.letOne() // the same into another segment
    await held.holds()
    expect(listSegments(spool.directory).length).toBe(2)
    for (const left of cuts(before, spool)) {
      const directory = dataDir()
      expect(await afterCrash(held, left, directory)).toEqual({ open: [], settled: 1 })
      const cursor = new SegmentReader({ directory: join(directory, 'spool', '1') })
      expect(cursor.seek(place)).toBe(true)
      expect(cursor.next(10).map(({ record, type }) => [record, type])).toEqual([[place.record, 'request.settled']])
      cursor.close()
    }
    held.release()
    await settled
    await spool.close()
  })

  test('the segment where they stand is kept as long as the newest head does not know of them', async () => {
    const held = await settledAtAnEnd()
    const { spool } = held
    held.release()
    await held.done
    spool.shipped(spool.end)
    expect(await afterCrash(held)).toEqual({ open: [], settled: 1 })
    await fill(spool)
    spool.shipped(spool.end)
    expect(listSegments(spool.directory).map(({ ordinal }) => ordinal)).toEqual([3])
    await spool.close()
  })

  test('a start that finds the newest head damaged leaves another one, before the segments that it read go', async () => {
    const held = await openHeld(dataDir())
    const { spool, hold } = held
    const admissions = [await admit(spool, 'req_1'), await admit(spool, 'req_2')]
    hold.on = true
    const written = [held.flushed(), held.flushed()]
    const settled = settle(spool, 'req_1', admissions[0]!)
    await written[0]
    const filled = fill(spool)
    await written[1]
    const directory = dataDir()
    cpSync(spool.directory, join(directory, 'spool', '1'), { recursive: true })
    held.release()
    await Promise.all([settled, filled])
    await spool.close()
    const { path } = listSegments(join(directory, 'spool', '1')).at(-1)!
    const bytes = readFileSync(path)
    const copy = bytes.indexOf('req_2')
    bytes[copy]! ^= 1
    bytes[bytes.indexOf('req_2', copy)]! ^= 1
    writeFileSync(path, bytes)
    for (let start = 1; start <= 3; start++) {
      const again = await openTestSpool(directory, { durability: 'host' })
      expect([start, again.openAtStart.map(({ recordId }) => recordId)]).toEqual([start, [admissions[1]!.id]])
      again.shipped(again.end)
      await again.close()
    }
  })

  test('one damaged place in the newest head loses nothing of it: an older one would not know what was settled in segments that are gone', async () => {
    const held = await openHeld(dataDir())
    const { spool, hold } = held
    const admissions = [await admit(spool, 'req_1'), await admit(spool, 'req_2')]
    const attempt = (n: number) => JSON.stringify({ id: 'req_2', n })
    for (const n of [2, 3]) await spool.append('requests', 'request.attempted', 'tenant', attempt(n), admissions[1]!)
    hold.on = true
    const written = [held.flushed(), held.flushed()]
    const settled = settle(spool, 'req_1', admissions[0]!)
    await written[0]
    const shipped = spool.end
    const filled = fill(spool)
    await written[1]
    held.release()
    await Promise.all([settled, filled])
    await fill(spool)
    spool.shipped(shipped)
    const segments = listSegments(spool.directory)
    expect(segments.map(({ ordinal }) => ordinal)).toEqual([2, 3])
    const bytes = readFileSync(segments[1]!.path)
    const end = bytes.indexOf('zz')
    for (let at = 0; at < end; at += 11) {
      const copy = dataDir()
      cpSync(spool.directory, join(copy, 'spool', '1'), { recursive: true })
      const damaged = Buffer.from(bytes)
      damaged[at]! ^= 4
      writeFileSync(join(copy, 'spool', '1', basename(segments[1]!.path)), damaged)
      const again = await openTestSpool(copy, { durability: 'host' })
      const open = again.openAtStart.map(({ recordId, attempts }) => [recordId, ...attempts])
      expect([at, open]).toEqual([at, [[admissions[1]!.id, attempt(2), attempt(3)]]])
      await again.close()
    }
    await spool.close()
  })

  test('what could not be synced is written again; wherever a power cut ends that, an admission is settled or open', async () => {
    const held = await openHeld(dataDir())
    const { spool, disk } = held
    const admission = await admit(spool, 'req_1')
    const before = sizesOf(spool)
    disk.syncFailures = 4
    await expect(settle(spool, 'req_1', admission)).rejects.toThrow('EIO')
    await expect(fill(spool)).rejects.toThrow('EIO')
    expect(disk.syncFailures).toBe(0)
    const seen = new Set<string>()
    for (const left of cuts(before, spool)) {
      const { open, settled } = await afterCrash(held, left)
      expect([open, settled]).toEqual(settled === 1 ? [[], 1] : [[admission.id], 0])
      seen.add(`${settled} settled`)
    }
    expect([...seen]).toEqual(['0 settled', '1 settled'])
    for (const left of cuts(sizesOf(spool), spool))
      expect(await afterCrash(held, left)).toEqual({ open: [], settled: 1 })
    expect(await afterCrash(held)).toEqual({ open: [], settled: 1 })
    await spool.append('operations', 'x', 'y', '{}')
    expect(spool.status().openAdmissions).toBe(0)
    await spool.close()
  })

  test('nothing is admitted until what was refused is durable; looking after the disk tries it again', async () => {
    const held = await openHeld(dataDir())
    const { spool, disk } = held
    disk.syncFailures = 2
    await expect(settle(spool, 'req_1', appended('nobodys.e.1'))).rejects.toThrow('EIO')
    expect(spool.admission.open).toBe(false)
    const synced = disk.syncs
    spool.refresh()
    // Closing waits for the sync that this began.
    await spool.close()
    expect([disk.syncs, disk.syncedAfterFailure]).toEqual([synced + 1, 0])
    expect(readAll(spool.directory).records.length).toBe(1)
  })
})
