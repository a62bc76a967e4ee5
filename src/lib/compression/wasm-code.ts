// An assembler for a small part of WebAssembly, for loops on 64-bit words, which JavaScript lacks. Source: WebAssembly
// Core 2.0, "Binary Format".

/** LEB128 of a number that is not negative. */
const number = (value: number): number[] =>
  value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...number(Math.floor(value / 128))]
/** Signed LEB128 of a 32-bit constant. */
const signed = (value: number): number[] =>
  value >= -64 && value < 64 ? [value & 0x7f] : [(value & 0x7f) | 0x80, ...signed(value >> 7)]
const bytesOf = (content: readonly number[]): number[] => [...number(content.length), ...content]
const section = (id: number, content: readonly number[]): number[] => [id, ...bytesOf(content)]
const text = (name: string): number[] => bytesOf([...new TextEncoder().encode(name)])

const INT32 = 0x7f
const NOTHING = 0x40
const END = 0x0b

export const get = (local: number): number[] => [0x20, local]
export const set = (local: number): number[] => [0x21, local]
export const constant = (value: number): number[] => [0x41, ...signed(value)]

/** Operators; their operands stand before them: `[...a, ...b, ADD]`. */
export const [ADD, SUBTRACT, OR, SHIFT_LEFT, SHIFT_RIGHT] = [0x6a, 0x6b, 0x72, 0x74, 0x76] as const
export const [IS_ZERO, IS_LESS, IS_MORE, IS_AT_LEAST] = [0x45, 0x49, 0x4b, 0x4f] as const
export const [OR_64, XOR_64, IS_ZERO_64] = [0x84, 0x85, 0x50] as const
export const [LEADING_ZEROS_64, TRAILING_ZEROS_64, LOW_32] = [0x79, 0x7a, 0xa7] as const

/** `local += by` */
export const forward = (local: number, by: readonly number[]): number[] => [...get(local), ...by, ADD, ...set(local)]

/** Loads and stores work at any alignment; `offset` is added to the address. */
export const load32 = (address: readonly number[], offset = 0): number[] => [...address, 0x28, 0, ...number(offset)]
export const load64 = (address: readonly number[], offset = 0): number[] => [...address, 0x29, 0, ...number(offset)]
export const store32 = (address: readonly number[], value: readonly number[]): number[] => [
  ...[...address, ...value],
  ...[0x36, 0, 0],
]
export const store64 = (address: readonly number[], value: readonly number[], offset = 0): number[] => [
  ...[...address, ...value],
  ...[0x37, 0, ...number(offset)],
]
/** Store the lowest 8 or 16 bits. */
export const store8 = (address: readonly number[], value: readonly number[]): number[] => [
  ...[...address, ...value],
  ...[0x3a, 0, 0],
]
export const store16 = (address: readonly number[], value: readonly number[]): number[] => [
  ...[...address, ...value],
  ...[0x3b, 0, 0],
]

/** Directly inside it `leave(0)` jumps behind it; one block deeper `leave(1)` does. */
export const block = (...code: readonly (readonly number[])[]): number[] => [0x02, NOTHING, ...code.flat(), END]
/** `leave(0)` repeats it; without a jump it ends. */
export const loop = (...code: readonly (readonly number[])[]): number[] => [0x03, NOTHING, ...code.flat(), END]
export const when = (condition: readonly number[], ...code: readonly (readonly number[])[]): number[] => [
  ...[...condition, 0x04, NOTHING],
  ...[...code.flat(), END],
]
export const either = (condition: readonly number[], yes: readonly number[], no: readonly number[]): number[] => [
  ...condition,
  0x04,
  NOTHING,
  ...yes,
  0x05,
  ...no,
  END,
]
export const leave = (depth: number): number[] => [0x0c, depth]
export const leaveIf = (depth: number, condition: readonly number[]): number[] => [...condition, 0x0d, depth]

export interface WasmFunction {
  readonly name: string
  /** Number of parameters, 32 bits each; the function returns nothing. */
  readonly parameters: number
  /** Number of 32-bit locals; the 64-bit ones follow them. */
  readonly locals: number
  readonly locals64?: number
  readonly code: readonly number[]
}

const INT64 = 0x7e

/** A module of one function and a memory of `pages` times 64 KiB, which never grows; both are exported. */
export const wasmModule = (pages: number, { name, parameters, locals, locals64 = 0, code }: WasmFunction) =>
  Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, ...bytesOf(Array.from({ length: parameters }, () => INT32)), 0]),
    ...section(3, [1, 0]),
    ...section(5, [1, 1, ...number(pages), ...number(pages)]),
    ...section(7, [2, ...text('memory'), 2, 0, ...text(name), 0, 0]),
    ...section(10, [1, ...bytesOf([2, ...number(locals), INT32, ...number(locals64), INT64, ...code, END])]),
  ])

/** Null without WebAssembly. */
export const compiled = (module: Uint8Array<ArrayBuffer>): WebAssembly.Module | null => {
  try {
    return new WebAssembly.Module(module)
  } catch {
    return null
  }
}

/** Null without a module, or without room for its memory. */
export const instantiated = <Exports>(module: WebAssembly.Module | null): Exports | null => {
  if (module === null) return null
  try {
    return new WebAssembly.Instance(module).exports as unknown as Exports
  } catch {
    return null
  }
}
