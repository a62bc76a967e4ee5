// One connection of the pooled client: opens it, carries one request at a time, returns it to the pool.
import type { Socket, SocketHandler } from 'bun'
import type { Deadlines } from '../event-loop/deadlines.ts'
import { hasUnread } from '../http/kernel-socket.ts'
import type { ConnectAttempt } from './connect-limiter.ts'
import { DialFailure, type DialLimits, type DialResponse } from './dial.ts'
import { type ConnectionControl, HttpExchange } from './exchange.ts'

export interface Pool {
  /** Deadlines of all exchanges that wait for response headers. */
  readonly deadlines: Deadlines
  /** Takes an idle connection, or closes it. */
  release(connection: HttpConnection, keepAliveS: number | null): void
  /** An idle connection has closed. */
  forget(connection: HttpConnection): void
}

/** A request as bytes: those from `start` to before `end`. */
export interface RequestBytes {
  readonly bytes: Buffer
  readonly start: number
  readonly end: number
}

export interface ConnectOptions {
  readonly hostname: string
  readonly port: number
  /** Null: no TLS. */
  readonly tls: Bun.TLSOptions | null
}

/** A new TLS connection whose peer still sends after so many iterations of the event loop is given up. */
const MOST_SETTLING_TURNS = 8
const nextIteration = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

export class HttpConnection implements ConnectionControl {
  idleUntilMs = 0
  #socket: Socket<HttpConnection> | null = null
  #exchange: HttpExchange | null = null
  #unsent: Buffer | null = null
  #settleConnect: ((failure: DialFailure | null) => void) | null = null
  #attempt: ConnectAttempt | null = null
  #dead = false

  constructor(
    readonly key: string,
    readonly secure: boolean,
    readonly pool: Pool,
  ) {}

  /**
   * Connects, with TLS up to the verified certificate. Rejects with DialFailure. `opening` receives the end of the
   * attempt.
   */
  open({ hostname, port, tls }: ConnectOptions, limits: DialLimits, attempt: ConnectAttempt): Promise<this> {
    this.#attempt = attempt
    return new Promise((resolve, reject) => {
      const onAbort = () => this.#connectSettled(new DialFailure('canceled', 'the request was canceled'))
      const timer = setTimeout(
        () => this.#connectSettled(new DialFailure('timeout_connect', `no connection within ${limits.connectMs} ms`)),
        limits.connectMs,
      )
      limits.signal.addEventListener('abort', onAbort)
      this.#settleConnect = (failure) => {
        clearTimeout(timer)
        limits.signal.removeEventListener('abort', onAbort)
        if (failure === null) return resolve(this)
        this.#attempt?.abandon()
        this.destroy()
        reject(failure)
      }
      const options = { hostname, port, data: this, socket: HANDLERS }
      Bun.connect<HttpConnection>(tls === null ? options : { ...options, tls }).catch((error) =>
        this.onConnectError(error),
      )
    })
  }

  /**
   * Waits until all bytes are read that came with the TLS handshake: they may be records of TLS, or bytes of a response
   * that nothing has requested, which close the connection.
   */
  async settled(): Promise<void> {
    if (!this.secure) return
    for (let turn = 0; turn < MOST_SETTLING_TURNS; turn++) {
      await nextIteration()
      if (this.#dead || this.#socket === null || !hasUnread(this.#socket)) return
    }
  }

  /**
   * Sends a request; the caller may reuse `request.bytes` afterwards. Null when the connection is closed or holds
   * unsolicited bytes: nothing was written then.
   */
  exchange(method: string, { bytes, start, end }: RequestBytes, limits: DialLimits): Promise<DialResponse> | null {
    const socket = this.#socket
    // Bytes that arrived before the request would be read as the response to it. The system call for it costs 1 % of a
    // request's CPU.
    if (this.#dead || socket === null || socket.readyState < 1 || hasUnread(socket)) {
      this.destroy()
      return null
    }
    const written = socket.write(bytes, start, end - start)
    if (written < 0) {
      this.destroy()
      return null
    }
    if (start + written < end) this.#unsent = Buffer.from(bytes.subarray(start + written, end))
    socket.ref()
    const exchange = new HttpExchange(method, this, limits, this.pool.deadlines)
    this.#exchange = exchange
    return exchange.answered
  }

  pause(): void {
    this.#socket?.pause()
  }

  resume(): void {
    this.#socket?.resume()
  }

  finished(reusable: boolean, keepAliveS: number | null): void {
    this.#exchange = null
    // The response came before all of the request was sent. The rest of the request would be read as the next one.
    if (!reusable || this.#unsent !== null || this.#dead) this.destroy()
    else {
      this.#socket?.unref()
      this.pool.release(this, keepAliveS)
    }
  }

  destroy(): void {
    if (this.#dead) return
    this.#dead = true
    this.#unsent = null
    this.pool.forget(this)
    this.#socket?.terminate()
  }

  onOpen(socket: Socket<HttpConnection>): void {
    this.#socket = socket
    this.#endAttempt()
    if (this.#dead) socket.terminate()
    else if (!this.secure) this.#connectSettled(null)
  }

  onHandshake(error: Error | null): void {
    const code = (error as { code?: unknown } | null)?.code ?? 'unknown'
    this.#connectSettled(error === null ? null : new DialFailure('tls', `the TLS handshake failed (${code})`, error))
  }

  onData(bytes: Buffer): void {
    // Unsolicited bytes: what follows them cannot be trusted.
    if (this.#exchange === null) this.destroy()
    else this.#exchange.receive(bytes)
  }

  onDrain(): void {
    if (this.#unsent === null || this.#socket === null) return
    const written = this.#socket.write(this.#unsent)
    if (written < 0) this.onClose(true)
    else this.#unsent = written >= this.#unsent.length ? null : this.#unsent.subarray(written)
  }

  /** `broken`: reset, or closed with an error. */
  onClose(broken: boolean): void {
    const exchange = this.#exchange
    this.#exchange = null
    this.#endAttempt()
    this.#connectSettled(
      new DialFailure(
        this.secure && this.#socket !== null ? 'tls' : 'connect',
        'the connection closed while it was being opened',
      ),
    )
    this.destroy()
    exchange?.closed(broken)
  }

  onConnectError(error: unknown): void {
    this.#endAttempt()
    this.#connectSettled(connectFailure(error))
  }

  /** The attempt has ended for the kernel. */
  #endAttempt(): void {
    const attempt = this.#attempt
    this.#attempt = null
    attempt?.end()
  }

  #connectSettled(failure: DialFailure | null): void {
    const settle = this.#settleConnect
    this.#settleConnect = null
    settle?.(failure)
  }
}

const connectFailure = (error: unknown): DialFailure => {
  const code = (error as { code?: unknown } | null)?.code
  return new DialFailure('connect', `the connection failed${typeof code === 'string' ? ` (${code})` : ''}`, error)
}

// Shared by all connections; `data` is the connection.
const HANDLERS: SocketHandler<HttpConnection> = {
  open: (socket) => socket.data.onOpen(socket),
  handshake: (socket, success, error) => socket.data.onHandshake(success ? null : (error ?? new Error('refused'))),
  data: (socket, bytes) => socket.data.onData(bytes),
  drain: (socket) => socket.data.onDrain(),
  close: (socket, error) => socket.data.onClose(error !== undefined && error !== null),
  error: (socket) => socket.data.onClose(true),
  connectError: (socket, error) => socket.data.onConnectError(error),
}
