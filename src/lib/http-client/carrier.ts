// The port between a response and the connection that carries it.

/** What an exchange needs of its connection. */
export interface Carrier {
  pause(): void
  resume(): void
  /** The response is complete. `reusable`: no surplus bytes came and the server keeps the connection open. */
  finished(reusable: boolean, keepAliveS: number | null): void
  destroy(): void
}
