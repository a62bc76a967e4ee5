// What waits in a socket that the event loop has not seen: bytes that came between its last look and now, and the end behind bytes that nobody reads.
import { dlopen } from 'bun:ffi'

const MSG_PEEK = 2
const DARWIN = process.platform === 'darwin'
const MSG_DONTWAIT = DARWIN ? 0x80 : 0x40

// struct pollfd: the descriptor, what is asked for, what is so.
const POLLERR = 0x8
const POLLHUP = 0x10
const POLLRDHUP = 0x2000

type Poll = (descriptors: Int32Array, count: number, timeoutMs: number) => number | bigint
type Receive = (fd: number, into: Uint8Array, length: number, flags: number) => number | bigint

const load = (): { recv: Receive; poll: Poll } | null => {
  for (const library of DARWIN ? ['libSystem.B.dylib'] : ['libc.so.6', `libc.musl-${process.arch}.so.1`, 'libc.so']) {
    try {
      const { symbols } = dlopen(library, {
        recv: { args: ['i32', 'ptr', 'usize', 'i32'], returns: 'i32' },
        poll: { args: ['ptr', 'usize', 'i32'], returns: 'i32' },
      })
      return symbols as unknown as { recv: Receive; poll: Poll }
    } catch {
      // Not by this name, or the runtime was started without it.
    }
  }
  return null
}

const system = load()
const into = new Uint8Array(1)
const polled = new Int32Array(2)

/** True when a read would give something, or the other end closed. False as well where the system cannot be asked. Under TLS the bytes need not be an answer's: a ticket counts too. */
export const hasUnread = (socket: object): boolean => {
  const fd = descriptorOf(socket)
  if (system === null || fd < 0) return false
  return Number(system.recv(fd, into, 1, MSG_PEEK | MSG_DONTWAIT)) >= 0
}

/** True when the other end has closed, also behind bytes that nobody has read. False as well where the system cannot be asked. */
export const hasLeft = (socket: object): boolean => {
  const fd = descriptorOf(socket)
  if (system === null || fd < 0) return false
  polled[0] = fd
  polled[1] = POLLRDHUP
  if (Number(system.poll(polled, 1, 0)) < 1) return false
  return ((polled[1] >> 16) & (POLLERR | POLLHUP | POLLRDHUP)) !== 0
}

const descriptorOf = (socket: object): number => {
  const { fd } = socket as { readonly fd?: unknown }
  return typeof fd === 'number' ? fd : -1
}
