// Traces of requests: one SERVER span by the HTTP conventions of OpenTelemetry, and below it a CLIENT span for each
// call to a provider by its GenAI conventions. The operation, its models and its usage stand on the client spans alone:
// a backend that sums them counts nothing twice. Never a prompt, an answer or a key. While traces are off, the `trace`
// of an exchange is null.

import type { AttemptSummary } from '../../domain/events/request-reading.ts'
import { readTraceParent, readTraceState, writeTraceParent } from '../../lib/http/trace-context.ts'
import type { DialRequest } from '../../lib/http-client/http-client.ts'
import type { HeaderReader } from '../../lib/http-server/http-server.ts'
import type { Attributes, Span } from '../../lib/otlp.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import type { Measured } from '../money/charge.ts'
import type { Ending } from './ending.ts'
import type { Exchange, Identity } from './exchange.ts'

export interface TracesDeps {
  /** Percentage of traces that begin here; those of a caller are continued as the caller decided. */
  readonly samplePercent: number
  /** The trace is continued at providers. */
  readonly propagate: boolean
  /** Takes each ended trace. Must be cheap and must not throw. */
  readonly take: (finished: FinishedTrace) => void
}

export interface Traces {
  /** Begins the trace of a request that has arrived. */
  begin(headers: HeaderReader, identity: Identity): RequestTrace
}

interface Call {
  readonly spanId: string
  readonly startedMs: number
  readonly entry: CatalogueEntry
}

/** The data for the spans of a request, without its body. */
export interface FinishedTrace {
  readonly identity: Identity
  readonly spanId: string
  readonly parentSpanId: string | null
  readonly traceState: string | null
  readonly calls: readonly Call[]
  readonly attempts: readonly AttemptSummary[]
  readonly endedMs: number
  /** Of the server span. */
  readonly attributes: Attributes
  /** What was asked of every provider that was called. */
  readonly asked: Attributes
  /** What the last one answered. */
  readonly answered: Attributes
  readonly failed: boolean
}

const newSpanId = (): string => {
  const bytes = crypto.getRandomValues(new Uint8Array(8))
  bytes[0]! |= 1 // all zeros is no id
  return bytes.toHex()
}

/** Whether a trace is exported. The id decides, so every instance exports the same traces. */
const isSampled = (traceId: string, percent: number): boolean =>
  Number.parseInt(traceId.slice(-13), 16) < (percent / 100) * 2 ** 52

export const openTraces = (deps: TracesDeps): Traces => ({
  begin(headers, identity) {
    const parent = readTraceParent(headers.get('traceparent'))
    const traceState = parent === null ? null : readTraceState(headers.get('tracestate'))
    const sampled = parent?.sampled ?? isSampled(identity.traceId, deps.samplePercent)
    return new RequestTrace(deps, identity, { parentSpanId: parent?.spanId ?? null, traceState, sampled })
  },
})

export class RequestTrace {
  readonly #spanId = newSpanId()
  readonly #calls: Call[] = []

  constructor(
    private readonly deps: TracesDeps,
    private readonly identity: Identity,
    private readonly context: { parentSpanId: string | null; traceState: string | null; sampled: boolean },
  ) {}

  /** A provider is about to be called. */
  calling(entry: CatalogueEntry): void {
    this.#calls.push({ spanId: newSpanId(), startedMs: performance.now(), entry })
  }

  /** The request with the headers that continue the trace at the provider. */
  carriedBy(request: DialRequest): DialRequest {
    const call = this.#calls.at(-1)
    if (!this.deps.propagate || call === undefined) return request
    const { traceState, sampled } = this.context
    const traceparent = writeTraceParent({ traceId: this.identity.traceId, spanId: call.spanId, sampled })
    const headers: Record<string, string> = { ...request.headers, traceparent }
    if (traceState !== null) headers.tracestate = traceState
    return { ...request, headers }
  }

  /** The request is settled. */
  end(exchange: Exchange, ending: Ending, measured: Measured): void {
    const { parentSpanId, traceState, sampled } = this.context
    if (!sampled) return
    this.deps.take({
      identity: this.identity,
      spanId: this.#spanId,
      parentSpanId,
      traceState,
      calls: this.#calls,
      attempts: exchange.attempts,
      endedMs: performance.now(),
      attributes: attributesOf(exchange, ending, measured),
      asked: askedOf(exchange),
      answered: answeredOf(exchange, ending, measured),
      failed: ending.status >= 500 || ending.outcome === 'error' || ending.outcome === 'interrupted',
    })
  }
}

const askedOf = ({ intent }: Exchange): Attributes => ({
  'gen_ai.request.max_tokens': intent?.maxTokens,
  'gen_ai.request.choice.count': intent !== null && intent.choices > 1 ? intent.choices : null,
})

const answeredOf = (exchange: Exchange, { outcome }: Ending, measured: Measured): Attributes => {
  const { entry, finishReason } = exchange
  return {
    'gen_ai.response.model': outcome === 'success' || exchange.answerBytes > 0 ? entry?.upstreamModel : null,
    'gen_ai.response.finish_reasons': finishReason === null ? null : [finishReason],
    'gen_ai.usage.input_tokens': measured.promptTokens,
    'gen_ai.usage.output_tokens': measured.completionTokens,
  }
}

const METHOD = 'POST'
const ROUTE = '/v1/chat/completions'

const attributesOf = (exchange: Exchange, { outcome, status, error }: Ending, measured: Measured): Attributes => {
  const { intent, entry, plan } = exchange
  return {
    'http.request.method': METHOD,
    'http.route': ROUTE,
    'http.response.status_code': status,
    'error.type': error?.code ?? null,
    'gatelog.request.id': exchange.identity.id,
    'gatelog.tenant.id': exchange.key?.tenantId ?? null,
    'gatelog.policy.id': plan?.policy.id ?? null,
    'gatelog.model': intent?.model ?? null,
    'gatelog.provider': entry?.provider ?? null,
    'gatelog.outcome': outcome,
    'gatelog.stream': intent?.stream ?? null,
    'gatelog.fallback_used': exchange.fallbackUsed(),
    'gatelog.cost_nano_usd': measured.costNanoUsd,
    'gatelog.cost_basis': measured.basis,
    'gatelog.ttft_ms': exchange.firstTokenMs,
  }
}

/** Names of the conventions; other providers by the name of their kind. */
const PROVIDER_NAMES: Readonly<Record<string, string>> = {
  azure_openai: 'azure.ai.openai',
  bedrock: 'aws.bedrock',
  gemini: 'gcp.gemini',
  mistral: 'mistral_ai',
  xai: 'x_ai',
}
const providerName = (kind: string): string => PROVIDER_NAMES[kind] ?? kind

/** Where a provider is reached: host and port, nothing else of its address. Kinds that answer in process have none. */
const serverOf = ({ baseUrl }: CatalogueEntry): Attributes => {
  const url = URL.parse(baseUrl)
  if (url === null || url.hostname === '') return {}
  const usual = url.protocol === 'http:' ? 80 : 443
  return {
    'server.address': url.hostname.replace(/^\[(.*)\]$/, '$1'),
    'server.port': url.port === '' ? usual : Number(url.port),
  }
}

/** An attempt that was billed beside others has tokens of its own. */
const usageOf = ({ prompt_tokens: prompt, completion_tokens: completion }: Partial<AttemptSummary>): Attributes =>
  prompt == null && completion == null
    ? {}
    : { 'gen_ai.usage.input_tokens': prompt, 'gen_ai.usage.output_tokens': completion }

/** The spans of a request that ended. Pure. */
export const spansOf = (trace: FinishedTrace): Span[] => {
  const { identity, calls, attempts, endedMs } = trace
  const wallMs = (monotonicMs: number): number => identity.atMs + (monotonicMs - identity.startedMs)
  const shared = { traceId: identity.traceId, traceState: trace.traceState }
  const server: Span = {
    ...shared,
    spanId: trace.spanId,
    parentSpanId: trace.parentSpanId,
    name: `${METHOD} ${ROUTE}`,
    kind: 'server',
    startMs: identity.atMs,
    endMs: wallMs(endedMs),
    attributes: trace.attributes,
    failed: trace.failed,
  }
  // A candidate that was passed over has no span.
  const called = attempts.filter(({ outcome }) => outcome !== 'skipped')
  const clients = calls.map(({ spanId, startedMs, entry }, index): Span => {
    const attempt = called[index]
    return {
      ...shared,
      spanId,
      parentSpanId: trace.spanId,
      name: `chat ${entry.upstreamModel}`,
      kind: 'client',
      startMs: wallMs(startedMs),
      endMs:
        attempt?.latency_ms == null
          ? wallMs(endedMs)
          : Math.min(wallMs(startedMs) + attempt.latency_ms, wallMs(endedMs)),
      attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': providerName(entry.kind),
        'gen_ai.request.model': entry.upstreamModel,
        ...trace.asked,
        ...(index === calls.length - 1 && trace.answered),
        ...usageOf(attempt ?? {}),
        ...serverOf(entry),
        'error.type': attempt?.error_code,
        'http.request.method': 'POST',
        'http.response.status_code': attempt?.upstream_status,
        'gatelog.provider': entry.provider,
        'gatelog.attempt': attempt?.n ?? index + 1,
        'gatelog.outcome': attempt?.outcome,
      },
      failed: attempt !== undefined && (attempt.outcome === 'error' || attempt.outcome === 'interrupted'),
    }
  })
  return [server, ...clients]
}
