// What an append to a shared topic of the embedded log does before it commits: the serving thread does not block while
// the disk writes data of other files.
import { afterAll, afterEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { PreSync } from '../../../src/log/embedded/pre-sync.ts'
import { SqliteTopic } from '../../../src/log/embedded/sqlite-log.ts'
import { type Files, nodeFiles } from '../../../src/log/files.ts'
import { TOPICS, type Topic } from '../../../src/log/topics.ts'
import { diskError, SmallDisk } from '../small-disk.ts'
import { temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let paths = 0
const fresh = () => join(folder.path, `${++paths}.sqlite`)
const opened: SqliteTopic[] = []
afterEach(() => {
  for (const topic of opened.splice(0)) topic.close()
})

const open = (files: Files, synced = true): SqliteTopic => {
  const options = { compacted: false, retentionMs: null, nowMs: Date.now, random: Math.random }
  const topic = new SqliteTopic({ path: fresh(), ...options, synced, files })
  opened.push(topic)
  return topic
}

/** A disk that acknowledges a sync when the test resolves it. */
const slowDisk = () => {
  const asked: PromiseWithResolvers<void>[] = []
  const sync = (): Promise<void> => {
    const answer = Promise.withResolvers<void>()
    asked.push(answer)
    return answer.promise
  }
  return { asked, files: { ...nodeFiles, sync } }
}

const record = (text: string) => ({ key: null, value: Buffer.from(text) })
const textsIn = async (topic: SqliteTopic): Promise<string[]> => {
  const signal = new AbortController().signal
  for await (const records of topic.read(0, 0, signal))
    return records.map(({ value }) => Buffer.from(value!).toString())
  return []
}

test('a commit begins once the disk has written what it was given before; what comes meanwhile waits with it, in order', async () => {
  const disk = slowDisk()
  const topic = open(disk.files)
  const appended = ['one', 'two', 'three'].map((text) => topic.append(0, [record(text)]))
  expect([disk.asked.length, await topic.end(0)]).toEqual([1, 0])
  disk.asked[0]!.resolve()
  await Promise.all(appended)
  expect(await textsIn(topic)).toEqual(['one', 'two', 'three'])
  expect(disk.asked.length).toBe(1)
})

test('a disk that has just answered is not asked again, one that let a commit wait is, and so is one that had time to fill', async () => {
  let nowMs = 0
  const disk = slowDisk()
  const ahead = new PreSync({ path: fresh(), files: disk.files, nowMs: () => nowMs })
  const answered = async (): Promise<void> => {
    const ready = ahead.ready()
    disk.asked.at(-1)!.resolve()
    await ready
  }
  await answered()
  expect(ahead.ready()).toBeNull()
  ahead.timed(() => {
    nowMs += 2
  })
  nowMs += 99
  expect(ahead.ready()).toBeNull()
  nowMs += 1
  await answered()
  ahead.timed(() => {
    nowMs += 6
  })
  expect(ahead.ready()).not.toBeNull()
  disk.asked.at(-1)!.resolve()
  expect(disk.asked.length).toBe(3)
})

test('nothing stands on it: a disk that refuses is told of by the commit, if by anyone', async () => {
  const disk = new SmallDisk()
  disk.syncFailures = 1
  await open(disk.files).append(0, [record('one')])
  expect(disk.syncs).toBe(1)
  const broken = new SmallDisk()
  broken.broken = 'ENOSPC'
  await open(broken.files).append(0, [record('one')])
  const closing = open({
    ...nodeFiles,
    close: (descriptor) => {
      nodeFiles.close(descriptor)
      throw diskError('EIO')
    },
  })
  await closing.append(0, [record('one')])
  expect(await textsIn(closing)).toEqual(['one'])
})

test('descriptors are given back, whatever fails', async () => {
  const held = new Set<number>()
  const files: Files = {
    ...nodeFiles,
    create: (path) => {
      const descriptor = nodeFiles.create(path)
      held.add(descriptor)
      return descriptor
    },
    close: (descriptor) => {
      held.delete(descriptor)
      nodeFiles.close(descriptor)
    },
  }
  const refuse = () => {
    throw diskError('ENOSPC')
  }
  for (const failing of [{}, { write: refuse }, { sync: refuse }]) {
    await new PreSync({ path: fresh(), files: { ...files, ...failing }, nowMs: () => 0 }).ready()
    expect(held.size).toBe(0)
  }
})

test('who lives is told without waiting for the disk, and of nothing else', async () => {
  const disk = slowDisk()
  await open(disk.files, false).append(0, [record('one')])
  expect(disk.asked.length).toBe(0)
  const unsynced = Object.values(TOPICS).filter((topic: Topic) => topic.synced === false)
  expect(unsynced.map(({ name }) => name)).toEqual(['gateway.instances.v1'])
})
