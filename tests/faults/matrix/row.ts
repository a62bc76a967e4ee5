// A row of the matrix: a fault, and what comes of it. The table of errors (docs/behaviour.md: "Errors") is written out
// here once more, by hand: the matrix must not believe the gateway's own.
import type { FaultAnswer, FaultRequest } from './fault-server.ts'

/** Code -> HTTP status, retryable, fallback-eligible. */
export const TABLE = {
  invalid_request: [400, false, false],
  context_length_exceeded: [400, false, false],
  authentication_error: [401, false, false],
  permission_error: [403, false, false],
  not_found: [404, false, false],
  content_filtered: [400, false, false],
  rate_limited: [429, true, true],
  quota_exceeded: [402, false, true],
  timeout: [504, true, true],
  upstream_error: [502, true, true],
} as const

export type Code = keyof typeof TABLE

export interface Failing {
  readonly code: Code
  /** `before` the first byte, or `after` it: then an error frame ends a stream that began with 200. */
  readonly when: 'before' | 'after'
  readonly upstreamStatus?: number
  /** Of a 429; null: none may be sent. */
  readonly retryAfterS?: number | null
}
/** The client notices nothing. */
export type Expected = 'ok' | Failing

export const before = (code: Code, more: Partial<Failing> = {}): Failing => ({ code, when: 'before', ...more })
export const after = (code: Code): Failing => ({ code, when: 'after' })

export interface Row {
  readonly name: string
  /** Where the provider is instead of a server of the row's own. */
  readonly baseUrl?: string
  /** `cert`: TLS with a certificate of an untrusted authority. `https`: called with TLS, answered without. */
  readonly tls?: 'cert' | 'https'
  readonly kind?: string
  /** Of the provider: what bounds the wait for an answer that is no stream. */
  readonly timeoutMs?: number
  /** Named in the request; `short`: a total deadline of 3 s. */
  readonly policy?: 'short'
  readonly answer?: FaultAnswer
  readonly json: Expected
  readonly stream: Expected
  /** In the short selection that `npm test` runs. */
  readonly short?: true
}

export const TEXT = 'Grüße, 世界 🌍'

const CHUNK = { id: 'c1', object: 'chat.completion.chunk', created: 1_760_000_000, model: 'm' }
export const sse = (value: unknown) => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`
export const delta = (part: unknown, finish: string | null = null) =>
  sse({ ...CHUNK, choices: [{ index: 0, delta: part, finish_reason: finish }] })
export const ROLE = delta({ role: 'assistant', content: '' })
export const WORD = delta({ content: TEXT })
export const FINISH = delta({}, 'stop')
export const DONE = sse('[DONE]')

export const ANSWER = JSON.stringify({
  id: 'c1',
  object: 'chat.completion',
  created: 1_760_000_000,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: TEXT }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
})

export const SSE_TYPE = 'Content-Type: text/event-stream\r\n'
export const JSON_TYPE = 'Content-Type: application/json\r\n'

/** A whole answer that is no stream. */
export const send = (request: FaultRequest, body: string | Uint8Array, status = '200 OK', headers = JSON_TYPE) => {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  request.connection.write(`HTTP/1.1 ${status}\r\n${headers}Content-Length: ${bytes.length}\r\n\r\n`)
  request.connection.write(bytes)
}

/** The beginning of a stream: head and these frames, chunk by chunk. */
export const open = (request: FaultRequest, ...frames: string[]) => {
  request.head200(SSE_TYPE)
  for (const frame of frames) request.chunk(frame)
}

/** Lets what was written leave before the connection dies. */
export const soon = async (act: () => void) => {
  await Bun.sleep(30)
  act()
}

/** A stream whose first token is with the client before the rest follows. */
export const openThen =
  (...rest: string[]) =>
  async (request: FaultRequest) => {
    open(request, ROLE, WORD)
    await Bun.sleep(60)
    for (const frame of rest) request.chunk(frame)
    request.last()
  }

/** Writes the same again and again until the client is gone. */
export const forever = async ({ connection }: FaultRequest, write: () => void, everyMs = 0) => {
  while (!connection.gone) {
    write()
    await connection.drained()
    await Bun.sleep(everyMs)
  }
}

export const MB = 1024 * 1024

/** A row whose stream is written by `stream` and whose JSON by `json`. */
export const row = (
  name: string,
  [jsonExpected, json]: readonly [Row['json'], (request: FaultRequest) => void | Promise<void>],
  [streamExpected, stream]: readonly [Row['stream'], (request: FaultRequest) => void | Promise<void>],
  more: Partial<Row> = {},
): Row => ({
  name,
  answer: (request) => (request.stream ? stream(request) : json(request)),
  json: jsonExpected,
  stream: streamExpected,
  ...more,
})
