// The checks of a provider test: whether its address answers, what it lists, and one small completion of a model.
import type { ProviderRow } from '../../domain/registry/provider.ts'
import { type CheckResult, cutDetail } from '../../domain/registry/provider-test.ts'
import {
  type GatewayCallOutcome,
  type MakeGatewayCall,
  outcomeOrRefusal,
  type Payer,
} from '../../inference/gateway-calls.ts'
import { type Dial, DialFailure } from '../../lib/http-client/http-client.ts'
import type { ProviderKind } from '../../providers/port.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import type { KindTable } from './kind-table.ts'
import { canList, type ModelCatalogue } from './model-listing.ts'

export const CHECKS = ['connectivity', 'models', 'sample'] as const
export type Check = (typeof CHECKS)[number]

export interface CheckDeps {
  readonly dial: Dial
  readonly kindTable: KindTable
  readonly modelCatalogue: Pick<ModelCatalogue, 'list'>
  readonly ask: MakeGatewayCall
  /** The key and tenant whose budgets pay for the sample. */
  readonly payer: Payer
}

export interface RequestedTest {
  readonly checks: readonly Check[]
  /** The model of the sample; null: it has none. */
  readonly entry: CatalogueEntry | null
  readonly prompt: string | null
}

/** A result, and the part of its detail that may be recorded. */
export interface Checked {
  readonly shown: CheckResult
  readonly recorded: CheckResult
}

const CONNECT_MS = 5_000
const CONNECTIVITY_MS = 10_000
const LISTING_MS = 10_000
const SAMPLE_MS = 30_000
/** Enough for one word of any model, and little of one that reasons first. */
export const SAMPLE_TOKENS = 16
export const DEFAULT_PROMPT = 'Reply with the one word: ok'

type Finding = Omit<CheckResult, 'check' | 'latency_ms'>

/**
 * Runs the checks, all at once, and returns them in the order in which they were requested. Never throws for what the
 * provider does, nor for what the payer's budgets do not allow.
 */
export const runChecks = (
  provider: ProviderRow,
  requested: RequestedTest,
  deps: CheckDeps,
  signal: AbortSignal,
): Promise<Checked[]> =>
  Promise.all(
    requested.checks.map(async (check) => {
      const startedMs = performance.now()
      const found = await FINDERS[check](provider, requested, deps, signal)
      const latency_ms = Math.max(0, Math.round(performance.now() - startedMs))
      const shown: CheckResult = { check, latency_ms, ...found, detail: cutDetail(found.detail) }
      return { shown, recorded: withoutPrompt(shown, requested) }
    }),
  )

/**
 * A failed provider may quote its request, and no prompt may stand in the log. A sample that was not sent (there is no
 * outcome) quotes nothing.
 */
const withoutPrompt = (result: CheckResult, { prompt }: RequestedTest): CheckResult => {
  if (result.check !== 'sample' || result.status !== 'failed' || prompt === null || result.request_id === undefined)
    return result
  const status = result.upstream_status === undefined ? '' : `, status ${result.upstream_status}`
  return { ...result, detail: `the sample failed (${result.error_code ?? 'upstream_error'}${status})` }
}

type Finder = (
  provider: ProviderRow,
  requested: RequestedTest,
  deps: CheckDeps,
  signal: AbortSignal,
) => Finding | Promise<Finding>

const failed = (error: GatewayError): Finding => ({
  status: 'failed',
  detail: error.cause instanceof DialFailure ? reachMessage(error.cause) : error.message,
  error_code: error.code,
  ...(error.upstreamStatus === undefined ? {} : { upstream_status: error.upstreamStatus }),
})

/** The text names nothing but what the operator entered as its address. */
const reachMessage = ({ kind, message }: DialFailure): string => {
  if (kind === 'blocked') return `the egress rules do not allow this address: ${message}`
  if (kind === 'invalid_header') return `the credential cannot be used: ${message}`
  if (kind === 'invalid_url') return `base_url cannot be used: ${message}`
  return `the provider cannot be reached: ${message}`
}

const unknownKind = ({ kind }: ProviderRow): GatewayError =>
  new GatewayError('provider_unavailable', `the kind "${kind}" is not known to this build`)

/** Why nothing can be sent to it with a credential, or null. */
const credentialProblem = (
  provider: ProviderRow,
  kind: ProviderKind | null,
  secret: string | null,
): GatewayError | null => {
  if (kind === null) return unknownKind(provider)
  if (!kind.needsCredential || secret !== null) return null
  const how =
    provider.api_key_env === null
      ? `PUT /admin/v1/providers/${provider.id}/credential seals one, "api_key_env" names a variable`
      : `the variable ${provider.api_key_env} holds none that can be sent, and no credential is stored`
  return new GatewayError('provider_unavailable', `the provider has no credential: ${how}`)
}

/** No secret is sent, and any response will do. */
const connectivity: Finder = async (provider, _, { dial, kindTable }, signal) => {
  const kind = kindTable.resolve(provider.kind)
  if (kind === null) return failed(unknownKind(provider))
  if (kind.script !== undefined) return { status: 'passed', detail: 'it answers in process' }
  const url = (provider.base_url ?? kind.defaultBaseUrl ?? '').replace('{region}', regionOf(provider))
  const timeout = AbortSignal.timeout(CONNECTIVITY_MS)
  const limits = { signal: AbortSignal.any([timeout, signal]), connectMs: CONNECT_MS, headersMs: CONNECTIVITY_MS }
  try {
    const response = await dial({ method: 'GET', url, headers: {}, body: null }, limits)
    await response.body?.cancel()
    const { status } = response
    const over = url.startsWith('https:') ? ' over TLS' : ''
    const moved = status >= 300 && status < 400 ? ': a redirect, which is never followed; correct base_url' : ''
    return { status: 'passed', detail: `it answers${over} with status ${status}${moved}`, upstream_status: status }
  } catch (cause) {
    if (timeout.aborted)
      return {
        status: 'failed',
        detail: `it did not answer within ${CONNECTIVITY_MS / 1_000} s`,
        error_code: 'timeout',
      }
    const late = cause instanceof DialFailure && cause.kind.startsWith('timeout_')
    return failed(new GatewayError(late ? 'timeout' : 'upstream_error', 'the connection broke', { cause }))
  }
}

const regionOf = ({ region, options }: ProviderRow): string =>
  typeof options.region === 'string' ? options.region : (region ?? 'us-east-1')

const models: Finder = async (provider, _, { kindTable, modelCatalogue }, signal) => {
  if (kindTable.resolve(provider.kind) === null) return failed(unknownKind(provider))
  if (!canList(provider, kindTable))
    return { status: 'skipped', detail: `providers of the kind "${provider.kind}" cannot list their models` }
  try {
    const listed = await modelCatalogue.list(provider, { totalMs: LISTING_MS, signal })
    return {
      status: 'passed',
      detail: `it lists ${listed.length} model${listed.length === 1 ? '' : 's'}`,
      models: listed.length,
    }
  } catch (error) {
    return failed(
      error instanceof GatewayError
        ? error
        : new GatewayError('upstream_error', "the provider's listing could not be read", { cause: error }),
    )
  }
}

const sample: Finder = async (provider, { entry, prompt }, { kindTable, ask, payer }, signal) => {
  if (entry === null) {
    const detail = 'it has no active model: POST /admin/v1/models registers one, sync-models all that it lists'
    return { status: 'skipped', detail }
  }
  const problem = credentialProblem(provider, kindTable.resolve(provider.kind), entry.secret)
  if (problem !== null) return { ...failed(problem), model: entry.name }
  const body = {
    messages: [{ role: 'user', content: prompt ?? DEFAULT_PROMPT }],
    max_completion_tokens: SAMPLE_TOKENS,
  }
  const question = { entry, body, purpose: 'test', payer, timeoutMs: SAMPLE_MS, signal } as const
  const outcome = await outcomeOrRefusal(ask, question)
  return outcome instanceof GatewayError ? { ...failed(outcome), model: entry.name } : sampleFinding(entry, outcome)
}

const sampleFinding = (
  entry: CatalogueEntry,
  { requestId, error, answer, measured, latencyMs }: GatewayCallOutcome,
) => {
  const charged = {
    model: entry.name,
    request_id: requestId,
    prompt_tokens: measured.promptTokens,
    completion_tokens: measured.completionTokens,
    cost_nano_usd: measured.costNanoUsd,
    cost_basis: measured.basis,
  }
  if (error !== null) return { ...failed(error), ...charged }
  const finish = answer?.finishReason == null ? '' : `, finish_reason ${answer.finishReason.slice(0, 64)}`
  const tokens = `${measured.promptTokens ?? 0} + ${measured.completionTokens ?? 0} tokens`
  return {
    status: 'passed' as const,
    detail: `"${entry.name}" answered in ${latencyMs} ms (${tokens}${finish})`,
    ...charged,
  }
}

const FINDERS: Readonly<Record<Check, Finder>> = { connectivity, models, sample }
