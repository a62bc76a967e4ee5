// The plan in the records of a request: what it was made from, so that the same plan can be made again, and what tells
// whether it is the same.
import type { PlanRecord } from '../../domain/events/request.ts'
import { decisionName } from '../../domain/events/request-reading.ts'
import { planDigest } from '../plan/digest.ts'
import type { Plan } from '../plan/plan.ts'

/** `revision`: the control decision that it was made on. */
export const planRecord = (plan: Plan, revision: string): PlanRecord => {
  const { input, strategy } = plan
  const { intent, frame, turn, sticky } = input
  const record: PlanRecord = {
    revision: decisionName(revision),
    seed: input.seed,
    digest: planDigest(plan),
    text_bytes: intent.textBytes,
    messages: intent.messageCount,
    prompt_bytes: intent.promptBytes,
  }
  if (frame.number !== 0) record.frame = frame.number
  noteRejections(record, plan)
  if (strategy === 'round_robin') record.turn = turn
  if (strategy === 'sticky') record.sticky = sticky
  if (input.isScopeAlias) record.scope_alias = true
  if (intent.requirements.length > 0) record.needs = intent.requirements.map(({ capability }) => capability)
  if (intent.mediaParts > 0) record.media_parts = intent.mediaParts
  if (intent.maxTokens !== null) record.max_tokens = intent.maxTokens
  if (intent.choices !== 1) record.choices = intent.choices
  if (intent.vendorFields !== null) record.own_words = { ...intent.vendorFields }
  noteHeaders(record, plan)
  return record
}

/** How often each reason occurs, and which providers had no adapter. */
const noteRejections = (record: PlanRecord, { candidates, reasons }: Plan): void => {
  for (let i = 0; i < reasons.length; i++) {
    const reason = reasons[i]!
    if (reason === null) continue
    record.rejected ??= {}
    record.rejected[reason] = (record.rejected[reason] ?? 0) + 1
    if (reason !== 'no_adapter') continue
    record.without_adapter ??= []
    const { providerId } = candidates[i]!
    if (!record.without_adapter.includes(providerId)) record.without_adapter.push(providerId)
  }
}

const noteHeaders = (record: PlanRecord, { input }: Plan): void => {
  const { headers } = input.intent
  if (headers.policy !== null) record.policy = headers.policy
  if (headers.maxCostUsd !== null) record.max_cost_usd = headers.maxCostUsd
  if (headers.latencyTargetMs !== null) record.latency_target_ms = headers.latencyTargetMs
  if (headers.region !== null) record.region = headers.region
  if (headers.sensitivity.length > 0) record.sensitivity = [...headers.sensitivity]
  if (headers.batch) record.batch = true
  if (headers.noFallback) record.no_fallback = true
}
