// The socket of a server connection: reading, and closing.
import type { Socket } from 'bun'
import { acknowledgedBytes, hasUnread, type PeerState, peerState } from '../http/kernel-socket.ts'

export class ServerSocket {
  #socket: Socket<unknown> | null = null
  #paused = false
  #acknowledged: number | null = null

  opened(socket: Socket<unknown>): void {
    this.#socket = socket
  }

  /** The peer's address. */
  get address(): string | null {
    return this.#socket?.remoteAddress ?? null
  }

  get localPort(): number {
    return this.#socket?.localPort ?? 0
  }

  /** What the kernel reports of the client; while reading is paused the event loop reports nothing. */
  get peer(): PeerState {
    return this.#socket === null ? 'open' : peerState(this.#socket)
  }

  get isPaused(): boolean {
    return this.#paused
  }

  /** Whether bytes have arrived that the event loop has not read. */
  get hasUnread(): boolean {
    return this.#socket !== null && hasUnread(this.#socket)
  }

  /** Some of the output was just sent: progress counts from the next call of `hasTaken` on. */
  sent(): void {
    this.#acknowledged = null
  }

  /** Whether the peer has acknowledged output since the last call. */
  hasProgress(): boolean {
    const before = this.#acknowledged
    this.#acknowledged = this.#socket === null ? 0 : acknowledgedBytes(this.#socket)
    return before !== null && this.#acknowledged !== before
  }

  pause(): void {
    if (this.#paused) return
    this.#paused = true
    this.#socket?.pause()
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#socket?.resume()
  }

  /** Sends no more; what is with the kernel is still sent. */
  shutdown(): void {
    this.#socket?.shutdown()
  }

  /** Closes it; what is with the kernel is still sent. */
  end(): void {
    this.#socket?.end()
  }

  /** Closes it and drops unsent output. */
  terminate(): void {
    this.#socket?.terminate()
  }
}
