// W3C Trace Context: what came in `traceparent` and `tracestate`, and what goes out.

export interface TraceParent {
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
}

/** Of version 00 nothing may follow; of a later one, what follows is not known here. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
/** More need not be passed on. */
const MAX_STATE = 512

/** Null: none, or none that is valid, as if it had not been sent. */
export const readTraceParent = (header: string | null): TraceParent | null => {
  if (header === null) return null
  const [, version, traceId, spanId, flags, rest] = TRACEPARENT.exec(header) ?? []
  if (traceId === undefined || (version === '00' && rest !== undefined)) return null
  return { traceId, spanId: spanId!, sampled: (Number.parseInt(flags!, 16) & 1) === 1 }
}

/** Printable ASCII, as the standard has it: anything else could not be sent on in a header either. */
const PRINTABLE = /^[\x20-\x7e\t]+$/

/** What may be passed on of it; a state that is too long, or holds other characters, is dropped whole. */
export const readTraceState = (header: string | null): string | null =>
  header === null || header.length > MAX_STATE || !PRINTABLE.test(header) ? null : header

export const writeTraceParent = ({ traceId, spanId, sampled }: TraceParent): string =>
  `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`
