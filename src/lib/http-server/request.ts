// A request on a connection of the own server: its head, its body as it arrives, and whether its client is still
// connected.
import { SHARED_BUFFER_BYTES, sharedBuffer } from '../event-loop/shared-buffer.ts'
import { bytesToText, viewOf } from '../text/bytes-to-text.ts'
import type { Inbound, InboundSignal } from './inbound.ts'
import { RequestChunks } from './request-chunks.ts'
import type { RequestHead } from './request-head.ts'

/** What a request needs of its connection. */
export interface Uplink {
  /** Reads the body; sends `100 Continue` first to a client that waits for it. */
  readBody(request: ServerRequest): void
  /** Stops reading: enough of the body is buffered. */
  pauseBody(): void
  resumeDeadlines(request: ServerRequest): void
}

/** Bytes of an unread body that are buffered. */
const UNREAD_BYTES = 64 * 1024
const NOTHING = Buffer.alloc(0)

export class ServerRequest implements Inbound, InboundSignal {
  aborted = false
  onabort: (() => unknown) | null = null
  /** The whole body has arrived. */
  ended: boolean
  /** The part of the body that has arrived and was not taken; nearly all bodies arrive in one piece. */
  #first: Buffer | null = null
  /** The range of `#first` that belongs to the body: a view is made only when bytes are requested. */
  #from = 0
  #to = 0
  #others: Buffer[] | null = null
  #size = 0
  /** Bytes left of the announced length. */
  #left: number
  readonly #chunks: RequestChunks | null
  #failure: unknown = null
  #stream: ReadableStream<Uint8Array> | null = null
  #wantsAll = false
  /** Settle the promise of the whole body, or of more of it. */
  #arrived: (() => void) | null = null
  #failed: ((error: unknown) => void) | null = null

  constructor(
    readonly headers: RequestHead,
    private readonly uplink: Uplink,
  ) {
    this.#left = headers.length ?? 0
    this.#chunks = headers.isChunked ? new RequestChunks() : null
    this.ended = this.#chunks === null && this.#left === 0
  }

  get signal(): InboundSignal {
    return this
  }

  get hasBody(): boolean {
    return this.#chunks !== null || (this.headers.length ?? 0) > 0
  }

  /** Takes the bytes of the body from `from` on; returns where the rest begins. Throws MalformedRequest. */
  receive(bytes: Buffer, from: number): number {
    let to: number
    if (this.#chunks !== null) to = from + this.#receiveChunks(this.#chunks, from === 0 ? bytes : bytes.subarray(from))
    else {
      to = Math.min(from + this.#left, bytes.length)
      this.#left -= to - from
      this.#take(bytes, from, to)
      this.ended = this.#left === 0
    }
    if (!this.#wantsAll && !this.ended && this.#size > UNREAD_BYTES) this.uplink.pauseBody()
    if (this.ended || !this.#wantsAll) this.#arrived?.()
    return to
  }

  #receiveChunks(chunks: RequestChunks, bytes: Buffer): number {
    const taken = chunks.push(bytes)
    // A view retains the whole read: little data among many other bytes is copied.
    const { dataLength } = chunks
    if (2 * dataLength < bytes.length) this.#take(Buffer.from(bytes.subarray(0, dataLength)), 0, dataLength)
    else this.#take(bytes, 0, dataLength)
    this.ended = chunks.done
    return taken
  }

  bytesNow(): Uint8Array | null {
    return this.ended ? this.#all() : null
  }

  textNow(mostBytes: number): string | null {
    const first = this.#first
    if (!this.ended || first === null || this.#others !== null || this.#size > mostBytes) return null
    const text = bytesToText(first, this.#from, this.#to)
    if (text === null) return null
    this.#drop()
    return text
  }

  bytes(): Promise<Uint8Array> {
    return this.#whole(() => this.#all())
  }

  textOrBytes(): Promise<string | Uint8Array> {
    return this.#whole(() => this.#allText())
  }

  #whole<Body>(taken: () => Body): Promise<Body> {
    if (this.#failure !== null) return Promise.reject(this.#failure)
    if (this.ended) return Promise.resolve(taken())
    this.#wantsAll = true
    const { promise, resolve, reject } = Promise.withResolvers<Body>()
    this.#failed = reject
    this.#arrived = () => resolve(taken())
    this.uplink.readBody(this)
    return promise
  }

  get body(): ReadableStream<Uint8Array> | null {
    if (this.#stream === null && this.hasBody)
      this.#stream = new ReadableStream<Uint8Array>(
        { pull: (controller) => this.#pull(controller) },
        { highWaterMark: 0 },
      )
    return this.#stream
  }

  resumeDeadlines(): void {
    this.uplink.resumeDeadlines(this)
  }

  /** The request has failed: its body is malformed, or its client has disconnected. */
  fail(failure: unknown): void {
    if (this.ended || this.#failure !== null) return
    this.#failure = failure
    this.#failed?.(failure)
  }

  abort(): void {
    this.aborted = true
    this.fail(new Error('the client left'))
    this.onabort?.()
  }

  #take(bytes: Buffer, from: number, to: number): void {
    if (from === to) return
    this.#size += to - from
    if (this.#first === null) {
      this.#first = bytes
      this.#from = from
      this.#to = to
    } else {
      this.#others ??= []
      this.#others.push(viewOf(bytes, from, to))
    }
  }

  #all(): Buffer {
    const first = this.#first
    const others = this.#others
    this.#drop()
    if (first === null) return NOTHING
    const view = viewOf(first, this.#from, this.#to)
    return others === null ? view : Buffer.concat([view, ...others])
  }

  /**
   * Pieces are joined in the shared buffer: large garbage lives until a full collection. The text, or a copy, is made
   * of the first `size` bytes only, which `#joined` has written, so no byte of another tenant is read.
   */
  #allText(): string | Uint8Array {
    const size = this.#size
    const isShared = this.#others !== null && size <= SHARED_BUFFER_BYTES
    const all = isShared ? this.#joined() : this.#all()
    const text = size === 0 ? null : bytesToText(all, 0, size)
    return text ?? (isShared ? Buffer.from(all.subarray(0, size)) : all)
  }

  /** Valid until the next use of the shared buffer. */
  #joined(): Buffer {
    const joined = sharedBuffer(this.#size)
    let at = this.#first!.copy(joined, 0, this.#from, this.#to)
    for (const piece of this.#others!) at += piece.copy(joined, at)
    this.#drop()
    return joined
  }

  #drop(): void {
    this.#first = null
    this.#others = null
    this.#size = 0
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    while (this.#size === 0 && !this.ended) {
      if (this.#failure !== null) throw this.#failure
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      this.#failed = reject
      this.#arrived = resolve
      this.uplink.readBody(this)
      await promise
    }
    if (this.#size > 0) controller.enqueue(this.#all())
    else controller.close()
  }
}
