// The contract of the log on a real broker, and what only Kafka can do to a reader or a writer.

import { kafkaLog } from '../../src/log/kafka.ts'
import { sharedBroker, testTopics } from '../services/kafka.ts'
import { eventLogContract } from './event-log.ts'

eventLogContract(
  'kafka',
  async () => {
    const { bootstrap } = await sharedBroker()
    const topics = testTopics(bootstrap)
    const open = () => kafkaLog({ brokers: bootstrap, clientId: 'contract' })
    const log = open()
    await log.partitions(await topics.create())
    return {
      log,
      topic: async (kind, partitions = 1) =>
        kind === 'plain' ? topics.create(partitions) : topics.create(partitions, { 'cleanup.policy': 'compact' }),
      another: async () => open(),
      trim: (topic, _partition, start) => topics.trim(topic, start),
      async recreate(topic) {
        await topics.remove(topic)
        await topics.create(1, {}, topic)
      },
      async close() {
        await log.close()
        topics.close()
      },
    }
  },
  { timeoutMs: 20_000 },
)
