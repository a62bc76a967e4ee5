// Reads LZ4 for kafkajs, which has no reader of its own: `import './lz4.ts'` before the first message. Kafka's other
// clients (Java, librdkafka and its derivatives, franz-go, Sarama, kafka-python with the package `lz4`) do not need it.
// Source: lz4_Frame_format.md and lz4_Block_format.md of lz4/lz4. Its checksums are not checked.
import { CompressionCodecs, CompressionTypes } from 'kafkajs'

const BLOCK_CHECKSUM = 0x10
const CONTENT_SIZE = 0x08
/** Flag in the length of a block: its data is not compressed. */
const PLAIN = 0x80000000
const MOST_BYTES = 64 * 1_048_576

const unpack = (packed: Buffer): Buffer => {
  if (packed.readUInt32LE(0) !== 0x184d2204) throw new Error('no LZ4 frame')
  const flags = packed[4]!
  let at = (flags & CONTENT_SIZE) === 0 ? 7 : 15
  let out = Buffer.alloc(4 * packed.length)
  let end = 0
  const reserve = (bytes: number) => {
    if (end + bytes > MOST_BYTES) throw new Error(`LZ4: more than ${MOST_BYTES} bytes`)
    if (end + bytes > out.length) out = Buffer.concat([out], Math.max(2 * out.length, end + bytes))
  }
  const literals = (bytes: number) => {
    reserve(bytes)
    end += packed.copy(out, end, at, at + bytes)
    at += bytes
  }
  /** Four bits, and further bytes where all four are set. */
  const length = (first: number): number => {
    let all = first
    if (first === 15) for (let more = 255; more === 255; all += more) more = packed[at++]!
    return all
  }
  for (;;) {
    const bytes = packed.readUInt32LE(at)
    at += 4
    if (bytes === 0) return out.subarray(0, end)
    if (bytes >= PLAIN) literals(bytes - PLAIN)
    else {
      for (const blockEnd = at + bytes; ; ) {
        const token = packed[at++]!
        literals(length(token >> 4))
        if (at >= blockEnd) break
        const distance = packed.readUInt16LE(at)
        at += 2
        const match = length(token & 15) + 4
        if (distance === 0 || distance > end) throw new Error('LZ4: a copy of what is not there')
        reserve(match)
        // The match may overlap the bytes that it produces.
        for (const to = end + match; end < to; end++) out[end] = out[end - distance]!
      }
    }
    if ((flags & BLOCK_CHECKSUM) !== 0) at += 4
  }
}

CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: () => Promise.reject(new Error('only reading is here')),
  decompress: (packed: Buffer) => Promise.resolve(unpack(packed)),
})
