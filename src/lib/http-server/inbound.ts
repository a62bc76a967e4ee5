// The interface of an incoming request: the runtime's `Request` has it, and so do requests of the own server.

/** The part of headers that handlers read; the runtime's `Headers` have it. */
export interface HeaderReader {
  /** Values of one name are joined by a comma and a space. */
  get(name: string): string | null
  has(name: string): boolean
}

export interface InboundSignal {
  readonly aborted: boolean
  onabort: ((...event: never[]) => unknown) | null
}

export interface Inbound {
  readonly headers: HeaderReader
  /** Aborted when the client disconnects. */
  readonly signal: InboundSignal
  readonly body: ReadableStream<Uint8Array> | null
  /** The whole body. The caller has checked its announced length. */
  bytes(): Promise<Uint8Array>
  /** The whole body, as text if that is certain to be equivalent. */
  textOrBytes?(): Promise<string | Uint8Array>
  /** The whole body if it has arrived; else null. */
  bytesNow?(): Uint8Array | null
  /**
   * The same as text, if it is at most `mostBytes` long, valid UTF-8 and without a byte order mark; else null, and
   * `bytesNow` returns it.
   */
  textNow?(mostBytes: number): string | null
  /** Until `resumeDeadlines` the deadlines of the handler apply to a client that does not read. */
  suspendDeadlines?(): void
  /** From now on the idle deadline applies again to a client that neither reads nor sends. */
  resumeDeadlines?(): void
}
