// A connection of the own server, on a socket in memory.
import { type ConnectionOwner, ServerConnection } from '../../../src/lib/http-server/connection.ts'
import type { ServerRequest } from '../../../src/lib/http-server/request.ts'

/** A request that was read to its end; each character is a byte. */
export interface ReadRequest {
  readonly method: string
  readonly target: string
  readonly headers: readonly (readonly [string, string])[]
  readonly body: string
}

/** What a reader makes of the bytes of a connection. */
export interface Reading {
  readonly requests: readonly ReadRequest[]
  /** What follows them was refused. */
  readonly refused: boolean
  /** The last request asked for the end of the connection: nothing behind it is read. Of the own server alone. */
  readonly ended?: boolean
}

const EMPTY = { status: 200, head: '', body: '', closes: false }

class Owner implements ConnectionOwner {
  readonly requests: ReadRequest[] = []
  refused = false
  ended = false
  readonly idleMs = 60_000
  readonly headMs = 60_000

  async answer(request: ServerRequest): Promise<typeof EMPTY> {
    const { headers } = request
    this.ended = !headers.keepsAlive
    // As the server does before it handles a request.
    if (!/^(?:\/|https?:\/\/)/i.test(headers.target)) {
      this.refused = true
      return { ...EMPTY, closes: true }
    }
    try {
      const body = Buffer.from(await request.bytes()).toString('latin1')
      const { method, target } = headers
      this.requests.push({ method, target, headers: headers.entries(), body })
    } catch {
      this.refused = true
    }
    return EMPTY
  }

  malformed(): typeof EMPTY {
    this.refused = true
    return EMPTY
  }

  failed(error: unknown): typeof EMPTY {
    throw error
  }

  closed(): void {}
}

/** Requests begin in the order of their connections, some in each turn. */
const MOST_TURNS = 1_000
const turn = () => new Promise((resolve) => setImmediate(resolve))

export const readByOwn = async (pieces: readonly Buffer[]): Promise<Reading> => {
  const owner = new Owner()
  const connection = new ServerConnection(owner)
  const socket = {
    write: (bytes: Uint8Array, from = 0, length = bytes.length - from) => length,
    pause() {},
    resume() {},
    shutdown() {},
    end() {},
    terminate() {},
  }
  connection.opened(socket as never)
  for (const piece of pieces) {
    connection.data(Buffer.from(piece))
    await turn()
    for (let turns = 0; connection.share.isWaiting && turns < MOST_TURNS; turns++) await turn()
  }
  for (let turns = 0; turns < 3; turns++) await turn()
  connection.destroy()
  return { requests: owner.requests, refused: owner.refused, ended: owner.ended }
}
