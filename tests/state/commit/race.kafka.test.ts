import { expect, test } from 'bun:test'
import { sharedBroker, testTopics } from '../../services/kafka.ts'
import { raceProcesses } from './race-processes.ts'

test('three processes on a real broker, one of them killed', async () => {
  const { bootstrap } = await sharedBroker()
  const topics = testTopics(bootstrap)
  const topic = await topics.create()
  try {
    const { counted, records } = await raceProcesses(
      { adapter: 'kafka', brokers: bootstrap, topic },
      { commands: 150, atOnce: 5 },
    )
    expect(records).toBeGreaterThan(counted) // there was a race: some appends lost
  } finally {
    await topics.remove(topic)
    topics.close()
  }
}, 60_000)
