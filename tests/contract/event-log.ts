// The promises of every adapter of the log. Run over memory and embedded in event-log.test.ts, over a real broker in
// kafka.test.ts.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  type EventLog,
  LogGap,
  type LogRecord,
  LogReplaced,
  type NewRecord,
  RecordRefused,
} from '../../src/log/port.ts'

/** One opened log and what its adapter lets a test do to it. What is absent is not tested on that adapter. */
export interface LogUnderTest {
  readonly log: EventLog
  /** The name of a fresh, empty topic with this many partitions (1 when not given). */
  topic(kind: 'plain' | 'compacted', partitions?: number): Promise<string>
  /** A second handle on the same log, as another process has one. The suite closes it. */
  another?(): Promise<EventLog>
  /** Loses everything of the partition from `end` on. */
  truncate?(topic: string, partition: number, end: number): Promise<void>
  /** Retention: loses everything below `start`. */
  trim?(topic: string, partition: number, start: number): Promise<void>
  /** Makes one offset in the middle vanish. */
  hole?(topic: string, partition: number, offset: number): Promise<void>
  /** Deletes the topic and makes an empty one of the same name. */
  recreate?(topic: string): Promise<void>
  close(): Promise<void>
}

export interface ContractOptions {
  /** For each test, milliseconds (5,000 when not given). */
  readonly timeoutMs?: number
  /** How many records the test of concurrent appenders writes (600 when not given). */
  readonly load?: number
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()
/** A record that holds a number. */
export const fact = (number: number, key: string | null = null): NewRecord => ({
  key,
  value: encoder.encode(String(number)),
})
/** The number of a record. */
export const numberOf = (record: LogRecord): number => Number(decoder.decode(record.value ?? new Uint8Array(0)))

/** Reads `count` records from an offset on, checks that offsets go up by one, and stops the reader. */
export const take = async (
  log: EventLog,
  topic: string,
  from: number,
  count: number,
  partition = 0,
): Promise<LogRecord[]> => {
  const stop = new AbortController()
  const all: LogRecord[] = []
  for await (const batch of log.read(topic, partition, from, stop.signal)) {
    if (batch.length === 0) throw new Error('an empty batch')
    all.push(...batch)
    if (all.length >= count) break
  }
  stop.abort()
  for (const [index, record] of all.entries()) expect(record.offset).toBe(all[0]!.offset + index)
  return all.slice(0, count)
}

const range = (count: number, from = 0) => Array.from({ length: count }, (_, index) => from + index)

/** Reads until the iterator ends or throws; what it threw, or null. */
const failureOf = async (
  log: EventLog,
  topic: string,
  from: number,
): Promise<{ read: LogRecord[]; error: unknown }> => {
  const read: LogRecord[] = []
  try {
    for await (const batch of log.read(topic, 0, from, new AbortController().signal)) read.push(...batch)
    return { read, error: null }
  } catch (error) {
    return { read, error }
  }
}

export const eventLogContract = (
  name: string,
  open: () => Promise<LogUnderTest>,
  options: ContractOptions = {},
): void => {
  const { timeoutMs = 5_000, load = 600 } = options
  describe(`EventLog contract: ${name}`, () => {
    let under: LogUnderTest
    let log: EventLog
    beforeAll(async () => {
      under = await open()
      log = under.log
    }, timeoutMs)
    afterAll(() => under.close(), timeoutMs)
    const promise = (title: string, body: () => Promise<void>) => test(title, body, timeoutMs)

    promise('records come back in order, from offset 0, with their keys and times', async () => {
      const topic = await under.topic('plain')
      expect(await log.end(topic, 0)).toBe(0)
      const before = Date.now()
      for (const number of range(5)) await log.append(topic, 0, [fact(number, `k${number}`)])
      const all = await take(log, topic, 0, 5)
      expect(all.map(numberOf)).toEqual(range(5))
      expect(all.map((record) => record.offset)).toEqual(range(5))
      expect(all.map((record) => record.key)).toEqual(range(5).map((number) => `k${number}`))
      for (const record of all) expect(Math.abs(record.atMs - before)).toBeLessThan(60_000)
      expect(await log.end(topic, 0)).toBe(5)
    })

    promise('what the log took since a moment is found', async () => {
      const topic = await under.topic('plain')
      expect(await log.since(topic, 0, 0)).toBe(0)
      for (const number of range(3)) {
        await log.append(topic, 0, [fact(number)])
        const [last] = await take(log, topic, number, 1)
        // The next one is of another millisecond.
        while (Date.now() <= last!.atMs) await new Promise<void>((resolve) => setImmediate(resolve))
      }
      const all = await take(log, topic, 0, 3)
      expect(await log.since(topic, 0, 0)).toBe(0)
      for (const record of all.filter(({ atMs }, i) => i === 0 || atMs > all[i - 1]!.atMs))
        expect(await log.since(topic, 0, record.atMs)).toBe(record.offset)
      expect(await log.since(topic, 0, all[2]!.atMs + 60_000)).toBe(3)
    })

    promise('bytes come back exactly', async () => {
      const topic = await under.topic('plain')
      const every = Uint8Array.from({ length: 256 }, (_, index) => index)
      const large = new Uint8Array(64 * 1024).map((_, index) => (index * 7) & 0xff)
      const mutable = encoder.encode('as appended')
      const expected = [every, large, new Uint8Array(0), encoder.encode('"€\n\u0000'), mutable.slice()]
      await log.append(topic, 0, [
        { key: null, value: every },
        { key: 'é ', value: large },
      ])
      await log.append(topic, 0, [
        { key: null, value: new Uint8Array(0) },
        { key: '', value: expected[3]! },
        { key: null, value: mutable },
      ])
      mutable.fill(0)
      const all = await take(log, topic, 0, 5)
      for (const [index, record] of all.entries())
        expect(Buffer.from(record.value!).equals(Buffer.from(expected[index]!))).toBe(true)
      expect(all.map((record) => record.key)).toEqual([null, 'é ', null, '', null])
    })

    promise('a reader that already waits at the end sees the next append', async () => {
      const topic = await under.topic('plain')
      const waiting = take(log, topic, 0, 1)
      await log.append(topic, 0, [fact(7)])
      expect((await waiting).map(numberOf)).toEqual([7])
      const later = take(log, topic, 1, 2)
      await log.append(topic, 0, [fact(8), fact(9)])
      expect((await later).map(numberOf)).toEqual([8, 9])
    })

    promise('records appended together stay together, in order', async () => {
      const topic = await under.topic('plain')
      const bases = range(12).map((index) => index * 10)
      await Promise.all(bases.map((base) => log.append(topic, 0, [fact(base), fact(base + 1), fact(base + 2)])))
      const all = (await take(log, topic, 0, 36)).map(numberOf)
      for (const at of bases.map((_, index) => index * 3))
        expect(all.slice(at, at + 3)).toEqual([all[at]!, all[at]! + 1, all[at]! + 2])
      expect(all.filter((_, index) => index % 3 === 0).sort((a, b) => a - b)).toEqual(bases)
    })

    promise(
      'one append holds up to 256 records, or as many as the log says; more, none, ' +
        'or more bytes are refused and nothing is written',
      async () => {
        const topic = await under.topic('plain')
        const { records, bytes } = log.limits ?? { records: 256, bytes: 448 * 1024 }
        const big = { key: null, value: new Uint8Array(bytes / 2) }
        for (const bad of [[], range(records + 1).map((number) => fact(number)), [big, big, fact(1)]]) {
          expect(await log.append(topic, 0, bad).catch((error: unknown) => error)).toBeInstanceOf(RecordRefused)
        }
        expect(await log.end(topic, 0)).toBe(0)
        await log.append(
          topic,
          0,
          range(records).map((number) => fact(number)),
        )
        expect((await take(log, topic, 0, records)).map(numberOf)).toEqual(range(records))
      },
    )

    promise('every offset once and in order, for every reader, while several append', async () => {
      const topic = await under.topic('plain')
      const other = (await under.another?.()) ?? null
      const writers = [log, other ?? log, log]
      const readers = [log, other ?? log, log].map((reader) => take(reader, topic, 0, load))
      await Promise.all(
        writers.map(async (writer, index) => {
          for (let number = index; number < load; number += writers.length)
            await writer.append(topic, 0, [fact(number)])
        }),
      )
      const seen = await Promise.all(readers)
      for (const all of seen) {
        expect(all.map((record) => record.offset)).toEqual(range(load))
        expect(all.map(numberOf)).toEqual(seen[0]!.map(numberOf))
      }
      expect(seen[0]!.map(numberOf).sort((a, b) => a - b)).toEqual(range(load))
      for (const start of [0, 1, 2]) {
        const own = seen[0]!.map(numberOf).filter((number) => number % 3 === start)
        expect(own).toEqual([...own].sort((a, b) => a - b))
      }
      await other?.close()
    })

    promise('a reader may start in the middle, and at the end', async () => {
      const topic = await under.topic('plain')
      await log.append(
        topic,
        0,
        range(20).map((number) => fact(number)),
      )
      expect((await take(log, topic, 13, 7)).map(numberOf)).toEqual(range(7, 13))
      const atEnd = take(log, topic, 20, 1)
      await log.append(topic, 0, [fact(20)])
      const [record] = await atEnd
      expect([record!.offset, numberOf(record!)]).toEqual([20, 20])
    })

    promise('partitions are apart', async () => {
      const topic = await under.topic('plain', 2)
      expect(await log.partitions(topic)).toEqual([0, 1])
      await log.append(topic, 1, [fact(1)])
      await log.append(topic, 0, [fact(0)])
      await log.append(topic, 1, [fact(2)])
      expect((await take(log, topic, 0, 1, 0)).map(numberOf)).toEqual([0])
      expect((await take(log, topic, 0, 2, 1)).map(numberOf)).toEqual([1, 2])
      expect([await log.end(topic, 0), await log.end(topic, 1)]).toEqual([1, 2])
    })

    promise('a compacted topic ends, for every key, with its last value or its tombstone', async () => {
      const topic = await under.topic('compacted')
      await log.append(topic, 0, [fact(1, 'a'), fact(2, 'b')])
      await log.append(topic, 0, [{ key: 'a', value: null }])
      await log.append(topic, 0, [fact(3, 'b'), fact(4, 'c')])
      const held = new Map<string, number>()
      const stop = new AbortController()
      for await (const batch of log.read(topic, 0, 0, stop.signal)) {
        for (const record of batch) {
          if (record.value === null) held.delete(record.key!)
          else held.set(record.key!, numberOf(record))
        }
        if (batch.at(-1)!.offset === 4) break
      }
      stop.abort()
      expect([...held].sort()).toEqual([
        ['b', 3],
        ['c', 4],
      ])
    })

    promise('an offset beyond the end is LogReplaced', async () => {
      const topic = await under.topic('plain')
      await log.append(topic, 0, [fact(0), fact(1)])
      expect((await failureOf(log, topic, 3)).error).toBeInstanceOf(LogReplaced)
      expect((await failureOf(log, await under.topic('plain'), 1)).error).toBeInstanceOf(LogReplaced)
    })

    promise('a partition that lost its tail is LogReplaced, for a waiting reader too', async () => {
      if (under.truncate === undefined) return
      const topic = await under.topic('plain')
      await log.append(
        topic,
        0,
        range(6).map((number) => fact(number)),
      )
      const waiting = failureOf(log, topic, 6)
      await under.truncate(topic, 0, 3)
      expect((await waiting).error).toBeInstanceOf(LogReplaced)
      expect((await failureOf(log, topic, 5)).error).toBeInstanceOf(LogReplaced)
      expect((await take(log, topic, 0, 3)).map(numberOf)).toEqual([0, 1, 2])
    })

    promise('a recreated topic is LogReplaced for whoever read the old one', async () => {
      if (under.recreate === undefined) return
      const topic = await under.topic('plain')
      await log.append(topic, 0, [fact(0), fact(1)])
      const waiting = failureOf(log, topic, 2)
      await under.recreate(topic)
      expect((await waiting).error).toBeInstanceOf(LogReplaced)
    })

    promise('after retention, 0 means the first record kept; any other lost offset is LogReplaced', async () => {
      if (under.trim === undefined) return
      const topic = await under.topic('plain')
      await log.append(
        topic,
        0,
        range(6).map((number) => fact(number)),
      )
      await under.trim(topic, 0, 4)
      const kept = await take(log, topic, 0, 2)
      expect(kept.map((record) => [record.offset, numberOf(record)])).toEqual([
        [4, 4],
        [5, 5],
      ])
      expect((await failureOf(log, topic, 2)).error).toBeInstanceOf(LogReplaced)
      expect(await log.end(topic, 0)).toBe(6)
    })

    promise('a gap ends the reader with LogGap, after everything before it', async () => {
      if (under.hole === undefined) return
      const topic = await under.topic('plain')
      await log.append(
        topic,
        0,
        range(5).map((number) => fact(number)),
      )
      await under.hole(topic, 0, 3)
      const { read, error } = await failureOf(log, topic, 0)
      expect(read.map(numberOf)).toEqual([0, 1, 2])
      expect(error).toBeInstanceOf(LogGap)
    })

    promise('aborting ends a reader quietly, whether it waits or not', async () => {
      const topic = await under.topic('plain')
      await log.append(topic, 0, [fact(0)])
      const stop = new AbortController()
      const reader = log.read(topic, 0, 0, stop.signal)[Symbol.asyncIterator]()
      expect((await reader.next()).value.map(numberOf)).toEqual([0])
      const waiting = reader.next()
      stop.abort()
      expect((await waiting).done).toBe(true)
      const gone = log.read(topic, 0, 0, AbortSignal.abort())[Symbol.asyncIterator]()
      expect((await gone.next()).done).toBe(true)
    })

    promise('it says that it is well, and closing ends its readers', async () => {
      const second = (await under.another?.()) ?? null
      if (second === null) return
      const topic = await under.topic('plain')
      expect(await second.end(topic, 0)).toBe(0)
      expect(second.health().ok).toBe(true)
      const waiting = second.read(topic, 0, 0, new AbortController().signal)[Symbol.asyncIterator]().next()
      await second.close()
      expect((await waiting).done).toBe(true)
      await log.append(topic, 0, [fact(1)])
      expect((await take(log, topic, 0, 1)).map(numberOf)).toEqual([1])
    })
  })
}
