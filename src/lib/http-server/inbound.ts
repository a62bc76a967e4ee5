// What may be asked of a request that came in: the runtime's `Request` is such, and so are those of our own server.

/** The headers of a request, as much as is asked of them; the runtime's `Headers` are such. */
export interface HeaderReader {
  /** Several of one name are joined by a comma and a space. */
  get(name: string): string | null
  has(name: string): boolean
}

export interface InboundSignal {
  readonly aborted: boolean
  onabort: ((...event: never[]) => unknown) | null
}

export interface Inbound {
  readonly headers: HeaderReader
  /** Its client has left. */
  readonly signal: InboundSignal
  readonly body: ReadableStream<Uint8Array> | null
  /** All of the body. Whoever asks has looked at its announced length. */
  bytes(): Promise<Uint8Array>
  /** The same, as text where that is beyond doubt. */
  textOrBytes?(): Promise<string | Uint8Array>
  /** The same, where all of it has come already; else null. */
  bytesNow?(): Uint8Array | null
  /** The same as text, where that is beyond doubt (it is UTF-8 and has no byte order mark) and not more bytes than that. Else null, and `bytesNow` has it. */
  textNow?(mostBytes: number): string | null
  /** Until `letGo`, a client that reads nothing is left to the deadlines of the answer. */
  hold?(): void
  /** From now on a client that neither reads nor asks is let go. */
  letGo?(): void
}
