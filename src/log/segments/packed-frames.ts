// Consecutive frames in one packed frame, as an LZ4 block (docs/decisions/0056-segments-packed.md). In its head
// `record` is the number of its first record, `offset` its unpacked bytes, `sequence` the count of its records, and
// `atMs` the time of the first.
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

/** The bytes that its frames need; 0 where the claim is impossible. */
export const unpackedBytes = ({ offset }: PackedFrame): number => bytesOf(offset)

/** The same of the frame at `at`, whose head is loaded; 0 where it is not packed. */
export const unpackedBytesAt = (buffer: Buffer, at: number): number => bytesOf(packedOffset(buffer, at) ?? 0)

const bytesOf = (offset: number): number =>
  Number.isInteger(offset) && offset >= 0 && offset <= BLOCK_BYTES ? offset : 0

/**
 * Unpacks the frames of a packed frame in `buffer` to `into` at `at`, which has room for `unpackedBytes`. False: its
 * content does not match its head.
 */
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

/** A frame, or the frames that are packed in it, in memory of their own; null: it is damaged. */
export const framesIn = (buffer: Buffer, frame: StoredFrame): Frame[] | null => {
  if (frame.topic !== 'packed') return [frame]
  const into = Buffer.allocUnsafe(unpackedBytes(frame))
  if (!unpackTo(lz4Unpacker(), into, 0, buffer, frame)) return null
  const frames: Frame[] = []
  for (let at = 0; at < into.length; at = frames.at(-1)!.end) frames.push(readUnsealed(into, at, into.length)!)
  return frames
}
