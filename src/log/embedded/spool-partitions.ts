// The spools of one machine as the partitions of `requests` and `operations` when there is no broker. A partition is
// the number of a spool directory.
import { existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { sleep } from '../../lib/event-loop/sleep.ts'
import { yieldToEventLoop } from '../../lib/event-loop/yield-to-event-loop.ts'
import { writeEnvelope } from '../envelope.ts'
import type { Files } from '../files.ts'
import { type LogRecord, LogReplaced } from '../port.ts'
import { SegmentReader, type SpoolRecord, type SpoolTopic, segmentPath } from '../segments/segments.ts'

export interface SpoolReaderOptions {
  readonly directory: string
  readonly topic: SpoolTopic
  readonly pollMs: number
  /** Records are not used after the next batch is requested. */
  readonly passing: boolean
  /** Only records of this type are returned, and the first and the last of each batch. Null: all. */
  readonly only: string | null
  readonly files: Files
  /** Bytes that are no records. */
  onDamage(bytes: number): void
}

const BATCH_RECORDS = 256
const encoder = new TextEncoder()
const NOTHING = new Uint8Array(0)

/** A record of a spool as the log returns it. Most readers use its parts; its bytes are built on first access. */
class SpooledRecord implements LogRecord {
  constructor(readonly parts: SpoolRecord) {}
  get offset(): number {
    return this.parts.offset
  }
  get atMs(): number {
    return this.parts.atMs
  }
  get key(): string {
    return this.parts.subject
  }
  get value(): Uint8Array {
    const { parts } = this
    return encoder.encode(writeEnvelope(parts, parts.type, parts.subject, parts.atMs, parts.data))
  }
}

/**
 * Follows one topic of one spool. Offsets whose record was damaged, or whose writer failed, become records without
 * bytes, which are no envelopes: readers count them as unreadable and continue. Everything yielded is durable, so no
 * reader is ahead of the log after a power cut.
 */
export async function* readSpool(
  options: SpoolReaderOptions,
  from: number,
  signal: AbortSignal,
): AsyncGenerator<readonly LogRecord[]> {
  const reader = new SegmentReader({
    directory: options.directory,
    topic: options.topic,
    passing: options.passing || options.only !== null,
    onDamage: ({ bytes }) => options.onDamage(bytes.length),
  })
  const durable = durably(options, reader)
  try {
    while (!existsSync(options.directory) || !reader.seek({ topic: options.topic, offset: from })) {
      if (from > 0) throw new LogReplaced(`${options.directory} is empty, not at ${from}`)
      if (signal.aborted) return
      await sleep(options.pollMs, signal)
    }
    let next = from === 0 ? reader.ends[options.topic] : from
    while (!signal.aborted) {
      const records = reader.next(BATCH_RECORDS).filter((record) => record.offset >= next)
      const batch = withoutGaps(records, next, reader.ends[options.topic], reader.begunAtMs)
      if (batch.length === 0) {
        if (reader.atEnd && reader.ends[options.topic] < next) {
          throw new LogReplaced(`${options.directory} ends at ${reader.ends[options.topic]}, not ${next}`)
        }
        if (reader.atEnd) await sleep(options.pollMs, signal)
        else await yieldToEventLoop() // a long stretch of the other topic
        continue
      }
      await durable()
      if (signal.aborted) return
      next = batch.at(-1)!.offset + 1
      for (let at = 0; at < batch.length; at += BATCH_RECORDS) {
        const part = batch.slice(at, at + BATCH_RECORDS)
        yield options.only === null ? part : onlyOf(part, options.only)
      }
    }
  } finally {
    reader.close()
  }
}

/** Fills the offsets without a record, up to `end`. */
const withoutGaps = (records: readonly SpoolRecord[], next: number, end: number, atMs: number): LogRecord[] => {
  const batch: LogRecord[] = []
  let expected = next
  const fillUpTo = (offset: number) => {
    for (; expected < offset; expected++) batch.push({ offset: expected, atMs, key: null, value: NOTHING })
  }
  for (const record of records) {
    fillUpTo(record.offset)
    batch.push(new SpooledRecord(record))
    expected = record.offset + 1
  }
  fillUpTo(end)
  return batch
}

/** The records of a type, the first and the last, copied out of the memory that the next read reuses. */
const onlyOf = (records: readonly LogRecord[], type: string): LogRecord[] =>
  records
    .filter(({ parts }, at) => at === 0 || at === records.length - 1 || parts?.type === type)
    .map(({ offset, atMs, key, value }) => ({ offset, atMs, key, value }))

/**
 * Makes what the reader has read durable: the file, until one of its syncs came after its end; its directory when the
 * file changed.
 */
const durably = ({ directory, files }: SpoolReaderOptions, reader: SegmentReader) => {
  let synced: number | null = null
  let whole: number | null = null
  return async (): Promise<void> => {
    const { file } = reader
    if (file === null || whole === file.ordinal) return
    const isEnded = existsSync(segmentPath(directory, file.ordinal + 1))
    await files.sync(file.descriptor)
    if (isEnded) whole = file.ordinal
    if (synced === file.ordinal) return
    const handle = await open(directory)
    await handle.sync().finally(() => handle.close())
    synced = file.ordinal
  }
}

/** The ends of spools, for repeated requests: one segment reader per spool keeps its position. */
export const spoolEnds = () => {
  const readers = new Map<string, SegmentReader>()
  return {
    /** The first offset of the topic that this spool does not have yet. */
    end(directory: string, topic: SpoolTopic): number {
      const reader = readers.get(directory) ?? new SegmentReader({ directory })
      if (!readers.has(directory)) {
        if (!existsSync(directory) || !reader.seek({ record: Number.MAX_SAFE_INTEGER })) return 0
        readers.set(directory, reader)
      }
      try {
        do reader.next(BATCH_RECORDS)
        while (!reader.atEnd)
        return reader.ends[topic]
      } catch (error) {
        readers.delete(directory)
        reader.close()
        throw error
      }
    },
    close(): void {
      for (const reader of readers.values()) reader.close()
      readers.clear()
    },
  }
}
