// W3C Trace Context: reads `traceparent` and `tracestate`, and writes `traceparent`.

export interface TraceParent {
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
}

/** Nothing may follow in version 00; what follows in a later version is ignored. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
/** Longer states need not be forwarded. */
const MAX_STATE = 512

/** Null when it is absent or invalid; the standard treats both alike. */
export const readTraceParent = (header: string | null): TraceParent | null => {
  if (header === null) return null
  const [, version, traceId, spanId, flags, rest] = TRACEPARENT.exec(header) ?? []
  if (traceId === undefined || (version === '00' && rest !== undefined)) return null
  return { traceId, spanId: spanId!, sampled: (Number.parseInt(flags!, 16) & 1) === 1 }
}

/** Printable ASCII, as the standard requires: other characters could not be forwarded in a header either. */
const PRINTABLE = /^[\x20-\x7e\t]+$/

/** The state to be forwarded; one that is too long or has other characters is dropped whole. */
export const readTraceState = (header: string | null): string | null =>
  header === null || header.length > MAX_STATE || !PRINTABLE.test(header) ? null : header

export const writeTraceParent = ({ traceId, spanId, sampled }: TraceParent): string =>
  `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`
