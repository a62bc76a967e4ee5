// The `gateway` block (docs/behaviour.md: "The gateway block") as JSON text. It is spliced into answers, never merged
// into parsed ones, and is sent in pieces, which saves most texts of an answer (`lib/http-server/output.ts`).
import { appendedPieces, appendMembers, editMembers } from '../lib/json/edit.ts'
import { usdOf } from '../lib/money.ts'
import { type TextPiece, type TextPieces, wholeText } from '../lib/text/text-pieces.ts'

/** One attempt at a candidate, as `attempts` of the debug block shows it. */
export interface AttemptView {
  readonly n: number
  readonly provider: string
  readonly model: string
  readonly outcome: string
  readonly error_code: string | null
  readonly upstream_status: number | null
  readonly latency_ms: number | null
  readonly ttft_ms: number | null
}

/** Routing internals, shown to a caller that sent `X-Gateway-Debug: true`. */
export interface DebugFacts {
  readonly policyId: string | null
  readonly policyName: string | null
  readonly strategy: string | null
  readonly attempts: readonly AttemptView[]
  readonly task: string | null
  readonly shaping: readonly string[]
  readonly routeReason: string | null
  readonly traceId: string
  /** Further members about the plan, each with a comma in front; '' without a plan. */
  readonly explainedJson: string
}

/** Stable attribution. Null is "unknown", never "none". */
export interface GatewayFacts {
  readonly requestId: string
  readonly provider: string | null
  readonly requestedModel: string | null
  readonly routedModel: string | null
  readonly fallbackUsed: boolean
  readonly cacheHit: boolean
  readonly latencyMs: number
  readonly costNanoUsd: number | null
  readonly debug: DebugFacts | null
}

/** Ids and most names need no escape. */
const PLAIN = /^[\w.:/@ +-]*$/
const text = (value: string | null): string => {
  if (value === null) return 'null'
  return PLAIN.test(value) ? `"${value}"` : JSON.stringify(value)
}

const debugJson = (debug: DebugFacts): string =>
  `,"policy_id":${text(debug.policyId)},"policy_name":${text(debug.policyName)},"strategy":${text(debug.strategy)}` +
  `,"attempts":${JSON.stringify(debug.attempts)},"task":${text(debug.task)}` +
  `,"shaping":${JSON.stringify(debug.shaping)}` +
  `,"route_reason":${text(debug.routeReason)},"trace_id":${text(debug.traceId)}${debug.explainedJson}`

/** The requested model and the one that answered, as members with a comma on both sides. */
const whoJson = ({ provider, requestedModel, routedModel, fallbackUsed, cacheHit }: GatewayFacts): string =>
  `,"provider":${text(provider)},"requested_model":${text(requestedModel)},"routed_model":${text(routedModel)}` +
  `,"fallback_used":${fallbackUsed},"cache_hit":${cacheHit},"latency_ms":`

/** Adds the members of the block. */
const addGateway = (pieces: TextPiece[], facts: GatewayFacts, more: string): TextPiece[] => {
  const { requestId } = facts
  if (PLAIN.test(requestId)) pieces.push('{"request_id":"', requestId, '"')
  else pieces.push('{"request_id":', JSON.stringify(requestId))
  pieces.push(
    whoJson(facts),
    facts.latencyMs,
    ',"estimated_cost_usd":',
    facts.costNanoUsd === null ? 'null' : usdOf(facts.costNanoUsd),
    facts.debug === null ? '' : debugJson(facts.debug),
    more,
    '}',
  )
  return pieces
}

/**
 * The block as JSON text. `more` is appended inside it unchanged: `,"completion":{...}`, `,"structured":{...}`,
 * `,"tool_run":{...}` or nothing. `estimated_cost_usd` is null while no price is known.
 */
export const gatewayJson = (facts: GatewayFacts, more = ''): string => wholeText(addGateway([], facts, more))

/**
 * The block of a stream's first frame, without the provider, which is certain only at the end. `more` as for
 * `gatewayJson`.
 */
export const firstFrameGatewayJson = (
  requestId: string,
  requestedModel: string,
  routedModel: string,
  more = '',
): string =>
  `{"request_id":${text(requestId)},"requested_model":${text(requestedModel)}` +
  `,"routed_model":${text(routedModel)}${more}}`

/**
 * An answer or chunk with the block as a member. It replaces the block of an upstream that is such a gateway itself.
 */
export const withGateway = (json: string, blockJson: string): string =>
  json.includes('"gateway"')
    ? editMembers(json, new Map([['gateway', { do: 'set', json: blockJson }]]))
    : appendMembers(json, `"gateway":${blockJson}`)

/** An answer with the block of these facts, in pieces to be joined in order. */
export const withGatewayPieces = (json: string, facts: GatewayFacts, more: string): TextPieces => {
  if (json.includes('"gateway"')) return withGateway(json, gatewayJson(facts, more))
  const pieces: TextPiece[] = appendedPieces(json, '"gateway":')
  const end = pieces.pop()!
  addGateway(pieces, facts, more).push(end)
  return pieces
}
