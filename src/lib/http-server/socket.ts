// The socket of a server connection: reading, and closing.
import type { Socket } from 'bun'
import { hasLeft, hasUnread, takenFrom } from '../http/kernel-socket.ts'

export class ServerSocket {
  #socket: Socket<unknown> | null = null
  #paused = false
  #taken: number | null = null

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

  /** Whether the client has disconnected while reading was paused. */
  get isLeft(): boolean {
    return this.#paused && this.#socket !== null && hasLeft(this.#socket)
  }

  /** Whether bytes have arrived that the event loop has not read. */
  get hasUnread(): boolean {
    return this.#socket !== null && hasUnread(this.#socket)
  }

  /** Some of the output was just sent: progress counts from the next call of `hasTaken` on. */
  sent(): void {
    this.#taken = null
  }

  /** Whether the peer has acknowledged output since the last call. */
  hasTaken(): boolean {
    const before = this.#taken
    this.#taken = this.#socket === null ? 0 : takenFrom(this.#socket)
    return before !== null && this.#taken !== before
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
