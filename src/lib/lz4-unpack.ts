// Unpacks blocks of LZ4, some words at a time: what `lz4-pack.ts` packed, into memory of the caller. 0.24 us for a record of 2.9 KB, where JavaScript takes 0.87
// (`bench -- tricks`, unpacked). Source: lz4_Block_format.md.
import { GOES_ON, PLAIN, SHORTEST_MATCH, unpackLz4Block } from './lz4.ts'
import { BLOCK_BYTES, BLOCK_HEAD_BYTES } from './lz4-pack.ts'
import { Unpackable } from './unpacked-bytes.ts'
import {
  ADD,
  AND,
  block,
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

/** In the memory of the module: what is packed, and what it becomes. Each may be read or written some words too far. */
const CONTENT_AT = BLOCK_BYTES + 4 * WORD
const END_CELL = CONTENT_AT + BLOCK_BYTES + 4 * WORD
const PAGES = 3

const [FROM, END, TO, TOKEN, LENGTH, BYTE, SOURCE, STOP] = [...Array(8).keys()] as [
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
]

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

/**
 * unpack(from, end, to): literals and a match, again and again; the last literals have no match. Whatever stands in the block, nothing is read or written but the
 * memory of the module, which ends.
 */
const unpack = (): number[] => [
  ...block(
    loop(
      leaveIf(1, [...get(FROM), ...get(END), IS_AT_LEAST]),
      [...load8(get(FROM)), ...set(TOKEN), ...forward(FROM, constant(1))],
      [...get(TOKEN), ...constant(4), SHIFT_RIGHT, ...set(LENGTH), ...wholeLength()],
      refuseIf([...get(FROM), ...get(LENGTH), ADD, ...get(END), IS_MORE]),
      [...get(FROM), ...set(SOURCE), ...get(TO), ...get(LENGTH), ADD, ...set(STOP)],
      [...forward(FROM, get(LENGTH)), ...inWords(), ...get(STOP), ...set(TO)],
      leaveIf(1, [...get(FROM), ...get(END), IS_AT_LEAST]),
      [...get(TO), ...load16(get(FROM)), SUBTRACT, ...set(SOURCE), ...forward(FROM, constant(2))],
      refuseIf([...get(SOURCE), ...constant(CONTENT_AT), IS_LESS]),
      refuseIf([...get(SOURCE), ...get(TO), IS_AT_LEAST]),
      [...get(TOKEN), ...constant(GOES_ON), AND, ...set(LENGTH), ...wholeLength()],
      refuseIf([...get(FROM), ...get(END), IS_MORE]),
      [...get(TO), ...get(LENGTH), ADD, ...constant(SHORTEST_MATCH), ADD, ...set(STOP)],
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
  unpack(from: number, end: number, to: number): void
}

/** Unpacks one block at a time. */
export class Lz4Unpacker {
  private readonly memory: Buffer | null

  /** Null: without WebAssembly, four times slower. */
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
      exports.unpack(0, end - start, CONTENT_AT)
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

let unpacker: Lz4Unpacker | undefined

/** The thread's, made when it is first needed. */
export const lz4Unpacker = (): Lz4Unpacker => {
  unpacker ??= new Lz4Unpacker(
    instantiated<Exports>(wasmModule(PAGES, { name: 'unpack', parameters: 3, locals: 5, code: unpack() })),
  )
  return unpacker
}
