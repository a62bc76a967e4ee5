// Functions of the system's C library that neither Bun nor Node offers.
import { dlopen, type FFIFunction } from 'bun:ffi'

const LIBRARIES =
  process.platform === 'darwin' ? ['libSystem.B.dylib'] : ['libc.so.6', `libc.musl-${process.arch}.so.1`, 'libc.so']

/**
 * All of the functions, or null: the system lacks one of them, or the runtime was started without FFI. `T` declares
 * their TypeScript types.
 */
export const systemFunctions = <T>(declarations: Readonly<Record<string, FFIFunction>>): T | null => {
  for (const library of LIBRARIES) {
    try {
      return dlopen(library, declarations).symbols as unknown as T
    } catch {
      // Not under this name, or not loadable.
    }
  }
  return null
}
