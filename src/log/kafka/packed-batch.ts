// Records of a batch in LZ4. A record of a gateway is mostly like the last one of its kind, so the packer searches
// there. Packing costs less CPU than the kernel takes to send the bytes unpacked, and leaves a seventh of them for the
// network and the broker's disk (docs/decisions/0053-records-packed-for-kafka.md).

import {
  BLOCK_BYTES,
  BLOCK_HEAD_BYTES,
  FRAME_END,
  FRAME_HEAD,
  type Lz4Block,
  Lz4Models,
  lz4Block,
} from '../../lib/compression/compression.ts'
import type { NewRecord } from '../port.ts'
import { RecordWriter, recordBound } from './record.ts'

/** Fewer records gain little, and single appends do not wait for others. */
const FEWEST_RECORDS = 8

/** Upper bound of the bytes that packing adds. */
export const packedMore = (records: number): number => FRAME_HEAD.length + FRAME_END.length + records * BLOCK_HEAD_BYTES

export class RecordPacker {
  private readonly kinds = new Lz4Models()

  constructor(private readonly block: Lz4Block) {}

  /** Returns the end of the block; null, with nothing of use written, where the records are better unpacked. */
  write(into: Buffer, at: number, records: readonly NewRecord[]): number | null {
    if (records.length < FEWEST_RECORDS || records.some((record) => recordBound(record) > BLOCK_BYTES)) return null
    const { block } = this
    block.begin()
    into.set(FRAME_HEAD, at)
    let end = at + FRAME_HEAD.length
    let writer = new RecordWriter(block.content)
    let start = 0
    this.kinds.forget()
    for (let index = 0; index < records.length; index++) {
      const record = records[index]!
      if (start + recordBound(record) > BLOCK_BYTES) {
        end = block.pack(start, into, end)
        // Keys are copied from their place in the block; no record is matched with another block.
        writer = new RecordWriter(block.content)
        start = 0
        this.kinds.forget()
      }
      const next = writer.write(start, index, record)
      block.part(start, this.kinds.modelOf(record.like, next - start, start))
      start = next
    }
    end = block.pack(start, into, end)
    into.set(FRAME_END, end)
    return end + FRAME_END.length
  }
}

/** Packer of this thread: undefined before the first use, since it reserves memory; null where there can be none. */
let packer: RecordPacker | null | undefined

/** One for each thread, made on first use; null where there can be none. */
export const recordPacker = (): RecordPacker | null => {
  if (packer === undefined) {
    const block = lz4Block()
    packer = block === null ? null : new RecordPacker(block)
  }
  return packer
}
