// Unpacks blocks of LZ4, some words at a time: what `lz4-pack.ts` packed, into memory of the caller. Its gain is a row
// of `bench -- tricks` (unpacked).
// Source: lz4_Block_format.md.
import { GOES_ON, PLAIN, SHORTEST_MATCH, unpackLz4Block } from './lz4.ts'
import { BLOCK_BYTES, BLOCK_HEAD_BYTES } from './lz4-pack.ts'
import { Unpackable } from './output-buffer.ts'
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
/** A byte of a length, behind which another one comes. */
const MOST = 255

/** So far beyond a block, packed or not, may be read and written: nothing of use may stand there. */
const BEYOND_BYTES = 4 * WORD
/** In the memory of the module: what is packed, what it becomes, and where that ends. */
const CONTENT_AT = BLOCK_BYTES + BEYOND_BYTES
const END_CELL = CONTENT_AT + BLOCK_BYTES + BEYOND_BYTES
const PAGE_BYTES = 64 * 1024
const PAGES = Math.ceil((END_CELL + WORD) / PAGE_BYTES)

const [END, TO, LIMIT] = [0, 1, 2] as const
const [FROM, START, TOKEN, LENGTH, BYTE, SOURCE, STOP] = [3, 4, 5, 6, 7, 8, 9] as const

/** The length in LENGTH, of four bits, goes on in the bytes behind it. */
const wholeLength = (): number[] =>
  when(
    [...get(LENGTH), ...constant(GOES_ON), IS_EQUAL],
    loop(
      [...load8(get(FROM)), ...set(BYTE), ...forward(FROM, constant(1)), ...forward(LENGTH, get(BYTE))],
      leaveIf(0, [...get(BYTE), ...constant(MOST), IS_EQUAL]),
    ),
  )

/** From SOURCE to TO, up to STOP or a little beyond, in steps. */
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
/** Where the match begins so far before what it writes. */
const byFourWords = (): number[] => copied(4 * WORD, word(0), word(1), word(2), word(3))
/** A match that reaches into what it writes itself. */
const inBytes = (): number[] => copied(1, store8(get(TO), load8(get(SOURCE))))

/** It is no block: nothing ends at 0. In a block that is left so. */
const refuseIf = (condition: readonly number[]): number[] => when(condition, [...constant(0), ...set(TO)], leave(2))

/** STOP is so far behind TO, but not beyond LIMIT. */
const stopBehind = (bytes: readonly number[]): number[] => [
  ...[...get(TO), ...bytes, ADD, ...set(STOP)],
  ...refuseIf([...get(STOP), ...get(LIMIT), IS_MORE]),
]

/**
 * unpack(end, to, limit): literals and a match, again and again; the last literals have no match. Whatever stands in the block, nothing is written but what lies
 * between `to` and a little beyond `limit`, and no match begins before `to`. A length that goes on behind the end of the block is refused, once it ends: 255 for each
 * byte of the memory is less than 32 bits hold.
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
      [...get(TOKEN), ...constant(GOES_ON), AND, ...set(LENGTH), ...wholeLength()],
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

/** Unpacks one block at a time. */
export class Lz4Unpacker {
  private readonly memory: Buffer | null

  /** Null: without WebAssembly, which is slower. */
  constructor(private readonly exports: Exports | null) {
    this.memory = exports === null ? null : Buffer.from(exports.memory.buffer)
  }

  /**
   * The content of the block that stands with its length in `packed[from, end)`, written to `into[at, at + bytes)`. False when it is no block of so many bytes, of
   * which there are `BLOCK_BYTES` at most; nothing behind them is written.
   */
  unpack(packed: Buffer, from: number, end: number, into: Buffer, at: number, bytes: number): boolean {
    const start = from + BLOCK_HEAD_BYTES
    if (start > end || bytes > BLOCK_BYTES || at + bytes > into.length) return false
    const length = packed.readUInt32LE(from)
    const isPlain = length >= PLAIN
    if (start + (isPlain ? length - PLAIN : length) !== end) return false
    if (isPlain) return end - start === bytes && packed.copy(into, at, start, end) === bytes
    return length <= BLOCK_BYTES && this.blockTo(packed, start, end, into, at, bytes)
  }

  private blockTo(packed: Buffer, start: number, end: number, into: Buffer, at: number, bytes: number): boolean {
    const { memory, exports } = this
    try {
      if (exports === null || memory === null) {
        const content = unpackLz4Block(packed.subarray(start, end), bytes)
        into.set(content, at)
        return content.length === bytes
      }
      packed.copy(memory, 0, start, end)
      exports.unpack(end - start, CONTENT_AT, CONTENT_AT + bytes)
    } catch (error) {
      // It led out of the memory, or says of itself that it is none.
      if (error instanceof WebAssembly.RuntimeError || error instanceof Unpackable) return false
      throw error
    }
    if (memory.readUInt32LE(END_CELL) !== CONTENT_AT + bytes) return false
    memory.copy(into, at, CONTENT_AT, CONTENT_AT + bytes)
    return true
  }
}

const made = (): Lz4Unpacker =>
  new Lz4Unpacker(
    instantiated<Exports>(compiled(wasmModule(PAGES, { name: 'unpack', parameters: 3, locals: 7, code: unpack() }))),
  )

let unpacker: Lz4Unpacker | undefined

/** The thread's, made when it is first needed. */
export const lz4Unpacker = (): Lz4Unpacker => {
  unpacker ??= made()
  return unpacker
}
