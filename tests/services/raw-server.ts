// A server of raw bytes on loopback, for faults that a well-behaved HTTP server cannot show.
import type { Socket } from 'bun'

export interface RawConnection {
  /** Everything received on it so far. */
  received: string
  readonly number: number
  /** Bytes that the client does not take are kept and sent when it does. */
  write(text: string | Uint8Array): void
  /** Resolves when everything written is in the kernel's hands, or the client is gone. */
  drained(): Promise<void>
  readonly gone: boolean
  /** Resolves when the client has closed it. */
  readonly whenGone: Promise<void>
  /** Ends politely (FIN), after what was written. */
  end(): void
  /** Breaks it off (RST). */
  reset(): void
}

export interface RawServer {
  readonly port: number
  readonly origin: string
  readonly connections: RawConnection[]
  /** Resolves when the client closed that connection. */
  closed(number: number): Promise<void>
  stop(): void
}

class Connection implements RawConnection {
  received = ''
  gone = false
  readonly #closed = Promise.withResolvers<void>()
  #unsent: Uint8Array[] = []
  #ending = false
  #whenDrained: PromiseWithResolvers<void> | null = null

  constructor(
    readonly number: number,
    private readonly socket: Socket<Connection>,
  ) {}

  get whenGone(): Promise<void> {
    return this.#closed.promise
  }

  write(text: string | Uint8Array): void {
    if (this.gone) return
    this.#unsent.push(typeof text === 'string' ? Buffer.from(text) : text)
    this.flush()
  }

  flush(): void {
    for (let next = this.#unsent[0]; next !== undefined; next = this.#unsent[0]) {
      const written = this.socket.write(next)
      if (written < 0) {
        this.leave()
        return
      }
      if (written < next.length) {
        this.#unsent[0] = next.subarray(written)
        return
      }
      this.#unsent.shift()
    }
    this.#whenDrained?.resolve()
    this.#whenDrained = null
    if (this.#ending) this.socket.end()
  }

  drained(): Promise<void> {
    if (this.gone || this.#unsent.length === 0) return Promise.resolve()
    this.#whenDrained ??= Promise.withResolvers<void>()
    return this.#whenDrained.promise
  }

  end(): void {
    this.#ending = true
    this.flush()
  }

  reset(): void {
    this.socket.terminate()
  }

  leave(): void {
    this.gone = true
    this.#unsent = []
    this.#whenDrained?.resolve()
    this.#whenDrained = null
    this.#closed.resolve()
  }
}

/** `answer` is called for every piece of bytes that comes in. `tls` makes it a TLS server. */
export const startRawServer = (
  answer: (connection: RawConnection, text: string) => void,
  tls?: { readonly cert: string; readonly key: string },
): RawServer => {
  const connections: Connection[] = []
  const server = Bun.listen<Connection>({
    hostname: '127.0.0.1',
    port: 0,
    ...(tls === undefined ? {} : { tls }),
    socket: {
      open(socket: Socket<Connection>) {
        socket.data = new Connection(connections.length, socket)
        connections.push(socket.data)
      },
      data(socket, bytes) {
        const text = bytes.toString('latin1')
        socket.data.received += text
        answer(socket.data, text)
      },
      drain(socket) {
        socket.data.flush()
      },
      close(socket) {
        socket.data.leave()
      },
      error() {}, // a client that leaves is no concern of the server's
    },
  })
  return {
    port: server.port,
    origin: `http://127.0.0.1:${server.port}`,
    connections,
    closed: (number) => connections[number]!.whenGone,
    stop: () => server.stop(true),
  }
}
