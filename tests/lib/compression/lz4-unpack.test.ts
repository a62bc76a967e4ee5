import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { BLOCK_BYTES, BLOCK_HEAD_BYTES, lz4Block } from '../../../src/lib/compression/lz4-pack.ts'
import { Lz4Unpacker, lz4Unpacker } from '../../../src/lib/compression/lz4-unpack.ts'

const block = lz4Block()!
const unpackers = [
  ['in WebAssembly', lz4Unpacker()],
  ['in JavaScript', new Lz4Unpacker(null)],
] as const
const UNTOUCHED = 0xaa

/** A block of parts that are each like the one before, with its length. */
const packed = (parts: readonly Uint8Array[]): { bytes: Buffer; content: Buffer } => {
  block.begin()
  let end = 0
  for (const [index, part] of parts.entries()) {
    block.part(end, index === 0 ? -1 : end - parts[index - 1]!.length)
    block.content.set(part, end)
    end += part.length
  }
  const content = Buffer.from(block.content.subarray(0, end))
  const into = Buffer.alloc(end + BLOCK_HEAD_BYTES)
  return { bytes: Buffer.from(into.subarray(0, block.pack(end, into, 0))), content }
}

/** What a block becomes, between bytes that are not to be touched. */
const unpacked = (unpacker: Lz4Unpacker, bytes: Buffer, length: number): Buffer | null => {
  const into = Buffer.alloc(16 + length + 16, UNTOUCHED)
  const around = Buffer.concat([Buffer.alloc(5, 0xff), bytes, Buffer.alloc(5, 0xff)])
  const isUnpacked = unpacker.unpack(
    { buffer: around, start: 5, end: 5 + bytes.length },
    { buffer: into, start: 16, end: 16 + length },
  )
  for (let at = 0; at < 16; at++) expect([into[at], into.at(-1 - at)]).toEqual([UNTOUCHED, UNTOUCHED])
  return isUnpacked ? Buffer.from(into.subarray(16, 16 + length)) : null
}

/** Runs of one byte and short periods too: matches that reach into what they write. */
const part = fc.oneof(
  fc.uint8Array({ maxLength: 600 }),
  fc
    .tuple(fc.uint8Array({ minLength: 1, maxLength: 9 }), fc.nat(900))
    .map(([period, length]) => Uint8Array.from({ length }, (_, at) => period[at % period.length]!)),
)
const parts = fc.array(part, { minLength: 1, maxLength: 30 })

/** By the format, by hand: literals, distance and length of a match, literals. */
const sequence = (first: string, distance: number, length: number, last: string): Buffer => {
  const more: number[] = []
  for (let rest = length - 4 - 15; rest >= 0; rest -= 255) more.push(Math.min(rest, 255))
  if (more.at(-1) === 255) more.push(0)
  const token = (first.length << 4) | Math.min(15, length - 4)
  const bytes = [token, ...Buffer.from(first), distance & 0xff, distance >> 8, ...more, last.length << 4]
  return Buffer.from([
    ...Buffer.from(Uint32Array.of(bytes.length + last.length).buffer),
    ...bytes,
    ...Buffer.from(last),
  ])
}

describe.each(unpackers)('a block %s', (_, unpacker) => {
  test('is what was packed, byte for byte, and nothing beside it is touched', () => {
    fc.assert(
      fc.property(parts, (made) => {
        const { bytes, content } = packed(made)
        expect(unpacked(unpacker, bytes, content.length)?.equals(content)).toBe(true)
      }),
      { numRuns: 300 },
    )
  })

  test('of the largest size comes back', () => {
    const half = Buffer.from(Array.from({ length: BLOCK_BYTES / 2 }, (_, at) => (at * at) & 0xff))
    const { bytes, content } = packed([half, half])
    expect(bytes.length).toBeLessThan(BLOCK_BYTES * 0.6)
    expect(unpacked(unpacker, bytes, BLOCK_BYTES)?.equals(content)).toBe(true)
    const noise = crypto.getRandomValues(new Uint8Array(BLOCK_BYTES))
    const plain = packed([noise])
    expect(plain.bytes.length).toBe(BLOCK_BYTES + BLOCK_HEAD_BYTES)
    expect(unpacked(unpacker, plain.bytes, BLOCK_BYTES)?.equals(plain.content)).toBe(true)
  })

  test('repeats what a match writes itself, at each distance, for each length', () => {
    for (let distance = 1; distance <= 12; distance++)
      for (const length of [4, 5, 7, 8, 9, 15, 18, 19, 20, 273, 274, 275, 528, 529]) {
        const first = 'abcdefghijkl'.slice(0, distance)
        const whole = first.repeat(length)
        const expected = `${first}${whole.slice(0, length)}end`
        const got = unpacked(unpacker, sequence(first, distance, length, 'end'), expected.length)
        expect(got?.toString()).toBe(expected)
      }
  })

  test('of another length than was said is none', () => {
    const { bytes, content } = packed([Buffer.from('a'.repeat(100)), Buffer.from('a'.repeat(100))])
    for (const length of [0, content.length - 1, content.length + 1, BLOCK_BYTES, BLOCK_BYTES + 1])
      expect(unpacked(unpacker, bytes, length)).toBeNull()
    for (let cut = 0; cut < bytes.length; cut++)
      expect(unpacked(unpacker, bytes.subarray(0, cut), content.length)).toBeNull()
    expect(unpacked(unpacker, Buffer.concat([bytes, Buffer.alloc(1)]), content.length)).toBeNull()
    expect(
      unpacker.unpack(
        { buffer: bytes, start: 0, end: bytes.length },
        { buffer: Buffer.alloc(content.length - 1), start: 0, end: content.length },
      ),
    ).toBe(false)
  })

  test('that leads out of what was written is none, and the next one is read as if it had not been', () => {
    const { bytes, content } = packed([Buffer.from('abcdefgh'.repeat(9)), Buffer.from('abcdefgh'.repeat(9))])
    for (const distance of [0, 5, 0x7fff, 0xffff])
      expect(unpacked(unpacker, sequence('abcd', distance, 500, 'end'), 507)).toBeNull()
    const beyond = Buffer.from([3, 0, 0, 0, 0xb0, 0x61, 0x62])
    expect(unpacked(unpacker, beyond, 11)).toBeNull()
    expect(unpacked(unpacker, sequence('a', 1, 250_000, 'end'), 250_004 % BLOCK_BYTES)).toBeNull()
    expect(unpacked(unpacker, bytes, content.length)?.equals(content)).toBe(true)
  })

  test('of any bytes at all is a block or none, in time, and touches nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.nat(BLOCK_BYTES), (noise, length) => {
        const bytes = Buffer.concat([Buffer.from(Uint32Array.of(noise.length).buffer), noise])
        unpacked(unpacker, bytes, length)
      }),
      { numRuns: 300 },
    )
  })
})

test('both are of one mind about any bytes: blocks, such with some of them changed, and none', () => {
  const edits = fc.array(fc.record({ at: fc.nat(), byte: fc.nat(255) }), { maxLength: 3 })
  let blocks = 0
  fc.assert(
    fc.property(parts, edits, fc.boolean(), (made, changes, isCut) => {
      const { bytes, content } = packed(made)
      fc.pre(content.length > 0)
      for (const { at, byte } of changes) bytes[4 + (at % (bytes.length - 4))] = byte
      const some = isCut ? bytes.subarray(0, bytes.length - 1) : bytes
      some.writeUInt32LE(some.length - 4)
      for (const length of [content.length, content.length - 1, content.length + 1]) {
        if (length < 0) continue
        const [one, other] = unpackers.map(([, unpacker]) => unpacked(unpacker, some, length)?.toString('hex'))
        if (one !== undefined) blocks++
        expect(other).toBe(one)
      }
    }),
    { numRuns: 1_000 },
  )
  expect(blocks).toBeGreaterThan(100)
})
