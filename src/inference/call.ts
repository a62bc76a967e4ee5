// One call to a provider: sent as its kind has it, answered with a success, or refused.
import type { DialResponse } from '../lib/upstream.ts'
import type { ChatCall, ProviderKind, Reading, Target, UpstreamRequest } from '../providers/provider.ts'
import type { CatalogueEntry } from '../state/port.ts'
import type { GatewayError } from '../wire/errors.ts'
import type { InferenceDeps } from './deps.ts'
import type { Exchange } from './exchange.ts'
import type { Intent } from './intent.ts'
import type { Plan } from './plan.ts'
import { playScript } from './script.ts'

const FAILURE_LIMIT_BYTES = 64 * 1024

type CallDeps = Pick<InferenceDeps, 'dial' | 'health'>

/** Who is called, with what, and for how long. */
export interface ProviderCall {
  readonly exchange: Exchange
  readonly intent: Intent
  readonly entry: CatalogueEntry
  readonly plan: Plan
  readonly kind: ProviderKind
  readonly reading: Reading
  /** How long it may take from then on, by the monotonic clock. */
  readonly waitMs: (nowMs: number) => number
}

/** Of what is not as the provider wants it; a 422 is how many servers say it. */
const FIELD_STATUSES: readonly (number | undefined)[] = [400, 422]
const USAGE_FIELD = /stream_options|include_usage/

/**
 * What the provider answers with a success. Throws what it refuses; but where that may be the question for usage, which a budget asks and no client, it is
 * called once more without, within the same attempt: what was refused is not billed.
 */
export const called = async (call: ProviderCall, { dial, health }: CallDeps): Promise<DialResponse> => {
  const { exchange, intent, entry } = call
  const { usageAnswers } = health
  const isWanted = intent.stream && isUnderHardBudget(exchange)
  const known = isWanted ? usageAnswers.takes(entry) : null
  let asks = isWanted && known !== false
  for (let isAgain = false; ; isAgain = true) {
    const request = requestOf(call, asks)
    const asked = request.asksForBudget === true
    const response = await answerTo(request, call, dial)
    exchange.call!.headers(response)
    if (response.status >= 200 && response.status <= 299) {
      if (asked || isAgain) usageAnswers.answered(entry, asked)
      return response
    }
    const error = await refusal(response, call)
    const names = USAGE_FIELD.test(`${error.param} ${error.message}`)
    const mayBeIt = asked && FIELD_STATUSES.includes(response.status) && (names || known === null)
    if (!mayBeIt || exchange.ended !== null) throw error
    if (names) usageAnswers.answered(entry, false)
    asks = false
  }
}

/** What is sent, as its kind has it. */
const requestOf = ({ exchange, intent, entry, kind }: ProviderCall, usageForBudget: boolean): UpstreamRequest => {
  const chat: ChatCall = {
    raw: intent.raw,
    body: intent.body,
    stream: intent.stream,
    capabilities: entry.capabilities,
  }
  const target: Target = {
    baseUrl: entry.baseUrl,
    secret: entry.secret,
    upstreamModel: entry.upstreamModel,
    options: entry.options,
    maxOutputTokens: entry.maxOutputTokens,
    usageOnStream: entry.usageOnStream,
    usageForBudget,
    region: entry.region,
    // A later attempt is made later: a signature is good for five minutes.
    atMs: exchange.identity.atMs + exchange.latencyMs(),
  }
  const request = kind.request(chat, target)
  exchange.shaping = intent.shaping.length === 0 ? request.shaping : [...intent.shaping, ...request.shaping]
  return request
}

/** Sends it, and waits for the head of an answer as long as the policy, its share of the time and its model allow. */
const answerTo = (
  request: UpstreamRequest,
  { exchange, intent, entry, plan: { policy }, kind, waitMs }: ProviderCall,
  dial: CallDeps['dial'],
): Promise<DialResponse> => {
  const nowMs = performance.now()
  const shareMs = waitMs(nowMs)
  const bounds = intent.stream ? Math.min(policy.firstTokenMs, shareMs) : shareMs
  const headersMs = entry.timeoutMs === null ? bounds : Math.min(bounds, entry.timeoutMs)
  exchange.waitReason = 'first_token'
  exchange.waitDeadlineMs = nowMs + headersMs
  const signal = exchange.newSignal()
  exchange.mayBill = !signal.aborted
  if (kind.script !== undefined) return playScript(kind.script(request), signal)
  const sent = exchange.trace === null ? request : exchange.trace.carriedBy(request)
  return dial(sent, { signal, connectMs: policy.connectMs, headersMs })
}

/** What an answer counts is then what is charged, and not what it may count at most. */
const isUnderHardBudget = ({ budgets }: Exchange): boolean => {
  const bound = budgets?.bound()
  return bound !== undefined && (bound.nano_usd !== null || bound.tokens !== null)
}

/** What a provider says instead of an answer. */
const refusal = async (response: DialResponse, { exchange, kind, reading }: ProviderCall): Promise<GatewayError> => {
  const body = await response.text(FAILURE_LIMIT_BYTES).catch(() => '')
  exchange.mayBill = false
  exchange.waitEnded = null // it has answered, though what it says did not come whole
  return kind.failure(response.status, body, response.headers, reading)
}
