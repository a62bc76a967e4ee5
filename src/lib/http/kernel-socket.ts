// Socket state that only the kernel has: bytes that arrived since the event loop's last read, the end behind unread
// bytes, and how many sent bytes the peer has acknowledged.
import { systemFunctions } from '../process/system-library.ts'

const MSG_PEEK = 2
const DARWIN = process.platform === 'darwin'
const MSG_DONTWAIT = DARWIN ? 0x80 : 0x40

// struct pollfd: descriptor, requested events, returned events.
const POLLERR = 0x8
const POLLHUP = 0x10
const POLLRDHUP = 0x2000

// struct tcp_info of Linux as 64-bit numbers: the index of tcpi_bytes_acked.
const IPPROTO_TCP = 6
const TCP_INFO = 11
const ACKED_AT = 15

type Poll = (descriptors: Int32Array, count: number, timeoutMs: number) => number | bigint
type Receive = (fd: number, into: Uint8Array, length: number, flags: number) => number | bigint
type Option = (fd: number, level: number, name: number, into: BigUint64Array, length: Int32Array) => number | bigint

interface System {
  readonly recv: Receive
  readonly poll: Poll
  readonly getsockopt: Option
}

const system = systemFunctions<System>({
  recv: { args: ['i32', 'ptr', 'usize', 'i32'], returns: 'i32' },
  poll: { args: ['ptr', 'usize', 'i32'], returns: 'i32' },
  getsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'ptr'], returns: 'i32' },
})
const into = new Uint8Array(1)
const polled = new Int32Array(2)
const info = new BigUint64Array(ACKED_AT + 1)
const infoLength = new Int32Array(1)

/**
 * True when a read would return bytes or the end. False as well where the system call is not available. Under TLS the
 * bytes need not be a response's: a session ticket counts too.
 */
export const hasUnread = (socket: object): boolean => {
  const fd = descriptorOf(socket)
  if (system === null || fd < 0) return false
  return Number(system.recv(fd, into, 1, MSG_PEEK | MSG_DONTWAIT)) >= 0
}

/** `ended`: the peer sends no more. `broken`: the connection is reset, or both sides have ended it. */
export type PeerState = 'open' | 'ended' | 'broken'

/** The state of the peer, also behind unread bytes. `open` as well where the system call is not available. */
export const peerState = (socket: object): PeerState => {
  const fd = descriptorOf(socket)
  if (system === null || fd < 0) return 'open'
  polled[0] = fd
  polled[1] = POLLRDHUP
  if (Number(system.poll(polled, 1, 0)) < 1) return 'open'
  const returned = polled[1] >> 16
  if ((returned & (POLLERR | POLLHUP)) !== 0) return 'broken'
  return (returned & POLLRDHUP) === 0 ? 'open' : 'ended'
}

/**
 * How many bytes the peer's kernel has acknowledged so far. While its buffer is full it acknowledges more only as the
 * peer reads. 0 where the system call is not available.
 */
export const acknowledgedBytes = (socket: object): number => {
  const fd = descriptorOf(socket)
  if (system === null || fd < 0 || DARWIN) return 0
  infoLength[0] = info.byteLength
  if (Number(system.getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, infoLength)) !== 0) return 0
  return infoLength[0] < info.byteLength ? 0 : Number(info[ACKED_AT])
}

const descriptorOf = (socket: object): number => {
  const { fd } = socket as { readonly fd?: unknown }
  return typeof fd === 'number' ? fd : -1
}
