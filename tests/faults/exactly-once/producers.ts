// Outcomes as instances write them, and the producers' own books of them.
import type { Settlement } from '../../../src/domain/events/request-reading.ts'
import { MAX_APPEND_BYTES, MAX_APPEND_RECORDS } from '../../../src/log/append-limits.ts'
import { writeEnvelope } from '../../../src/log/envelope.ts'
import { type EventLog, IndefiniteAppend, LogUnavailable, type NewRecord } from '../../../src/log/port.ts'
import { type LocalSpool, openSpool } from '../../../src/log/spool/open.ts'
import { partitionOf, TOPICS } from '../../../src/log/topics.ts'
import { admitted, settled } from '../../projections/support.ts'
import { openWorldLog, type WorldLog } from './world.ts'

export const DAY_MS = 86_400_000
/** The days that outcomes are of: all over, so that each is closed, and again whenever more of it comes in. */
export const DAYS = 3
export const FIRST_DAY_MS = (Math.floor(Date.now() / DAY_MS) - 5) * DAY_MS
export const TENANTS = 5
/** A frame for so many outcomes. */
const OUTCOMES_A_FRAME = 50
/** So many outcomes are handed on at once. */
const AT_ONCE = 40

export interface Books {
  outcomes: number
  frames: number
  promptTokens: number
  completionTokens: number
  costNanoUsd: number
  latencyMs: number
  readonly costOfTenant: Map<string, number>
  readonly requestsOfDay: Map<number, number>
}

export const newBooks = (): Books => ({
  outcomes: 0,
  frames: 0,
  promptTokens: 0,
  completionTokens: 0,
  costNanoUsd: 0,
  latencyMs: 0,
  costOfTenant: new Map(),
  requestsOfDay: new Map(),
})

const add = <Key>(sums: Map<Key, number>, key: Key, value: number) => sums.set(key, (sums.get(key) ?? 0) + value)

export const requestId = (index: number): string => `req_${index}`

/** The days follow each other; every twentieth outcome is of an earlier one, which may be closed by then. */
const outcomeOf = (index: number, all: number): { readonly id: string; readonly more: Partial<Settlement> } => {
  const day = Math.min(DAYS - 1, Math.floor((index * DAYS) / all))
  const dayMs = FIRST_DAY_MS + (index % 20 === 0 ? Math.floor(day / 2) : day) * DAY_MS
  return {
    id: requestId(index),
    more: {
      at_ms: dayMs + ((index * 7_919) % DAY_MS),
      tenant_id: `ten_${index % TENANTS}`,
      key_id: `key_${index % 13}`,
      routed_model: `model-${index % 3}`,
      outcome: index % 31 === 0 ? 'error' : 'success',
      error_code: index % 31 === 0 ? 'upstream_error' : null,
      prompt_tokens: (index * 31) % 997,
      completion_tokens: (index * 17) % 499,
      cost_nano_usd: (index * 7_907) % 100_003,
      latency_ms: index % 4_001,
      attempts: [],
    },
  }
}

const note = (books: Books, more: Partial<Settlement>) => {
  books.outcomes++
  books.promptTokens += more.prompt_tokens!
  books.completionTokens += more.completion_tokens!
  books.costNanoUsd += more.cost_nano_usd!
  books.latencyMs += more.latency_ms!
  add(books.costOfTenant, more.tenant_id!, more.cost_nano_usd!)
  add(books.requestsOfDay, Math.floor(more.at_ms! / DAY_MS) * DAY_MS, 1)
}

/** Smaller than an instance's: a worker that starts reads the one it goes on in from its beginning. */
const SEGMENT_BYTES = 8 * 1024 * 1024

type SpoolTopic = 'requests' | 'operations'

/** Where records go: in the order in which they are handed over, for each subject. */
interface Sink {
  put(topic: SpoolTopic, type: string, subject: string, data: string): void
  /** Everything handed over is in the log. */
  flushed(): Promise<void>
  close(): Promise<void>
}

export interface Production {
  readonly books: Books
  /** Rejects with what stopped it. */
  readonly done: Promise<void>
}

/** Writes at most `all` outcomes. Awaits `room` after every few; stops when it resolves with false. */
export const produce = (world: WorldLog, all: number, room: (produced: number) => Promise<boolean>): Production => {
  const books = newBooks()
  const run = async () => {
    const sink = world.adapter === 'embedded' ? await spoolSink(world.dataDir) : await topicSink(openWorldLog(world))
    for (let index = 0; index < all; index++) {
      const { id, more } = outcomeOf(index, all)
      const subject = `${more.tenant_id}`
      sink.put('requests', 'request.admitted', subject, JSON.stringify(admitted(id, { at_ms: more.at_ms! })))
      sink.put('requests', 'request.settled', subject, JSON.stringify(settled(id, more)))
      note(books, more)
      if (index % OUTCOMES_A_FRAME === 0) {
        const frame = { number: ++books.frames, at_ms: Date.now(), whole: true, part: 1, parts: 1, candidates: [] }
        sink.put('operations', 'frame.taken', `frame ${books.frames}`, JSON.stringify(frame))
      }
      if (index % AT_ONCE !== AT_ONCE - 1 && index < all - 1) continue
      await sink.flushed()
      if (!(await room(index + 1))) break
    }
    await sink.close()
  }
  return { books, done: run() }
}

/** Two instances, each with a spool of its own: two partitions. */
const spoolSink = async (dataDir: string): Promise<Sink> => {
  const keeping = {
    until: 'projected',
    consumers: { requests: ['projection'], operations: ['projection'] },
    retentionMs: null,
  } as const
  const open = () =>
    openSpool({
      dataDir,
      durability: 'process',
      keeping,
      nowMs: Date.now,
      ballastBytes: 0,
      segmentBytes: SEGMENT_BYTES,
    })
  const spools: LocalSpool[] = [await open(), await open()]
  let pending: Promise<unknown>[] = []
  return {
    put(topic, type, subject, data) {
      pending.push(spools[partitionOf(subject, spools.length)]!.append(topic, type, subject, data))
    },
    async flushed() {
      await Promise.all(pending)
      pending = []
    },
    async close() {
      for (const spool of spools) await spool.close()
    },
  }
}

/** An instance that now and then loses the acknowledgement of a batch, and sends it again. */
const topicSink = async (log: EventLog): Promise<Sink> => {
  const counts: Record<SpoolTopic, number> = {
    requests: (await log.partitions(TOPICS.requests.name)).length,
    operations: (await log.partitions(TOPICS.operations.name)).length,
  }
  const sequence: Record<SpoolTopic, number> = { requests: 0, operations: 0 }
  const lanes = new Map<string, { topic: SpoolTopic; partition: number; records: NewRecord[] }>()
  let sent = 0
  const append = async (topic: string, partition: number, records: readonly NewRecord[]): Promise<void> => {
    for (;;) {
      try {
        return await log.append(topic, partition, records)
      } catch (error) {
        if (!(error instanceof IndefiniteAppend || error instanceof LogUnavailable)) throw error
      }
    }
  }
  return {
    put(topic, type, subject, data) {
      const partition = partitionOf(subject, counts[topic])
      const lane = lanes.get(`${topic} ${partition}`) ?? { topic, partition, records: [] }
      lanes.set(`${topic} ${partition}`, lane)
      const origin = { instance: 'ins_1', epoch: 'e1', sequence: sequence[topic]++ }
      lane.records.push({
        key: subject,
        value: Buffer.from(writeEnvelope(origin, type, subject, Date.now(), data)),
      })
    },
    async flushed() {
      await Promise.all(
        [...lanes.values()].map(async ({ topic, partition, records }) => {
          for (const batch of batchesOf(records)) {
            const again = sent++ % 20 === 7
            await append(TOPICS[topic].name, partition, batch)
            if (again) await append(TOPICS[topic].name, partition, batch)
          }
        }),
      )
      lanes.clear()
    },
    close: () => log.close(),
  }
}

function* batchesOf(records: readonly NewRecord[]): Generator<readonly NewRecord[]> {
  let batch: NewRecord[] = []
  let bytes = 0
  for (const record of records) {
    const size = record.value!.length + 64
    if (batch.length === MAX_APPEND_RECORDS || (batch.length > 0 && bytes + size > MAX_APPEND_BYTES)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(record)
    bytes += size
  }
  if (batch.length > 0) yield batch
}
