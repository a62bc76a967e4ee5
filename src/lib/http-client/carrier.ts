// What the client of upstreams has its answers from.

/** What an exchange asks of the connection under it. */
export interface Carrier {
  pause(): void
  resume(): void
  /** The answer is complete. `reusable`: not a byte too many came and the server keeps the connection. */
  finished(reusable: boolean, keepAliveS: number | null): void
  destroy(): void
}
