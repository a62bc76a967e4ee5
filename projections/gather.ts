// Joins what a log's reader yields into batches that are worth a transaction: bounded in records, bytes and waiting.
import type { LogRecord } from '../src/log/port.ts'

export interface GatherLimits {
  readonly maxRecords: number
  readonly maxBytes: number
  /** How long the first record of a batch waits for others. */
  readonly waitMs: number
  /** With it, a batch that has come to this offset does not wait: no later record is known. */
  readonly knownEnd?: () => number
}

/** What a record needs beside its text. */
const RECORD_BYTES = 64

/** Reading the value would make it, where an adapter holds its parts. */
const sizeOf = (record: LogRecord): number =>
  (record.parts === undefined ? (record.value?.byteLength ?? 0) : record.parts.dataBytes) + RECORD_BYTES

/** The same records in the same order. While a batch is being applied at most one read of the source is under way. */
export async function* gather(
  source: AsyncIterable<readonly LogRecord[]>,
  { maxRecords, maxBytes, waitMs, knownEnd }: GatherLimits,
): AsyncGenerator<readonly LogRecord[]> {
  const iterator = source[Symbol.asyncIterator]()
  const read = () => {
    const next = iterator.next()
    next.catch(() => {}) // awaited below, possibly only after the consumer has applied a batch
    return next
  }
  let pending = read()
  let held: LogRecord[] = []
  let bytes = 0
  const take = (records: readonly LogRecord[]) => {
    held.push(...records)
    bytes += records.reduce((sum, record) => sum + sizeOf(record), 0)
    pending = read()
  }
  for (;;) {
    const first = await pending
    if (first.done === true) return
    take(first.value)
    const wait = Promise.withResolvers<'late'>()
    const timer = setTimeout(() => wait.resolve('late'), waitMs)
    try {
      while (held.length < maxRecords && bytes < maxBytes) {
        if (knownEnd !== undefined && held.at(-1)!.offset + 1 >= knownEnd()) break
        const more = await Promise.race([pending, wait.promise])
        if (more === 'late' || more.done === true) break
        take(more.value)
      }
    } catch {
      // What came before the failure is applied first; `pending` is awaited again above and throws it there.
    } finally {
      clearTimeout(timer)
    }
    for (const batch of slices(held, maxRecords, maxBytes)) yield batch
    held = []
    bytes = 0
  }
}

function* slices(records: readonly LogRecord[], maxRecords: number, maxBytes: number): Generator<readonly LogRecord[]> {
  let start = 0
  let bytes = 0
  for (let index = 0; index < records.length; index++) {
    const size = sizeOf(records[index]!)
    if (index > start && (index - start >= maxRecords || bytes + size > maxBytes)) {
      yield records.slice(start, index)
      start = index
      bytes = 0
    }
    bytes += size
  }
  if (start < records.length) yield records.slice(start)
}
