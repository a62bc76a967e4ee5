// The port of a provider kind: pure functions between the client's wire (OpenAI chat completions) and the upstream's.
// A kind has no access to a client, a context, a clock or another kind; `inference/attempt/attempt.ts` alone calls
// upstreams.
import type { EventParser, Skimmer, SseEvent } from '../lib/text/sse.ts'
import type { GatewayError } from '../wire/errors.ts'
import type { Options } from './options.ts'

export type { SseEvent } from '../lib/text/sse.ts'

export const ALL_CAPABILITIES = [
  'chat',
  'streaming',
  'tools',
  'json_mode',
  'json_schema',
  'parallel_tool',
  'seed',
  'vision',
] as const
export type Capability = (typeof ALL_CAPABILITIES)[number]

/**
 * The client's request. `raw` is its body, byte for byte, after the intent station folded `prompt` and `system` into
 * `messages` and took out `tool_execution` (and nothing else); `body` is the same, parsed. Kinds of the OpenAI shape
 * edit `raw`, converting kinds read `body`.
 */
export interface ChatCall {
  readonly raw: string
  readonly body: Readonly<Record<string, unknown>>
  readonly stream: boolean
  /**
   * Capabilities of the routed model, so that a kind can leave out what the model refuses (`seed`, extended sampling).
   */
  readonly capabilities: readonly string[]
}

/** The upstream of a request. */
export interface Target {
  readonly baseUrl: string
  readonly secret: string | null
  readonly upstreamModel: string
  readonly options: Readonly<Record<string, unknown>>
  /** Output ceiling of the catalogue; only Anthropic's required `max_tokens` uses it. */
  readonly maxOutputTokens: number | null
  /**
   * Request usage on streams although the client did not: a setting of the provider. The extra chunk is then hidden.
   */
  readonly usageOnStream: boolean
  /**
   * The same for a hard budget, without that setting: where the provider may refuse it, the caller has to retry
   * without.
   */
  readonly usageForBudget?: boolean
  /** The provider's region, for kinds whose address depends on it. */
  readonly region?: string | null
  /** Unix milliseconds, for kinds that sign their requests. Passed in, so that kinds stay pure. */
  readonly atMs?: number
}

/** Facts beside the answer that reading it may need: passed in, so that kinds stay pure. Never shown to a client. */
export interface Reading {
  /** Used where an upstream gives its answer no id, or no time (Unix seconds). */
  readonly id: string
  readonly createdS: number
  /** The requested model: the answer's model where the upstream names none. */
  readonly model?: string
  /** The client of this stream did not request usage: its chunks hold none. */
  readonly hidesUsage?: boolean
  /** Secret and base URL of the target: cut out of every text that is quoted. */
  readonly secret: string | null
  readonly baseUrl?: string
}

export interface UpstreamRequest {
  readonly method: 'POST' | 'GET'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
  /** Notes about dropped, renamed or clamped fields, for `gateway.shaping`. */
  readonly shaping: readonly string[]
  /** It requests usage for a budget alone: neither the client nor a setting of the provider does. */
  readonly requestsUsageForBudget?: boolean
}

export interface Usage {
  readonly promptTokens: number | null
  readonly completionTokens: number | null
  readonly cachedPromptTokens: number | null
  readonly reasoningTokens: number | null
  /** The charge for this answer as the provider reports it, in nano-USD. Null or absent: not reported. */
  readonly reportedNanoUsd?: number | null
  /**
   * The tokens that the provider's prices apply to, where they differ from the counted ones. Null or absent: those
   * above.
   */
  readonly billed?: { readonly promptTokens: number | null; readonly completionTokens: number | null } | null
  /**
   * Tokens of the prompt that were written to the vendor's cache, and for how long as far as it is reported. Absent:
   * none.
   */
  readonly cacheWrites?: { readonly total: number; readonly fiveMinutes: number; readonly oneHour: number }
  /** Tokens of pictures in the completion, which have a price of their own. Absent: none. */
  readonly pictureTokens?: number
  /** As the upstream sent it. */
  readonly raw: unknown
}

/** A whole answer in the client's wire. */
export interface Answer {
  /**
   * A `chat.completion` object as JSON text, without the gateway block (which is spliced in). Untouched upstream bytes
   * where the wire is the same.
   */
  readonly json: string
  readonly usage: Usage | null
  /** Finish reason of the first choice. */
  readonly finishReason: string | null
  /** Text of the first choice, null when it has none (tool calls, refusal). */
  readonly content: string | null
  readonly refusal: boolean
  /** Names of the tools that the model calls. */
  readonly toolNames: readonly string[]
}

/** One piece of a stream in the client's wire. */
export interface StreamPart {
  /** A `chat.completion.chunk` as JSON text on one line, or null when there is nothing for the client. */
  readonly json: string | null
  /**
   * It carries content that a client can show: text, reasoning, a tool call, a refusal. Failover ends at the first of
   * these.
   */
  readonly content: boolean
  /** Text that it adds to the first choice, for structured-output checks. */
  readonly text: string
  /** UTF-8 bytes of all that it adds to any choice, reasoning and calls included, for estimates and bounds. */
  readonly bytes: number
  readonly finishReason: string | null
  /** The latest reported usage (cumulative). */
  readonly usage: Usage | null
  /** True for the usage-only chunk (empty `choices`): sent to the client only when it requested usage. */
  readonly usageOnly: boolean
  readonly toolNames: readonly string[]
  /**
   * Instead of `json`: whole frames as they came, each with further text of the first choice and nothing else (`text`
   * is empty).
   */
  readonly frames?: string
}

/** Turns upstream events into parts. Stateful, one for each stream. */
export interface StreamDecoder {
  /**
   * Throws GatewayError for an in-band error. Litter is skipped and counted (at most 16 times: then it throws); an
   * unreadable event that may have been a piece of the answer throws.
   */
  push(event: SseEvent): readonly StreamPart[]
  /**
   * Skips frames that need no reading, where their text is not needed; `push` then takes the run as one event. Only
   * for server-sent events.
   */
  readonly skimmer?: Skimmer
  /** The upstream closed. Throws GatewayError('upstream_error') when its wire shows that the answer is incomplete. */
  end(): readonly StreamPart[]
  /** Every choice that has begun has its finish reason: a later failure costs the client nothing. */
  readonly complete: boolean
  /**
   * The wire's own last event has come, so the caller waits for nothing more, not even the end of the body. Absent:
   * the wire has none but `[DONE]`.
   */
  readonly over?: boolean
  /** Unreadable events that were skipped. */
  readonly unreadable: number
}

/** A scripted upstream, for kinds that answer in process (`sandbox`). Deterministic: a pure function of the request. */
export interface Script {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly headerDelayMs: number
  /** Body pieces, each after its delay; `abort` ends the connection without an end. */
  readonly pieces: readonly { readonly afterMs: number; readonly text: string }[]
  readonly ending: 'end' | 'abort' | 'hang'
}

export interface ListedModel {
  readonly name: string
  readonly contextWindow: number | null
  readonly maxOutputTokens: number | null
  readonly capabilities: readonly Capability[] | null
  /** USD per million tokens where the listing has prices. Null or absent: it has none. */
  readonly inputCostPerMillion?: number | null
  readonly outputCostPerMillion?: number | null
  readonly cachedInputCostPerMillion?: number | null
}

export interface ProviderKind {
  readonly kind: string
  readonly needsCredential: boolean
  /** The capabilities of the kind's models where neither the listing nor an operator names them. */
  readonly capabilities: readonly Capability[]
  /**
   * The vendor documents that an abandoned stream stops: no more is generated, and no more billed than what was sent.
   * Absent: it runs to its end and is billed whole. A function where the provider's `options` decide.
   */
  readonly stopsBillingWhenLeft?: true | ((options: Target['options']) => boolean)
  readonly defaultBaseUrl: string | null
  /** Conventional environment variable of its secret, for the seeder. */
  readonly usualEnv: string | null
  /** Usual variable of the base URL, for a kind where each account has its own address. */
  readonly usualBaseUrlEnv?: string
  /** Schemas of a provider's `options`. Absent: none. */
  readonly options?: Options
  /**
   * The first missing or invalid setting of such a provider; null: none. Absent: only the checks of every kind apply.
   */
  problem?(
    place: Pick<Target, 'baseUrl' | 'region' | 'options'>,
  ): { readonly message: string; readonly param: string } | null
  request(call: ChatCall, target: Target): UpstreamRequest
  /** Throws GatewayError('upstream_error') for an answer that is not one. */
  response(body: string, reading?: Reading): Answer
  /**
   * The usage in an answer that `response` refuses: it may be billed all the same. Null: none that can be read.
   * Absent: the wire never reports it.
   */
  usageIn?(body: string): Usage | null
  stream(reading?: Reading): StreamDecoder
  /**
   * The framing of its stream: a new parser for each stream. Absent: server-sent events. A frame of another framing
   * arrives as an event whose `event` is its type, or null.
   */
  readonly framing?: () => EventParser
  /**
   * Any answer that is no success: status, body (cut at 64 KiB) and headers -> the code of the error table.
   * Never quotes a secret.
   */
  failure(status: number, body: string, headers: Headers, reading?: Reading): GatewayError
  /** In-process kinds only: answers without the network. */
  script?(request: UpstreamRequest): Script
  listing?: {
    request(target: Target): UpstreamRequest
    /** Additional lists that are requested, and read alike; at most a few. */
    further?(target: Target): readonly UpstreamRequest[]
    read(body: string): readonly ListedModel[]
    /** True: the listed models may have prices. */
    readonly namesPrices?: true
  }
}
