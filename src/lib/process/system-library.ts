// Functions of the system's C library that neither Bun nor Node has.
import { dlopen, type FFIFunction } from 'bun:ffi'

const LIBRARIES =
  process.platform === 'darwin' ? ['libSystem.B.dylib'] : ['libc.so.6', `libc.musl-${process.arch}.so.1`, 'libc.so']

/** All of them, or null: the system has not every one, or the runtime was started without a way to call it. `T` says what the declarations mean in TypeScript. */
export const systemFunctions = <T>(declarations: Readonly<Record<string, FFIFunction>>): T | null => {
  for (const library of LIBRARIES) {
    try {
      return dlopen(library, declarations).symbols as unknown as T
    } catch {
      // Not by this name, or not to be loaded at all.
    }
  }
  return null
}
