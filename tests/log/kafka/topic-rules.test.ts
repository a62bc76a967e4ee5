import { describe, expect, test } from 'bun:test'
import {
  aclCommands,
  explain,
  problemOf,
  type StoredTopic,
  wantedTopic,
  warningsOf,
} from '../../../src/log/kafka/topic-rules.ts'
import { TOPICS, type Topic } from '../../../src/log/topics.ts'

const NEEDS = { partitions: 4, retentionHours: 10 }

/** The topic as a broker describes it when it was made as wanted, with some settings changed. */
const held = (
  topic: Topic,
  brokers: number,
  changed: { settings?: Record<string, string>; partitions?: number; replication?: number } = {},
): StoredTopic => {
  const made = wantedTopic(topic, NEEDS, brokers)
  const replicas = Array.from({ length: changed.replication ?? made.replication }, (_, index) => index + 1)
  const partitions = Array.from({ length: changed.partitions ?? made.partitions }, (_, partition) => ({
    error: 0,
    partition,
    leader: 1,
    leaderEpoch: 0,
    replicas,
  }))
  return {
    metadata: { error: 0, name: topic.name, id: '', partitions },
    settings: new Map(Object.entries({ ...made.settings, ...changed.settings })),
    brokers,
  }
}

describe('the rules of a topic', () => {
  test('what is made is right, on one broker and on three', () => {
    for (const topic of Object.values(TOPICS)) {
      for (const brokers of [1, 2, 3, 5]) expect(problemOf(topic, held(topic, brokers), NEEDS)).toBeNull()
    }
  })

  test('a topic may be set to what most clients read, whether its broker packs anew or not', () => {
    for (const codec of ['producer', 'lz4', 'gzip', 'uncompressed'])
      expect(
        problemOf(TOPICS.requests, held(TOPICS.requests, 3, { settings: { 'compression.type': codec } }), NEEDS),
      ).toBeNull()
  })

  test('control, keys and budgets on three brokers: three copies, two in sync, no unclean election', () => {
    for (const topic of [TOPICS.control, TOPICS.keys, TOPICS.budgets]) {
      expect(wantedTopic(topic, NEEDS, 3)).toMatchObject({
        replication: 3,
        settings: { 'min.insync.replicas': '2', 'unclean.leader.election.enable': 'false' },
      })
    }
  })

  test.each([
    [TOPICS.control, { settings: { 'message.timestamp.type': 'CreateTime' } }, 'message.timestamp.type'],
    [TOPICS.control, { settings: { 'retention.ms': '604800000' } }, 'retention.ms'],
    [TOPICS.control, { settings: { 'retention.bytes': '1000' } }, 'retention.bytes'],
    [TOPICS.control, { settings: { 'cleanup.policy': 'compact' } }, 'cleanup.policy'],
    [TOPICS.keys, { settings: { 'cleanup.policy': 'compact,delete' } }, 'cleanup.policy'],
    [TOPICS.control, { settings: { 'min.insync.replicas': '1' } }, 'min.insync.replicas'],
    [TOPICS.budgets, { settings: { 'min.insync.replicas': '4' } }, 'min.insync.replicas'],
    [TOPICS.keys, { settings: { 'unclean.leader.election.enable': 'true' } }, 'unclean.leader.election.enable'],
    [TOPICS.control, { replication: 2 }, 'replication.factor'],
    [TOPICS.control, { partitions: 2 }, 'partitions'],
    [TOPICS.requests, { settings: { 'retention.ms': '35999999' } }, 'retention.ms'],
    [TOPICS.requests, { settings: { 'compression.type': 'zstd' } }, 'compression.type'],
    [TOPICS.requests, { settings: { 'max.message.bytes': '100000' } }, 'max.message.bytes'],
  ] as const)('%o with %o is wrong', (topic, changed, setting) => {
    const problem = problemOf(topic, held(topic, 3, changed), NEEDS)
    expect(problem?.setting).toBe(setting)
    const line = explain(topic.name, problem!, 'broker:9092')
    expect(line).toStartWith(`${topic.name} has ${setting} ${problem!.found}, wanted is ${problem!.wanted}: `)
    if (problem!.fix !== null) expect(line).toContain(`--add-config ${setting}=${problem!.fix}`)
  })

  test('what loses nothing is right: longer retention, more partitions than recorded, a topic of one copy that is not critical', () => {
    const longer = { settings: { 'retention.ms': '-1' } }
    expect(problemOf(TOPICS.requests, held(TOPICS.requests, 3, longer), NEEDS)).toBeNull()
    const recorded = { [TOPICS.requests.name]: 4 }
    expect(problemOf(TOPICS.requests, held(TOPICS.requests, 3, { partitions: 6 }), { ...NEEDS, recorded })).toBeNull()
    expect(problemOf(TOPICS.requests, held(TOPICS.requests, 3, { replication: 1 }), NEEDS)).toBeNull()
  })

  test('fewer partitions than the chain records is another log', () => {
    const recorded = { [TOPICS.requests.name]: 8 }
    const problem = problemOf(TOPICS.requests, held(TOPICS.requests, 3), { ...NEEDS, recorded })
    expect(problem).toMatchObject({ setting: 'partitions', found: '4', wanted: '8', fix: null })
    expect(wantedTopic(TOPICS.requests, { ...NEEDS, recorded }, 3).partitions).toBe(8)
  })

  test('one line of warning names the critical topics that have too few copies', () => {
    expect(warningsOf([{ topic: TOPICS.control, replication: 3 }])).toEqual([])
    const [warning, ...others] = warningsOf(Object.values(TOPICS).map((topic) => ({ topic, replication: 1 })))
    expect(others).toEqual([])
    for (const { name, critical } of Object.values(TOPICS)) expect(warning!.includes(name)).toBe(critical)
  })

  test('a stock consumer may read the open topics as a member of its group', () => {
    const lines = aclCommands('broker:9092').filter((each) => each.includes('User:<analyst>'))
    expect(lines.some((line) => line.includes('--operation Read') && line.includes('--group <group>'))).toBe(true)
    for (const { name } of [TOPICS.requests, TOPICS.operations, TOPICS.usage, TOPICS.audit])
      expect(lines.some((line) => line.includes(`--topic ${name}`))).toBe(true)
  })

  test('nobody but a gateway is given control or keys', () => {
    for (const line of aclCommands('broker:9092').filter((each) => !each.includes('User:<gateway>'))) {
      expect(line).not.toContain(TOPICS.control.name)
      expect(line).not.toContain(TOPICS.keys.name)
      expect(line).not.toContain('prefixed')
    }
  })
})
