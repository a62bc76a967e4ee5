// The contract of the log over the adapters without a broker: memory and embedded.
import { Database } from 'bun:sqlite'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { embeddedLog } from '../../src/log/embedded/log.ts'
import { memoryLog } from '../../src/log/memory.ts'
import type { EventLog } from '../../src/log/port.ts'
import type { Topic } from '../../src/log/topics.ts'
import { eventLogContract } from './event-log.ts'

eventLogContract('memory', async () => {
  const counts = new Map<string, number>()
  const log = memoryLog({ nowMs: Date.now, partitionCount: (topic) => counts.get(topic) ?? 1 })
  return {
    log,
    async topic(kind, partitions = 1) {
      const name = `${kind}.${counts.size}`
      counts.set(name, partitions)
      return name
    },
    another: async () => log.view(),
    truncate: async (topic, partition, end) => log.truncate(topic, partition, end),
    trim: async (topic, partition, start) => log.trim(topic, partition, start),
    hole: async (topic, partition, offset) => log.hole(topic, partition, offset),
    recreate: async (topic) => log.truncate(topic, 0, 0),
    close: () => log.close(),
  }
})

eventLogContract('embedded, shared topics', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'gatelog-log-'))
  const topics = new Map<string, Topic>()
  const open = (): EventLog =>
    embeddedLog({ dataDir, nowMs: Date.now, partitionCount: 2, findTopic: (name) => topics.get(name) })
  const log = open()
  const pathOf = (topic: string) => join(dataDir, 'log', `${topic}.sqlite`)
  /** Changes the file behind the log's back, as another process would. */
  const tamper = async (topic: string, sql: string) => {
    const database = new Database(pathOf(topic))
    database.run(sql)
    database.close()
  }
  return {
    log,
    async topic(kind, partitions = 1) {
      const name = `${kind}.${topics.size}`
      const cleanup = kind === 'compacted' ? 'compact' : 'delete'
      topics.set(name, {
        name,
        partitions: partitions === 1 ? 1 : 'many',
        cleanup,
        retentionMs: null,
        critical: true,
        embedded: 'shared',
      })
      return name
    },
    another: async () => open(),
    truncate: (topic, partition, end) => tamper(topic, `DELETE FROM p${partition} WHERE offset >= ${end}`),
    trim: (topic, partition, start) => tamper(topic, `DELETE FROM p${partition} WHERE offset < ${start}`),
    hole: (topic, partition, offset) => tamper(topic, `DELETE FROM p${partition} WHERE offset = ${offset}`),
    async recreate(topic) {
      for (const end of ['', '-wal', '-shm']) await rm(`${pathOf(topic)}${end}`, { force: true })
      const fresh = open()
      await fresh.append(topic, 0, [{ key: null, value: new Uint8Array(1) }])
      await fresh.close()
    },
    async close() {
      await log.close()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
})
