// An upstream whose models are named after the paths on which a request can end; it follows the path that the model
// names. It reports when a request has arrived, and it keeps the bill: a stream that the client leaves, or that breaks,
// is generated to its end and billed whole.
import { COST_NANO_USD, TOKENS } from './rig.ts'

export const PROMPT_NANO_USD = 1_000

export interface ExitsUpstream {
  readonly port: number
  /** Resolves when the request with this prompt has arrived. */
  arrived(prompt: string): Promise<void>
  /** What it has billed for a model, nano-USD. */
  billedFor(model: string): number
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
const usageOf = (prompt_tokens: number) => ({
  ...{ prompt_tokens, completion_tokens: TOKENS, total_tokens: prompt_tokens + TOKENS },
})
const endOf = (promptTokens: number): Uint8Array =>
  encoder.encode(
    `data: ${JSON.stringify({ ...shared, object: 'chat.completion.chunk', choices: [], usage: usageOf(promptTokens) })}\n\ndata: [DONE]\n\n`,
  )

interface Held {
  /** Resolves when its client has left. */
  readonly gone: Promise<void>
  readonly promptTokens: number
}

const answer = ({ promptTokens }: Held): Response => {
  const choices = [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }]
  return Response.json({ ...shared, object: 'chat.completion', choices, usage: usageOf(promptTokens) })
}

const failure = (status: number): Response =>
  Response.json({ error: { message: 'no', type: 'server_error' } }, { status })

const events = (body: ReadableStream<Uint8Array>): Response =>
  new Response(body, { headers: { 'content-type': 'text/event-stream' } })

/** Begins a stream and hands it to `rest`, with the end of its client. */
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
/** More than a lease holds ahead of need. */
const LONGEST = chunk({ content: 'word '.repeat(20_000) })

/** Generates for as long as the client waits. */
const silent = async ({ gone }: Held): Promise<Response> => {
  await gone
  return failure(500)
}

interface Does {
  readonly answers: (held: Held) => Response | Promise<Response>
  /** Tokens of its answer that are billed; null: nothing is. */
  readonly bills: number | null
}

/** What each model does, by its name. */
const DOES: Readonly<Record<string, Does>> = {
  'json-ok': { answers: answer, bills: TOKENS },
  'upstream-400': { answers: () => failure(400), bills: null },
  'upstream-500': { answers: () => failure(500), bills: null },
  'not-conforming': { answers: answer, bills: TOKENS },
  'stream-ok': {
    answers: ({ promptTokens }) =>
      begun((controller) => {
        controller.enqueue(chunk({}, 'stop'))
        controller.enqueue(endOf(promptTokens))
        controller.close()
      }),
    bills: TOKENS,
  },
  'stream-breaks': { answers: () => begun((controller) => controller.close()), bills: TOKENS },
  'stream-silent': { answers: () => begun(() => undefined), bills: TOKENS },
  'stream-cut': {
    answers: () =>
      events(
        new ReadableStream<Uint8Array>({
          async pull(controller) {
            await Bun.sleep(2)
            controller.enqueue(LONG)
          },
        }),
      ),
    bills: TOKENS,
  },
  'left-early': { answers: silent, bills: TOKENS },
  'left-late': { answers: () => begun(() => undefined), bills: TOKENS },
  'left-asking': { answers: () => begun((controller) => controller.enqueue(LONGEST)), bills: TOKENS },
  hangs: { answers: silent, bills: TOKENS },
  'hangs-stream': { answers: silent, bills: TOKENS },
  shutdown: { answers: silent, bills: TOKENS },
}

export const startExitsUpstream = (): ExitsUpstream => {
  const waiting = new Map<string, () => void>()
  const billed = new Map<string, number>()
  const upstream = {
    ...{ port: 0, held: 0, stop: (): void => {} },
    arrived: (prompt: string) => new Promise<void>((resolve) => waiting.set(prompt, resolve)),
    billedFor: (model: string) => billed.get(model) ?? 0,
  }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      if (request.method === 'GET') return Response.json({ data: [] })
      const { model, messages } = (await request.json()) as { model: string; messages: { content: string }[] }
      const prompt = messages[0]!.content
      const gone = new Promise<void>((resolve) => request.signal.addEventListener('abort', () => resolve()))
      upstream.held++
      void gone.then(() => upstream.held--)
      waiting.get(prompt)?.()
      waiting.delete(prompt)
      const { answers, bills } = doesOf(model, request.url)
      const promptTokens = Buffer.byteLength(prompt)
      if (bills !== null) {
        const nanoUsd = promptTokens * PROMPT_NANO_USD + (bills / TOKENS) * COST_NANO_USD
        billed.set(model, upstream.billedFor(model) + nanoUsd)
      }
      return answers({ gone, promptTokens })
    },
  })
  upstream.port = server.port!
  upstream.stop = () => void server.stop(true)
  return upstream
}

/** The first provider of `failover` fails, the second answers. */
const doesOf = (model: string, url: string): Does =>
  DOES[model === 'failover' ? (new URL(url).pathname.startsWith('/second/') ? 'json-ok' : 'upstream-500') : model] ?? {
    answers: () => failure(404),
    bills: null,
  }
