// A real upstream on loopback that speaks the OpenAI and the Anthropic wire, for tests and benches. What it answers is
// scripted: `next(...)` queues behaviours for single requests, `behave(...)` sets the one for all others.

export interface Behaviour {
  /** Not 200: an error of that status in the shape of the wire. */
  status?: number
  headers?: Record<string, string>
  /** The exact body, instead of a composed one. */
  body?: string
  /** Before the response headers. `Infinity` never answers. */
  delayMs?: number
  /** Text of the answer. In a stream it is cut into `chunks` pieces. */
  text?: string
  chunks?: number
  /** Before each chunk of a stream. */
  chunkDelayMs?: number
  /**
   * Stops after this many content chunks: `cut` closes the connection without an end, `end` ends the body without
   * finish and `[DONE]`, `hang` sends nothing more, `error` sends the wire's in-band error.
   */
  stopAfter?: number
  stop?: 'cut' | 'end' | 'hang' | 'error'
  /** Calls this tool instead of answering with text. */
  tool?: { name: string; arguments: string }
  finishReason?: string
  /** null: no usage, even when it is requested. */
  usage?: { prompt: number; completion: number } | null
}

export interface Received {
  readonly method: string
  readonly path: string
  readonly headers: Headers
  /** As it came. */
  readonly text: string
  /** Parsed, or null when it is no JSON. */
  readonly body: Record<string, unknown> | null
}

export interface Upstream {
  /** What precedes `/chat/completions`: a provider's `base_url`. */
  readonly baseUrl: string
  readonly origin: string
  readonly port: number
  /** The newest 10,000 requests, oldest first. */
  readonly received: Received[]
  /** Requests whose client left before the answer was complete. */
  readonly aborted: Received[]
  behave(behaviour: Behaviour | ((received: Received) => Behaviour)): void
  next(...behaviours: Behaviour[]): void
  stop(): Promise<void>
}

const KEPT = 10_000
const DEFAULT_TEXT = 'Hello from the fake upstream, which is on loopback.'
const encoder = new TextEncoder()
const sse = (data: unknown, event?: string) =>
  `${event === undefined ? '' : `event: ${event}\n`}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`

const cut = (text: string, pieces: number) => {
  const size = Math.max(1, Math.ceil(text.length / pieces))
  return Array.from({ length: pieces }, (_, i) => text.slice(i * size, (i + 1) * size))
}

interface Wire {
  error(status: number): unknown
  answer(model: unknown, behaviour: Behaviour): unknown
  /**
   * Frames of a stream: those before the content, one for each content chunk, those that end it, and an in-band error.
   */
  frames(request: Received, behaviour: Behaviour): { head: string[]; content: string[]; tail: string[]; error: string }
}

const usageOf = (behaviour: Behaviour) => behaviour.usage ?? { prompt: 11, completion: 7 }

const openai: Wire = {
  error: (status) => ({ error: { message: `scripted failure ${status}`, type: 'scripted', param: null, code: null } }),
  answer(model, behaviour) {
    const { prompt, completion } = usageOf(behaviour)
    const calls = behaviour.tool && [{ id: 'call_1', type: 'function', function: behaviour.tool }]
    return {
      id: 'chatcmpl-fake',
      object: 'chat.completion',
      created: 1_760_000_000,
      model,
      choices: [
        {
          index: 0,
          message: calls
            ? { role: 'assistant', content: null, tool_calls: calls }
            : { role: 'assistant', content: behaviour.text ?? DEFAULT_TEXT },
          logprobs: null,
          finish_reason: behaviour.finishReason ?? (calls ? 'tool_calls' : 'stop'),
        },
      ],
      ...(behaviour.usage === null
        ? {}
        : { usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion } }),
    }
  },
  frames(request, behaviour) {
    const base = {
      id: 'chatcmpl-fake',
      object: 'chat.completion.chunk',
      created: 1_760_000_000,
      model: request.body?.model,
    }
    const frame = (delta: unknown, finish: string | null = null) =>
      sse({ ...base, choices: [{ index: 0, delta, finish_reason: finish }] })
    const { prompt, completion } = usageOf(behaviour)
    const wantsUsage = (request.body?.stream_options as { include_usage?: boolean } | undefined)?.include_usage === true
    const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
    const { tool } = behaviour
    const content = tool
      ? [
          frame({
            tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: tool.name, arguments: '' } }],
          }),
          ...cut(tool.arguments, behaviour.chunks ?? 2).map((piece) =>
            frame({ tool_calls: [{ index: 0, function: { arguments: piece } }] }),
          ),
        ]
      : cut(behaviour.text ?? DEFAULT_TEXT, behaviour.chunks ?? 5).map((piece) => frame({ content: piece }))
    return {
      head: [frame({ role: 'assistant', content: '' })],
      content,
      tail: [
        frame({}, behaviour.finishReason ?? (tool ? 'tool_calls' : 'stop')),
        ...(wantsUsage && behaviour.usage !== null ? [sse({ ...base, choices: [], usage })] : []),
        sse('[DONE]'),
      ],
      error: sse({ error: { message: 'scripted failure in the stream', type: 'server_error', code: 500 } }),
    }
  },
}

const anthropic: Wire = {
  error: (status) => ({
    type: 'error',
    error: { type: status === 529 ? 'overloaded_error' : 'api_error', message: `scripted failure ${status}` },
    request_id: 'req_fake',
  }),
  answer(model, behaviour) {
    const { prompt, completion } = usageOf(behaviour)
    return {
      id: 'msg_fake',
      type: 'message',
      role: 'assistant',
      model,
      content: behaviour.tool
        ? [{ type: 'tool_use', id: 'toolu_1', name: behaviour.tool.name, input: JSON.parse(behaviour.tool.arguments) }]
        : [{ type: 'text', text: behaviour.text ?? DEFAULT_TEXT }],
      stop_reason: behaviour.finishReason ?? (behaviour.tool ? 'tool_use' : 'end_turn'),
      stop_sequence: null,
      usage: { input_tokens: prompt, output_tokens: completion },
    }
  },
  frames(request, behaviour) {
    const { prompt, completion } = usageOf(behaviour)
    const named = (data: { type: string } & Record<string, unknown>) => sse(data, data.type)
    const { tool } = behaviour
    const message = {
      id: 'msg_fake',
      type: 'message',
      role: 'assistant',
      model: request.body?.model,
      content: [],
      stop_reason: null,
    }
    const block = tool ? { type: 'tool_use', id: 'toolu_1', name: tool.name, input: {} } : { type: 'text', text: '' }
    const deltas = tool
      ? cut(tool.arguments, behaviour.chunks ?? 2).map((partial_json) => ({ type: 'input_json_delta', partial_json }))
      : cut(behaviour.text ?? DEFAULT_TEXT, behaviour.chunks ?? 5).map((text) => ({ type: 'text_delta', text }))
    return {
      head: [
        named({ type: 'message_start', message: { ...message, usage: { input_tokens: prompt, output_tokens: 1 } } }),
        named({ type: 'content_block_start', index: 0, content_block: block }),
        named({ type: 'ping' }),
      ],
      content: deltas.map((delta) => named({ type: 'content_block_delta', index: 0, delta })),
      tail: [
        named({ type: 'content_block_stop', index: 0 }),
        named({
          type: 'message_delta',
          delta: { stop_reason: behaviour.finishReason ?? (tool ? 'tool_use' : 'end_turn'), stop_sequence: null },
          usage: { output_tokens: completion },
        }),
        named({ type: 'message_stop' }),
      ],
      error: named({ type: 'error', error: { type: 'overloaded_error', message: 'scripted failure in the stream' } }),
    }
  },
}

const MODELS = ['fake-small', 'fake-large']
const listing = (request: Request) =>
  request.headers.has('anthropic-version')
    ? {
        data: MODELS.map((id) => ({ type: 'model', id, display_name: id, created_at: '2026-01-01T00:00:00Z' })),
        has_more: false,
      }
    : { object: 'list', data: MODELS.map((id) => ({ id, object: 'model', created: 1_760_000_000, owned_by: 'fake' })) }

const streamOf = (wire: Wire, request: Received, behaviour: Behaviour): ReadableStream<Uint8Array> => {
  const { head, content, tail, error } = wire.frames(request, behaviour)
  const { stopAfter, stop, chunkDelayMs = 0 } = behaviour
  const sent = stopAfter === undefined ? content : content.slice(0, stopAfter)
  const frames = [...head, ...sent, ...(stopAfter === undefined ? tail : stop === 'error' ? [error] : [])]
  let at = 0
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (at < frames.length) {
        if (chunkDelayMs > 0) await Bun.sleep(chunkDelayMs)
        controller.enqueue(encoder.encode(frames[at++]))
        return
      }
      if (stopAfter !== undefined && stop === 'hang') await new Promise<void>(() => {})
      if (stopAfter !== undefined && stop === 'cut') {
        await Bun.sleep(5) // so that what was sent leaves before the connection dies
        controller.error(undefined) // an Error here would be printed by Bun
      } else controller.close()
    },
  })
}

/** Starts it on a free port of 127.0.0.1 (or the one given). `record: false` keeps nothing, for benches. */
export const startUpstream = (options: { port?: number; record?: boolean; behaviour?: Behaviour } = {}): Upstream => {
  const received: Received[] = []
  const aborted: Received[] = []
  const queue: Behaviour[] = []
  const hanging = new Set<() => void>()
  let usual: (received: Received) => Behaviour = () => options.behaviour ?? {}

  const answer = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url)
    const text = request.method === 'POST' ? await request.text() : ''
    let body: Received['body'] = null
    try {
      body = text === '' ? null : JSON.parse(text)
    } catch {
      body = null // recorded as it came: a test may look at `text`
    }
    const entry: Received = { method: request.method, path: pathname, headers: request.headers, text, body }
    if (options.record !== false) {
      received.push(entry)
      if (received.length > KEPT) received.shift()
      request.signal.addEventListener('abort', () => aborted.push(entry))
    }
    const behaviour = queue.shift() ?? usual(entry)
    const { delayMs = 0, status = 200, headers = {} } = behaviour
    if (delayMs === Number.POSITIVE_INFINITY) await new Promise<void>((resolve) => hanging.add(resolve))
    else if (delayMs > 0) await Bun.sleep(delayMs)
    const wire = pathname.endsWith('/messages') ? anthropic : openai
    if (behaviour.body !== undefined) return new Response(behaviour.body, { status, headers })
    if (status !== 200) return Response.json(wire.error(status), { status, headers })
    if (request.method === 'GET' && pathname.endsWith('/models')) return Response.json(listing(request), { headers })
    if (!pathname.endsWith('/chat/completions') && !pathname.endsWith('/messages'))
      return Response.json(wire.error(404), { status: 404 })
    if (body?.stream !== true) return Response.json(wire.answer(body?.model, behaviour), { headers })
    return new Response(streamOf(wire, entry, behaviour), {
      headers: { 'content-type': 'text/event-stream', ...headers },
    })
  }

  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: options.port ?? 0,
    idleTimeout: 0,
    fetch: answer,
    error: () => new Response(null, { status: 500 }),
  })
  const port = server.port!
  return {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    origin: `http://127.0.0.1:${port}`,
    port,
    received,
    aborted,
    behave: (behaviour) => {
      usual = typeof behaviour === 'function' ? behaviour : () => behaviour
    },
    next: (...behaviours) => {
      queue.push(...behaviours)
    },
    stop: async () => {
      for (const release of hanging) release()
      await server.stop(true)
    },
  }
}
