// A TCP proxy on loopback that can lose answers, delay what passes and cut connections: what a network does to a client and a broker.
import { createConnection, createServer, type Socket } from 'node:net'

export interface TcpProxy {
  readonly port: number
  /** While true, what the server sends never arrives; what the client sends does. */
  dropAnswers: boolean
  /** So much later everything arrives, in both directions. Set it before the first connection: a shorter one would overtake. */
  delayMs: number
  /** Ends every connection at once. Returns how many. */
  cut(): number
  stop(): Promise<void>
}

/** Listens on a free port; `to` may be set later, before the first connection. */
export const startTcpProxy = async (): Promise<TcpProxy & { to: number }> => {
  const pairs = new Set<{ client: Socket; server: Socket }>()
  const proxy = { port: 0, to: 0, dropAnswers: false, delayMs: 0, cut, stop }
  const listener = createServer((client) => {
    const server = createConnection({ host: '127.0.0.1', port: proxy.to })
    const pair = { client, server }
    pairs.add(pair)
    const end = () => {
      pairs.delete(pair)
      client.destroy()
      server.destroy()
    }
    const pass = (bytes: Buffer, to: Socket) => {
      if (proxy.delayMs === 0) to.write(bytes)
      else setTimeout(() => to.write(bytes), proxy.delayMs)
    }
    client.on('data', (bytes: Buffer) => pass(bytes, server))
    server.on('data', (bytes: Buffer) => {
      if (!proxy.dropAnswers) pass(bytes, client)
    })
    for (const socket of [client, server]) {
      socket.on('error', end)
      socket.on('close', end)
    }
  })
  function cut(): number {
    const count = pairs.size
    for (const { client, server } of [...pairs]) {
      client.destroy()
      server.destroy()
    }
    return count
  }
  async function stop(): Promise<void> {
    cut()
    await new Promise((resolve) => listener.close(resolve))
  }
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  proxy.port = (listener.address() as { port: number }).port
  return proxy
}
