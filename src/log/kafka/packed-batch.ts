// Records of a batch in LZ4. Those of a gateway are much like the one of their kind before them, so that is where the packer is told to look: it takes less than
// the system takes to send them as they are, and the broker's network and disk a seventh. The sender takes 4.3 us of CPU for a record instead of 4.9,
// 256 in an append, medians of 90 runs (docs/decisions/0053-records-packed-for-kafka.md); in a later look 0.55 of its 2.9 us were the packer's.

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

/** Fewer gain little, and what is sent one by one waits for nobody. */
const FEWEST_RECORDS = 8

/** What packed records take more than they would as they are, at most. */
export const packedMore = (records: number): number => FRAME_HEAD.length + FRAME_END.length + records * BLOCK_HEAD_BYTES

export class RecordPacker {
  private readonly kinds = new Lz4Models()

  constructor(private readonly block: Lz4Block) {}

  /** Answers where they end; null, and nothing of use is written, where they had better stand as they are. */
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
        // Keys are copied from where they stand in the block, and nothing is like what another block holds.
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

let packer: RecordPacker | null | undefined

/** The thread's, made when it is first needed; null where there can be none. */
export const recordPacker = (): RecordPacker | null => {
  if (packer === undefined) {
    const block = lz4Block()
    packer = block === null ? null : new RecordPacker(block)
  }
  return packer
}
