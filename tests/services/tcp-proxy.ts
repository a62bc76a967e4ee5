// A TCP proxy on loopback that applies faults of networks and machines to a connection: refuse, swallow, delay,
// throttle, reset, close one half, lose answers.
import { createConnection, createServer, type Server, type Socket } from 'node:net'

export interface TcpProxy {
  readonly port: number
  /** While true, what the server sends never arrives; what the client sends does. */
  dropAnswers: boolean
  /**
   * While true, connections are accepted and no byte passes in either direction. Bytes that arrive meanwhile are
   * swallowed; earlier and later ones are not lost.
   */
  blackhole: boolean
  /** So much later everything arrives, in both directions and in order. */
  delayMs: number
  /** At most so many bytes pass each direction of each connection in a second. */
  bytesPerSecond: number
  /** A share (0 to 1) of the pieces that pass resets its connection instead. */
  resetShare: number
  /**
   * Called with each piece that a client sends: whether its connection is reset instead. Null: no connection is reset.
   */
  resetOn: ((piece: Buffer) => boolean) | null
  readonly connections: number
  /** Ends every connection at once. Returns how many. */
  cut(): number
  /** Breaks every connection off (RST). Returns how many. */
  reset(): number
  /** Sends FIN to every client and passes on what they send all the same. Returns how many. */
  halfClose(): number
  /** Ends every connection and stops listening: new connections are refused. */
  refuse(): Promise<void>
  /** Listens again, on the same port. */
  accept(): Promise<void>
  stop(): Promise<void>
}

interface Pair {
  readonly client: Socket
  readonly server: Socket
}

class FaultyProxy implements TcpProxy {
  port = 0
  to: number | string = 0
  dropAnswers = false
  blackhole = false
  delayMs = 0
  bytesPerSecond = Number.POSITIVE_INFINITY
  resetShare = 0
  resetOn: TcpProxy['resetOn'] = null
  readonly #pairs = new Set<Pair>()
  #listener: Server | null = null

  get connections(): number {
    return this.#pairs.size
  }

  #connected(client: Socket): void {
    const target = typeof this.to === 'string' ? { path: this.to } : { host: '127.0.0.1', port: this.to }
    const server = createConnection({ ...target, allowHalfOpen: true })
    const pair = { client, server }
    this.#pairs.add(pair)
    const end = () => {
      this.#pairs.delete(pair)
      client.destroy()
      server.destroy()
    }
    const [up, down] = [this.#lane(pair, server), this.#lane(pair, client)]
    client.on('data', (bytes: Buffer) => {
      if (this.resetOn?.(bytes) === true) breakOff(pair)
      else up(bytes)
    })
    server.on('data', (bytes: Buffer) => {
      if (!this.dropAnswers) down(bytes)
    })
    for (const socket of [client, server]) {
      socket.on('error', end)
      socket.on('end', end)
      socket.on('close', end)
    }
  }

  /** One direction: pieces arrive in order, each no earlier than the faults of its moment allow. */
  #lane(pair: Pair, to: Socket): (bytes: Buffer) => void {
    let freeMs = 0
    return (bytes) => {
      if (this.blackhole) return
      if (this.resetShare > 0 && Math.random() < this.resetShare) {
        breakOff(pair)
        return
      }
      const nowMs = performance.now()
      freeMs = Math.max(freeMs, nowMs + this.delayMs) + (bytes.length * 1_000) / this.bytesPerSecond
      if (freeMs <= nowMs) to.write(bytes)
      else setTimeout(() => to.destroyed || to.write(bytes), freeMs - nowMs)
    }
  }

  cut(): number {
    return this.#each(({ client, server }) => {
      client.destroy()
      server.destroy()
    })
  }

  reset(): number {
    return this.#each(breakOff)
  }

  halfClose(): number {
    return this.#each(({ client }) => client.end())
  }

  #each(act: (pair: Pair) => void): number {
    const pairs = [...this.#pairs]
    for (const pair of pairs) act(pair)
    return pairs.length
  }

  async refuse(): Promise<void> {
    const listener = this.#listener
    this.#listener = null
    this.cut()
    if (listener !== null) await new Promise((resolve) => listener.close(resolve))
  }

  async accept(): Promise<void> {
    const listener = createServer({ allowHalfOpen: true }, (client) => this.#connected(client))
    this.#listener = listener
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject)
      listener.listen(this.port, '127.0.0.1', resolve)
    })
    this.port = (listener.address() as { port: number }).port
  }

  stop(): Promise<void> {
    return this.refuse()
  }
}

const breakOff = ({ client, server }: Pair): void => {
  client.resetAndDestroy()
  server.destroy()
}

/**
 * Listens on a free port; `to`, a port of loopback or the path of a socket, may be set later, before the first
 * connection.
 */
export const startTcpProxy = async (): Promise<TcpProxy & { to: number | string }> => {
  const proxy = new FaultyProxy()
  await proxy.accept()
  return proxy
}
