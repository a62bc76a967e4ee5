// Writers and readers of a topic for tests, and what every reader must have seen.
import { expect } from 'bun:test'
import { type EventLog, IndefiniteAppend, type LogRecord, LogUnavailable, type NewRecord } from '../../src/log/port.ts'

export const encoder = new TextEncoder()
export const decoder = new TextDecoder()
export const range = (count: number, from = 0) => Array.from({ length: count }, (_, index) => from + index)
export const idle = () => new AbortController().signal

/**
 * Appends until the log acknowledges, as the callers of the log do. Returns how many attempts had an unknown outcome.
 */
export const appendSurely = async (log: EventLog, topic: string, record: NewRecord): Promise<number> => {
  for (let unknown = 0; ; ) {
    try {
      await log.append(topic, 0, [record])
      return unknown
    } catch (error) {
      if (error instanceof IndefiniteAppend) unknown++
      else if (!(error instanceof LogUnavailable)) throw error
    }
  }
}

/** Appends 0, 1, 2, ... until stopped. */
export const startWriter = (log: EventLog, topic: string) => {
  let stopped = false
  let unknown = 0
  const appended: number[] = []
  const reached = new Map<number, PromiseWithResolvers<void>>()
  const done = (async () => {
    for (let number = 0; !stopped; number++) {
      unknown += await appendSurely(log, topic, { key: null, value: encoder.encode(String(number)) })
      appended.push(number)
      reached.get(appended.length)?.resolve()
      await Bun.sleep(2) // a load that lasts, not one that is large
    }
  })()
  return {
    appended,
    async stop() {
      stopped = true
      await done
      return { count: appended.length, unknown }
    },
    /** Resolves when so many more have been appended; rejects when no more can be. */
    async more(count: number) {
      const wanted = appended.length + count
      const whenReached = reached.get(wanted) ?? Promise.withResolvers<void>()
      reached.set(wanted, whenReached)
      await Promise.race([whenReached.promise, done])
    },
  }
}

/** Reads up to an end, and checks what every reader must: each offset once, in order. */
export const readAll = async (
  log: EventLog,
  topic: string,
  end: number,
  seen: LogRecord[] = [],
  partition = 0,
): Promise<LogRecord[]> => {
  for await (const batch of log.read(topic, partition, seen.length, idle())) {
    seen.push(...batch)
    if (seen.length >= end) break
  }
  expect(seen.map(({ offset }) => offset)).toEqual(range(seen.length))
  return seen
}

/**
 * Every acknowledged record is there, in the order of the appends, repeated at most as often as an outcome was unknown.
 */
export const expectAppended = (records: readonly LogRecord[], count: number, unknown: number) => {
  const numbers = records.map(({ value }) => Number(decoder.decode(value!)))
  expect([...new Set(numbers)].sort((left, right) => left - right)).toEqual(range(count))
  expect(numbers.length - count).toBeLessThanOrEqual(unknown)
}
