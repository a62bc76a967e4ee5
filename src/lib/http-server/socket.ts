// The socket under a connection of the server: what is read of it, and its ends.
import type { Socket } from 'bun'
import { hasLeft, hasUnread, takenFrom } from '../http/kernel-socket.ts'

export class ServerSocket {
  #socket: Socket<unknown> | null = null
  #paused = false
  #taken: number | null = null

  opened(socket: Socket<unknown>): void {
    this.#socket = socket
  }

  /** The other end. */
  get address(): string | null {
    return this.#socket?.remoteAddress ?? null
  }

  get localPort(): number {
    return this.#socket?.localPort ?? 0
  }

  /** Whether its client has left while nothing was read of it. */
  get isLeft(): boolean {
    return this.#paused && this.#socket !== null && hasLeft(this.#socket)
  }

  /** Whether something has come that the event loop has not seen. */
  get hasUnread(): boolean {
    return this.#socket !== null && hasUnread(this.#socket)
  }

  /** Some of what was just sent is on its way: what its client takes counts from the next look on. */
  sent(): void {
    this.#taken = null
  }

  /** Whether its client has taken some of what was sent since this was asked last. */
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

  /** Nothing more is sent; what is with the kernel is. */
  shutdown(): void {
    this.#socket?.shutdown()
  }

  /** Closes it; what is with the kernel is still sent. */
  end(): void {
    this.#socket?.end()
  }

  /** Closes it, and drops what was not sent. */
  terminate(): void {
    this.#socket?.terminate()
  }
}
