// The log on a broker that is cut off, restarted or hangs.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Kafka, startKafka } from '../../infra/kafka/kafka.ts'
import { kafkaLog } from '../../src/log/kafka/log.ts'
import { checkTopics } from '../../src/log/kafka/topics.ts'
import { FETCH, fetchRequest, readFetch } from '../../src/log/kafka/wire.ts'
import { type EventLog, IndefiniteAppend, type LogRecord, LogUnavailable } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { eventually } from '../services/eventually.ts'
import { type TestTopics, testTopics } from '../services/kafka.ts'
import { startTcpProxy } from '../services/tcp-proxy.ts'
import { fact, numberOf } from './event-log.ts'
import { appendSurely, expectAppended, idle, range, readAll, startWriter } from './kafka-traffic.ts'

/** Of its requests. */
const DESCRIBE_CONFIGS = 32

describe('on a broker that is harmed', () => {
  let proxy: Awaited<ReturnType<typeof startTcpProxy>>
  let kafka: Kafka
  let topics: TestTopics
  let log: EventLog
  beforeAll(async () => {
    proxy = await startTcpProxy()
    kafka = await startKafka({ properties: { 'advertised.listeners': `PLAINTEXT://127.0.0.1:${proxy.port}` } })
    proxy.to = kafka.broker(0).port
    topics = testTopics([`127.0.0.1:${proxy.port}`])
    log = kafkaLog({ brokers: [`127.0.0.1:${proxy.port}`], clientId: 'harmed' })
  }, 120_000)
  afterAll(async () => {
    await log.close()
    topics.close()
    await kafka.stop()
    await proxy.stop()
  })

  test('a check of topics whose question is not answered says nothing of the topics, and goes through once it is', async () => {
    const name = await topics.create()
    const options = { brokers: [`127.0.0.1:${proxy.port}`], clientId: 'check', partitions: 1, retentionHours: 24 }
    const check = () => checkTopics({ ...options, topics: [{ ...TOPICS.operations, name }] }).catch((thrown) => thrown)
    proxy.resetOn = (piece) => piece.length > 6 && piece.readInt16BE(4) === DESCRIBE_CONFIGS
    const unanswered = await check()
    expect(unanswered).toBeInstanceOf(LogUnavailable)
    expect((unanswered as Error).message).toStartWith('the settings of the topics could not be read: ')
    proxy.resetOn = null
    expect(await check()).not.toBeInstanceOf(LogUnavailable)
  }, 60_000)

  test('an append with a lost answer is IndefiniteAppend; it may have happened, and sent again it stands there twice', async () => {
    const topic = await topics.create()
    await log.append(topic, 0, [fact(0)])
    proxy.dropAnswers = true
    expect(await log.append(topic, 0, [fact(1)]).catch((error: unknown) => error)).toBeInstanceOf(IndefiniteAppend)
    // Now the log cannot even connect, and reports that nothing was sent.
    expect(await log.append(topic, 0, [fact(2)]).catch((error: unknown) => error)).toBeInstanceOf(LogUnavailable)
    expect(await log.end(topic, 0).catch((error: unknown) => error)).toBeInstanceOf(LogUnavailable)
    proxy.dropAnswers = false
    proxy.cut()
    await log.append(topic, 0, [fact(1)])
    expect((await readAll(log, topic, 3)).map(numberOf)).toEqual([0, 1, 1])
    expect(await log.end(topic, 0)).toBe(3)
  }, 60_000)

  test('every offset once and in order while all connections are cut again and again', async () => {
    const topic = await topics.create()
    const writer = startWriter(log, topic)
    const seen: LogRecord[] = []
    const reading = (async () => {
      for await (const batch of log.read(topic, 0, 0, idle())) {
        seen.push(...batch)
        if (numberOf(seen.at(-1)!) === -1) return
      }
    })()
    for (const _ of range(15)) {
      await writer.more(10)
      expect(proxy.cut()).toBeGreaterThan(0)
    }
    await writer.more(10)
    const { count, unknown } = await writer.stop()
    await log.append(topic, 0, [fact(-1)])
    await reading
    expect(seen.map(({ offset }) => offset)).toEqual(range(seen.length))
    expectAppended(seen.slice(0, -1), count, unknown)
  }, 60_000)

  test('every offset once and in order over a restart of the broker', async () => {
    const topic = await topics.create()
    const writer = startWriter(log, topic)
    const seen: LogRecord[] = []
    const stop = new AbortController()
    const reading = (async () => {
      for await (const batch of log.read(topic, 0, 0, stop.signal)) seen.push(...batch)
    })()
    await writer.more(30)
    await kafka.broker(0).restart()
    await writer.more(30)
    const { count, unknown } = await writer.stop()
    const end = await log.end(topic, 0)
    await eventually('all of it is read', () => seen.length >= end)
    stop.abort()
    await reading
    expect(seen.map(({ offset }) => offset)).toEqual(range(end))
    expectAppended(seen, count, unknown)
    // The restart began a new epoch. A reader that claims to have read up to the end in the first epoch has read
    // another history.
    topics.cluster.forget(topic)
    const leader = await topics.cluster.leader(topic, 0, 5_000)
    const connection = await topics.cluster.shared(leader.address, 'ask', 5_000)
    const query = { ...leader, partition: 0, offset: end, maxWaitMs: 10, maxBytes: 1_000 }
    const ask = async (lastEpoch: number) =>
      readFetch(await connection.request(FETCH, fetchRequest({ ...query, lastEpoch }), 5_000)).divergedAt
    expect(await ask(0)).toMatchObject({ epoch: 0 })
    expect((await ask(0))!.end).toBeLessThan(end)
    expect(await ask(leader.leaderEpoch)).toBeNull()
  }, 120_000)

  test('a broker that hangs: the append is decided, health says so, and all goes on when it wakes', async () => {
    const topic = await topics.create()
    await log.append(topic, 0, [fact(0)])
    kafka.broker(0).pause()
    const error = await log.append(topic, 0, [fact(1)]).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(IndefiniteAppend)
    await eventually('the silence is noticed', () => !log.health().ok)
    expect(log.health().detail).toContain('no Kafka broker has answered')
    kafka.broker(0).resume()
    await eventually('the broker is heard again', () => log.health().ok)
    // The cluster may have given up the broker while it slept: it leads nothing for a moment.
    await appendSurely(log, topic, fact(2))
    const numbers = (await readAll(log, topic, await log.end(topic, 0))).map(numberOf)
    expect([...new Set(numbers.filter((number) => number !== 1))]).toEqual([0, 2])
  }, 60_000)
})
