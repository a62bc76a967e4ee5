// The compressions that producers may choose. Ours choose LZ4 or none, but whoever may write to a topic can bring each of them
// (and their client's default may be one): a batch that could not be read would hold up every reader of its partition for ever.
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { unpackLz4 } from '../../lib/compression/lz4.ts'
import { unpackSnappy } from '../../lib/compression/snappy.ts'

/** No batch of ours holds 3 MiB; a broker takes what packs into one. */
const MAX_BATCH_BYTES = 64 * 1_048_576

type Unpack = (packed: Uint8Array, limit: number) => Uint8Array

/** By the number in a batch's attributes. */
const CODECS: Readonly<Record<number, Unpack>> = {
  1: (packed, maxOutputLength) => gunzipSync(packed, { maxOutputLength }),
  2: unpackSnappy,
  3: unpackLz4,
  4: (packed, maxOutputLength) => zstdDecompressSync(packed, { maxOutputLength }),
}

/** The records of a batch as they are without compression. Throws with the offset on what cannot be read. */
export const unpackRecords = (codec: number, packed: Uint8Array, firstOffset: number): Uint8Array => {
  const unpack = CODECS[codec]
  if (unpack === undefined) throw new Error(`record batch at offset ${firstOffset}: compression ${codec} is not known`)
  try {
    return unpack(packed, MAX_BATCH_BYTES)
  } catch (error) {
    throw new Error(`record batch at offset ${firstOffset}: compression ${codec} cannot be read: ${String(error)}`)
  }
}
