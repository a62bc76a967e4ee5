// What the records of a request say about its plan: enough to show why, and to make the same plan again.

import type { BudgetPart } from '../domain/budget-events.ts'
import type { Candidate, Decision } from '../domain/request.ts'
import type { Static } from '../lib/schema.ts'
import type { TextPieces } from '../lib/text-pieces.ts'
import type { CatalogueEntry } from '../state/port.ts'
import type { Plan } from './plan.ts'
import { entryTexts, type FactsText } from './record-text.ts'

/** Ids of overrides and budgets beyond these are not listed: they follow from the state and the time. */
const LISTED_OVERRIDES = 32

/** Every candidate with its reason, '' when it was eligible. */
export const candidateList = ({ candidates, reasons }: Plan): Static<typeof Candidate>[] => {
  const list: Static<typeof Candidate>[] = []
  for (let i = 0; i < candidates.length; i++)
    list.push([candidates[i]!.providerId, candidates[i]!.modelId, reasons[i] ?? ''])
  return list
}

/** Lists are those of the catalogue: where nothing speaks against any candidate their text stays the same. */
const listTexts = new WeakMap<readonly CatalogueEntry[], string>()

/** `candidateList` as JSON text. */
const candidatesJson = ({ candidates, reasons }: Plan): string => {
  for (let i = 0; i < reasons.length; i++) if (reasons[i] !== null) return listJson(candidates, reasons)
  let json = listTexts.get(candidates)
  if (json === undefined) {
    json = listJson(candidates, reasons)
    listTexts.set(candidates, json)
  }
  return json
}

const listJson = (candidates: Plan['candidates'], reasons: Plan['reasons']): string => {
  let json = '['
  for (let i = 0; i < candidates.length; i++)
    json += `${i === 0 ? '' : ','}${entryTexts(candidates[i]!).candidate}"${reasons[i] ?? ''}"]`
  return `${json}]`
}

/** An admission, `RequestAdmitted`: the facts without their closing brace, and what it says beyond them. Its long parts stand by themselves: put together they would be copied once more. */
export const admittedJson = (
  facts: FactsText,
  plan: Plan,
  /** Who is called first. */
  entry: CatalogueEntry,
  promptTokens: number,
  reservedNanoUsd: number | null,
  budget: readonly BudgetPart[] | undefined,
): TextPieces => [
  facts.own,
  facts.common,
  ',"decision":',
  JSON.stringify(decisionWith(plan, null)).slice(0, -1),
  plan.scores === null ? '' : ',"scores":',
  plan.scores === null ? '' : scoresJson(plan.candidates, plan.scores),
  '},"candidates":',
  candidatesJson(plan),
  entryTexts(entry).first,
  promptTokens,
  ',"reserved_nano_usd":',
  reservedNanoUsd ?? 'null',
  budget === undefined ? '' : ',"budget":',
  budget === undefined ? '' : JSON.stringify(budget),
  '}',
]

/** The inputs of the plan that stand nowhere else, and what it came to. */
export const decisionOf = (plan: Plan): Decision => decisionWith(plan, plan.scores)

const decisionWith = (plan: Plan, scores: Plan['scores']): Decision => {
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
  if (intent.ownWords !== null) decision.own_words = { ...intent.ownWords }
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

/** Texts of the scores that candidates of a list were given last: as long as nobody's health or price changes they stay the same. */
const scoreTexts = new WeakMap<
  readonly CatalogueEntry[],
  { readonly scores: readonly (number | null)[]; json: string }
>()

/** The runtime takes long for fractions: 2 us for those of five candidates where memory is cold. */
const scoresJson = (candidates: readonly CatalogueEntry[], scores: readonly (number | null)[]): string => {
  const last = scoreTexts.get(candidates)
  if (last !== undefined && areSame(last.scores, scores)) return last.json
  const json = JSON.stringify(scores)
  scoreTexts.set(candidates, { scores, json })
  return json
}

const areSame = (one: readonly unknown[], other: readonly unknown[]): boolean => {
  if (one.length !== other.length) return false
  for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false
  return true
}

const listed = (ids: readonly string[]): string[] =>
  ids.length <= LISTED_OVERRIDES ? (ids as string[]) : ids.slice(0, LISTED_OVERRIDES)

const isAscending = (places: readonly number[]): boolean => {
  for (let i = 1; i < places.length; i++) if (places[i]! < places[i - 1]!) return false
  return true
}
