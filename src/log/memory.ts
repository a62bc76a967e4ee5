// The log in memory: for tests and simulations. Several views (one for each simulated instance) share one log, each
// with its own faults.

import { appendProblem } from './append-limits.ts'
import {
  type EventLog,
  IndefiniteAppend,
  LogGap,
  type LogRecord,
  LogReplaced,
  LogUnavailable,
  type NewRecord,
  RecordRefused,
} from './port.ts'

/**
 * `lost_answer`: written, and IndefiniteAppend is thrown. `lost_request`: not written, and IndefiniteAppend is thrown.
 */
export type AppendFault = 'none' | 'unavailable' | 'refused' | 'lost_answer' | 'lost_request'

export interface AppendCall {
  readonly topic: string
  readonly partition: number
  readonly records: readonly NewRecord[]
}

export interface DeliverCall {
  readonly topic: string
  readonly partition: number
  readonly from: number
  /** Records that exist from there on, at least 1. */
  readonly available: number
}

/**
 * Each hook may wait, which delays the request, the response or what a reader observes: a fast-check scheduler drives
 * them.
 */
export interface MemoryFaults {
  beforeAppend?(call: AppendCall): AppendFault | Promise<AppendFault>
  /** After it was written (or not), before the response. */
  afterAppend?(call: AppendCall): void | Promise<void>
  /** How many of the available records the reader gets now; clipped to 1 .. available. */
  beforeDeliver?(call: DeliverCall): number | Promise<number>
  beforeEnd?(topic: string, partition: number): void | Promise<void>
  /**
   * While true, appends and `end` throw LogUnavailable and readers wait. Checked at every step; call `wake()` after
   * clearing it.
   */
  down?(): boolean
}

export interface MemoryLogOptions {
  readonly nowMs: () => number
  readonly faults?: MemoryFaults
  /** Number of partitions of a topic; 1 when not given. */
  readonly partitionCount?: (topic: string) => number
}

export interface MemoryLog extends EventLog {
  /** The same log for another instance. Closing a view does not close the log. */
  view(faults?: MemoryFaults): EventLog
  /** The current records, for assertions. */
  records(topic: string, partition?: number): readonly LogRecord[]
  /** Loses everything from `end` on. */
  truncate(topic: string, partition: number, end: number): void
  /** Retention: loses everything below `start`. */
  trim(topic: string, partition: number, start: number): void
  /** Makes one offset vanish: its readers see a gap. */
  hole(topic: string, partition: number, offset: number): void
  /** Wakes waiting readers (after `down` was cleared). */
  wake(): void
}

class Partition {
  start = 0
  readonly records: LogRecord[] = []
  readonly holes = new Set<number>()
  readonly waiting = new Set<() => void>()

  get end(): number {
    return this.start + this.records.length
  }

  wake(): void {
    for (const resolve of [...this.waiting]) resolve()
  }

  /** Resolves at the next append, truncation or wake, or when the signal is aborted. */
  change(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.waiting.delete(done)
        signal.removeEventListener('abort', done)
        resolve()
      }
      this.waiting.add(done)
      signal.addEventListener('abort', done)
      if (signal.aborted) done()
    })
  }
}

const MAX_BATCH = 256

/** The log itself plus a first view on it. Nothing is ever written to disk. */
export const memoryLog = (options: MemoryLogOptions): MemoryLog => {
  const partitions = new Map<string, Partition>()
  const at = (topic: string, partition: number): Partition => {
    const name = `${topic}/${partition}`
    const existing = partitions.get(name)
    if (existing !== undefined) return existing
    const fresh = new Partition()
    partitions.set(name, fresh)
    return fresh
  }
  const view = (faults: MemoryFaults = {}) => memoryView(at, options, faults)
  return {
    ...view(options.faults),
    view,
    records: (topic, partition = 0) => at(topic, partition).records,
    truncate(topic, partition, end) {
      const target = at(topic, partition)
      target.records.length = Math.max(0, end - target.start)
      target.wake()
    },
    trim(topic, partition, start) {
      const target = at(topic, partition)
      target.records.splice(0, start - target.start)
      target.start = start
      target.wake()
    },
    hole(topic, partition, offset) {
      at(topic, partition).holes.add(offset)
    },
    wake() {
      for (const partition of partitions.values()) partition.wake()
    },
  }
}

const memoryView = (
  at: (topic: string, partition: number) => Partition,
  { nowMs, partitionCount = () => 1 }: MemoryLogOptions,
  faults: MemoryFaults,
): EventLog => {
  const closed = new AbortController()
  const refuseWhenDown = () => {
    if (closed.signal.aborted) throw new LogUnavailable('the log is closed')
    if (faults.down?.() === true) throw new LogUnavailable('the log is down')
  }
  return {
    async append(topic, partition, records, signal) {
      const problem = appendProblem(records)
      if (problem !== null) throw new RecordRefused(problem)
      signal?.throwIfAborted()
      refuseWhenDown()
      const call: AppendCall = { topic, partition, records }
      const fault = (await faults.beforeAppend?.(call)) ?? 'none'
      if (fault === 'unavailable') throw new LogUnavailable('injected')
      if (fault === 'refused') throw new RecordRefused('injected')
      refuseWhenDown()
      if (fault !== 'lost_request') write(at(topic, partition), records, nowMs())
      await faults.afterAppend?.(call)
      if (fault !== 'none') throw new IndefiniteAppend(`injected: ${fault}`)
    },
    read: (topic, partition, from, signal) =>
      follow(at(topic, partition), { topic, partition, from }, AbortSignal.any([signal, closed.signal]), faults),
    async end(topic, partition) {
      refuseWhenDown()
      await faults.beforeEnd?.(topic, partition)
      refuseWhenDown()
      return at(topic, partition).end
    },
    async since(topic, partition, atMs) {
      refuseWhenDown()
      const { records, end } = at(topic, partition)
      return records.find((record) => record.atMs >= atMs)?.offset ?? end
    },
    partitions: async (topic) => Array.from({ length: partitionCount(topic) }, (_, index) => index),
    health: () =>
      faults.down?.() === true ? { ok: false, detail: 'the log is down' } : { ok: true, detail: 'in memory' },
    async close() {
      closed.abort()
    },
  }
}

const write = (partition: Partition, records: readonly NewRecord[], atMs: number): void => {
  for (const { key, value } of records) {
    // A copy (`slice` of a Buffer is none): later changes of the caller's memory must not change the log.
    partition.records.push({ offset: partition.end, atMs, key, value: value === null ? null : new Uint8Array(value) })
  }
  partition.wake()
}

async function* follow(
  partition: Partition,
  { topic, partition: number, from }: { topic: string; partition: number; from: number },
  signal: AbortSignal,
  faults: MemoryFaults,
): AsyncGenerator<readonly LogRecord[]> {
  let next = from === 0 ? partition.start : from
  while (!signal.aborted) {
    if (next > partition.end || next < partition.start) {
      throw new LogReplaced(`${topic}/${number} has offsets ${partition.start} to ${partition.end}, not ${next}`)
    }
    const available = Math.min(partition.end - next, MAX_BATCH)
    if (available === 0 || faults.down?.() === true) {
      await partition.change(signal)
      continue
    }
    const wanted = (await faults.beforeDeliver?.({ topic, partition: number, from: next, available })) ?? available
    if (signal.aborted) return
    const count = Math.max(1, Math.min(wanted, available))
    const batch = partition.records.slice(next - partition.start, next - partition.start + count)
    const missing = batch.findIndex((record) => partition.holes.has(record.offset))
    const whole = missing === -1 ? batch : batch.slice(0, missing)
    if (whole.length > 0) yield whole
    if (missing !== -1) throw new LogGap(`${topic}/${number}: offset ${next + missing} is missing`)
    next += whole.length
  }
}
