// An upstream that does with a request what its model is called, once for each path on which a request can end. It tells when a request has arrived.
import { TOKENS } from './rig.ts'

export interface ExitsUpstream {
  readonly port: number
  /** Resolves when the request with this prompt has arrived. */
  arrived(prompt: string): Promise<void>
  /** Requests that are held now. */
  readonly held: number
  stop(): void
}

const encoder = new TextEncoder()
const shared = { id: 'x', created: 1, model: 'm' }
const chunk = (delta: object, finish_reason: string | null = null): Uint8Array => {
  const choices = [{ index: 0, delta, finish_reason }]
  return encoder.encode(`data: ${JSON.stringify({ ...shared, object: 'chat.completion.chunk', choices })}\n\n`)
}
const BEGIN = chunk({ role: 'assistant', content: 'hi' })
const END = encoder.encode(
  `data: ${JSON.stringify({ ...shared, object: 'chat.completion.chunk', choices: [], usage: usageOf(TOKENS) })}\n\ndata: [DONE]\n\n`,
)

function usageOf(completion_tokens: number) {
  return { prompt_tokens: 1, completion_tokens, total_tokens: completion_tokens + 1 }
}

const answer = (): Response => {
  const choices = [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }]
  return Response.json({ ...shared, object: 'chat.completion', choices, usage: usageOf(TOKENS) })
}

const failure = (status: number): Response =>
  Response.json({ error: { message: 'no', type: 'server_error' } }, { status })

const events = (body: ReadableStream<Uint8Array>): Response =>
  new Response(body, { headers: { 'content-type': 'text/event-stream' } })

/** Begins, and goes on as it is told: `rest` gets the stream and the end of its client. */
const begun = (rest: (controller: ReadableStreamDefaultController<Uint8Array>) => void): Response =>
  events(
    new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(BEGIN)
        rest(controller)
      },
    }),
  )

const LONG = chunk({ content: 'word '.repeat(400) })

/** What each model does, by its name. */
const DOES: Readonly<Record<string, (gone: Promise<void>) => Response | Promise<Response>>> = {
  'json-ok': answer,
  'upstream-400': () => failure(400),
  'upstream-500': () => failure(500),
  'not-conforming': answer,
  'stream-ok': () =>
    begun((controller) => {
      controller.enqueue(chunk({}, 'stop'))
      controller.enqueue(END)
      controller.close()
    }),
  'stream-breaks': () => begun((controller) => controller.close()),
  'stream-silent': () => begun(() => undefined),
  'stream-cut': () =>
    events(
      new ReadableStream<Uint8Array>({
        async pull(controller) {
          await Bun.sleep(2)
          controller.enqueue(LONG)
        },
      }),
    ),
  'left-early': async (gone) => {
    await gone
    return failure(500)
  },
  'left-late': () => begun(() => undefined),
  hangs: async (gone) => {
    await gone
    return failure(500)
  },
  'hangs-stream': async (gone) => {
    await gone
    return failure(500)
  },
  shutdown: async (gone) => {
    await gone
    return failure(500)
  },
}

export const startExitsUpstream = (): ExitsUpstream => {
  const waiting = new Map<string, () => void>()
  const upstream = { port: 0, held: 0, arrived: (_: string) => Promise.resolve(), stop: (): void => {} }
  upstream.arrived = (prompt) => new Promise<void>((resolve) => waiting.set(prompt, resolve))
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      if (request.method === 'GET') return Response.json({ data: [] })
      const { model, messages } = (await request.json()) as { model: string; messages: { content: string }[] }
      // The first provider of this one fails, the second answers.
      if (model === 'failover') return new URL(request.url).pathname.startsWith('/second/') ? answer() : failure(500)
      const gone = new Promise<void>((resolve) => request.signal.addEventListener('abort', () => resolve()))
      upstream.held++
      void gone.then(() => upstream.held--)
      waiting.get(messages[0]!.content)?.()
      waiting.delete(messages[0]!.content)
      return (DOES[model] ?? (() => failure(404)))(gone)
    },
  })
  upstream.port = server.port!
  upstream.stop = () => void server.stop(true)
  return upstream
}
