// One connection of the server: requests are read from it in order, the next one only after the response to the one
// before.
import type { Socket } from 'bun'
import type { IndexSetMember } from '../collections/index-set.ts'
import type { Answer, LiveBody } from './answer.ts'
import { FairShare, type SharingConnection } from './fair-share.ts'
import { type OutputWatch, ServerOutput } from './output.ts'
import { closesAfter, dropReply, idleTextOf, liveBodyOf, type Reply, sendReply } from './reply.ts'
import { ServerRequest, type Uplink } from './request.ts'
import { MalformedRequest, type RequestHead } from './request-head.ts'
import { RequestQueue } from './request-queue.ts'
import { ServerSocket } from './socket.ts'

/** Bytes of the next requests that are buffered during a response; more wait in the kernel. */
const PIPELINED_BYTES = 64 * 1024
/**
 * How long the connection is read after a response that came before the whole request, so that the client reads the
 * response.
 */
const LINGER_MS = 2_000
/**
 * A client that has ended its side may wait for its response, or may be gone: bytes are sent to it after this time, and
 * then at doubling intervals, since only the answer to them shows the difference.
 */
const FIRST_PROBE_MS = 400

/** The server of a connection: handles its requests and sets its times. */
export interface ConnectionOwner {
  answer(request: ServerRequest, connection: ServerConnection): Reply | Promise<Reply>
  malformed(error: MalformedRequest): Answer
  /** Reports a fault of the program. */
  failed(error: unknown): Answer
  readonly idleMs: number
  readonly headMs: number
  closed(connection: ServerConnection): void
}

export class ServerConnection implements SharingConnection, IndexSetMember, Uplink, OutputWatch {
  place = -1
  /** Monotonic milliseconds after which it is closed. */
  deadlineMs: number
  request: ServerRequest | null = null
  readonly output = new ServerOutput(this)
  readonly socket = new ServerSocket()
  readonly #queue = new RequestQueue()
  #live: LiveBody | null = null
  #idleText: string | null = null
  #reading = false
  #closes = false
  /** The response is handed over whole. */
  #answered = false
  /** The bytes of the request became malformed at some point. */
  #isMalformed = false
  /** The deadlines of the handler apply, not those of the connection. */
  #hasHandlerDeadlines = false
  #discards = false
  readonly share = new FairShare(this)
  #isEnding = false
  /** It has carried a request. */
  #hadRequest = false
  /** The client sends no more. */
  hasEnded = false
  /** Monotonic milliseconds of the next probe; null: the client has not ended its side. */
  #probeAtMs: number | null = null
  #probeEveryMs = FIRST_PROBE_MS

  constructor(private readonly owner: ConnectionOwner) {
    this.deadlineMs = performance.now() + owner.headMs
  }

  opened(socket: Socket<ServerConnection>): void {
    this.socket.opened(socket)
    this.output.opened(socket)
  }

  data(bytes: Buffer): void {
    if (this.#discards) return
    const { request } = this
    const isBody = request !== null && !request.ended
    const rest = isBody ? this.#receive(request, bytes, 0) : bytes
    if (isBody && !this.#hasHandlerDeadlines) this.#bodyCame(request)
    if (rest !== null) {
      this.#queue.append(rest)
      this.#readOn()
    }
    if (this.request === null) this.share.enqueue()
  }

  /** Begins the requests that have arrived, then reads on. */
  begin(): boolean {
    const isFree = this.request === null
    this.#continue()
    return isFree && this.request !== null
  }

  /**
   * The client has ended its side after the bytes that have arrived. Requests that are complete get their responses,
   * then the connection ends.
   */
  ended(): void {
    this.hasEnded = true
    const { request } = this
    if (request !== null && !request.ended) {
      // The rest of the body will not come.
      this.socket.end()
      this.closed()
    } else if (request === null && !this.share.isWaiting) this.#endBehindClient()
  }

  /** Finds out whether a client that has ended its side still reads; called at intervals. */
  lookAtPeer(nowMs: number): void {
    const state = this.socket.peer
    if (state === 'broken') {
      this.destroy()
      return
    }
    if ((state === 'open' && !this.hasEnded) || this.request === null || this.#answered) return
    this.#probeAtMs ??= nowMs + FIRST_PROBE_MS
    if (nowMs < this.#probeAtMs) return
    this.#probeEveryMs *= 2
    this.#probeAtMs = nowMs + this.#probeEveryMs
    if (!this.output.hasBegun) {
      // HTTP/1.0 has no interim responses.
      if (this.request.headers.isOne) this.output.sendInterim()
    } else if (this.#idleText !== null && !this.output.isBlocked) {
      this.output.piece(null, this.#idleText, null, this.request.headers.isOne, false)
    }
  }

  /** Ends the connection of a client that sends no more, once nothing is left to be answered. */
  #endBehindClient(): void {
    if (this.output.dead || this.output.isBlocked || this.share.isYielding) return
    this.#isEnding = true
    this.#discards = true
    this.#renew()
    this.socket.end()
  }

  closed(): void {
    if (this.output.dead) return
    this.output.close()
    this.#queue.clear()
    this.owner.closed(this)
    const { request } = this
    this.request = null
    request?.abort()
    this.#live?.disconnected()
    this.#live = null
  }

  /** Closes it at once. */
  destroy(): void {
    this.socket.terminate()
    this.closed()
  }

  /** Its deadline has passed. A response that is with the kernel only waits for the network: it is not taken back. */
  overdue(): void {
    if (this.share.isWaiting) this.share.begin()
    if (performance.now() < this.deadlineMs) return
    if (this.request !== null || this.output.isBlocked || this.#isEnding) this.destroy()
    // What arrived in time and was not read yet is a request: the process was busy, not the client silent.
    else if (this.#discards || this.#queue.hasBegun || !this.socket.hasUnread) {
      // A request that arrives now is not begun: its response could not be sent.
      this.#isEnding = true
      this.#discards = true
      this.#renew()
      this.socket.end()
    }
  }

  /** A fault of the program: the state of the connection is undefined. */
  fail(error: unknown): void {
    this.owner.failed(error)
    this.destroy()
  }

  readBody(request: ServerRequest): void {
    if (request !== this.request) return
    if (request.headers.expectsContinue) this.output.sendContinue()
    if (!this.#hasHandlerDeadlines) this.#renew()
    this.socket.resume()
  }

  pauseBody(): void {
    this.socket.pause()
  }

  resumeDeadlines(request: ServerRequest): void {
    if (request !== this.request) return
    this.#hasHandlerDeadlines = false
    if (this.output.isBlocked) this.#renew()
  }

  blocked(): void {
    this.socket.sent()
    if (!this.#hasHandlerDeadlines) this.#renew()
  }

  drained(): void {
    if (this.#answered) this.#finish()
    else if (this.request !== null && (this.#hasHandlerDeadlines || this.request.ended))
      this.deadlineMs = Number.POSITIVE_INFINITY
  }

  /** The handler has its own deadlines: until `resumeDeadlines` only the client ends the connection. */
  suspendDeadlines(): void {
    this.#hasHandlerDeadlines = true
  }

  /** Each piece of a body renews the idle deadline; after the last one the deadlines of the handler apply. */
  #bodyCame(request: ServerRequest): void {
    if (this.deadlineMs === Number.POSITIVE_INFINITY || this.#answered || this.output.isBlocked) return
    if (request.ended) this.deadlineMs = Number.POSITIVE_INFINITY
    else this.#renew()
  }

  #renew(): void {
    this.deadlineMs = performance.now() + this.owner.idleMs
  }

  /** Reads on while there is room for the next requests. */
  #readOn(): void {
    // The request decides how much of its body is read.
    if (this.#discards || this.output.dead || this.request?.ended === false) return
    if (this.share.isYielding || this.#queue.length > PIPELINED_BYTES) this.socket.pause()
    else this.socket.resume()
  }

  #continue(): void {
    this.#next()
    if (this.hasEnded && this.request === null) this.#endBehindClient()
    else this.#readOn()
  }

  /** Returns the bytes behind the request's body, or null. */
  #receive(request: ServerRequest, bytes: Buffer, from: number): Buffer | null {
    if (this.#isMalformed) return null
    try {
      const to = request.receive(bytes, from)
      return to === bytes.length ? null : bytes.subarray(to)
    } catch (error) {
      this.#isMalformed = true
      this.#closes = true
      request.fail(error)
      return null
    }
  }

  /** Reads requests until one is incomplete, or must wait. */
  #next(): void {
    if (this.#reading) return
    this.#reading = true
    while (this.request === null && !this.output.dead && !this.#discards && !this.share.isYielding) {
      const { hasBegun } = this.#queue
      let head: RequestHead | null
      try {
        head = this.#queue.head()
      } catch (error) {
        this.#refuse(error)
        break
      }
      if (head === null) {
        // The next head has begun: it has the same time as the first one, whose time runs from the opening of the
        // connection.
        if (!hasBegun && this.#queue.hasBegun && this.#hadRequest)
          this.deadlineMs = performance.now() + this.owner.headMs
        break
      }
      if (this.#queue.length > 0) this.share.countRequest()
      this.#begin(head)
    }
    this.#reading = false
  }

  /** The bytes are no request: nothing that follows is read. */
  #refuse(error: unknown): void {
    this.output.begin()
    this.#discards = true
    this.#closes = true
    this.#respond(error instanceof MalformedRequest ? this.owner.malformed(error) : this.owner.failed(error))
  }

  #begin(head: RequestHead): void {
    const request = new ServerRequest(head, this)
    this.request = request
    this.output.begin()
    this.#hadRequest = true
    this.#probeAtMs = null
    this.#probeEveryMs = FIRST_PROBE_MS
    this.#isMalformed = false
    this.#answered = false
    this.#hasHandlerDeadlines = false
    this.#closes = !head.keepsAlive
    this.deadlineMs = Number.POSITIVE_INFINITY
    if (!request.ended) {
      const { from } = this.#queue
      const bytes = this.#queue.take()
      if (bytes !== null) this.#queue.append(this.#receive(request, bytes, from))
    }
    let reply: Reply | Promise<Reply>
    try {
      reply = this.owner.answer(request, this)
    } catch (error) {
      this.#faulted(error)
      return
    }
    if (reply instanceof Promise) reply.then(this.#respond, this.#faulted)
    else this.#respond(reply)
  }

  /** Called once for each request, and for malformed bytes. */
  readonly #respond = (reply: Reply): void => {
    try {
      this.#reply(reply)
    } catch (error) {
      this.#faulted(error)
    }
  }

  #reply(reply: Reply): void {
    if (this.output.dead) {
      dropReply(reply)
      return
    }
    const { request } = this
    // Also when the rest of the request would be read as the next one.
    if (closesAfter(reply) || request === null || !request.ended) this.#closes = true
    const { isHead = false, isOne = true } = request?.headers ?? {}
    this.#live = liveBodyOf(reply)
    this.#idleText = idleTextOf(reply)
    const sent = sendReply(reply, this.output, { closes: this.#closes, isHead, isOne })
    if (sent === true) this.#end()
    else sent.then(this.#sent, this.#faulted)
  }

  readonly #sent = (isWhole: boolean): void => (isWhole ? this.#end() : this.destroy())

  /** A fault of the program. When the head has been sent already, the client receives a response without its end. */
  readonly #faulted = (error: unknown): void => {
    const answer = this.owner.failed(error)
    if (this.output.hasBegun || this.output.dead) this.destroy()
    else this.#reply(answer)
  }

  /** The whole response is handed over. */
  #end(): void {
    this.#live = null
    this.#hasHandlerDeadlines = false
    this.#answered = true
    if (this.output.isBlocked) this.#renew()
    else this.#finish()
  }

  /** The whole response is with the kernel. */
  #finish(): void {
    if (this.output.dead) return
    this.request = null
    this.#answered = false
    this.#renew()
    if (this.#closes) this.#linger()
    else this.#continue()
  }

  /** Closing with unread or later bytes would make the kernel drop the response, so they are read and dropped. */
  #linger(): void {
    this.#discards = true
    this.#queue.clear()
    if (this.hasEnded) {
      this.#endBehindClient()
      return
    }
    this.deadlineMs = performance.now() + LINGER_MS
    this.socket.shutdown()
    this.socket.resume()
  }
}
