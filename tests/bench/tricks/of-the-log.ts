// Tricks of the log: the gain of one write, one sync and one request to the broker for many records, and the work that
// the sender's thread takes off the serving thread.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Lz4Unpacker, lz4Unpacker } from '../../../src/lib/compression/lz4-unpack.ts'
import { APPEND_LIMITS } from '../../../src/log/append-limits.ts'
import { nodeFiles } from '../../../src/log/files.ts'
import { recordPacker } from '../../../src/log/kafka/packed-batch.ts'
import { writeProduce } from '../../../src/log/kafka/produce.ts'
import { addFrame, type Batch, emptyBatch, type Sealed, sealedAsItIs } from '../../../src/log/segments/batch.ts'
import { CHUNK_BUFFER_BYTES } from '../../../src/log/segments/chunk-buffers.ts'
import { FRAME_HEAD_BYTES, packedOffset } from '../../../src/log/segments/frame.ts'
import { subjectOf } from '../../../src/log/segments/frame-subject.ts'
import { BatchPacker } from '../../../src/log/segments/pack.ts'
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
/** So few are not packed, which is a trick of its own. */
const NOT_PACKED = 7

const batch = (): Trick => {
  const folder = temporary()
  const writer = writerIn(folder)
  return {
    name: 'the frames of a turn are written at once',
    at: 'log/segments/batch.ts',
    unit: 'record',
    each: NOT_PACKED,
    trick: () => {
      for (let i = 0; i < NOT_PACKED; i++) addTo(writer, i)
      writer.flush()
    },
    plain: () => {
      for (let i = 0; i < NOT_PACKED; i++) {
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

/** Admissions and settlements of a turn. */
const TOGETHER = 32
/** Of one of the two records of a request with twenty candidates. */
const LONG_BYTES = 2_900
const LONG_RECORDS = { unit: `record of ${LONG_BYTES / 1_000} KB, ${TOGETHER} together`, each: TOGETHER } as const
/**
 * The file begins again there: the written bytes are in the page cache then, which favours the side that writes more.
 */
const FILE_BYTES = 64 * 1024 ** 2

/** Records as long as those of a gateway, whose ids and numbers differ. */
const longBatch = (): Batch => {
  const batch = emptyBatch({ record: 0, requests: 0, operations: 0 })
  for (let record = 0; record < TOGETHER; record++) {
    const id = crypto.randomUUID()
    const start = JSON.stringify({ id, trace: id.replaceAll('-', ''), at_ms: AT_MS + record, seed: record * 7_919 })
    const about = subjectOf(TYPES[record % TYPES.length]!, TENANTS[0]!)
    const numbers = { record, offset: record, sequence: record, atMs: AT_MS + record }
    addFrame(batch, 'requests', numbers, about, start.padEnd(LONG_BYTES, `"candidates":["${about.type}"],`))
  }
  return batch
}

const packed = (): Trick => {
  const folder = temporary()
  const file = nodeFiles.create(join(folder, 'frames'))
  const packer = BatchPacker.make()
  if (packer === null) throw new Error('there is no WebAssembly here')
  let position = 0
  const written = ({ buffer, bytes }: Sealed) => {
    if (position + bytes > FILE_BYTES) position = 0
    position += nodeFiles.write(file, buffer, 0, bytes, position)
  }
  const batch = longBatch()
  return {
    name: 'records of a turn are packed before they are checked and written',
    at: 'log/segments/pack.ts',
    ...LONG_RECORDS,
    trick: () => written(packer.pack(batch)!),
    plain: () => written(sealedAsItIs(batch)),
    close: () => {
      nodeFiles.close(file)
      remove(folder)()
    },
  }
}

/** Without the reading of the file, of which a sixth is left. */
const unpacking = () => {
  const { buffer, bytes, ends } = BatchPacker.make()!.pack(longBatch())!
  const units = Buffer.from(buffer.subarray(0, bytes))
  const into = Buffer.alloc(CHUNK_BUFFER_BYTES)
  return (unpacker: Lz4Unpacker) => () => {
    let at = 0
    for (let index = 0, from = 0; index < ends.length; from = ends[index++]!) {
      const length = packedOffset(units, from)!
      const isBlock = unpacker.unpack(
        { buffer: units, start: from + FRAME_HEAD_BYTES, end: ends[index]! },
        { buffer: into, start: at, end: at + length },
      )
      if (!isBlock) throw new Error('no block')
      at += length
    }
  }
}

const unpacked = (): Trick => {
  const by = unpacking()
  return {
    name: 'what is packed is unpacked in WebAssembly, instead of JavaScript',
    at: 'lib/compression/lz4-unpack.ts',
    ...LONG_RECORDS,
    trick: by(lz4Unpacker()),
    plain: by(new Lz4Unpacker(null)),
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
export const OF_THE_LOG = { batch, packed, unpacked, sync, lanes, sender }
