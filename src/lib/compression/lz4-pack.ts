// Packs LZ4 blocks whose content mostly repeats what stands a known distance before it: records of one kind. The caller
// states where to compare, so the packer searches no matches, which is the main cost of packing. Why, and its gain:
// docs/decisions/0053-records-packed-for-kafka.md. Sources: lz4_Block_format.md, lz4_Frame_format.md.
import { CONTINUED, SHORTEST_MATCH, UNPACKED } from './lz4.ts'
import {
  ADD,
  block,
  compiled,
  constant,
  either,
  forward,
  get,
  IS_AT_LEAST,
  IS_LESS,
  IS_MORE,
  IS_ZERO,
  IS_ZERO_64,
  instantiated,
  LEADING_ZEROS_64,
  LOW_32,
  leave,
  leaveIf,
  load32,
  load64,
  loop,
  OR,
  OR_64,
  SHIFT_LEFT,
  SHIFT_RIGHT,
  SUBTRACT,
  set,
  store8,
  store16,
  store32,
  store64,
  TRAILING_ZEROS_64,
  wasmModule,
  when,
  XOR_64,
} from './wasm-code.ts'

/** Content of a block at most: the smallest size of the format, which every reader supports. */
export const BLOCK_BYTES = 64 * 1024
/**
 * Magic; version 1 with independent blocks and without checksums; blocks of 64 KiB; the checksum of these two bytes.
 */
export const FRAME_HEAD = Uint8Array.from([0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82])
/** A block of length 0. */
export const FRAME_END = new Uint8Array(4)
/** What a block takes beyond its content at most: content that packing does not shrink is stored unpacked. */
export const BLOCK_HEAD_BYTES = 4

/** A match must not begin in the last twelve bytes of a block; comparisons read eight bytes. */
const NO_MATCH_BYTES = 12
const WORD = 8
/** A byte of a length that is followed by another one. */
const MOST = 255

/**
 * The memory of the module: the content, the packer's two cells, and the packed bytes, which may be a little longer
 * than the content.
 */
const OUT_CELL = BLOCK_BYTES
const ANCHOR_CELL = OUT_CELL + 4
const PACKED_AT = OUT_CELL + 16
const PAGES = 3

const [START, END, DISTANCE, LIMIT, OUT, ANCHOR, TO, LITERALS, REST, TOKEN, TOKEN_AT, MODEL, DIFFERENCE] = [
  ...Array(13).keys(),
] as [number, number, number, number, number, number, number, number, number, number, number, number, number]

const plus = (local: number, more: number): number[] => [...get(local), ...constant(more), ADD]
const byteOut = (value: readonly number[]): number[] => [...store8(get(OUT), value), ...forward(OUT, constant(1))]

/** The length in REST beyond its first fifteen: bytes of 255, then the rest. */
const lengthOut = (): number[] => [
  ...[...get(REST), ...constant(CONTINUED), SUBTRACT, ...set(REST)],
  ...block(
    loop(
      leaveIf(1, [...get(REST), ...constant(MOST), IS_LESS]),
      byteOut(constant(MOST)),
      [...get(REST), ...constant(MOST), SUBTRACT, ...set(REST)],
      leave(0),
    ),
  ),
  ...byteOut(get(REST)),
]

/** The length in REST, as its half of the token and the bytes behind it. */
const lengthInto = (shift: number): number[] => {
  const part = (value: readonly number[]) => [
    ...[...get(TOKEN), ...value, ...constant(shift), SHIFT_LEFT, OR],
    ...set(TOKEN),
  ]
  const isLong = [...get(REST), ...constant(CONTINUED), IS_AT_LEAST]
  return either(isLong, [...part(constant(CONTINUED)), ...lengthOut()], part(get(REST)))
}

/** Eight bytes at a time; surplus bytes are overwritten by what follows. */
const literalsOut = (): number[] => [
  ...[...constant(0), ...set(REST)],
  ...block(
    loop(
      leaveIf(1, [...get(REST), ...get(LITERALS), IS_AT_LEAST]),
      store64([...get(OUT), ...get(REST), ADD], load64([...get(ANCHOR), ...get(REST), ADD])),
      forward(REST, constant(WORD)),
      leave(0),
    ),
  ),
  ...forward(OUT, get(LITERALS)),
]

/** The literals between ANCHOR and START, and the match from START to TO. */
const sequenceOut = (): number[] => [
  ...[...get(START), ...get(ANCHOR), SUBTRACT, ...set(LITERALS)],
  ...[...get(OUT), ...set(TOKEN_AT), ...forward(OUT, constant(1))],
  ...[...constant(0), ...set(TOKEN), ...get(LITERALS), ...set(REST)],
  ...lengthInto(4),
  ...literalsOut(),
  ...[...store16(get(OUT), get(DISTANCE)), ...forward(OUT, constant(2))],
  ...[...get(TO), ...get(START), SUBTRACT, ...constant(SHORTEST_MATCH), SUBTRACT, ...set(REST)],
  ...lengthInto(0),
  ...store8(get(TOKEN_AT), get(TOKEN)),
]

const differing = (word: number): number[] => [
  ...load64(get(TO), word * WORD),
  ...load64(get(MODEL), word * WORD),
  XOR_64,
]

/** Advances TO by steps of four words while they are equal. */
const bySteps = (): number[] =>
  block(
    loop(
      leaveIf(1, [...plus(TO, 4 * WORD), ...get(LIMIT), IS_MORE]),
      [...get(TO), ...get(DISTANCE), SUBTRACT, ...set(MODEL)],
      [...differing(0), ...differing(1), OR_64, ...differing(2), OR_64, ...differing(3), OR_64, ...set(DIFFERENCE)],
      when([...get(DIFFERENCE), IS_ZERO_64], forward(TO, constant(4 * WORD)), leave(1)),
    ),
  )

const atDistance = (local: number): number[] => load64([...get(local), ...get(DISTANCE), SUBTRACT])

/** Advances TO from START to the first difference, or to LIMIT. */
const matchTo = (): number[] => [
  ...[...plus(START, WORD), ...set(TO)],
  ...bySteps(),
  ...block(
    loop(
      leaveIf(1, [...plus(TO, WORD), ...get(LIMIT), IS_MORE]),
      [...load64(get(TO)), ...atDistance(TO), XOR_64, ...set(DIFFERENCE)],
      when([...get(DIFFERENCE), IS_ZERO_64], forward(TO, constant(WORD)), leave(1)),
      forward(TO, [...get(DIFFERENCE), TRAILING_ZEROS_64, LOW_32, ...constant(3), SHIFT_RIGHT]),
    ),
  ),
]

/** Advances START behind the last differing byte of the word, since no equal word can include it. */
const behindDifference = (): number[] => {
  const sameBytes = [...get(DIFFERENCE), LEADING_ZEROS_64, LOW_32, ...constant(3), SHIFT_RIGHT]
  return forward(START, [...constant(WORD), ...sameBytes, SUBTRACT])
}

/** like(start, end, distance, limit): packs up to `end` with matches at that distance, which may reach to `limit`. */
const like = (): number[] => [
  ...[...load32(constant(OUT_CELL)), ...set(OUT), ...load32(constant(ANCHOR_CELL)), ...set(ANCHOR)],
  ...when([...get(START), ...get(ANCHOR), IS_LESS], get(ANCHOR), set(START)),
  ...block(
    loop(
      leaveIf(1, [...get(START), ...get(END), IS_AT_LEAST]),
      leaveIf(1, [...plus(START, WORD), ...get(LIMIT), IS_MORE]),
      [...load64(get(START)), ...atDistance(START), XOR_64, ...set(DIFFERENCE)],
      when([...get(DIFFERENCE), IS_ZERO_64, IS_ZERO], behindDifference(), leave(1)),
      matchTo(),
      sequenceOut(),
      [...get(TO), ...set(ANCHOR), ...get(TO), ...set(START)],
      leave(0),
    ),
  ),
  ...[...store32(constant(OUT_CELL), get(OUT)), ...store32(constant(ANCHOR_CELL), get(ANCHOR))],
]

interface Exports {
  readonly memory: WebAssembly.Memory
  like(start: number, end: number, distance: number, limit: number): void
}

/** Packs one block at a time: its content is written into `content`, in parts, and packed from there. */
export class Lz4Block {
  readonly content: Buffer
  private readonly memory: Buffer
  private readonly view: DataView
  /** For each part: where it begins, and where its model begins; -1 for none. */
  private readonly starts: number[] = []
  private readonly models: number[] = []

  constructor(private readonly exports: Exports) {
    const { buffer } = exports.memory
    this.memory = Buffer.from(buffer)
    this.content = Buffer.from(buffer, 0, BLOCK_BYTES)
    this.view = new DataView(buffer)
  }

  /** Drops the parts of a block that was not packed. */
  begin(): void {
    this.starts.length = 0
    this.models.length = 0
  }

  /** Declares a part at `start`, behind the part before it, with a model at `model`, before it; -1: without a model. */
  part(start: number, model: number): void {
    this.starts.push(start)
    this.models.push(model)
  }

  /**
   * Writes the block of `content[0, end)` with its length to `into`; returns where it ends. Another block may begin
   * afterwards. The memory still holds earlier blocks, of other tenants too, but only `end` bytes of content and the
   * packed bytes made of them are copied out, and a model lies before its part in the same block.
   */
  pack(end: number, into: Buffer, at: number): number {
    const packedEnd = this.packed(end)
    const bytes = packedEnd - PACKED_AT
    if (bytes >= end) {
      into.writeUInt32LE(UNPACKED + end, at)
      return at + BLOCK_HEAD_BYTES + this.content.copy(into, at + BLOCK_HEAD_BYTES, 0, end)
    }
    into.writeUInt32LE(bytes, at)
    return at + BLOCK_HEAD_BYTES + this.memory.copy(into, at + BLOCK_HEAD_BYTES, PACKED_AT, packedEnd)
  }

  private packed(end: number): number {
    const { starts, models, view } = this
    view.setUint32(OUT_CELL, PACKED_AT, true)
    view.setUint32(ANCHOR_CELL, 0, true)
    const limit = end - NO_MATCH_BYTES
    for (let index = 0; index < starts.length; index++) {
      const start = starts[index]!
      const model = models[index]!
      if (model >= 0 && model < start && limit > 0)
        this.exports.like(start, starts[index + 1] ?? end, start - model, limit)
    }
    this.begin()
    return this.lastLiterals(view.getUint32(OUT_CELL, true), view.getUint32(ANCHOR_CELL, true), end)
  }

  /** The rest of the block, as literals without a match. */
  private lastLiterals(out: number, anchor: number, end: number): number {
    const { memory } = this
    let at = out
    let rest = end - anchor
    memory[at++] = Math.min(rest, CONTINUED) << 4
    if (rest >= CONTINUED) {
      for (rest -= CONTINUED; rest >= MOST; rest -= MOST) memory[at++] = MOST
      memory[at++] = rest
    }
    memory.copyWithin(at, anchor, end)
    return at + end - anchor
  }
}

/** Null without WebAssembly, or without room for its memory (192 KiB). */
export const lz4Block = (): Lz4Block | null => {
  const module = wasmModule(PAGES, { name: 'like', parameters: 4, locals: 8, locals64: 1, code: like() })
  const exports = instantiated<Exports>(compiled(module))
  return exports === null ? null : new Lz4Block(exports)
}
