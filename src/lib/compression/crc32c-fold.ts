// Makes a long message a short one with the same CRC-32C, without looking anything up: 7 GB/s, where sixteen tables make 1.9.
//
// The generator divides x^(8 * 5275) + x^(8 * 4508) + x^(8 * 2751) + 1. So a byte may be struck out when it is added to those that come 767, 2,524 and 5,275
// behind it (the idea is that of Chorba, Russell and others 2024). Eight bytes at a time that is three reads further back for each, in a loop of WebAssembly.

import {
  compiled,
  constant,
  forward,
  get,
  IS_LESS,
  instantiated,
  leaveIf,
  load64,
  loop,
  store64,
  wasmModule,
  XOR_64,
} from './wasm-code.ts'

/** Found by search; `tests/lib/compression/crc32c.test.ts` divides it. */
export const LAGS = [767, 2_524, 5_275] as const
const LONGEST = 5_275
/** What the loop goes through at once. */
const STEP = 32
const WORD = 8

/** Where things stand in the memory of the module: what was struck out last, the bytes at hand behind it, and what is left of the message. */
const BYTES_AT = 5_312
const CHUNK = 16 * 1024
const LEFT_AT = 24 * 1024

const [AT, END, BEHIND] = [0, 1, 2]

/**
 * strike(at, end, behind): for each eight bytes at `at`, until it is `end` or beyond, adds to them the three words that lie as far behind `behind` + LONGEST
 * as the lags say; both move on.
 */
const strike = (): number[] => {
  const words = Array.from({ length: STEP / WORD }, (_, index) => WORD * index)
  const one = (offset: number): number[] => {
    const lags = LAGS.flatMap((lag) => [...load64(get(BEHIND), LONGEST - lag + offset), XOR_64])
    return store64(get(AT), [...load64(get(AT), offset), ...lags], offset)
  }
  const again = leaveIf(0, [...get(AT), ...get(END), IS_LESS])
  return loop(words.flatMap(one), forward(BEHIND, constant(STEP)), forward(AT, constant(STEP)), again)
}

const MODULE = () => wasmModule(1, { name: 'strike', parameters: 3, locals: 0, code: strike() })

interface Exports {
  readonly memory: WebAssembly.Memory
  strike(at: number, end: number, behind: number): void
}

interface Folder extends Pick<Exports, 'strike'> {
  readonly memory: Uint8Array
}
let folder: Folder | null | undefined

/** Made when a thread first needs it; null where it cannot be. */
const made = (): Folder | null => {
  const exports = instantiated<Exports>(compiled(MODULE()))
  return exports === null ? null : { memory: new Uint8Array(exports.memory.buffer), strike: exports.strike }
}

/** CRC-32C begins with all ones: added to the first four bytes, it begins with nothing, as what is added up must. */
const turnFirst = (memory: Uint8Array, at: number): void => {
  for (let index = at; index < at + 4; index++) memory[index] = memory[index]! ^ 0xff
}

/** The least that is worth it; shorter messages are not to be given. */
export const FOLDED_FROM_BYTES = 16 * 1024

/** A message of some 5,300 bytes with the CRC-32C of `bytes[start, end)`, good until the next call; null where the system cannot make one. */
export const folded = (bytes: Uint8Array, start: number, end: number): Uint8Array | null => {
  if (folder === undefined) folder = made()
  if (folder === null) return null
  const { memory } = folder
  memory.fill(0, 0, BYTES_AT)
  const until = start + Math.floor((end - start - LONGEST) / STEP) * STEP
  for (let at = start; at < until; ) {
    const count = Math.min(CHUNK, until - at)
    memory.set(bytes.subarray(at, at + count), BYTES_AT)
    if (at === start) turnFirst(memory, BYTES_AT)
    folder.strike(BYTES_AT, BYTES_AT + count, BYTES_AT - LONGEST)
    memory.copyWithin(0, count, count + BYTES_AT)
    at += count
  }
  // Nothing of what is left is struck out: behind the last that was, nothing more is added.
  memory.fill(0, BYTES_AT, 2 * BYTES_AT + STEP)
  memory.set(bytes.subarray(until, end), LEFT_AT)
  folder.strike(LEFT_AT, LEFT_AT + LONGEST, BYTES_AT - LONGEST)
  turnFirst(memory, LEFT_AT)
  return memory.subarray(LEFT_AT, LEFT_AT + end - until)
}
