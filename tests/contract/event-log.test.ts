import { memoryLog } from '../../src/log/memory.ts'
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
