// Tricks of the log: the gain of one write, one sync and one request to the broker for many records, and the work that
// the sender's thread takes off the serving thread.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { APPEND_LIMITS } from '../../../src/log/append-limits.ts'
import { nodeFiles } from '../../../src/log/files.ts'
import { recordPacker } from '../../../src/log/kafka/packed-batch.ts'
import { writeProduce } from '../../../src/log/kafka/produce.ts'
import { SegmentReader } from '../../../src/log/segments/reader.ts'
import type { SpoolRecord } from '../../../src/log/segments/record.ts'
import { SegmentWriter } from '../../../src/log/segments/writer.ts'
import { type Shipment, Shipments } from '../../../src/log/sender/shipments.ts'
import { openSpool } from '../../../src/log/spool/open.ts'
import type { Trick } from './trick.ts'

const TENANTS = Array.from({ length: 20 }, (_, index) => `ten_${index}/ins_1`)
/** As long as the records of a JSON request are, some 1.2 KB for the two. */
const DATA = {
  'request.admitted': JSON.stringify({ id: 'req_1', tenant: 'ten_1', model: 'auto', more: 'a'.repeat(340) }),
  'request.settled': JSON.stringify({ id: 'req_1', outcome: 'success', cost_nano_usd: 1234, more: 's'.repeat(700) }),
} as const
type Type = keyof typeof DATA
const TYPES = Object.keys(DATA) as Type[]
const AT_MS = 1_795_000_000_000

const temporary = (): string => mkdtempSync(join(tmpdir(), 'gatelog-bench-tricks-'))
const remove = (folder: string) => () => rmSync(folder, { recursive: true, force: true })

const writerIn = (directory: string): SegmentWriter =>
  new SegmentWriter({
    ...{
      directory,
      files: nodeFiles,
      instance: 'ins_1',
      epoch: 'e1',
      nowMs: () => AT_MS,
      segmentBytes: 64 * 1024 ** 2,
    },
    ...{ next: { record: 0, requests: 0, operations: 0 }, nextOrdinal: 1, keepUnsynced: false, carried: () => [] },
  })

const addTo = (writer: SegmentWriter, serial: number): void => {
  const type = TYPES[serial % TYPES.length]!
  writer.add('requests', type, TENANTS[serial % TENANTS.length]!, DATA[type], AT_MS + serial)
}

/** Of a turn: sixteen requests are begun in one, and each has a record of its admission. */
const IN_A_TURN = 16

const batch = (): Trick => {
  const folder = temporary()
  const writer = writerIn(folder)
  return {
    name: 'the frames of a turn are written at once',
    at: 'log/segments/batch.ts',
    unit: 'record',
    each: IN_A_TURN,
    trick: () => {
      for (let i = 0; i < IN_A_TURN; i++) addTo(writer, i)
      writer.flush()
    },
    plain: () => {
      for (let i = 0; i < IN_A_TURN; i++) {
        addTo(writer, i)
        writer.flush()
      }
    },
    close: () => {
      writer.close()
      remove(folder)()
    },
  }
}

const AT_ONCE = 256

const sync = async (): Promise<Trick> => {
  const folder = temporary()
  const atEnd = queueMicrotask
  const common = { dataDir: folder, durability: 'host', keeping: { until: 'shipped' }, nowMs: Date.now, atEnd } as const
  const spool = await openSpool(common)
  const append = (i: number) => {
    const type = TYPES[i % TYPES.length]!
    return spool.append('operations', type, TENANTS[i % TENANTS.length]!, DATA[type])
  }
  return {
    name: 'one sync makes durable all that waits for it',
    at: 'log/spool/group-sync.ts',
    unit: 'record, 256 at once',
    each: AT_ONCE,
    trick: async () => {
      await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => append(i)))
      spool.shipped(spool.end)
    },
    plain: async () => {
      for (let i = 0; i < AT_ONCE; i++) await append(i)
      spool.shipped(spool.end)
    },
    close: async () => {
      await spool.close()
      remove(folder)()
    },
  }
}

const TARGETS = {
  requests: { topic: 'gateway.requests.v1', partitions: 12 },
  operations: { topic: 'o', partitions: 3 },
}
/** What gathers in 50 ms at 2,000 requests a second. */
const GATHERED = 200

/** So many records of a spool, as its cursor gives them out. */
const writtenRecords = (folder: string): SpoolRecord[] => {
  const writer = writerIn(folder)
  for (let i = 0; i < GATHERED; i++) addTo(writer, i)
  writer.flush()
  writer.close()
  const cursor = new SegmentReader({ directory: folder })
  cursor.seek({ record: 0 })
  const records: SpoolRecord[] = []
  while (records.length < GATHERED) records.push(...cursor.next(GATHERED))
  cursor.close()
  return records
}

const loaded = (lanes: Shipments, records: readonly SpoolRecord[]): (readonly Shipment[])[] => {
  for (const record of records) lanes.load(record)
  return lanes.unload()
}

const newLanes = () => new Shipments(TARGETS, { limits: APPEND_LIMITS })

const lanes = (): Trick => {
  const folder = temporary()
  const records = writtenRecords(folder)
  const kept = newLanes()
  return {
    name: 'what is known of a subject is kept from batch to batch',
    at: 'log/sender/shipments.ts',
    unit: 'record, 200 in a batch of 20 tenants',
    each: GATHERED,
    trick: () => loaded(kept, records),
    plain: () => loaded(newLanes(), records),
    close: remove(folder),
  }
}

const queryOf = (shipments: readonly (readonly Shipment[])[]) => ({
  ...{ correlationId: 7, clientId: 'gatelog', timeoutMs: 1_700, nowMs: AT_MS, packer: recordPacker() },
  appends: shipments.flat(),
})

/** A thread that waits for a bell as the sender's does. */
const waiter = (bell: Int32Array<SharedArrayBuffer>): Worker => {
  const source = `self.onmessage = async ({ data: bell }) => {
    for (let heard = Atomics.load(bell, 0); ; heard = Atomics.load(bell, 0)) await Atomics.waitAsync(bell, 0, heard, 250).value
  }`
  const worker = new Worker(URL.createObjectURL(new Blob([source])))
  worker.postMessage(bell)
  return worker
}

/**
 * The work that blocks the serving thread without a sender thread: reading a batch from the spool, putting it into
 * envelopes, writing the request. Sockets, watermarks and answers are not included.
 */
const sender = (): Trick => {
  const folder = temporary()
  writtenRecords(folder)
  const own = newLanes()
  const into = Buffer.alloc(4 * 1024 * 1024)
  const bell = new Int32Array(new SharedArrayBuffer(4))
  const thread = waiter(bell)
  const cursor = new SegmentReader({ directory: folder, recycling: true })
  return {
    name: 'a bell for the thread that sends, instead of the work',
    at: 'log/sender/thread.ts',
    unit: 'record, 200 in a batch',
    each: GATHERED,
    trick: () => {
      // As often as the spool rings it for so many records.
      for (let turn = 0; turn < GATHERED / IN_A_TURN; turn++) {
        Atomics.add(bell, 0, 1)
        Atomics.notify(bell, 0)
      }
    },
    plain: () => {
      cursor.seek({ record: 0 })
      let left = GATHERED
      while (left > 0) {
        const records = cursor.next(left)
        left -= records.length
        writeProduce(into, queryOf(loaded(own, records)))
      }
    },
    close: () => {
      thread.terminate()
      cursor.close()
      remove(folder)()
    },
  }
}

/** By the name that `--only` takes. */
export const OF_THE_LOG = { batch, sync, lanes, sender }
