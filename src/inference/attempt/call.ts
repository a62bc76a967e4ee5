// One call to a provider: prepared and sent in the wire of its kind, then accepted or refused by the provider.
import type { DialResponse } from '../../lib/http-client/http-client.ts'
import type { ChatCall, ProviderKind, Reading, Target, UpstreamRequest } from '../../providers/port.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import { upstreamExcess } from '../../wire/upstream-json.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Exchange, Identity } from '../request/exchange.ts'
import { asGatewayError } from '../request/failure.ts'
import type { Admitted, Called } from '../request/progress.ts'
import { type Failover, shareMs } from './failover.ts'
import { passOver } from './health.ts'
import { playScript } from './scripted-upstream.ts'

const FAILURE_LIMIT_BYTES = 64 * 1024

type CallDeps = Pick<InferenceDeps, 'dial' | 'health' | 'kinds'>

/** The call's place among those of its request: its share of the time depends on it. */
type CallPlace = Pick<Failover, 'candidatesLeft' | 'callNumber'>

/** Which candidate is called, with what, and for how long. */
export class ProviderCall implements CallPlace {
  readonly reading: Reading
  readonly candidatesLeft: number
  readonly callNumber: number
  #request: UpstreamRequest

  constructor(
    readonly exchange: Admitted,
    readonly entry: CatalogueEntry,
    readonly kind: ProviderKind,
    { candidatesLeft, callNumber }: CallPlace,
    /**
     * Whether a budget needs usage that the client does not want. `accepted`, `refused`: how the provider answered such
     * a call before; a call that would be refused does not request usage. `unknown`: no such call was answered yet.
     */
    readonly usageForBudget: 'unwanted' | 'accepted' | 'refused' | 'unknown',
  ) {
    this.candidatesLeft = candidatesLeft
    this.callNumber = callNumber
    this.reading = new AttemptReading(exchange, entry)
    this.#request = requestOf(this, usageForBudget === 'accepted' || usageForBudget === 'unknown')
  }

  get request(): UpstreamRequest {
    return this.#request
  }

  /** The call requests usage for a budget. */
  get requestsUsage(): boolean {
    return this.#request.requestsUsageForBudget === true
  }

  /** Prepares the same call without asking for usage. Throws GatewayError like `prepare`. */
  withoutUsage(): void {
    this.#request = requestOf(this, false)
  }
}

/** What an answer is read with. Its id is made when the answer has none of its own. */
class AttemptReading implements Reading {
  readonly createdS: number
  readonly model: string
  readonly secret: string | null
  readonly baseUrl: string
  readonly hidesUsage: boolean
  readonly #identity: Identity

  constructor({ identity, intent }: Admitted, entry: CatalogueEntry) {
    this.#identity = identity
    this.createdS = Math.floor(identity.atMs / 1_000)
    this.model = entry.upstreamModel
    this.secret = entry.secret
    this.baseUrl = entry.baseUrl
    this.hidesUsage = intent.stream && !intent.includeUsage
  }

  get id(): string {
    return `chatcmpl-${this.#identity.id.slice(4)}`
  }
}

/** Statuses of a request with a field that the provider does not accept; many servers use 422. */
const FIELD_STATUSES: readonly (number | undefined)[] = [400, 422]
const USAGE_FIELD = /stream_options|include_usage/

/**
 * Prepares a call. A candidate whose kind cannot express the request is passed over, like one without a capability,
 * since another may serve it: returns the error.
 */
export const prepare = (
  exchange: Admitted,
  entry: CatalogueEntry,
  place: CallPlace,
  { health, kinds }: Pick<CallDeps, 'health' | 'kinds'>,
): ProviderCall | GatewayError => {
  const kind = kinds.get(entry.kind)
  const isWanted = exchange.intent.stream && isUnderHardBudget(exchange)
  try {
    if (kind === undefined) throw new GatewayError('provider_unavailable', `the kind "${entry.kind}" is not known`)
    return new ProviderCall(exchange, entry, kind, place, isWanted ? usageAnswerOf(entry, health) : 'unwanted')
  } catch (thrown) {
    return passOver(exchange, entry, asGatewayError(thrown))
  }
}

const usageAnswerOf = (entry: CatalogueEntry, { usageSupport }: CallDeps['health']) => {
  const takes = usageSupport.takes(entry)
  return takes === null ? 'unknown' : takes ? 'accepted' : 'refused'
}

const isSuccess = ({ status }: DialResponse): boolean => status >= 200 && status <= 299

/** Whether the provider answers with a success. */
export const accepted = (
  response: DialResponse,
  exchange: Called,
  { entry, requestsUsage }: ProviderCall,
  { health }: Pick<CallDeps, 'health'>,
): boolean => {
  exchange.call.headers(response)
  if (!isSuccess(response)) return false
  if (requestsUsage) health.usageSupport.answered(entry, true)
  return true
}

/**
 * Throws the refusal of the provider. Where it may be due to the request for usage, which a budget needs and not the
 * client, the call is repeated once without it within the same attempt: a refused call is not billed.
 */
export const refused = async (
  response: DialResponse,
  exchange: Called,
  call: ProviderCall,
  deps: CallDeps,
): Promise<DialResponse> => {
  const { usageSupport } = deps.health
  const error = await refusal(response, call)
  const namesUsage = USAGE_FIELD.test(`${error.param} ${error.message}`)
  const isOfField = FIELD_STATUSES.includes(response.status)
  const mayBeUsage = call.requestsUsage && isOfField && (namesUsage || call.usageForBudget === 'unknown')
  if (!mayBeUsage || exchange.ended !== null) throw error
  if (namesUsage) usageSupport.answered(call.entry, false)
  call.withoutUsage()
  const repeated = await send(call, deps)
  exchange.call.headers(repeated)
  if (!isSuccess(repeated)) throw await refusal(repeated, call)
  usageSupport.answered(call.entry, call.requestsUsage)
  return repeated
}

/** What is sent, in the wire of its kind. Throws GatewayError where that cannot express it. */
const requestOf = ({ exchange, entry, kind }: ProviderCall, usageForBudget: boolean): UpstreamRequest => {
  const { intent, identity } = exchange
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
    // The time of this attempt, not of the request: a signature is valid for five minutes.
    atMs: identity.atMs + Math.round(performance.now() - identity.startedMs),
  }
  return kind.request(chat, target)
}

/**
 * Sends the prepared request, and waits for the head of the response as long as the policy, the call's share of the
 * time and its model allow. The response goes to `accepted` and `refused`. Not an async function: `attempt` awaits it.
 */
export const send = (call: ProviderCall, { dial }: Pick<CallDeps, 'dial'>): Promise<DialResponse> => {
  const { exchange, entry, kind, request } = call
  const { intent, plan } = exchange
  const { policy } = plan
  // Set here and not when it is prepared: a prepared candidate may be passed over.
  exchange.shaping = intent.shaping.length === 0 ? request.shaping : [...intent.shaping, ...request.shaping]
  const nowMs = performance.now()
  const ownMs = shareMs(exchange.deadlineMs - nowMs, call, plan)
  const bounds = intent.stream ? Math.min(policy.firstTokenMs, ownMs) : ownMs
  const headersMs = entry.timeoutMs === null ? bounds : Math.min(bounds, entry.timeoutMs)
  exchange.waitReason = 'first_token'
  exchange.waitDeadlineMs = nowMs + headersMs
  const signal = exchange.newSignal()
  exchange.mayBill = !signal.aborted
  const script = kind.script?.(request)
  if (script !== undefined) return playScript(script, signal)
  const sent = exchange.trace === null ? request : exchange.trace.carriedBy(request)
  return dial(sent, { signal, connectMs: policy.connectMs, headersMs })
}

/** A budget then charges the usage that an answer reports, and not the most that it may be. */
const isUnderHardBudget = ({ budgets }: Exchange): boolean => {
  const bound = budgets?.bound()
  return bound !== undefined && (bound.nano_usd !== null || bound.tokens !== null)
}

/** The error that the provider sent instead of an answer. */
const refusal = async (response: DialResponse, { exchange, kind, reading }: ProviderCall): Promise<GatewayError> => {
  const sent = await response.text(FAILURE_LIMIT_BYTES).catch(() => '')
  const body = upstreamExcess(sent) === null ? sent : ''
  exchange.mayBill = false
  exchange.waitEnded = null // the provider has answered, even if its body did not arrive in full
  return kind.failure(response.status, body, response.headers, reading)
}
