// Frames that are packed in one, behind each other, as a block of LZ4 (docs/decisions/0056-segments-packed.md). Of such a frame `record` is the number of the first one
// in it, `offset` how many bytes they are unpacked, `sequence` how many there are, and `atMs` the time of the first.
import { BLOCK_BYTES, type Lz4Unpacker, lz4Unpacker } from '../../lib/compression/compression.ts'
import {
  FRAME_HEAD_BYTES,
  type Frame,
  type PackedFrame,
  packedOffset,
  readUnsealed,
  type StoredFrame,
  unsealedEnd,
} from './frame.ts'

/** How many bytes its frames need; none where it says what none can be. */
export const unpackedBytes = ({ offset }: PackedFrame): number => bytesOf(offset)

/** Of the frame that begins at `at`, whose head is there; none where it is not packed. */
export const unpackedBytesAt = (buffer: Buffer, at: number): number => bytesOf(packedOffset(buffer, at) ?? 0)

const bytesOf = (offset: number): number =>
  Number.isInteger(offset) && offset >= 0 && offset <= BLOCK_BYTES ? offset : 0

/** Writes the frames of a packed one, which stands in `buffer`, to `into` at `at`, where `unpackedBytes` are room. False: it holds none, or other than it says. */
export const unpackTo = (
  unpacker: Lz4Unpacker,
  into: Buffer,
  at: number,
  buffer: Buffer,
  packed: PackedFrame,
): boolean => {
  const bytes = unpackedBytes(packed)
  const from = packed.start + FRAME_HEAD_BYTES
  return (
    bytes > 0 &&
    unpacker.unpack({ buffer, start: from, end: packed.end }, { buffer: into, start: at, end: at + bytes }) &&
    areFrames(into, at, at + bytes, packed)
  )
}

const areFrames = (buffer: Buffer, from: number, limit: number, { record, sequence: count }: PackedFrame): boolean => {
  let at = from
  for (let index = 0; index < count; index++) {
    at = unsealedEnd(buffer, at, limit, record + index)
    if (at < 0) return false
  }
  return at === limit
}

/** A frame, or those that are packed in it, in memory of their own; null: it is damaged. */
export const framesIn = (buffer: Buffer, frame: StoredFrame): Frame[] | null => {
  if (frame.topic !== 'packed') return [frame]
  const into = Buffer.allocUnsafe(unpackedBytes(frame))
  if (!unpackTo(lz4Unpacker(), into, 0, buffer, frame)) return null
  const frames: Frame[] = []
  for (let at = 0; at < into.length; at = frames.at(-1)!.end) frames.push(readUnsealed(into, at, into.length)!)
  return frames
}
