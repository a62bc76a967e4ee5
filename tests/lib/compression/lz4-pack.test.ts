import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { unpackLz4 } from '../../../src/lib/compression/lz4.ts'
import {
  BLOCK_BYTES,
  BLOCK_HEAD_BYTES,
  FRAME_END,
  FRAME_HEAD,
  type Lz4Block,
  lz4Block,
} from '../../../src/lib/compression/lz4-pack.ts'

const block = lz4Block()!

interface Part {
  readonly bytes: Uint8Array
  /** Which part before it is its model; -1 for none. */
  readonly model: number
}

/** The frame of one block. */
const frameOf = (into: Lz4Block, parts: readonly Part[]): { frame: Buffer; content: Buffer } => {
  const starts: number[] = []
  let end = 0
  for (const { bytes, model } of parts) {
    into.part(end, model < 0 ? -1 : starts[model]!)
    starts.push(end)
    into.content.set(bytes, end)
    end += bytes.length
  }
  const content = Buffer.from(into.content.subarray(0, end))
  const packed = Buffer.alloc(end + BLOCK_HEAD_BYTES, 0xaa)
  const packedEnd = into.pack(end, packed, 0)
  expect(packedEnd).toBeLessThanOrEqual(end + BLOCK_HEAD_BYTES)
  return { frame: Buffer.concat([FRAME_HEAD, packed.subarray(0, packedEnd), FRAME_END]), content }
}

/** Parts that are earlier ones with some bytes changed, put in or taken out, or nothing like any. */
const parts: fc.Arbitrary<Part[]> = fc
  .array(
    fc.record({
      fresh: fc.uint8Array({ maxLength: 400 }),
      from: fc.nat(),
      isLike: fc.boolean(),
      isMisled: fc.boolean(),
      edits: fc.array(fc.record({ at: fc.nat(), cut: fc.nat({ max: 9 }), put: fc.uint8Array({ maxLength: 9 }) }), {
        maxLength: 6,
      }),
    }),
    { minLength: 1, maxLength: 40 },
  )
  .map((wanted) => {
    const made: Part[] = []
    for (const { fresh, from, isLike, isMisled, edits } of wanted) {
      const model = made.length === 0 ? -1 : from % made.length
      let bytes = isLike && model >= 0 ? Buffer.from(made[model]!.bytes) : Buffer.from(fresh)
      for (const { at, cut, put } of edits) {
        const place = bytes.length === 0 ? 0 : at % bytes.length
        bytes = Buffer.concat([bytes.subarray(0, place), put, bytes.subarray(place + cut)])
      }
      made.push({ bytes, model: isLike || isMisled ? model : -1 })
    }
    return made
  })

/** The rules for the end of a block, which decoders of others rely on. */
const checkEnd = (frame: Buffer, contentBytes: number): void => {
  const length = frame.readUInt32LE(FRAME_HEAD.length)
  if (length >= 0x80000000) return
  const packed = frame.subarray(FRAME_HEAD.length + 4, FRAME_HEAD.length + 4 + length)
  let at = 0
  let out = 0
  const lengthOf = (first: number): number => {
    let all = first
    if (first === 15) for (let more = 255; more === 255; all += more) more = packed[at++]!
    return all
  }
  for (;;) {
    const token = packed[at++]!
    const literals = lengthOf(token >> 4)
    at += literals
    out += literals
    if (at >= packed.length) {
      expect(out).toBe(contentBytes)
      if (out > literals) expect(literals).toBeGreaterThanOrEqual(5)
      return
    }
    expect(packed.readUInt16LE(at)).toBeGreaterThan(0)
    at += 2
    expect(out).toBeLessThanOrEqual(contentBytes - 12)
    out += lengthOf(token & 15) + 4
  }
}

describe('a packed block', () => {
  test('holds what was written, whatever it was said to be like', () => {
    fc.assert(
      fc.property(parts, (made) => {
        const { frame, content } = frameOf(block, made)
        expect(Buffer.from(unpackLz4(frame, BLOCK_BYTES)).equals(content)).toBe(true)
        checkEnd(frame, content.length)
      }),
      { numRuns: 400 },
    )
  })

  test('of any length: literals and matches around the lengths that take another byte', () => {
    for (const literals of [0, 1, 14, 15, 16, 269, 270, 271, 525, 5_000]) {
      for (const match of [0, 7, 8, 9, 18, 19, 20, 272, 273, 274, 275, 528, 15_000]) {
        const model = Buffer.from(Array.from({ length: match + 20 }, (_, index) => (index * 31 + (index >> 3)) & 0xff))
        const other = Buffer.alloc(literals, 0xee)
        const part = Buffer.concat([other, model])
        const { frame, content } = frameOf(block, [
          { bytes: Buffer.concat([Buffer.alloc(literals, 0x11), model]), model: -1 },
          { bytes: part, model: 0 },
          { bytes: part, model: 1 },
        ])
        expect(Buffer.from(unpackLz4(frame, BLOCK_BYTES)).equals(content)).toBe(true)
        checkEnd(frame, content.length)
      }
    }
  })

  test('is small where parts differ in a few digits', () => {
    const text = (index: number) => Buffer.from(`{"id":"req_${index}","tenant":"${'t'.repeat(900)}","cost":${index}}`)
    const made = Array.from({ length: 60 }, (_, index) => ({ bytes: text(1_000 + index), model: index - 1 }))
    const { frame, content } = frameOf(block, made)
    expect(content.length).toBeGreaterThan(55_000)
    expect(frame.length).toBeLessThan(3_500)
    expect(Buffer.from(unpackLz4(frame, BLOCK_BYTES)).equals(content)).toBe(true)
  })

  test('stands as it is where packing gains nothing: a full block of noise, an empty one', () => {
    const noise = Buffer.from(Array.from({ length: BLOCK_BYTES }, (_, index) => (index * index * 7_919) >> 7))
    for (const bytes of [noise, noise.subarray(0, 5), Buffer.alloc(0)]) {
      const { frame, content } = frameOf(block, [{ bytes, model: -1 }])
      expect(frame.length).toBe(bytes.length + FRAME_HEAD.length + BLOCK_HEAD_BYTES + FRAME_END.length)
      expect(Buffer.from(unpackLz4(frame, BLOCK_BYTES)).equals(content)).toBe(true)
    }
  })

  test('a full block that is all matches but its first part', () => {
    const part = Buffer.from(Array.from({ length: 1_024 }, (_, index) => (index * 13) & 0xff))
    const made = Array.from({ length: 64 }, (_, index) => ({ bytes: part, model: index - 1 }))
    const { frame, content } = frameOf(block, made)
    expect(content.length).toBe(BLOCK_BYTES)
    expect(frame.length).toBeLessThan(1_400)
    expect(Buffer.from(unpackLz4(frame, BLOCK_BYTES)).equals(content)).toBe(true)
  })
})

test('without WebAssembly there is no packing', () => {
  const { WebAssembly: kept } = globalThis
  try {
    Object.assign(globalThis, { WebAssembly: undefined })
    expect(lz4Block()).toBeNull()
  } finally {
    Object.assign(globalThis, { WebAssembly: kept })
  }
})
