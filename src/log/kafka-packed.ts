// Records of a batch in LZ4. Those of a gateway are much like the one of their kind before them, so that is where the packer is told to look: it takes less than
// the system takes to send them as they are, and the broker's network and disk a seventh. The sender takes 4.3 us of CPU for a record instead of 4.9,
// 256 in an append, medians of 90 runs (docs/decisions/0053-records-packed-for-kafka.md); in a later look 0.55 of its 2.9 us were the packer's (docs/profile.md).
import { BLOCK_BYTES, BLOCK_HEAD_BYTES, FRAME_END, FRAME_HEAD, type Lz4Block, lz4Block } from '../lib/lz4-pack.ts'
import { RecordWriter, recordBound } from './kafka-record.ts'
import type { NewRecord } from './port.ts'

/** Fewer gain little, and what is sent one by one waits for nobody. */
const FEWEST_RECORDS = 8
/** So many kinds are remembered within a block; all are forgotten together. */
const MOST_KINDS = 16

/** What packed records take more than they would as they are, at most. */
export const packedMore = (records: number): number => FRAME_HEAD.length + FRAME_END.length + records * BLOCK_HEAD_BYTES

/** The last record of a kind, of as many bytes: digits that differ stand in the same places. */
interface Kind {
  readonly like: object | undefined
  readonly bytes: number
  start: number
}

export class RecordPacker {
  private readonly kinds: Kind[] = []

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
    this.kinds.length = 0
    for (let index = 0; index < records.length; index++) {
      const record = records[index]!
      if (start + recordBound(record) > BLOCK_BYTES) {
        end = block.pack(start, into, end)
        // Keys are copied from where they stand in the block, and nothing is like what another block holds.
        writer = new RecordWriter(block.content)
        start = 0
        this.kinds.length = 0
      }
      const next = writer.write(start, index, record)
      block.part(start, this.modelOf(record.like, next - start, start))
      start = next
    }
    end = block.pack(start, into, end)
    into.set(FRAME_END, end)
    return end + FRAME_END.length
  }

  /**
   * Where the last record like this one begins, or -1; this one takes its place. Where there is none of its kind and length: one of its length, such as that of
   * another tenant, or else of its kind.
   */
  private modelOf(like: object | undefined, bytes: number, start: number): number {
    const { kinds } = this
    let sameBytes = -1
    let sameKind = -1
    for (let index = 0; index < kinds.length; index++) {
      const kind = kinds[index]!
      if (kind.bytes === bytes && kind.like === like) {
        const before = kind.start
        kind.start = start
        return before
      }
      if (kind.bytes === bytes) sameBytes = Math.max(sameBytes, kind.start)
      else if (kind.like === like) sameKind = Math.max(sameKind, kind.start)
    }
    if (kinds.length === MOST_KINDS) kinds.length = 0
    kinds.push({ like, bytes, start })
    return sameBytes >= 0 ? sameBytes : sameKind
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
