// A server on a thread of its own that sends an answer to every client before it has read a request. `sent` counts the
// clients that have it in their socket.
import { parentPort, workerData } from 'node:worker_threads'

/** What the test gives the thread. */
export interface EarlyServer {
  readonly answer: string
  readonly tls: { readonly cert: string; readonly key: string } | null
  readonly sent: Int32Array
}

const { answer, tls, sent } = workerData as EarlyServer
const send = (socket: { write(text: string): number }): void => {
  socket.write(answer)
  Atomics.add(sent, 0, 1)
  Atomics.notify(sent, 0)
}
const server = Bun.listen({
  hostname: '127.0.0.1',
  port: 0,
  ...(tls === null ? {} : { tls }),
  socket: {
    open: (socket) => {
      if (tls === null) send(socket)
    },
    handshake: (socket) => {
      if (tls !== null) send(socket)
    },
    data() {},
    error() {}, // a client that leaves is no concern of the server's
  },
})
parentPort!.postMessage(server.port)
