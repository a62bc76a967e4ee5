// One connection of the server: requests are read from it one after the other, and the next one only when the one before is answered. What the
// server gains by it stands in `server.ts` (12.1 us of CPU for a request instead of 15.7), what turns gain in `lib/event-loop/stages.ts` (14 to 17 % at 256 at once).
import type { Socket } from 'bun'
import type { Listed } from '../collections/index-set.ts'
import type { LiveBody } from './answer.ts'
import type { ConnectionOwner } from './connection-owner.ts'
import { FairTurns, type Turned } from './fair-share.ts'
import { type OutputWatch, ServerOutput } from './output.ts'
import { closesAfter, dropReply, liveBodyOf, type Reply, sendReply } from './reply.ts'
import { ServerRequest, type Uplink } from './request.ts'
import { MalformedRequest, type RequestHead } from './request-head.ts'
import { RequestQueue } from './request-queue.ts'
import { ServerSocket } from './socket.ts'

/** What comes of a next request while one is answered: more waits in the kernel. */
const AHEAD_BYTES = 64 * 1024
/** A client that was answered before it had sent all reads the answer meanwhile. */
const LINGER_MS = 2_000

export class ServerConnection implements Turned, Listed, Uplink, OutputWatch {
  place = -1
  /** Monotonic milliseconds after which it is closed. */
  deadlineMs: number
  request: ServerRequest | null = null
  readonly output = new ServerOutput(this)
  readonly socket = new ServerSocket()
  readonly #ahead = new RequestQueue()
  #live: LiveBody | null = null
  #reading = false
  #closes = false
  /** The answer is handed over whole. */
  #answered = false
  /** The request was no request from some byte on. */
  #lost = false
  /** While an answer is made its own deadlines hold. */
  #patient = false
  #discards = false
  readonly turns = new FairTurns(this)
  #isEnding = false
  /** It has carried a request. */
  #served = false

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
    if (isBody && !this.#patient) this.#bodyCame(request)
    if (rest !== null) {
      this.#ahead.keep(rest)
      this.#readOn()
    }
    if (this.request === null) this.turns.wait()
  }

  /** Its turn: begins what is there, then reads on. */
  begin(): boolean {
    const isFree = this.request === null
    this.#goOn()
    return isFree && this.request !== null
  }

  closed(): void {
    if (this.output.dead) return
    this.output.close()
    this.#ahead.clear()
    this.owner.closed(this)
    const { request } = this
    this.request = null
    request?.abort()
    this.#live?.left()
    this.#live = null
  }

  /** Ends it at once. */
  destroy(): void {
    this.socket.terminate()
    this.closed()
  }

  /** Its time is over. What is with the kernel only waits for the network: it is not taken back. */
  overdue(): void {
    if (this.turns.waits) this.turns.begin()
    if (performance.now() < this.deadlineMs) return
    if (this.request !== null || this.output.isBlocked || this.#isEnding) this.destroy()
    // What has come in time and was not read yet is a request: the process was busy, not its client silent.
    else if (this.#discards || this.#ahead.hasBegun || !this.socket.hasUnread) {
      // One that comes at this moment is not begun: nobody would get its answer.
      this.#isEnding = true
      this.#discards = true
      this.#renew()
      this.socket.end()
    }
  }

  /** A fault of ours: what state it left is not known. */
  broke(error: unknown): void {
    this.owner.failed(error)
    this.destroy()
  }

  wantBody(request: ServerRequest): void {
    if (request !== this.request) return
    if (request.headers.expectsContinue) this.output.continueOnce()
    if (!this.#patient) this.#renew()
    this.socket.resume()
  }

  pauseBody(): void {
    this.socket.pause()
  }

  letGo(request: ServerRequest): void {
    if (request !== this.request) return
    this.#patient = false
    if (this.output.isBlocked) this.#renew()
  }

  blocked(): void {
    this.socket.sent()
    if (!this.#patient) this.#renew()
  }

  drained(): void {
    if (this.#answered) this.#finish()
    else if (this.request !== null && (this.#patient || this.request.ended)) this.deadlineMs = Number.POSITIVE_INFINITY
  }

  /** It answers in its own time: nobody but the client ends it before it lets go. */
  hold(): void {
    this.#patient = true
  }

  /** Whoever asks for a body without end waits no longer for its next piece. */
  #bodyCame(request: ServerRequest): void {
    if (this.deadlineMs === Number.POSITIVE_INFINITY || this.#answered || this.output.isBlocked) return
    if (request.ended) this.deadlineMs = Number.POSITIVE_INFINITY
    else this.#renew()
  }

  #renew(): void {
    this.deadlineMs = performance.now() + this.owner.idleMs
  }

  /** Reads on while there is room for what comes ahead. */
  #readOn(): void {
    // Of a body, its request says how much is read.
    if (this.#discards || this.output.dead || this.request?.ended === false) return
    if (this.turns.rests || this.#ahead.length > AHEAD_BYTES) this.socket.pause()
    else this.socket.resume()
  }

  #goOn(): void {
    this.#next()
    this.#readOn()
  }

  /** Answers what does not belong to the request's body, or null. */
  #receive(request: ServerRequest, bytes: Buffer, from: number): Buffer | null {
    if (this.#lost) return null
    try {
      const to = request.receive(bytes, from)
      return to === bytes.length ? null : bytes.subarray(to)
    } catch (error) {
      this.#lost = true
      this.#closes = true
      request.fail(error)
      return null
    }
  }

  /** Reads requests until one is not there whole, or has to be waited for. */
  #next(): void {
    if (this.#reading) return
    this.#reading = true
    while (this.request === null && !this.output.dead && !this.#discards && !this.turns.rests) {
      const { hasBegun } = this.#ahead
      let head: RequestHead | null
      try {
        head = this.#ahead.head()
      } catch (error) {
        this.#refuse(error)
        break
      }
      if (head === null) {
        // A next head begins: it has as long as the first, whose time runs from the connection on.
        if (!hasBegun && this.#ahead.hasBegun && this.#served) this.deadlineMs = performance.now() + this.owner.headMs
        break
      }
      if (this.#ahead.length > 0) this.turns.took()
      this.#begin(head)
    }
    this.#reading = false
  }

  /** What came is no request: nothing that follows is read. */
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
    this.#served = true
    this.#lost = false
    this.#answered = false
    this.#patient = false
    this.#closes = !head.keepsAlive
    this.deadlineMs = Number.POSITIVE_INFINITY
    if (!request.ended) {
      const { from } = this.#ahead
      const bytes = this.#ahead.take()
      if (bytes !== null) this.#ahead.keep(this.#receive(request, bytes, from))
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

  /** Called once for each request, and for what is none. */
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
    // Also where the rest of the request would be read as the next one.
    if (closesAfter(reply) || request === null || !request.ended) this.#closes = true
    const { isHead = false, isOne = true } = request?.headers ?? {}
    this.#live = liveBodyOf(reply)
    const sent = sendReply(reply, this.output, { closes: this.#closes, isHead, isOne })
    if (sent === true) this.#end()
    else sent.then(this.#sent, this.#faulted)
  }

  readonly #sent = (isWhole: boolean): void => (isWhole ? this.#end() : this.destroy())

  /** What must not happen. Where the head is out already, the client sees an answer without its end. */
  readonly #faulted = (error: unknown): void => {
    const answer = this.owner.failed(error)
    if (this.output.hasBegun || this.output.dead) this.destroy()
    else this.#reply(answer)
  }

  /** All of the answer is handed over. */
  #end(): void {
    this.#live = null
    this.#patient = false
    this.#answered = true
    if (this.output.isBlocked) this.#renew()
    else this.#finish()
  }

  /** All of the answer is with the kernel. */
  #finish(): void {
    if (this.output.dead) return
    this.request = null
    this.#answered = false
    this.#renew()
    if (this.#closes) this.#linger()
    else this.#goOn()
  }

  /** Closing with bytes that are not read, or that come later, would make the kernel drop the answer: they are read, and nothing is made of them. */
  #linger(): void {
    this.#discards = true
    this.#ahead.clear()
    this.deadlineMs = performance.now() + LINGER_MS
    this.socket.shutdown()
    this.socket.resume()
  }
}
