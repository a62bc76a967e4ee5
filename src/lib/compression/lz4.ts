// Reads LZ4 frames (lz4_Frame_format.md). Checksums are skipped: the caller has checked the bytes around the frame.
import { MalformedPacked, OutputBuffer, PackedReader } from './output-buffer.ts'

const MAGIC = 0x184d2204
const VERSION = 0x40
const VERSION_BITS = 0xc0
const BLOCK_CHECKSUM = 0x10
const CONTENT_SIZE = 0x08
const DICTIONARY = 0x01
/** Bit of a block's length: the block is not packed. */
export const UNPACKED = 0x80000000
const CHECKSUM_BYTES = 4
export const SHORTEST_MATCH = 4
/** A four-bit length of 15 continues in the bytes behind it. */
export const CONTINUED = 15

/** The content of the first frame; blocks may refer to earlier ones. Throws `MalformedPacked`, also beyond `limit`. */
export const unpackLz4 = (packed: Uint8Array, limit: number): Uint8Array => {
  const from = new PackedReader(packed)
  if (from.number(4) !== MAGIC) throw new MalformedPacked('no LZ4 frame')
  const flags = from.byte()
  if ((flags & VERSION_BITS) !== VERSION || (flags & DICTIONARY) !== 0)
    throw new MalformedPacked('an unknown LZ4 frame')
  from.take(1)
  if ((flags & CONTENT_SIZE) !== 0) from.take(8)
  from.take(1)
  const out = new OutputBuffer(packed.length * 2 < limit ? packed.length * 2 : 0, limit)
  for (let length = from.number(4); length !== 0; length = from.number(4)) {
    if (length >= UNPACKED) out.append(from.take(length - UNPACKED))
    else unpackBlock(new PackedReader(from.take(length)), out)
    if ((flags & BLOCK_CHECKSUM) !== 0) from.take(CHECKSUM_BYTES)
  }
  return out.bytes()
}

/** Sequences of literals and a match; the last literals have no match. */
const unpackBlock = (from: PackedReader, out: OutputBuffer): void => {
  while (from.left > 0) {
    const token = from.byte()
    out.append(from.take(wholeLength(token >> 4, from)))
    if (from.left === 0) return
    const distance = from.number(2)
    out.repeat(distance, wholeLength(token & 0x0f, from) + SHORTEST_MATCH)
  }
}

const wholeLength = (first: number, from: PackedReader): number => {
  if (first < CONTINUED) return first
  let length = first
  for (let more = 255; more === 255; length += more) more = from.byte()
  return length
}
