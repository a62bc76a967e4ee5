// Spans in the JSON of OTLP/HTTP (opentelemetry-proto, `ExportTraceServiceRequest`). Written by hand: the SDK costs
// several microseconds a span on the hot path.

export type AttributeValue = string | number | boolean | readonly string[]
/** Null and undefined are left out. */
export type Attributes = Readonly<Record<string, AttributeValue | null | undefined>>

export interface Span {
  /** 32 hexadecimal digits. */
  readonly traceId: string
  /** 16 hexadecimal digits. */
  readonly spanId: string
  readonly parentSpanId: string | null
  readonly traceState: string | null
  readonly name: string
  readonly kind: 'server' | 'client'
  /** Unix milliseconds, with a fraction. */
  readonly startMs: number
  readonly endMs: number
  readonly attributes: Attributes
  /** Whether its status is an error; `error.type` names it. */
  readonly failed: boolean
}

const KINDS = { server: 2, client: 3 } as const
const ERROR = 2
/** Longer texts are cut. */
const MAX_TEXT = 512

/** 64-bit numbers are strings in the JSON of protocol buffers. Accurate to the microsecond. */
const nanos = (ms: number): string => `${Math.floor(ms)}${String(Math.floor((ms % 1) * 1_000)).padStart(3, '0')}000`

const anyValue = (value: AttributeValue): unknown => {
  if (typeof value === 'string') return { stringValue: value.slice(0, MAX_TEXT) }
  if (typeof value === 'boolean') return { boolValue: value }
  if (typeof value === 'number')
    return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value }
  return { arrayValue: { values: value.map(anyValue) } }
}

const listOf = (attributes: Attributes): unknown[] =>
  Object.entries(attributes).flatMap(([key, value]) =>
    value === null || value === undefined ? [] : [{ key, value: anyValue(value) }],
  )

const spanOf = (span: Span): unknown => ({
  traceId: span.traceId,
  spanId: span.spanId,
  ...(span.parentSpanId === null ? {} : { parentSpanId: span.parentSpanId }),
  ...(span.traceState === null ? {} : { traceState: span.traceState }),
  name: span.name,
  kind: KINDS[span.kind],
  startTimeUnixNano: nanos(span.startMs),
  endTimeUnixNano: nanos(Math.max(span.startMs, span.endMs)),
  attributes: listOf(span.attributes),
  status: span.failed ? { code: ERROR } : {},
})

/** The body of `POST /v1/traces`. */
export const otlpTraces = (
  resource: Attributes,
  scope: { name: string; version: string },
  spans: readonly Span[],
): string =>
  JSON.stringify({
    resourceSpans: [{ resource: { attributes: listOf(resource) }, scopeSpans: [{ scope, spans: spans.map(spanOf) }] }],
  })
