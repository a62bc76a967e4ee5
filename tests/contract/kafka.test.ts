// The contract of the log on a real broker, and what only Kafka can do to a reader or a writer.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { kafkaLog } from '../../src/log/kafka/log.ts'
import { type EventLog, LogGap, LogReplaced, LogUnavailable, RecordRefused } from '../../src/log/port.ts'
import { TOPICS, type Topic } from '../../src/log/topics.ts'
import { eventually } from '../services/eventually.ts'
import { sharedBroker, type TestTopics, testTopics } from '../services/kafka.ts'
import { eventLogContract, fact, numberOf } from './event-log.ts'
import { decoder, idle, range, readAll, startWriter } from './kafka-traffic.ts'

/** Lines as they come; throws when the stream ends. */
const linesOf = (stream: ReadableStream<Uint8Array>) => {
  const lines = async function* () {
    let rest = ''
    for await (const chunk of stream) {
      const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = parts.pop() ?? ''
      yield* parts
    }
  }
  const iterator = lines()
  return {
    async next(): Promise<string> {
      const { value, done } = await iterator.next()
      if (done === true) throw new Error('the reader process has ended')
      return value
    },
  }
}

/**
 * A reader in a separate process, stopped for 15 s while records are appended. Returns the lines that it printed, the
 * number of records and the number of unknown outcomes.
 */
const readerStopped = async (): Promise<{ seen: string[]; count: number; unknown: number }> => {
  const { bootstrap } = await sharedBroker()
  const topics = testTopics(bootstrap)
  const topic = await topics.create()
  const log = kafkaLog({ brokers: bootstrap, clientId: 'contract' })
  const writer = startWriter(log, topic)
  const script = join(import.meta.dir, 'kafka-reader.ts')
  const command = [process.execPath, script, bootstrap.join(','), topic]
  const child = Bun.spawn(command, { stdout: 'pipe', stderr: 'inherit', stdin: 'ignore' })
  const lines = linesOf(child.stdout)
  const seen: string[] = []
  try {
    while (seen.length < 50) seen.push(await lines.next())
    child.kill('SIGSTOP')
    await Bun.sleep(15_000)
    await writer.more(50)
    child.kill('SIGCONT')
    await writer.more(50)
    const { count, unknown } = await writer.stop()
    while (seen.length < count) seen.push(await lines.next())
    return { seen, count, unknown }
  } finally {
    await writer.stop()
    child.kill('SIGCONT')
    child.kill()
    await child.exited
    await log.close()
    topics.close()
  }
}

// Begun first and looked at last: its 15 seconds pass beside the other tests.
let stoppedReader: Promise<PromiseSettledResult<Awaited<ReturnType<typeof readerStopped>>>[]>
beforeAll(async () => {
  await sharedBroker()
  stoppedReader = Promise.allSettled([readerStopped()])
}, 120_000)

for (const compression of ['lz4', 'none'] as const)
  eventLogContract(
    `kafka, ${compression}`,
    async () => {
      const { bootstrap } = await sharedBroker()
      const topics = testTopics(bootstrap)
      const open = () => kafkaLog({ brokers: bootstrap, clientId: 'contract', compression })
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

describe('on a shared broker', () => {
  let bootstrap: readonly string[]
  let topics: TestTopics
  let log: EventLog
  beforeAll(async () => {
    bootstrap = (await sharedBroker()).bootstrap
    topics = testTopics(bootstrap)
    log = kafkaLog({ brokers: bootstrap, clientId: 'contract' })
  }, 120_000)
  afterAll(async () => {
    await log.close()
    topics.close()
  })

  test('a recreated topic that has grown past the reader is LogReplaced, and none of its records is handed on', async () => {
    const topic = await topics.create()
    for (const number of range(3)) await log.append(topic, 0, [fact(number)])
    const reader = log.read(topic, 0, 0, idle())[Symbol.asyncIterator]()
    const old: number[] = []
    while (old.length < 3) old.push(...(await reader.next()).value.map(numberOf))
    await topics.remove(topic)
    await topics.create(1, {}, topic)
    await log.append(
      topic,
      0,
      range(20, 100).map((number) => fact(number)),
    )
    expect(await reader.next().catch((error: unknown) => error)).toBeInstanceOf(LogReplaced)
    expect(old).toEqual(range(3))
  }, 60_000)

  test('what compaction removed is passed over in a compacted topic and a gap in any other', async () => {
    const topic = await topics.create(1, {
      'cleanup.policy': 'compact',
      'segment.ms': '50',
      'min.cleanable.dirty.ratio': '0.001',
      'max.compaction.lag.ms': '100',
    })
    const compacted: Topic = { ...TOPICS.keys, name: topic }
    const knows = kafkaLog({ brokers: bootstrap, clientId: 'contract', topics: [compacted] })
    for (const [index, key] of ['a', 'b', 'a', 'b', 'c'].entries()) {
      await log.append(topic, 0, [fact(index, key)])
      await Bun.sleep(60) // so that the next append rolls the segment: only closed ones are compacted
    }
    const offsets = async () => {
      const found: number[] = []
      for await (const batch of knows.read(topic, 0, 0, idle())) {
        found.push(...batch.map(({ offset }) => offset))
        if (found.at(-1) === 4) return found
      }
      return found
    }
    await eventually('what is superseded is compacted', async () => (await offsets()).length <= 3, {
      limitMs: 50_000,
      everyMs: 100,
    })
    expect(await offsets()).toEqual([2, 3, 4])
    const plain = log.read(topic, 0, 1, idle())[Symbol.asyncIterator]()
    expect(await plain.next().catch((error: unknown) => error)).toBeInstanceOf(LogGap)
    await knows.close()
  }, 60_000)

  test('records that a broker compressed are read', async () => {
    const topic = await topics.create(1, { 'compression.type': 'gzip' })
    await log.append(
      topic,
      0,
      range(50).map((number) => fact(number, `k${number}`)),
    )
    const records = await readAll(log, topic, 50)
    expect(records.map(numberOf)).toEqual(range(50))
    expect(records[7]!.key).toBe('k7')
  }, 60_000)

  test('a missing topic is LogUnavailable for a writer; a reader waits until it is made', async () => {
    const name = `test.${Bun.randomUUIDv7()}`
    expect(await log.append(name, 0, [fact(1)]).catch((error: unknown) => error)).toBeInstanceOf(LogUnavailable)
    expect(await log.partitions(name).catch((error: unknown) => error)).toBeInstanceOf(LogUnavailable)
    const reading = readAll(log, name, 1)
    await topics.create(1, {}, name)
    await log.append(name, 0, [fact(1)])
    expect((await reading).map(numberOf)).toEqual([1])
  }, 60_000)

  test('a record that the broker will never take is RecordRefused', async () => {
    const topic = await topics.create(1, { 'max.message.bytes': '1000' })
    const large = { key: null, value: new Uint8Array(2_000) }
    expect(await log.append(topic, 0, [large]).catch((error: unknown) => error)).toBeInstanceOf(RecordRefused)
    expect(await log.end(topic, 0)).toBe(0)
  }, 60_000)

  test('appends side by side share no memory: each stands in its partition as it was given', async () => {
    const topic = await topics.create(6)
    const batchOf = (partition: number, append: number) =>
      Array.from({ length: 1 + ((append * 37) % 256) }, (_, index) => ({
        key: `${partition}-${append}-é`,
        value: index % 9 === 8 ? null : new Uint8Array((append * 131 + index) % 1_000).fill(partition * 40 + append),
      }))
    const appends = range(8).map((append) => range(6).map((partition) => ({ partition, append })))
    for (const together of appends) {
      await Promise.all(
        together.map(({ partition, append }) => log.append(topic, partition, batchOf(partition, append))),
      )
    }
    for (const partition of range(6)) {
      const given = range(8).flatMap((append) => batchOf(partition, append))
      const found = await readAll(log, topic, given.length, [], partition)
      expect(found.map(({ key, value }) => ({ key, value }))).toEqual(given)
    }
  }, 60_000)

  test('a process that has closed its log ends by itself', async () => {
    const topic = await topics.create()
    const script = `
      import { kafkaLog } from ${JSON.stringify(join(import.meta.dir, '../../src/log/kafka/log.ts'))}
      const log = kafkaLog({ brokers: ${JSON.stringify(bootstrap)}, clientId: 'closing' })
      await log.append('${topic}', 0, [{ key: null, value: new Uint8Array(1) }])
      for await (const batch of log.read('${topic}', 0, 0, new AbortController().signal)) break
      const waiting = log.read('${topic}', 0, 1, new AbortController().signal)[Symbol.asyncIterator]().next()
      await log.close()
      await waiting`
    const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'ignore', stderr: 'pipe', stdin: 'ignore' })
    expect([await new Response(child.stderr).text(), await child.exited]).toEqual(['', 0])
  }, 60_000)
})

test('every offset once and in order after a reader process was stopped for 15 s', async () => {
  const [result] = await stoppedReader
  if (result!.status === 'rejected') throw result!.reason
  const { seen, count, unknown } = result!.value
  expect(unknown).toBe(0)
  expect(count).toBeGreaterThan(500)
  expect(seen).toEqual(range(count).map((number) => `${number} ${number}`))
}, 60_000)
