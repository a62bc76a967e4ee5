import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { AppendQueue, settleEach, type WaitingAppend } from '../../../src/log/kafka/appends.ts'
import { ByteReader } from '../../../src/log/kafka/bytes.ts'
import { type ProduceAppend, produceBound, writeProduce } from '../../../src/log/kafka/produce.ts'
import { readBatches } from '../../../src/log/kafka/records.ts'

const ofBytes = (topic: string, partition: number, bytes = 10): ProduceAppend => ({
  topic,
  partition,
  records: [{ key: topic, value: new Uint8Array(bytes).fill(partition) }],
})

/** What a broker reads of a request. */
const readRequest = (request: Buffer) => {
  const from = new ByteReader(request)
  expect(from.int32()).toBe(request.length - 4)
  from.take(8)
  from.text(from.int16())
  from.tagged()
  expect([from.compactText(), from.int16(), from.int32()]).toEqual([null, -1, 1])
  const topics = from.compactArray(() => {
    const topic = from.compactText()
    const partitions = from.compactArray(() => {
      const found = { partition: from.int32(), batches: readBatches(from.compactBytes()!) }
      from.tagged()
      return found
    })
    from.tagged()
    return { topic, partitions }
  })
  from.tagged()
  expect(from.remaining).toBe(0)
  return topics
}

test('a request of several appends names each topic once, and holds what each partition is to get', () => {
  const sizes = fc.oneof(fc.nat(300), fc.constantFrom(40, 16_000, 16_300, 16_384, 200_000))
  const given = fc.uniqueArray(fc.tuple(fc.constantFrom('a', 'b', 'längst'), fc.nat(9), sizes, fc.nat(20_000)), {
    selector: ([topic, partition]) => `${topic}/${partition}`,
    minLength: 1,
    maxLength: 9,
  })
  fc.assert(
    fc.property(given, (all) => {
      const appends = all.map(([topic, partition, bytes, more]): ProduceAppend => {
        const [record] = ofBytes(topic, partition, bytes).records
        // Thought to be longer than it is: lengths in front of it take fewer bytes in the end.
        const writeValue = (into: Buffer, at: number) => at + Buffer.from(record!.value!).copy(into, at)
        return { topic, partition, records: [{ ...record!, valueBound: bytes + more, writeValue }] }
      })
      const query = { correlationId: 1, clientId: 'c', timeoutMs: 1, nowMs: 1_000, packer: null, appends }
      const bound = produceBound(query)
      const into = Buffer.alloc(bound + 8, 0xaa)
      const topics = readRequest(writeProduce(into.subarray(0, bound), query))
      expect(into.subarray(bound).every((byte) => byte === 0xaa)).toBe(true)
      expect(new Set(topics.map(({ topic }) => topic)).size).toBe(topics.length)
      const found = topics.flatMap(({ topic, partitions }) =>
        partitions.map(({ partition, batches }) => [topic, partition, batches[0]!.records[0]!.value]),
      )
      const wanted = appends.map(({ topic, partition, records }) => [topic, partition, records[0]!.value])
      expect(found.sort()).toEqual(wanted.sort())
    }),
    { numRuns: 60 },
  )
})

describe('the queue', () => {
  /** Answers each with its partition as its code. */
  const queue = (sent: (readonly WaitingAppend[])[]) =>
    new AppendQueue(async (appends) => {
      sent.push(appends)
      settleEach(
        appends,
        appends.map(({ topic, partition }) => ({ topic, partition, error: partition })),
      )
    })
  const names = (sent: readonly (readonly WaitingAppend[])[]) =>
    sent.map((appends) => appends.map(({ topic, partition }) => `${topic}${partition}`).join(' '))

  test('what comes in one turn goes together, what comes later by itself, and each gets its own answer', async () => {
    const sent: (readonly WaitingAppend[])[] = []
    const appends = queue(sent)
    const together = [ofBytes('a', 1), ofBytes('a', 2), ofBytes('b', 1)].map((append) => appends.push(append, 1))
    expect(await Promise.all(together)).toEqual([1, 2, 1])
    expect(await appends.push(ofBytes('a', 7), 1)).toBe(7)
    expect(names(sent)).toEqual(['a1 a2 b1', 'a7'])
  })

  test('not two of a partition, and not more than fits: in the order in which they came', async () => {
    const sent: (readonly WaitingAppend[])[] = []
    const appends = queue(sent)
    const given = [
      ofBytes('a', 1),
      ofBytes('a', 1),
      ofBytes('a', 2, 400_000),
      ofBytes('a', 3, 200_000),
      ofBytes('a', 3),
    ]
    expect(await Promise.all(given.map((append) => appends.push(append, 1)))).toEqual([1, 1, 2, 3, 3])
    expect(names(sent)).toEqual(['a1', 'a1 a2', 'a3', 'a3'])
  })

  test('who has little time left goes alone', async () => {
    const sent: (readonly WaitingAppend[])[] = []
    const appends = queue(sent)
    const times = [2_000, 1_950, 300, 350, 2_000]
    await Promise.all(times.map((timeoutMs, partition) => appends.push(ofBytes('a', partition), timeoutMs)))
    expect(names(sent)).toEqual(['a0 a1', 'a2 a3', 'a4'])
  })

  test('no answer is that of all that went together, an answer without it only that of one', async () => {
    const failing = new AppendQueue(() => Promise.reject(new Error('closed')))
    const outcomes = await Promise.allSettled([failing.push(ofBytes('a', 1), 1), failing.push(ofBytes('a', 2), 1)])
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    const forgetful = new AppendQueue(async (appends) => settleEach(appends, [{ topic: 'a', partition: 2, error: 5 }]))
    const [one, two] = await Promise.allSettled([
      forgetful.push(ofBytes('a', 1), 1),
      forgetful.push(ofBytes('a', 2), 1),
    ])
    expect([one.status, two]).toEqual(['rejected', { status: 'fulfilled', value: 5 }])
  })
})
