// The upstream of the benches, plain or over TLS, on raw sockets. It reads only the beginning of a request and sends
// prepared answers, so that a request of any size costs it a few microseconds.

/** Words at the beginning of a request's body that request something other than 20 chunks in four writes. */
export const ASKS = {
  /** 220 chunks, five to a write. */
  long: 'many chunks please',
  /** Each chunk by itself, a millisecond after the one before; with `long` 220 of them. */
  apart: 'one after another please',
  /** The first two chunks, then nothing until `tick` or the end of the connection. */
  held: 'hold on please',
  /** 20 chunks as OpenAI sends them: each with random letters of its own behind it, and the usage last. */
  vendor: 'as a vendor does please',
} as const

/** A whole answer with so many characters of text. */
export const answerOf = (chars: number): string =>
  JSON.stringify({
    id: 'chatcmpl-bench',
    object: 'chat.completion',
    created: 1_760_000_000,
    model: 'bench-model',
    choices: [{ index: 0, message: { role: 'assistant', content: 'x'.repeat(chars) }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 20, completion_tokens: 90, total_tokens: 110, prompt_tokens_details: { cached_tokens: 0 } },
  })
const ANSWER = answerOf(380)
const chunkOf = (delta: unknown, finish: string | null, more: object = {}) =>
  `data: ${JSON.stringify({ id: 'chatcmpl-bench', object: 'chat.completion.chunk', created: 1_760_000_000, model: 'bench-model', choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`
const framed = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

const JSON_ANSWER = Buffer.from(
  `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(ANSWER)}\r\n\r\n${ANSWER}`,
)
/** A peer requests it before it serves. */
const MODELS = JSON.stringify({
  object: 'list',
  data: [{ id: 'bench-model', object: 'model', created: 1_760_000_000, owned_by: 'bench' }],
})
const MODELS_ANSWER = Buffer.from(
  `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(MODELS)}\r\n\r\n${MODELS}`,
)
const STREAM_HEAD = Buffer.from(
  'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n',
)
// As every vendor begins.
const FIRST_CHUNK = framed(chunkOf({ role: 'assistant', content: '' }, null))
const chunksOf = (count: number) => [
  FIRST_CHUNK,
  ...Array.from({ length: count - 2 }, (_, i) => framed(chunkOf({ content: `word ${i} ` }, null))),
  framed(chunkOf({}, 'stop')),
]
/** Letters as `obfuscation` holds them, which make all chunks about as long; the same in each run. */
const lettersOf = (seed: number) =>
  Bun.hash(`letters ${seed}`)
    .toString(36)
    .slice(0, 3 + (seed % 9))
const vendorChunk = (delta: unknown, finish: string | null, seed: number, more: object = {}) =>
  framed(chunkOf(delta, finish, { usage: null, obfuscation: lettersOf(seed), ...more }))
const vendorChunks = (count: number) => [
  vendorChunk({ role: 'assistant', content: '' }, null, count),
  ...Array.from({ length: count - 3 }, (_, i) => vendorChunk({ content: `word ${i} ` }, null, i)),
  vendorChunk({}, 'stop', count + 1),
  vendorChunk({}, null, count + 2, {
    choices: [],
    usage: { prompt_tokens: 20, completion_tokens: 17, total_tokens: 37 },
  }),
]
export const LAST_CHUNK = Buffer.from('0\r\n\r\n')
const END = `${framed('data: [DONE]\n\n')}${LAST_CHUNK}`

/** How many chunks a write holds: one write each would make this process the bottleneck. */
const TOGETHER = 5
const writesOf = (chunks: readonly string[], together: number): readonly Buffer[] => {
  const writes: Buffer[] = []
  for (let at = 0; at < chunks.length; at += together)
    writes.push(Buffer.from(chunks.slice(at, at + together).join('') + (at + together >= chunks.length ? END : '')))
  return writes
}
export const CHUNKS = { usual: 20, long: 220 } as const
const WRITES = {
  usual: writesOf(chunksOf(CHUNKS.usual), TOGETHER),
  long: writesOf(chunksOf(CHUNKS.long), TOGETHER),
  usualApart: writesOf(chunksOf(CHUNKS.usual), 1),
  longApart: writesOf(chunksOf(CHUNKS.long), 1),
  vendor: writesOf(vendorChunks(CHUNKS.usual), TOGETHER),
}
const HELD_CHUNK = Buffer.from(framed(chunkOf({ content: 'word ' }, null)))
/** Contains a word: before the first one, a gateway may wait to decide whether to call another provider. */
const HELD_FIRST = Buffer.concat([STREAM_HEAD, Buffer.from(FIRST_CHUNK), HELD_CHUNK])

/**
 * Full length of the HTTP message at the start of the buffer; -1 while it is incomplete; Infinity for a chunked body.
 */
export const messageLength = (buffer: Buffer): number => {
  const headEnd = buffer.indexOf('\r\n\r\n')
  if (headEnd < 0) return -1
  const head = buffer.toString('latin1', 0, headEnd).toLowerCase()
  const at = head.indexOf('content-length:')
  if (at >= 0) return headEnd + 4 + Number.parseInt(head.slice(at + 15), 10)
  return head.includes('transfer-encoding: chunked') ? Number.POSITIVE_INFINITY : headEnd + 4
}

interface Sink {
  write(bytes: Buffer): number
}
interface Request {
  /** What has come, until its beginning is complete. */
  beginning: Buffer | null
  /** Bytes that are still to come of it. */
  missing: number
}

/** What is looked at of a request. */
const BEGINNING_BYTES = 4_096
const APART_MS = 1
/** Of `GET`. */
const LETTER_G = 0x47

export const startFakeUpstream = (tls?: Bun.TLSOptions) => {
  const held = new Set<Sink>()
  let inTurn: readonly Sink[] | null = null
  const apart = new Map<Sink, { readonly writes: readonly Buffer[]; next: number }>()
  let ticking: ReturnType<typeof setInterval> | null = null
  const writeApart = () => {
    for (const [socket, script] of apart) {
      socket.write(script.writes[script.next++]!)
      if (script.next === script.writes.length) apart.delete(socket)
    }
    if (apart.size > 0 || ticking === null) return
    clearInterval(ticking)
    ticking = null
  }
  let served = 0
  const answer = (socket: Sink, beginning: Buffer) => {
    served++
    if (beginning[0] === LETTER_G) {
      socket.write(MODELS_ANSWER)
      return
    }
    if (!beginning.includes('"stream":true')) {
      socket.write(JSON_ANSWER)
      return
    }
    if (beginning.includes(ASKS.held)) {
      held.add(socket)
      inTurn = null
      socket.write(HELD_FIRST)
      return
    }
    const long = beginning.includes(ASKS.long)
    socket.write(STREAM_HEAD)
    if (beginning.includes(ASKS.apart)) {
      apart.set(socket, { writes: long ? WRITES.longApart : WRITES.usualApart, next: 0 })
      ticking ??= setInterval(writeApart, APART_MS)
      return
    }
    const isVendor = beginning.includes(ASKS.vendor)
    for (const bytes of isVendor ? WRITES.vendor : long ? WRITES.long : WRITES.usual) socket.write(bytes)
  }
  const receive = (socket: Sink & { data: Request }, bytes: Buffer) => {
    const request = socket.data
    if (request.missing > 0) {
      request.missing -= bytes.length
      if (request.missing <= 0) done(socket, request.beginning!)
      return
    }
    const buffer = request.beginning === null ? bytes : Buffer.concat([request.beginning, bytes])
    const length = messageLength(buffer)
    if (length >= 0 && buffer.length >= length) {
      done(socket, buffer)
      return
    }
    request.beginning = Buffer.from(buffer)
    if (length >= 0 && buffer.length >= BEGINNING_BYTES) request.missing = length - buffer.length
  }
  const done = (socket: Sink & { data: Request }, beginning: Buffer) => {
    socket.data = { beginning: null, missing: 0 }
    answer(socket, beginning)
  }
  const forget = (socket: Sink) => {
    if (held.delete(socket)) inTurn = null
    apart.delete(socket)
  }
  const listener = Bun.listen<Request>({
    hostname: '127.0.0.1',
    port: 0,
    ...(tls === undefined ? {} : { tls }),
    socket: {
      open(socket) {
        socket.data = { beginning: null, missing: 0 }
      },
      data: receive,
      close: forget,
    },
  })
  return {
    port: listener.port,
    /** Requests so far. */
    served: () => served,
    /** One more chunk to so many of the streams that are held, in turn; answers where the next call goes on. */
    tick(from: number, count: number): number {
      inTurn ??= [...held]
      for (let i = 0; i < count; i++) inTurn[(from + i) % inTurn.length]?.write(HELD_CHUNK)
      return from + count
    },
    stop: () => listener.stop(true),
  }
}
