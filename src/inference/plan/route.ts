// Station 4 on the request path: gathers the inputs of a plan (scope, overrides, policy, frame, seed), and makes the
// plan.
import type { HeaderReader } from '../../lib/http-server/http-server.ts'
import type { EndpointScope, OverridesInForce, Steering } from '../../state/indexes/steering.ts'
import type { KeyEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import type { Intent } from '../intent/intent.ts'
import { factsText } from '../records/facts.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Exchange } from '../request/exchange.ts'
import type { Planned } from '../request/progress.ts'
import type { CandidateSource } from './candidates.ts'
import { isDisabled, makePlan, type Plan, strategyFor } from './plan.ts'
import { type EffectivePolicy, policyResolver } from './policies.ts'
import { type PlanIntent, subjectsOf } from './rejections.ts'

type RouteDeps = Pick<InferenceDeps, 'live' | 'catalogue' | 'steering' | 'frames' | 'random' | 'userDigest'>

/**
 * Plans a request of a key. Throws when what it names is unknown or not allowed; a plan without a candidate has
 * `refused`.
 */
export type Route = (intent: Intent, key: KeyEntry, headers: HeaderReader, atMs: number) => Plan

const SEEDS = 2 ** 31
const MAX_COUNTS = 10_000

export const planner = (deps: RouteDeps): Route => {
  const { catalogue, steering, frames, random } = deps
  const policyOf = policyResolver(deps.live)
  const counts = new Map<string, number>()

  /** One count for each model, so that requests for one do not shift the order of another. */
  const nextCount = (name: string, isAlias: boolean): number => {
    // clients send any name: only those that operators gave are counted
    if (!isAlias && catalogue.resolve(name).length === 0) return 0
    const model = name.toLowerCase()
    const turn = counts.get(model) ?? 0
    if (counts.size >= MAX_COUNTS) counts.clear()
    counts.set(model, (turn + 1) % SEEDS)
    return turn
  }

  return (intent, key, headers, atMs) => {
    const overrides = steering.overrides(key.tenantId, atMs)
    const { scope, isAlias } = scopeOf(intent, key, deps)
    const policy = policyOf(key, intent.headers.policy, scope)
    if (overrides.ids.length > 0) refuseBlocked(intent, key, policy, overrides)
    const strategy = strategyFor(policy, intent)
    return makePlan({
      intent,
      policy,
      catalogue,
      keyId: key.id,
      isScopeAlias: isAlias,
      overrides,
      frame: frames.current(),
      seed: Math.floor(random() * SEEDS),
      turn: strategy === 'round_robin' ? nextCount(policy.forcedModel ?? intent.model, isAlias) : 0,
      sticky: strategy === 'sticky' ? stickiness(policy.hashOn, intent, key, headers, deps) : 0,
    })
  }
}

interface Selected {
  readonly scope: EndpointScope | null
  /** The model name of the request is an alias of the scope. */
  readonly isAlias: boolean
}

interface ScopeDeps {
  readonly catalogue: Pick<CandidateSource, 'resolve'>
  readonly steering: Pick<Steering, 'endpoint' | 'endpointOfAlias'>
}

const UNSCOPED: Selected = { scope: null, isAlias: false }

/** The endpoint scope that the header names, else the one whose alias is the model name. Throws 404 and 403. */
export const scopeOf = (
  intent: Pick<PlanIntent, 'model' | 'headers'>,
  key: Pick<KeyEntry, 'tenantId'>,
  { catalogue, steering }: ScopeDeps,
): Selected => {
  const slug = intent.headers.endpoint
  const isModel = slug === null && catalogue.resolve(intent.model).length > 0
  if (isModel) return UNSCOPED
  const aliased = steering.endpointOfAlias(key.tenantId, intent.model)
  if (slug === null && aliased === null) return UNSCOPED
  const scope = slug === null ? aliased : steering.endpoint(key.tenantId, slug)
  if (scope === null)
    throw new GatewayError('not_found', `no endpoint scope "${slug}"`, { param: 'X-Gateway-Endpoint' })
  if (!scope.enabled)
    throw new GatewayError('permission_error', `the endpoint scope "${scope.slug}" is disabled`, {
      param: slug === null ? 'model' : 'X-Gateway-Endpoint',
    })
  return { scope, isAlias: aliased?.id === scope.id }
}

/** Throws 403 where an operator has blocked the request as a whole. Without its body, single tools are not checked. */
export const refuseBlocked = (
  intent: PlanIntent & Partial<Pick<Intent, 'body'>>,
  key: Pick<KeyEntry, 'id'>,
  policy: EffectivePolicy,
  overrides: OverridesInForce,
): void => {
  const refuse = (what: string, param: string | null): never => {
    throw new GatewayError('permission_error', `an operator has blocked ${what}`, {
      param,
      details: { rejected_reason: 'blocked' },
    })
  }
  if (overrides.blockedKeyIds.has(key.id)) refuse('this API key', null)
  const { scope } = policy
  if (scope !== null && overrides.blockedEndpoints.has(scope.slug))
    refuse(`the endpoint scope "${scope.slug}"`, intent.headers.endpoint === null ? 'model' : 'X-Gateway-Endpoint')
  if (!intent.requirements.some(({ capability }) => capability === 'tools')) return
  if (isDisabled('tools', overrides, subjectsOf(intent, policy, key.id))) refuse('the use of tools', 'tools')
  if (overrides.blockedTools.size === 0) return
  for (const name of toolNames(intent)) if (overrides.blockedTools.has(name)) refuse(`the tool "${name}"`, 'tools')
}

/** Names of the tools that a request declares, in either form; their shape is checked before. */
const toolNames = ({ body }: Partial<Pick<Intent, 'body'>>): string[] => {
  const tools = (Array.isArray(body?.tools) ? body.tools : []) as { function?: { name?: string } }[]
  const functions = (Array.isArray(body?.functions) ? body.functions : []) as { name?: string }[]
  return [...tools.map((tool) => tool.function?.name), ...functions.map(({ name }) => name)].filter(
    (name) => typeof name === 'string',
  )
}

/**
 * 32 bits of the value that `sticky` routes by, digested under the tenant's key since they are recorded. Without that
 * value, the API key.
 */
const stickiness = (
  hashOn: string,
  { user }: Intent,
  key: KeyEntry,
  headers: HeaderReader,
  { userDigest }: RouteDeps,
): number => {
  const named = hashOn.startsWith('header:') ? headers.get(hashOn.slice('header:'.length)) : null
  const value = hashOn === 'user' ? user : named
  return Number.parseInt(userDigest(key.tenantId, value ?? key.id).slice(0, 8), 16)
}

/**
 * Sets the plan, made on a `revision`, on the request. `user`: keyed digest of the end user. From now on the policy
 * limits the time.
 */
export const planned = (
  exchange: Exchange,
  intent: Intent,
  plan: Plan,
  revision: string,
  user: string | null,
): Planned => {
  exchange.intent = intent
  exchange.plan = plan
  exchange.deadlineMs = exchange.identity.startedMs + plan.policy.totalMs
  exchange.revision = revision
  exchange.factsText = factsText(exchange, user)
  exchange.plannedMs = exchange.latencyMs()
  return exchange as Planned
}
