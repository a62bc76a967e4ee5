// Reads Snappy: raw, and in the framing of the Java library (xerial), which packs in pieces.
import { MalformedPacked, OutputBuffer, PackedReader } from './output-buffer.ts'

const FRAMED = [0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00] as const
/** Behind the magic: the version, and the oldest compatible one. */
const VERSIONS_BYTES = 8
/** A literal of at least this tag value has its length in the one to four bytes behind the tag. */
const LONG_LITERAL = 60
const [LITERAL, NEAR_COPY, COPY] = [0, 1, 2]

/** The content. Throws `MalformedPacked`, also beyond `limit` bytes. */
export const unpackSnappy = (packed: Uint8Array, limit: number): Uint8Array => {
  const from = new PackedReader(packed)
  if (!FRAMED.every((byte, index) => packed[index] === byte)) return unpackPiece(from, limit)
  from.take(FRAMED.length + VERSIONS_BYTES)
  const out = new OutputBuffer(0, limit)
  while (from.left > 0) out.append(unpackPiece(new PackedReader(from.take(bigEndian(from.take(4)))), limit))
  return out.bytes()
}

const bigEndian = (bytes: Uint8Array): number => bytes.reduce((value, byte) => value * 256 + byte, 0)

const unpackPiece = (from: PackedReader, limit: number): Uint8Array => {
  const length = wholeLength(from)
  const out = new OutputBuffer(length, limit)
  while (from.left > 0) {
    const tag = from.byte()
    const kind = tag & 3
    if (kind === LITERAL) out.append(from.take(literalLength(tag >> 2, from)))
    else if (kind === NEAR_COPY) out.repeat(((tag >> 5) << 8) + from.byte(), ((tag >> 2) & 7) + 4)
    else out.repeat(from.number(kind === COPY ? 2 : 4), (tag >> 2) + 1)
  }
  if (out.bytes().length !== length) throw new MalformedPacked('another length than it says')
  return out.bytes()
}

const literalLength = (short: number, from: PackedReader): number =>
  (short < LONG_LITERAL ? short : from.number(short - LONG_LITERAL + 1)) + 1

/** A varint of at most 32 bits, lowest group first. */
const wholeLength = (from: PackedReader): number => {
  let value = 0
  for (let factor = 1; factor <= 2 ** 28; factor *= 128) {
    const byte = from.byte()
    value += (byte & 0x7f) * factor
    if (byte < 0x80) return value
  }
  throw new MalformedPacked('a length of more than 32 bits')
}
