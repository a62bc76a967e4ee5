// A way to a server on loopback that keeps every byte sent to it: what an eavesdropper could have read.

import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net'

export interface RecordedWay {
  readonly port: number
  /** Everything that clients sent, of all connections. */
  sent(): Buffer
  readonly connections: number
  stop(): void
}

/**
 * `to`: the server's port; null: no server, received bytes are kept and never answered. `cut`: reset after the first
 * bytes.
 */
export const startRecordedWay = async (to: number | null, cut = false): Promise<RecordedWay> => {
  const pieces: Buffer[] = []
  const open = new Set<Socket>()
  let connections = 0
  const keep = (socket: Socket) => {
    open.add(socket)
    socket.on('close', () => open.delete(socket))
    socket.on('error', () => {}) // a reset by either side is part of the test
  }
  const server = createServer((client) => {
    connections++
    keep(client)
    const upstream = to === null ? null : createConnection({ host: '127.0.0.1', port: to })
    client.on('data', (bytes: Buffer) => {
      pieces.push(bytes)
      if (cut) client.resetAndDestroy()
      else upstream?.write(bytes)
    })
    if (upstream === null) return
    keep(upstream)
    upstream.on('data', (bytes: Buffer) => client.write(bytes))
    upstream.on('end', () => client.end())
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    sent: () => Buffer.concat(pieces),
    get connections() {
      return connections
    },
    stop() {
      for (const socket of open) socket.destroy()
      server.close()
    },
  }
}
