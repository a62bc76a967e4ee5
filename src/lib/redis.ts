// A Redis client with deadlines and endless reconnection; Bun's has no deadline for a command and gives up after some
// failures.
import { RedisClient } from 'bun'
import { redisProblem, redisRefusal } from './redis-problem.ts'

/** No reply: there is no connection, or the deadline passed. Whether the command was carried out is unknown. */
export class RedisUnavailable extends Error {
  override readonly name = 'RedisUnavailable'
}

export interface Redis {
  /** Null while it replies in time, else the reason: one sentence without its address. */
  readonly problem: string | null
  /**
   * Sends a command. Rejects with RedisUnavailable at once while Redis is away, and after 50 ms without a reply; `late`
   * receives a reply that comes afterwards, and must not throw. An error reply of Redis rejects with that error.
   * Commands are carried out in the order in which they were sent.
   */
  call(command: string, args: string[], late?: (answer: unknown) => void): Promise<unknown>
  /** The bytes under a key; null: there is none. Deadline and errors as of `call`. */
  bytes(key: string): Promise<Uint8Array | null>
  /** Stores bytes that expire after so many whole milliseconds. Deadline and errors as of `call`. */
  storeBytes(key: string, bytes: Uint8Array, ttlMs: number): Promise<void>
  /** Sends a command without a deadline, as long as there is a connection, however slow. Rejects like `call`. */
  callWithoutDeadline(command: string, args: string[]): Promise<unknown>
  /** Resolves at the first connection, or after `timeoutMs`. */
  reached(timeoutMs: number): Promise<void>
  close(): void
}

const REPLY_MS = 50
const CONNECT_MS = 2_000
/** Interval of probes while Redis is away. */
const PROBE_MS = 100
/** Least time between two connections that only find out why there is none. */
const ASK_WHY_MS = 5_000
/** After this many probes without a reply the connection is replaced. */
const MAX_SILENT_PROBES = 10

const LATE = 'Redis did not answer in time'
const CLOSED = 'Redis cannot be reached'

/**
 * Connects in the background, and again whenever the connection is lost. `onConnect`: commands that begin every new
 * connection. `answerMs`: for tests.
 */
export const openRedis = (
  url: string,
  onConnect: readonly (readonly [string, ...string[]])[] = [],
  answerMs = REPLY_MS,
): Redis => new Supervised(url, onConnect, answerMs)

class Supervised implements Redis {
  problem: string | null = 'Redis is not connected yet'
  #client: RedisClient | null = null
  #timer: ReturnType<typeof setTimeout> | null = null
  #silentProbes = 0
  /** Why there is no connection, as it was found last. */
  #reason = CLOSED
  #askedWhyMs = Number.NEGATIVE_INFINITY
  #closed = false
  readonly #reached = Promise.withResolvers<void>()

  constructor(
    private readonly url: string,
    private readonly onConnect: readonly (readonly [string, ...string[]])[],
    private readonly answerMs: number,
  ) {
    void this.#connect()
  }

  call(command: string, args: string[], late?: (answer: unknown) => void): Promise<unknown> {
    return this.#timed<unknown>((client) => client.send(command, args), late)
  }

  bytes(key: string): Promise<Uint8Array | null> {
    return this.#timed((client) => client.getBuffer(key))
  }

  async storeBytes(key: string, bytes: Uint8Array, ttlMs: number): Promise<void> {
    await this.#timed((client) => client.set(key, bytes, 'PX', ttlMs))
  }

  async #timed<Value>(send: (client: RedisClient) => Promise<Value>, late?: (answer: Value) => void): Promise<Value> {
    const client = this.#client
    if (client === null || this.problem !== null) throw new RedisUnavailable(this.problem ?? CLOSED)
    const answer = send(client)
    const { promise, resolve, reject } = Promise.withResolvers<Value>()
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      reject(new RedisUnavailable(LATE))
      this.#suspect(client)
    }, this.answerMs)
    answer.then(
      (value) => {
        if (isLate) return late?.(value)
        clearTimeout(timer)
        resolve(value)
      },
      (error: unknown) => {
        clearTimeout(timer)
        reject(isRefusal(error) ? error : new RedisUnavailable(CLOSED))
      },
    )
    return promise
  }

  async callWithoutDeadline(command: string, args: string[]): Promise<unknown> {
    if (this.#client === null) throw new RedisUnavailable(this.problem ?? CLOSED)
    return this.#client.send(command, args)
  }

  async reached(timeoutMs: number): Promise<void> {
    await Promise.race([this.#reached.promise, Bun.sleep(timeoutMs)])
  }

  close(): void {
    this.#closed = true
    this.problem = CLOSED
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#client?.close()
    this.#client = null
  }

  async #connect(): Promise<void> {
    let made: RedisClient | null = null
    try {
      const client = new RedisClient(this.url, {
        connectionTimeout: CONNECT_MS,
        enableOfflineQueue: false,
        autoReconnect: false,
      })
      made = client
      client.onclose = () => {
        if (this.#client === client) this.#lost()
      }
      await inTime(client.connect(), CONNECT_MS)
      for (const [command, ...args] of this.onConnect) await inTime(client.send(command, args), CONNECT_MS)
      if (this.#closed) throw new RedisUnavailable(CLOSED)
      this.#client = client
      this.problem = null
      this.#reason = CLOSED
      this.#askedWhyMs = Number.NEGATIVE_INFINITY
      this.#reached.resolve()
    } catch (error) {
      made?.close()
      const refusal = isRefusal(error)
        ? (redisRefusal(error.message) ?? 'Redis refuses the connection: see its log')
        : null
      this.problem = refusal ?? this.#reason
      if (refusal === null) void this.#findReason()
      this.#later(() => this.#connect())
    }
  }

  /** In the background: the next attempt to connect does not wait for it. */
  async #findReason(): Promise<void> {
    if (performance.now() - this.#askedWhyMs < ASK_WHY_MS) return
    this.#askedWhyMs = performance.now()
    const found = await redisProblem(this.url).catch(() => null)
    if (this.#closed || this.#client !== null) return
    this.#reason = found ?? CLOSED
    this.problem = this.#reason
  }

  #lost(): void {
    this.#client = null
    this.problem = CLOSED
    this.#later(() => this.#connect())
  }

  /** A reply was too slow: no command is sent until Redis replies in time again. */
  #suspect(client: RedisClient): void {
    if (this.#client !== client || this.problem !== null) return
    this.problem = LATE
    this.#silentProbes = 0
    this.#later(() => this.#probe(client))
  }

  async #probe(client: RedisClient): Promise<void> {
    if (this.#client !== client) return
    try {
      await inTime(client.send('PING', []), this.answerMs)
      if (this.#client === client) this.problem = null
    } catch {
      // The connection was lost meanwhile, and another one is being opened.
      if (this.#client !== client) return
      this.#silentProbes += 1
      if (this.#silentProbes < MAX_SILENT_PROBES) return this.#later(() => this.#probe(client))
      this.#lost()
      client.close()
    }
  }

  #later(next: () => Promise<void>): void {
    if (this.#closed) return
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void next(), PROBE_MS)
  }
}

/** Whether Redis replied with an error, as opposed to no reply. */
export const isRefusal = (error: unknown): error is Error =>
  error instanceof Error && 'code' in error && error.code === 'ERR_REDIS_SERVER_ERROR'

const inTime = async <Value>(answer: Promise<Value>, ms: number): Promise<Value> => {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new RedisUnavailable(LATE)), ms)
  try {
    return await Promise.race([answer, promise])
  } finally {
    clearTimeout(timer)
  }
}
