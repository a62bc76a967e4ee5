// The socket under a connection of the server: what is read of it, and its ends.
import type { Socket } from 'bun'
import { hasLeft } from './unread-bytes.ts'

export class ServerSocket {
  #socket: Socket<unknown> | null = null
  #paused = false

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
