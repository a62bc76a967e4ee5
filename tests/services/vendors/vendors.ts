// A fake of every kind's vendor on loopback: strict about what arrives, with answers that fit the request. Made from
// the fixtures of each kind.
import { KINDS } from '../../../src/providers/kinds.ts'
import { OPENAI_ROWS } from '../../../src/providers/openai/rows.ts'
import { anthropicWire } from './anthropic-wire.ts'
import { bedrockWire } from './bedrock-wire.ts'
import { cohereWire } from './cohere-wire.ts'
import { asksForBreak, failureAsked, isObject, type Received, Refused, replyTo } from './conversation.ts'
import { type RecordedListing, recordedBreak, recordedFailure, recordedListings } from './fixtures.ts'
import { geminiWire } from './gemini-wire.ts'
import { ollamaWire } from './ollama-wire.ts'
import { openaiWire } from './openai-wire.ts'
import type { Speaker, Spoken, Wire } from './wire.ts'

export interface Vendor extends Speaker {
  /** Name of the provider, and of the model that the gateway's clients request. */
  readonly name: string
  readonly baseUrl: string
  readonly listings: readonly RecordedListing[]
  /** All that it refused, in words, without the requested failures. */
  readonly refused: readonly string[]
  readonly served: { readonly answers: number; readonly listings: number }
  stop(): Promise<void>
}

const WIRES: Readonly<Record<string, (speaker: Speaker) => Wire>> = {
  anthropic: anthropicWire,
  bedrock: bedrockWire,
  cohere: cohereWire,
  gemini: geminiWire,
  ollama: ollamaWire,
}

/** What each kind serves, by a name of its own. A second one of a kind is served in another way. */
type Served = Pick<Speaker, 'kind' | 'model'> & Partial<Speaker> & { readonly name?: string }
const SERVED: readonly Served[] = [
  { kind: 'openai', model: 'gpt-4.1-mini' },
  { name: 'openai_reasoning', kind: 'openai', model: 'gpt-5-mini' },
  { kind: 'azure_openai', model: 'my-deployment' },
  { name: 'azure_deployments', kind: 'azure_openai', model: 'my-deployment', options: { api_version: '2024-10-21' } },
  { kind: 'mistral', model: 'mistral-large-latest' },
  { kind: 'openai_compatible', model: 'served' },
  { kind: 'vllm', model: 'meta-llama/Llama-3.3-70B-Instruct' },
  { kind: 'llamacpp', model: 'qwen.gguf' },
  { kind: 'tgi', model: 'meta-llama/Llama-3.1-8B-Instruct' },
  { kind: 'lmstudio', model: 'qwen2-vl-7b-instruct' },
  { kind: 'openrouter', model: 'anthropic/claude-sonnet-5' },
  { kind: 'groq', model: 'openai/gpt-oss-120b' },
  { kind: 'together', model: 'moonshotai/Kimi-K2-Instruct' },
  { kind: 'fireworks', model: 'accounts/fireworks/models/kimi-k3' },
  { kind: 'deepseek', model: 'deepseek-chat' },
  { kind: 'xai', model: 'grok-4.3' },
  { kind: 'perplexity', model: 'sonar-pro' },
  { kind: 'cerebras', model: 'gpt-oss-120b' },
  { kind: 'anthropic', model: 'claude-sonnet-4-5' },
  { name: 'anthropic_older', kind: 'anthropic', model: 'claude-3-5-haiku-20241022' },
  { kind: 'gemini', model: 'gemini-2.5-flash' },
  { name: 'gemini_signed', kind: 'gemini', model: 'gemini-3-pro-preview' },
  {
    kind: 'bedrock',
    model: 'us.anthropic.claude-sonnet-4-5-20250929-v1:0',
    secret: 'AKIAEXAMPLEEXAMPLE00:fixture/secret+key/of/the/account0',
    options: { region: 'us-east-1' },
  },
  { name: 'bedrock_api_key', kind: 'bedrock', model: 'amazon.nova-pro-v1:0', options: { region: 'eu-central-1' } },
  { kind: 'cohere', model: 'command-a-03-2025' },
  { name: 'cohere_vision', kind: 'cohere', model: 'command-a-vision-07-2025' },
  { kind: 'ollama', model: 'llama3.2' },
]

/** The part of the vendor's address before the wire's own path; servers that users run themselves answer at `/v1`. */
const basePath = (kind: string): string => {
  const { defaultBaseUrl } = KINDS.get(kind)!
  if (kind === 'azure_openai') return ''
  return defaultBaseUrl === null
    ? '/v1'
    : new URL(defaultBaseUrl.replace('{region}', 'us-east-1')).pathname.replace(/\/$/, '')
}

/** Bytes per piece of an answer: no event, line or character is spared. */
const PIECE_BYTES = 67

const inPieces = ({ type, bytes }: Spoken): Response => {
  let at = 0
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (at < bytes.length) controller.enqueue(bytes.subarray(at, at + PIECE_BYTES))
      else controller.close()
      at += PIECE_BYTES
    },
  })
  return new Response(body, { headers: { 'content-type': type } })
}

/** Bytes that come late: the end of the failure, so that the content before it has reached the client by then. */
const LATE_BYTES = 40
const LATE_MS = 40

const brokenOff = (type: string, bytes: Uint8Array): Response => {
  const pieces = [bytes.subarray(0, -LATE_BYTES), bytes.subarray(-LATE_BYTES)]
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const piece = pieces.shift()
      if (piece === undefined) return controller.close()
      if (pieces.length === 0) await Bun.sleep(LATE_MS)
      controller.enqueue(piece)
    },
  })
  return new Response(body, { headers: { 'content-type': type } })
}

const receive = async (request: Request): Promise<Received> => {
  const { pathname, searchParams } = new URL(request.url)
  const text = await request.text()
  let body: unknown = null
  try {
    body = text === '' ? null : JSON.parse(text)
  } catch {
    body = null // a vendor that needs a body refuses without one
  }
  const { method, headers } = request
  return { method, path: pathname, query: searchParams, headers, text, body: isObject(body) ? body : null }
}

const recordedResponse = (kind: string, code: string): Response => {
  const { status, headers, body } = recordedFailure(kind, code)
  return new Response(body, { status, headers: { 'content-type': 'application/json', ...headers } })
}

const listed = (listings: readonly RecordedListing[], { path, query }: Received): Response => {
  const asked = query.size === 0 ? path : `${path}?${query}`
  const listing = listings.find(({ pathAndQuery }) => pathAndQuery === asked)
  if (listing === undefined) throw new Refused(`there is no list at ${asked}`, 404)
  return new Response(listing.body, { headers: { 'content-type': 'application/json' } })
}

/** The checks and answers of a vendor, without a server. */
export const wireOf = (speaker: Speaker): Wire => (WIRES[speaker.kind] ?? openaiWire)(speaker)

const startVendor = (name: string, speaker: Speaker): Vendor => {
  const { kind } = speaker
  const wire = wireOf(speaker)
  const listings = recordedListings(kind)
  const refused: string[] = []
  const served = { answers: 0, listings: 0 }
  const answer = (received: Received): Response => {
    if (received.method === 'GET') {
      const response = listed(listings, received)
      served.listings++
      return response
    }
    const asked = wire.read(received)
    const failure = failureAsked(asked)
    if (failure !== null) return recordedResponse(kind, failure)
    if (asksForBreak(asked)) return brokenOff(wire.speak(asked, { text: '' }).type, recordedBreak(kind)!.bytes)
    const response = inPieces(wire.speak(asked, replyTo(asked)))
    served.answers++
    return response
  }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const received = await receive(request)
      try {
        return answer(received)
      } catch (error) {
        const status = error instanceof Refused ? error.status : 400
        const message = error instanceof Error ? error.message : String(error)
        refused.push(`${message} (${received.method} ${received.path} ${received.text.slice(0, 2_000)})`)
        const { body, headers } = wire.refusal(status, message)
        return new Response(body, { status, headers: { 'content-type': 'application/json', ...headers } })
      }
    },
  })
  const baseUrl = `http://127.0.0.1:${server.port}${speaker.basePath}`
  return { ...speaker, name, baseUrl, listings, refused, served, stop: () => server.stop(true) }
}

/** Rows of the table of OpenAI-shaped kinds that are not listed above are served as those rows describe them. */
const ASSUMED: readonly Served[] = OPENAI_ROWS.filter(({ kind }) => !SERVED.some((one) => one.kind === kind)).map(
  ({ kind }) => ({
    kind,
    model: 'served',
    assumed: true,
  }),
)

const speakerOf = ({ kind, model, secret, options = {}, assumed = false }: Served): Speaker => ({
  kind,
  model,
  assumed,
  basePath: basePath(kind),
  secret: secret ?? (KINDS.get(kind)!.needsCredential ? `${kind}-fixture-key` : null),
  options,
})

/** Models of families that one server of their kind does not show. */
const FAMILIES: readonly Served[] = [
  ...[
    'claude-opus-4-20250514',
    'claude-opus-4-1-20250805',
    'claude-sonnet-4-6',
    'claude-opus-4-7',
    'claude-sonnet-5',
  ].map((model) => ({ kind: 'anthropic', model })),
  ...[
    'anthropic.claude-3-haiku-20240307-v1:0',
    'global.anthropic.claude-opus-4-6-v1',
    'us.amazon.nova-2-lite-v1:0',
    'meta.llama3-3-70b-instruct-v1:0',
    'mistral.mistral-large-2402-v1:0',
    'cohere.command-r-plus-v1:0',
    'anthropic.claude-opus-4-7',
    'openai.gpt-oss-120b-1:0',
  ].map((model) => ({ kind: 'bedrock', model, options: { region: 'us-east-1' } })),
  { kind: 'azure_openai', model: 'gpt-35-turbo', options: { api_version: '2024-10-21' } },
  { kind: 'openai', model: 'o3-mini' },
  { kind: 'gemini', model: 'gemma-3-27b-it' },
]

/** Every vendor that there is a fake of, and further models of them. */
export const SPEAKERS: readonly Speaker[] = [...SERVED, ...ASSUMED, ...FAMILIES].map(speakerOf)

/** One of everything. `sandbox`, which answers in process, needs none. */
export const startVendors = (): readonly Vendor[] =>
  [...SERVED, ...ASSUMED].map((served) => startVendor(served.name ?? served.kind, speakerOf(served)))

/**
 * Providers and models of a gateway in front of them, as `bootstrap:` and environment. The models are named after the
 * vendors.
 */
export const gatewayInFrontOf = (
  vendors: readonly Vendor[],
): { readonly providers: readonly unknown[]; readonly env: Readonly<Record<string, string>> } => ({
  providers: vendors.map(({ name, kind, model, baseUrl, secret, options }) => ({
    name,
    kind,
    base_url: baseUrl,
    options,
    ...(secret === null ? {} : { api_key_env: `PROVIDER_${name.toUpperCase()}_API_KEY` }),
    models: [{ name, upstream_model: model, aliases: [`${name}-alias`] }],
  })),
  env: Object.fromEntries(
    vendors.flatMap(({ name, secret }) =>
      secret === null ? [] : [[`PROVIDER_${name.toUpperCase()}_API_KEY`, secret]],
    ),
  ),
})
