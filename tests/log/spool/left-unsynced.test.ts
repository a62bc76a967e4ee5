// A start makes durable what the process before it wrote and did not sync (`log.durability: host`).
import { afterAll, describe, expect, test } from 'bun:test'
import { cpSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { nodeFiles } from '../../../src/log/files.ts'
import { noteRefusal } from '../../../src/log/segments/sync-refusal.ts'
import { listSegments } from '../../../src/log/segments/writer.ts'
import { makeBallast } from '../../../src/log/spool/ballast.ts'
import { syncSegments } from '../../../src/log/spool/left-unsynced.ts'
import { SmallDisk } from '../small-disk.ts'
import { openTestSpool, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let folders = 0
const dataDir = () => join(folder.path, String(folders++))

/** A spool of three segments whose process is gone. `durability`: how it wrote them. */
const left = async () => {
  const spool = await openTestSpool(dataDir(), { durability: 'process', segmentBytes: 500 })
  for (const text of ['a', 'b', 'c']) await spool.append('operations', 'x', 'y', JSON.stringify(text.repeat(600)))
  await spool.close()
  return spool.directory
}

/** Which segments were synced, and how often one of them was synced although that had failed. */
const watched = (failures: number) => {
  const disk = new SmallDisk()
  disk.syncFailures = failures
  const synced: string[] = []
  const paths = new Map<number, string>()
  const files = {
    ...disk.files,
    open: (path: string) => {
      const descriptor = nodeFiles.open(path)
      paths.set(descriptor, path)
      return descriptor
    },
    create: (path: string) => {
      const descriptor = disk.files.create(path)
      paths.set(descriptor, path)
      return descriptor
    },
    sync: async (descriptor: number) => {
      const name = paths.get(descriptor)!.replace(/.*\/0*/, '')
      await disk.files.sync(descriptor).catch((error) => {
        synced.push(`${name} refused`)
        throw error
      })
      synced.push(name)
    },
  }
  return { disk, files, synced }
}

const atOnce = async () => {}

describe('what a dead process left', () => {
  test('the newest segment is synced; its head says that those before it are durable', async () => {
    const directory = await left()
    expect(listSegments(directory).length).toBe(3)
    const { files, synced } = watched(0)
    expect(await syncSegments(directory, files)).toBe(0)
    expect(synced).toEqual(['3.segment'])
  })

  test('one that cannot be synced is written anew, and never synced again', async () => {
    const directory = await left()
    const path = listSegments(directory).at(-1)!.path
    const before = readFileSync(path)
    const { files, synced } = watched(2)
    expect(await syncSegments(directory, files, atOnce)).toBe(2)
    expect(synced).toEqual(['3.segment refused', '3.segment.new refused', '3.segment.new'])
    expect(readFileSync(path)).toEqual(before)
    expect(listSegments(directory).length).toBe(3)
  })

  test('where the process before was refused a sync nothing is asked of its files: all that is in doubt is written anew', async () => {
    const directory = await left()
    const path = listSegments(directory).at(-1)!.path
    const before = readFileSync(path)
    const { files, synced } = watched(0)
    noteRefusal(directory, files)
    expect(await syncSegments(directory, files, atOnce)).toBe(0)
    expect(synced).toEqual(['3.segment.new'])
    expect(readFileSync(path)).toEqual(before)
    // Once.
    expect(await syncSegments(directory, files, atOnce)).toBe(0)
    expect(synced).toEqual(['3.segment.new', '3.segment'])
  })

  test('a process that is refused a sync leaves word of it', async () => {
    const { disk, files, synced } = watched(0)
    const directory = await left()
    const spool = await openTestSpool(join(directory, '../..'), { durability: 'host', files })
    disk.syncFailures = 1
    await spool.append('operations', 'x', 'y', '"z"')
    const copy = dataDir()
    cpSync(join(directory, '../..'), copy, { recursive: true })
    await spool.close()
    synced.length = 0
    const next = await openTestSpool(copy, { durability: 'host', files })
    expect(synced.length).toBeGreaterThan(0)
    expect(synced.every((name) => name.endsWith('.segment.new'))).toBe(true)
    await next.close()
  })

  test('on a full disk it is written anew in the room of the ballast', async () => {
    const directory = await left()
    const path = listSegments(directory).at(-1)!.path
    const before = readFileSync(path)
    const { disk, files, synced } = watched(1)
    const ballast = makeBallast(directory, 64 * 1024, { ...files, freeBytes: () => Number.MAX_SAFE_INTEGER })
    expect(ballast.ensure()).toBe(true)
    disk.left = 10
    expect(await syncSegments(directory, files, atOnce)).toBe(2)
    expect(synced).toEqual(['3.segment refused', '3.segment.new'])
    expect(readFileSync(path)).toEqual(before)
    expect(readdirSync(directory)).not.toContain('ballast')
  })

  test('a disk that stays full is told, and nothing is left half written', async () => {
    const directory = await left()
    const { disk, files } = watched(1)
    disk.left = 10
    await expect(syncSegments(directory, files, atOnce)).rejects.toThrow('ENOSPC')
    expect(readdirSync(directory).filter((name) => name.endsWith('.new'))).toEqual([])
  })

  test('a disk that goes on refusing is told', async () => {
    const directory = await left()
    const { files } = watched(Number.POSITIVE_INFINITY)
    await expect(syncSegments(directory, files, atOnce)).rejects.toThrow('EIO')
  })

  test.each(['host', 'process'] as const)('an opening of durability %s', async (durability) => {
    const directory = await left()
    const { files, synced } = watched(0)
    const spool = await openTestSpool(join(directory, '../..'), { durability, files })
    expect(synced).toEqual(durability === 'host' ? ['3.segment'] : [])
    await spool.close()
  })

  test('an opening counts what the disk refused', async () => {
    const { files } = watched(1)
    const spool = await openTestSpool(join(await left(), '../..'), { durability: 'host', files })
    expect(spool.status().syncFailures).toBe(1)
    await spool.close()
  })
})
