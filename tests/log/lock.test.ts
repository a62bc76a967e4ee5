import { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import { once } from 'node:events'
import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { lockDataDir } from '../../src/composition/data-access.ts'
import { type DirectoryLock, tryLock } from '../../src/log/lock.ts'
import { claimFreeSpools, claimSpool, removeSpool, spoolNumbers } from '../../src/log/spool/directory.ts'
import { startProcess, temporaryFolder } from './support.ts'

/** Numbers of a round in `lock-racer.ts`, and which of them says how many got it. */
const CELLS = 3
const GOT = 2

const folder = temporaryFolder()
afterAll(() => folder.remove())

test('one process at a time, also after garbage collection, and the next one as soon as it is killed', async () => {
  const first = startProcess('holder.ts', folder.path)
  expect([await first.line(), await first.line()]).toEqual(['held', 'still held'])
  const second = startProcess('holder.ts', folder.path)
  expect(await second.line()).toBe('refused')
  await second.exited
  expect(tryLock(folder.path)).toBeNull()
  await first.kill()
  const own = tryLock(folder.path)
  expect(own).not.toBeNull()
  expect(tryLock(folder.path)).toBeNull()
  own?.release()
  const again = tryLock(folder.path)
  expect(again).not.toBeNull()
  again?.release()
})

test('of two that try at the same moment, one gets it', async () => {
  const rounds = 500
  const cells = new Int32Array(new SharedArrayBuffer(rounds * CELLS * Int32Array.BYTES_PER_ELEMENT))
  const data = temporaryFolder()
  const racers = [0, 1].map(
    () =>
      new Worker(new URL('lock-racer.ts', import.meta.url), { workerData: { directory: data.path, cells, rounds } }),
  )
  try {
    await Promise.all(racers.map((racer) => once(racer, 'exit')))
    const got = Array.from({ length: rounds }, (_, round) => cells[round * CELLS + GOT])
    expect(got.filter((many) => many !== 1)).toEqual([])
  } finally {
    await Promise.all(racers.map((racer) => racer.terminate()))
    data.remove()
  }
}, 60_000)

test('a folder that is removed and made again while somebody opens its lock is held once', () => {
  const data = temporaryFolder()
  const directory = join(data.path, '0')
  mkdirSync(directory)
  const before = tryLock(directory)
  let next: DirectoryLock | null = null
  const late = tryLock(directory, (path) => {
    const database = new Database(path, { create: true, readwrite: true })
    renameSync(directory, `${directory}.gone`)
    rmSync(`${directory}.gone`, { recursive: true })
    before?.release()
    mkdirSync(directory)
    next = tryLock(directory)
    return database
  })
  expect([late, next === null]).toEqual([null, false])
  next!.release()
  data.remove()
})

test('a folder that is removed while somebody opens its lock is nobody’s', () => {
  const data = temporaryFolder()
  const directory = join(data.path, '0')
  mkdirSync(directory)
  tryLock(directory)?.release()
  const late = tryLock(directory, (path) => {
    const database = new Database(path, { create: true, readwrite: true })
    rmSync(directory, { recursive: true })
    return database
  })
  expect(late).toBeNull()
  expect(tryLock(directory)).toBeNull()
  data.remove()
})

test('a file that stands there and cannot be opened is told, and nobody is said to hold it', () => {
  const data = temporaryFolder()
  mkdirSync(join(data.path, 'lock.db')) // as little a database as one that may not be written
  expect(() => tryLock(data.path)).toThrow('unable to open database file')
  expect(() => lockDataDir(data.path)).toThrow(`data.dir: ${data.path}/lock.db cannot be opened (SQLITE_CANTOPEN)`)
  expect(tryLock(join(data.path, 'none'))).toBeNull()
  data.remove()
})

test('what a crash in the middle of a removal left is removed at the next start; what is being removed is not touched', () => {
  const data = temporaryFolder()
  const spools = join(data.path, 'spool')
  const [left, held] = [join(spools, '3.gone-0123456789ab'), join(spools, '4.gone-0123456789ab')]
  for (const path of [left, held]) mkdirSync(join(path, 'watermarks'), { recursive: true })
  const lock = tryLock(held)
  claimSpool(data.path).lock.release()
  expect(readdirSync(spools).sort()).toEqual(['0', '4.gone-0123456789ab'])
  lock?.release()
  data.remove()
})

test('the name of an instance that a power cut has spoiled is not taken up', () => {
  for (const spoiled of ['', '\0'.repeat(41), 'ins_1\0\0\0']) {
    const data = temporaryFolder()
    const first = claimSpool(data.path)
    first.lock.release()
    writeFileSync(join(first.directory, 'instance'), spoiled)
    const again = claimSpool(data.path)
    expect(again.instance).toMatch(/^ins_[0-9a-f-]{36}$/)
    again.lock.release()
    expect(claimSpool(data.path).instance).toBe(again.instance)
    data.remove()
  }
})

test('spools: the lowest free one, else the next; the instance belongs to the directory', () => {
  const data = temporaryFolder()
  const [zero, one, two] = [claimSpool(data.path), claimSpool(data.path), claimSpool(data.path)]
  expect([zero.number, one.number, two.number]).toEqual([0, 1, 2])
  expect(new Set([zero.instance, one.instance, two.instance]).size).toBe(3)
  expect(claimFreeSpools(data.path)).toEqual([])
  one.lock.release()
  const again = claimSpool(data.path)
  expect([again.number, again.instance]).toEqual([1, one.instance])
  zero.lock.release()
  two.lock.release()
  expect(claimFreeSpools(data.path).map((claimed) => claimed.number)).toEqual([0, 2])
  removeSpool(again)
  expect(spoolNumbers(data.path)).toEqual([0, 2])
  data.remove()
})
