// Requests as bytes, for what no HTTP client would send.

/** Everything that came back until the server closed the connection. */
export const exchange = async (port: number, request: string | Uint8Array): Promise<string> => {
  let received = ''
  const closed = Promise.withResolvers<string>()
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: {
      data(_, bytes) {
        received += bytes.toString('latin1')
      },
      close: () => closed.resolve(received),
      error: () => closed.resolve(received),
    },
  })
  socket.write(typeof request === 'string' ? Buffer.from(request, 'latin1') : request)
  const all = await closed.promise
  socket.end()
  return all
}

/** The status of each answer in what came back. */
export const statusesIn = (received: string): number[] =>
  [...received.matchAll(/^HTTP\/1\.[01] (\d{3})/gm)].map(([, status]) => Number(status))
