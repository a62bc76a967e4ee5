// Whether bytes wait in a socket that the event loop has not seen yet: they came between its last look and now.
import { dlopen } from 'bun:ffi'

const MSG_PEEK = 2
const DARWIN = process.platform === 'darwin'
const MSG_DONTWAIT = DARWIN ? 0x80 : 0x40

type Receive = (fd: number, into: Uint8Array, length: number, flags: number) => number | bigint

const load = (): Receive | null => {
  for (const library of DARWIN ? ['libSystem.B.dylib'] : ['libc.so.6', `libc.musl-${process.arch}.so.1`, 'libc.so']) {
    try {
      return dlopen(library, { recv: { args: ['i32', 'ptr', 'usize', 'i32'], returns: 'i32' } }).symbols.recv as Receive
    } catch {
      // Not by this name, or the runtime was started without it.
    }
  }
  return null
}

const receive = load()
const into = new Uint8Array(1)

/** True when a read would give something, or the other end closed. False as well where the system cannot be asked. Under TLS the bytes need not be an answer's: a ticket counts too. */
export const hasUnread = (socket: object): boolean => {
  const fd = (socket as { readonly fd?: unknown }).fd
  if (receive === null || typeof fd !== 'number' || fd < 0) return false
  return Number(receive(fd, into, 1, MSG_PEEK | MSG_DONTWAIT)) >= 0
}
