// Unpacks LZ4 blocks, several words at a time, into the caller's memory: the reader of what `lz4-pack.ts` writes. Its
// gain is a row of `bench -- tricks` (unpacked). Source: lz4_Block_format.md.
import { CONTINUED, SHORTEST_MATCH, UNPACKED, unpackLz4Block } from './lz4.ts'
import { BLOCK_BYTES, BLOCK_HEAD_BYTES } from './lz4-pack.ts'
import { MalformedPacked } from './output-buffer.ts'
import {
  ADD,
  AND,
  block,
  compiled,
  constant,
  either,
  forward,
  get,
  IS_AT_LEAST,
  IS_EQUAL,
  IS_LESS,
  IS_MORE,
  instantiated,
  leave,
  leaveIf,
  load8,
  load16,
  load64,
  loop,
  SHIFT_RIGHT,
  SUBTRACT,
  set,
  store8,
  store32,
  store64,
  wasmModule,
  when,
} from './wasm-code.ts'

const WORD = 8
/** A byte of a length that is followed by another one. */
const MOST = 255

/** Bytes beyond a block, packed or not, that may be read and written; no data stands there. */
const BEYOND_BYTES = 4 * WORD
/** The memory of the module: the packed bytes, the content, and the cell of where the content ends. */
const CONTENT_AT = BLOCK_BYTES + BEYOND_BYTES
const END_CELL = CONTENT_AT + BLOCK_BYTES + BEYOND_BYTES
const PAGE_BYTES = 64 * 1024
const PAGES = Math.ceil((END_CELL + WORD) / PAGE_BYTES)

const [END, TO, LIMIT] = [0, 1, 2] as const
const [FROM, START, TOKEN, LENGTH, BYTE, SOURCE, STOP] = [3, 4, 5, 6, 7, 8, 9] as const

/** Reads the continuation of the four-bit length in LENGTH. */
const wholeLength = (): number[] =>
  when(
    [...get(LENGTH), ...constant(CONTINUED), IS_EQUAL],
    loop(
      [...load8(get(FROM)), ...set(BYTE), ...forward(FROM, constant(1)), ...forward(LENGTH, get(BYTE))],
      leaveIf(0, [...get(BYTE), ...constant(MOST), IS_EQUAL]),
    ),
  )

/** Copies from SOURCE to TO, up to STOP or a little beyond, in steps. */
const copied = (step: number, ...moved: readonly (readonly number[])[]): number[] =>
  block(
    loop(
      leaveIf(1, [...get(TO), ...get(STOP), IS_AT_LEAST]),
      moved.flat(),
      [...forward(TO, constant(step)), ...forward(SOURCE, constant(step))],
      leave(0),
    ),
  )
const word = (index: number): number[] => store64(get(TO), load64(get(SOURCE), index * WORD), index * WORD)
const inWords = (): number[] => copied(WORD, word(0))
/** For a match that begins at least four words before TO. */
const byFourWords = (): number[] => copied(4 * WORD, word(0), word(1), word(2), word(3))
/** For a match that overlaps what it writes. */
const inBytes = (): number[] => copied(1, store8(get(TO), load8(get(SOURCE))))

/** Refuses the block: sets TO to 0, where no content ends, and leaves the outer block. */
const refuseIf = (condition: readonly number[]): number[] => when(condition, [...constant(0), ...set(TO)], leave(2))

/** Sets STOP to `bytes` behind TO; refuses what is beyond LIMIT. */
const stopBehind = (bytes: readonly number[]): number[] => [
  ...[...get(TO), ...bytes, ADD, ...set(STOP)],
  ...refuseIf([...get(STOP), ...get(LIMIT), IS_MORE]),
]

/**
 * unpack(end, to, limit): sequences of literals and a match; the last literals have no match. For any input, only
 * memory from `to` to a little beyond `limit` is written, and no match begins before `to`. A length that continues
 * behind the end of the block is refused where it ends: the sum of 255 for each byte of the memory fits 32 bits.
 */
const unpack = (): number[] => [
  ...[...get(TO), ...set(START)],
  ...block(
    loop(
      leaveIf(1, [...get(FROM), ...get(END), IS_AT_LEAST]),
      [...load8(get(FROM)), ...set(TOKEN), ...forward(FROM, constant(1))],
      [...get(TOKEN), ...constant(4), SHIFT_RIGHT, ...set(LENGTH), ...wholeLength()],
      refuseIf([...get(FROM), ...get(LENGTH), ADD, ...get(END), IS_MORE]),
      stopBehind(get(LENGTH)),
      [...get(FROM), ...set(SOURCE), ...forward(FROM, get(LENGTH)), ...inWords(), ...get(STOP), ...set(TO)],
      leaveIf(1, [...get(FROM), ...get(END), IS_AT_LEAST]),
      [...get(TO), ...load16(get(FROM)), SUBTRACT, ...set(SOURCE), ...forward(FROM, constant(2))],
      refuseIf([...get(SOURCE), ...get(START), IS_LESS]),
      refuseIf([...get(SOURCE), ...get(TO), IS_AT_LEAST]),
      [...get(TOKEN), ...constant(CONTINUED), AND, ...set(LENGTH), ...wholeLength()],
      refuseIf([...get(FROM), ...get(END), IS_MORE]),
      stopBehind([...get(LENGTH), ...constant(SHORTEST_MATCH), ADD]),
      either(
        [...get(TO), ...get(SOURCE), SUBTRACT, ...constant(4 * WORD), IS_AT_LEAST],
        byFourWords(),
        either([...get(TO), ...get(SOURCE), SUBTRACT, ...constant(WORD), IS_AT_LEAST], inWords(), inBytes()),
      ),
      [...get(STOP), ...set(TO)],
      leave(0),
    ),
  ),
  ...store32(constant(END_CELL), get(TO)),
]

interface Exports {
  readonly memory: WebAssembly.Memory
  unpack(end: number, to: number, limit: number): void
}

/** The bytes of a buffer from `start` to before `end`. */
export interface ByteRange {
  readonly buffer: Buffer
  readonly start: number
  readonly end: number
}

/**
 * Unpacks one block at a time. Its memory holds earlier blocks, of other tenants too: `unpack` refuses matches before
 * the block's own content, and only content that was written for this block is copied out.
 */
export class Lz4Unpacker {
  private readonly memory: Buffer | null

  /** `exports` null: without WebAssembly, which is slower. */
  constructor(private readonly exports: Exports | null) {
    this.memory = exports === null ? null : Buffer.from(exports.memory.buffer)
  }

  /**
   * Unpacks the block that stands with its length in `packed` to `into`. False when it is no block of exactly as many
   * bytes as `into` has (at most `BLOCK_BYTES`); nothing outside that range is written.
   */
  unpack(packed: ByteRange, into: ByteRange): boolean {
    const start = packed.start + BLOCK_HEAD_BYTES
    const bytes = into.end - into.start
    if (start > packed.end || bytes > BLOCK_BYTES || into.end > into.buffer.length) return false
    const length = packed.buffer.readUInt32LE(packed.start)
    const isPlain = length >= UNPACKED
    if (start + (isPlain ? length - UNPACKED : length) !== packed.end) return false
    if (isPlain)
      return packed.end - start === bytes && packed.buffer.copy(into.buffer, into.start, start, packed.end) === bytes
    return length <= BLOCK_BYTES && this.blockTo({ buffer: packed.buffer, start, end: packed.end }, into)
  }

  private blockTo(packed: ByteRange, into: ByteRange): boolean {
    const { memory, exports } = this
    const bytes = into.end - into.start
    try {
      if (exports === null || memory === null) {
        const content = unpackLz4Block(packed.buffer.subarray(packed.start, packed.end), bytes)
        into.buffer.set(content, into.start)
        return content.length === bytes
      }
      packed.buffer.copy(memory, 0, packed.start, packed.end)
      exports.unpack(packed.end - packed.start, CONTENT_AT, CONTENT_AT + bytes)
    } catch (error) {
      // The block points out of the memory, or is malformed.
      if (error instanceof WebAssembly.RuntimeError || error instanceof MalformedPacked) return false
      throw error
    }
    if (memory.readUInt32LE(END_CELL) !== CONTENT_AT + bytes) return false
    memory.copy(into.buffer, into.start, CONTENT_AT, CONTENT_AT + bytes)
    return true
  }
}

const made = (): Lz4Unpacker =>
  new Lz4Unpacker(
    instantiated<Exports>(compiled(wasmModule(PAGES, { name: 'unpack', parameters: 3, locals: 7, code: unpack() }))),
  )

// Mutable: made on first use, since most processes and threads unpack nothing, and its memory takes 192 KiB.
let unpacker: Lz4Unpacker | undefined

/** The unpacker of this thread, made on first use. */
export const lz4Unpacker = (): Lz4Unpacker => {
  unpacker ??= made()
  return unpacker
}
