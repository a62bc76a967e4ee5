// A server of raw bytes on loopback, for faults that a well-behaved HTTP server cannot show.
import type { Socket } from 'bun'

export interface RawConnection {
  /** Everything received on it so far. */
  received: string
  readonly number: number
  write(text: string | Uint8Array): void
  /** Ends politely (FIN). */
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

/** `answer` is called for every piece of bytes that comes in. `tls` makes it a TLS server. */
export const startRawServer = (
  answer: (connection: RawConnection, text: string) => void,
  tls?: { readonly cert: string; readonly key: string },
): RawServer => {
  const connections: RawConnection[] = []
  const gone: PromiseWithResolvers<void>[] = []
  const server = Bun.listen<RawConnection>({
    hostname: '127.0.0.1',
    port: 0,
    ...(tls === undefined ? {} : { tls }),
    socket: {
      open(socket: Socket<RawConnection>) {
        socket.data = {
          received: '',
          number: connections.length,
          write: (text) => void socket.write(text),
          end: () => void socket.end(),
          reset: () => socket.terminate(),
        }
        connections.push(socket.data)
        gone.push(Promise.withResolvers<void>())
      },
      data(socket, bytes) {
        const text = bytes.toString('latin1')
        socket.data.received += text
        answer(socket.data, text)
      },
      close(socket) {
        gone[socket.data.number]?.resolve()
      },
      error() {}, // a client that leaves is no concern of the server's
    },
  })
  return {
    port: server.port,
    origin: `http://127.0.0.1:${server.port}`,
    connections,
    closed: (number) => gone[number]!.promise,
    stop: () => server.stop(true),
  }
}
