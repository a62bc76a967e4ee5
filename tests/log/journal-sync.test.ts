// When what is appended to a shared topic of the embedded log counts: once it is on the disk, for the one who appends and for everybody who reads.
import { Database } from 'bun:sqlite'
import { afterAll, afterEach, expect, spyOn, test } from 'bun:test'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { type Files, nodeFiles } from '../../src/log/files.ts'
import { IndefiniteAppend, type LogRecord } from '../../src/log/port.ts'
import { SqliteTopic } from '../../src/log/sqlite-log.ts'
import { TOPICS, type Topic } from '../../src/log/topics.ts'
import { SmallDisk } from './small-disk.ts'
import { temporaryFolder } from './support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let paths = 0
const fresh = () => join(folder.path, `${++paths}.sqlite`)
const opened: SqliteTopic[] = []
afterEach(() => {
  for (const topic of opened.splice(0)) topic.close()
})

const open = (path: string, files: Files, synced = true): SqliteTopic => {
  const options = { path, compacted: false, retentionMs: null, nowMs: Date.now, random: Math.random }
  const topic = new SqliteTopic({ ...options, synced, files })
  opened.push(topic)
  return topic
}

/** A disk that answers a sync when it is told to. */
class SlowDisk {
  readonly asked: PromiseWithResolvers<void>[] = []
  #awaited: PromiseWithResolvers<void> | null = null
  readonly files: Files = {
    ...nodeFiles,
    sync: async (descriptor) => {
      const answer = Promise.withResolvers<void>()
      this.asked.push(answer)
      this.#awaited?.resolve()
      await answer.promise
      await nodeFiles.sync(descriptor)
    },
  }

  async untilAsked(times: number): Promise<void> {
    while (this.asked.length < times) {
      this.#awaited = Promise.withResolvers()
      await this.#awaited.promise
    }
  }

  answer(): void {
    for (const { resolve } of this.asked) resolve()
  }
}

const record = (text: string) => ({ key: null, value: Buffer.from(text) })
const textsOf = (records: readonly LogRecord[]) => records.map(({ value }) => Buffer.from(value!).toString())

/** The first records that a reader is given, and whether it was given any. */
const reading = (topic: SqliteTopic) => {
  const aborting = new AbortController()
  const read = { texts: null as string[] | null, done: Promise.resolve(), stop: () => aborting.abort() }
  read.done = (async () => {
    for await (const records of topic.read(0, 0, aborting.signal)) {
      read.texts = textsOf(records)
      return
    }
  })()
  return read
}

test('what is appended is neither acknowledged nor read before it is on the disk', async () => {
  const disk = new SlowDisk()
  const topic = open(fresh(), disk.files)
  let acknowledged = false
  const appended = topic.append(0, [record('one')]).then(() => {
    acknowledged = true
  })
  const read = reading(topic)
  await disk.untilAsked(1)
  // It is committed, so a connection without such scruples sees it.
  expect(await topic.end(0)).toBe(1)
  expect([acknowledged, read.texts]).toEqual([false, null])
  disk.answer()
  await appended
  // The reader may have asked for one more.
  await Promise.race([read.done, disk.untilAsked(2)])
  disk.answer()
  await read.done
  expect(read.texts).toEqual(['one'])
})

test('another process reads it no sooner, though it was never told that it was appended', async () => {
  const path = fresh()
  const [never, slow] = [new SlowDisk(), new SlowDisk()]
  void open(path, never.files).append(0, [record('one')])
  const read = reading(open(path, slow.files))
  await slow.untilAsked(1)
  expect(read.texts).toBeNull()
  slow.answer()
  await read.done
  expect(read.texts).toEqual(['one'])
  never.answer()
})

test('appends that come while one sync runs share the next', async () => {
  const disk = new SlowDisk()
  const topic = open(fresh(), disk.files)
  const first = topic.append(0, [record('0')])
  await disk.untilAsked(1)
  const others = Array.from({ length: 20 }, (_, index) => topic.append(0, [record(`${index + 1}`)]))
  disk.answer()
  await first
  await disk.untilAsked(2)
  disk.answer()
  await Promise.all(others)
  expect(disk.asked.length).toBe(2)
})

test('what a sync failed on is written anew, and the disk is never asked about it again', async () => {
  const path = fresh()
  const disk = new SmallDisk()
  const topic = open(path, disk.files)
  disk.syncFailures = 1
  await topic.append(0, [record('one')])
  // In the file itself: nothing is left in the write-ahead log.
  expect(statSync(`${path}-wal`).size).toBe(0)
  await topic.append(0, [record('two')])
  const read = reading(topic)
  await read.done
  expect([read.texts, disk.syncedAfterFailure]).toEqual([['one', 'two'], 0])
})

test('where that fails too nobody is told that it was written or that it was not, and nobody reads it until it is safe', async () => {
  const disk = new SmallDisk()
  const topic = open(fresh(), disk.files)
  disk.syncFailures = 1
  const real = Database.prototype.query
  const failing = function (this: Database, sql: string) {
    if (sql.includes('wal_checkpoint')) throw new Error('disk I/O error')
    return real.call(this, sql)
  }
  const query = spyOn(Database.prototype, 'query').mockImplementation(failing as typeof real)
  const read = reading(topic)
  try {
    await expect(topic.append(0, [record('one')])).rejects.toBeInstanceOf(IndefiniteAppend)
    expect(topic.problem).toContain('disk I/O error')
    expect(read.texts).toBeNull()
  } finally {
    query.mockRestore()
  }
  await read.done
  expect([read.texts, topic.problem]).toEqual([['one'], null])
  expect(disk.syncs).toBe(1)
})

test('who lives is told without waiting for the disk', async () => {
  const disk = new SlowDisk()
  await open(fresh(), disk.files, false).append(0, [record('one')])
  expect(disk.asked.length).toBe(0)
  const unsynced = Object.values(TOPICS).filter((topic: Topic) => topic.synced === false)
  expect(unsynced.map(({ name }) => name)).toEqual(['gateway.instances.v1'])
})
