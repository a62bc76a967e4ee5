// One call to a provider: sent as its kind has it, answered with a success, or refused.
import type { DialResponse } from '../../lib/http-client/http-client.ts'
import type { ChatCall, ProviderKind, Reading, Target, UpstreamRequest } from '../../providers/port.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import type { Intent } from '../intent/intent.ts'
import type { Plan } from '../plan/plan.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Exchange } from '../request/exchange.ts'
import { asGatewayError } from '../request/failure.ts'
import { shareMs } from './failover.ts'
import { passOver } from './health.ts'
import { playScript } from './scripted-upstream.ts'

const FAILURE_LIMIT_BYTES = 64 * 1024

type CallDeps = Pick<InferenceDeps, 'dial' | 'health' | 'kinds'>

/** Who is called, with what, and for how long. */
export class ProviderCall {
  /** What is sent; null until it is prepared. */
  request: UpstreamRequest | null = null
  /** It asks for usage, which a budget has to know and no client wants. Known once it is sent. */
  asksForUsage = false
  /** Whether its provider was known by then to take that question; null: not known, or not wanted. */
  takesQuestion: boolean | null = null

  constructor(
    readonly exchange: Exchange,
    readonly intent: Intent,
    readonly entry: CatalogueEntry,
    readonly plan: Plan,
    /** Null: this build does not know its kind. */
    readonly kind: ProviderKind | null,
    readonly reading: Reading,
    /** How many candidates are left, this one among them, and which call of the request it is: what its share of the time depends on. */
    readonly candidatesLeft: number,
    readonly callNumber: number,
  ) {}
}

/** Of what is not as the provider wants it; a 422 is how many servers say it. */
const FIELD_STATUSES: readonly (number | undefined)[] = [400, 422]
const USAGE_FIELD = /stream_options|include_usage/

/** Puts together what is sent. A provider that cannot be asked this at all is passed over, like one without a capability: another may be. Answers why, or null. */
export const prepare = (call: ProviderCall, deps: Pick<CallDeps, 'health'>): GatewayError | null => {
  const { exchange, entry, intent } = call
  const isWanted = intent.stream && isUnderHardBudget(exchange)
  call.takesQuestion = isWanted ? deps.health.usageAnswers.takes(entry) : null
  try {
    prepareAs(call, isWanted && call.takesQuestion !== false)
    return null
  } catch (thrown) {
    return passOver(exchange, entry, asGatewayError(thrown))
  }
}

const prepareAs = (call: ProviderCall, asks: boolean): void => {
  call.request = requestOf(call, asks)
  call.asksForUsage = call.request.asksForBudget === true
}

const isSuccess = ({ status }: DialResponse): boolean => status >= 200 && status <= 299

/** Whether the provider answers with a success. */
export const accepted = (response: DialResponse, call: ProviderCall, deps: CallDeps): boolean => {
  const { exchange, entry, asksForUsage } = call
  exchange.call!.headers(response)
  if (!isSuccess(response)) return false
  if (asksForUsage) deps.health.usageAnswers.answered(entry, true)
  return true
}

/**
 * Throws what the provider refuses; but where that may be the question for usage, which a budget asks and no client, it is called once more without, within the
 * same attempt: what was refused is not billed.
 */
export const refused = async (response: DialResponse, call: ProviderCall, deps: CallDeps): Promise<DialResponse> => {
  const { exchange, entry, asksForUsage, takesQuestion } = call
  const { usageAnswers } = deps.health
  const error = await refusal(response, call)
  const names = USAGE_FIELD.test(`${error.param} ${error.message}`)
  const mayBeIt = asksForUsage && FIELD_STATUSES.includes(response.status) && (names || takesQuestion === null)
  if (!mayBeIt || exchange.ended !== null) throw error
  if (names) usageAnswers.answered(entry, false)
  prepareAs(call, false)
  const again = await send(call, deps)
  exchange.call!.headers(again)
  if (!isSuccess(again)) throw await refusal(again, call)
  usageAnswers.answered(entry, call.asksForUsage)
  return again
}

/** What is sent, as its kind has it. Throws GatewayError where that cannot say it. */
const requestOf = ({ exchange, intent, entry, kind }: ProviderCall, usageForBudget: boolean): UpstreamRequest => {
  if (kind === null) throw new GatewayError('provider_unavailable', `the kind "${entry.kind}" is not known`)
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
    atMs: exchange.identity.atMs + Math.round(performance.now() - exchange.identity.startedMs),
  }
  return kind.request(chat, target)
}

/**
 * Sends what was prepared, and waits for the head of an answer as long as the policy, its share of the time and its model allow. What comes back is `accepted`, or
 * `refused`. No async function: that of the attempt waits for it.
 */
export const send = (call: ProviderCall, { dial }: Pick<CallDeps, 'dial'>): Promise<DialResponse> => {
  const { exchange, intent, entry, plan, candidatesLeft, callNumber } = call
  const { policy } = plan
  const request = call.request!
  // Of who is called: one that was prepared may have been passed over since.
  exchange.shaping = intent.shaping.length === 0 ? request.shaping : [...intent.shaping, ...request.shaping]
  const nowMs = performance.now()
  const ownMs = shareMs(exchange.deadlineMs - nowMs, candidatesLeft, callNumber, plan)
  const bounds = intent.stream ? Math.min(policy.firstTokenMs, ownMs) : ownMs
  const headersMs = entry.timeoutMs === null ? bounds : Math.min(bounds, entry.timeoutMs)
  exchange.waitReason = 'first_token'
  exchange.waitDeadlineMs = nowMs + headersMs
  const signal = exchange.newSignal()
  exchange.mayBill = !signal.aborted
  const script = call.kind!.script?.(request)
  if (script !== undefined) return playScript(script, signal)
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
  return kind!.failure(response.status, body, response.headers, reading)
}
