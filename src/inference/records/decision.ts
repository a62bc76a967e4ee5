// The decision in the records of a request: enough to show why it was routed so, and to make the same plan again.

import type { Candidate, Decision } from '../../domain/events/request.ts'
import type { Static } from '../../lib/schema/schema.ts'
import type { Plan } from '../plan/plan.ts'
import { isAscending } from '../plan/strategies.ts'

/** Further ids of overrides and budgets are not listed: they follow from the state and the time. */
const LISTED_OVERRIDES = 32

/** Every candidate with its reason, '' when it was eligible. */
export const candidateList = ({ candidates, reasons }: Plan): Static<typeof Candidate>[] => {
  const list: Static<typeof Candidate>[] = []
  for (let i = 0; i < candidates.length; i++)
    list.push([candidates[i]!.providerId, candidates[i]!.modelId, reasons[i] ?? ''])
  return list
}

/** The inputs of the plan that no other member holds, and its result. */
export const decisionOf = (plan: Plan): Decision => decisionWith(plan, plan.scores)

/** `scores`: null where they are written elsewhere. */
export const decisionWith = (plan: Plan, scores: Plan['scores']): Decision => {
  const { input, policy } = plan
  const { intent, overrides } = input
  const { headers } = intent
  const decision: Decision = {
    source: policy.source,
    text_bytes: intent.textBytes,
    messages: intent.messageCount,
    prompt_bytes: intent.promptBytes,
    projected: plan.projectedNanoUsd as (number | null)[],
  }
  if (overrides.ids.length > 0) decision.overrides = listed(overrides.ids)
  if (overrides.hardCaps !== null) decision.budgets = listed(overrides.hardCaps.budgetIds)
  if (input.turn !== 0) decision.turn = input.turn
  if (input.sticky !== 0) decision.sticky = input.sticky
  if (input.isScopeAlias) decision.scope_alias = true
  if (intent.requirements.length > 0) decision.needs = intent.requirements.map(({ capability }) => capability)
  if (intent.mediaParts > 0) decision.media_parts = intent.mediaParts
  if (intent.maxTokens !== null) decision.max_tokens = intent.maxTokens
  if (intent.choices !== 1) decision.choices = intent.choices
  if (intent.vendorFields !== null) decision.own_words = { ...intent.vendorFields }
  if (headers.policy !== null) decision.policy = headers.policy
  if (headers.maxCostUsd !== null) decision.max_cost_usd = headers.maxCostUsd
  if (headers.latencyTargetMs !== null) decision.latency_target_ms = headers.latencyTargetMs
  if (headers.region !== null) decision.region = headers.region
  if (headers.sensitivity.length > 0) decision.sensitivity = [...headers.sensitivity]
  if (headers.batch) decision.batch = true
  if (headers.noFallback) decision.no_fallback = true
  if (scores !== null) decision.scores = scores as (number | null)[]
  if (!isAscending(plan.order)) decision.order = plan.order as number[]
  return decision
}

const listed = (ids: readonly string[]): string[] =>
  ids.length <= LISTED_OVERRIDES ? (ids as string[]) : ids.slice(0, LISTED_OVERRIDES)
