// What the records of a request say about its plan: enough to show why, and to make the same plan again.

import type { BudgetPart } from '../domain/budget-events.ts'
import type { Candidate, Decision } from '../domain/request.ts'
import type { Static } from '../lib/schema.ts'
import type { TextPiece, TextPieces } from '../lib/text-pieces.ts'
import { type FilledText, type GapValue, gap, TextTemplate } from '../lib/text-template.ts'
import type { CatalogueEntry } from '../state/port.ts'
import { partPieces } from './budget-text.ts'
import type { Plan } from './plan.ts'
import { entryTexts, type FactsText } from './record-text.ts'
import { type KnownTemplates, Templates } from './templates.ts'

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

/** An admission, `RequestAdmitted`: the facts without their closing brace, and what it says beyond them. */
export const admittedJson = (
  facts: FactsText,
  plan: Plan,
  /** Who is called first. */
  entry: CatalogueEntry,
  promptTokens: number,
  reservedNanoUsd: number | null,
  budget: readonly BudgetPart[] | undefined,
): TextPieces => {
  const plain = plainJson(plan, entry, promptTokens, reservedNanoUsd)
  const pieces: TextPiece[] = [facts, plain ?? membersJson(plan, entry, promptTokens, reservedNanoUsd)]
  if (plan.scores !== null) pieces.push(',"scores":', scoresJson(plan.candidates, plan.scores))
  pieces.push('}')
  if (budget !== undefined) partPieces(pieces, budget)
  pieces.push('}')
  return pieces
}

/** All members but facts and budgets, each with a comma in front. The decision, which is the last, without its scores, which change with every price, and its brace. */
const membersJson = (
  plan: Plan,
  entry: CatalogueEntry,
  promptTokens: number,
  reservedNanoUsd: number | null,
): string => {
  const decision = JSON.stringify(decisionWith(plan, null)).slice(0, -1)
  return `,"candidates":${candidatesJson(plan)}${entryTexts(entry).first}${promptTokens},"reserved_nano_usd":${reservedNanoUsd},"decision":${decision}`
}

/** What the text of an admission depends on beside its list of candidates and its gaps.: whatever is left out here, and in `isPlain`, would be said of requests that it is not true of. */
interface PlainKey {
  readonly entry: CatalogueEntry
  readonly source: Decision['source']
  readonly order: Plan['order']
  readonly hasCeiling: boolean
  readonly hardCaps: Plan['input']['overrides']['hardCaps']
}

const templates = new Templates<readonly CatalogueEntry[], PlainKey>()

/** Nothing speaks against any candidate, and the plan had nothing else to look at than most have. */
const isPlain = ({ input, reasons }: Plan): boolean => {
  const { intent, overrides } = input
  const { headers } = intent
  if (overrides.ids.length > 0 || input.turn !== 0 || input.sticky !== 0 || input.isScopeAlias) return false
  if (intent.requirements.length > 0 || intent.mediaParts > 0 || intent.choices !== 1 || intent.ownWords !== null)
    return false
  if (headers.policy !== null || headers.maxCostUsd !== null || headers.latencyTargetMs !== null) return false
  if (headers.region !== null || headers.sensitivity.length > 0 || headers.batch || headers.noFallback) return false
  for (let i = 0; i < reasons.length; i++) if (reasons[i] !== null) return false
  return true
}

const plainJson = (
  plan: Plan,
  entry: CatalogueEntry,
  promptTokens: number,
  reservedNanoUsd: number | null,
): FilledText | null => {
  if (!isPlain(plan)) return null
  const { candidates } = plan
  const known = templates.of(candidates)
  for (const { key, template } of known.all) {
    if (!fits(key, plan, entry)) continue
    const filled = template.filled(plainValues(plan, promptTokens, reservedNanoUsd))
    if (filled !== null) return known.hit(filled)
  }
  if (known.miss()) learnPlain(known, plan, entry, promptTokens, reservedNanoUsd)
  return null
}

const fits = (key: PlainKey, { input, policy, order }: Plan, entry: CatalogueEntry): boolean =>
  key.entry === entry &&
  key.source === policy.source &&
  key.hasCeiling === (input.intent.maxTokens !== null) &&
  key.hardCaps === input.overrides.hardCaps &&
  areSame(key.order, order)

/** In the order of `learnPlain`. */
const plainValues = (plan: Plan, promptTokens: number, reservedNanoUsd: number | null): GapValue[] => {
  const { textBytes, messageCount, promptBytes, maxTokens } = plan.input.intent
  const values: GapValue[] = [textBytes, messageCount, promptBytes, promptTokens, reservedNanoUsd]
  for (let i = 0; i < plan.projectedNanoUsd.length; i++) values.push(plan.projectedNanoUsd[i]!)
  if (maxTokens !== null) values.push(maxTokens)
  return values
}

const learnPlain = (
  known: KnownTemplates<PlainKey>,
  plan: Plan,
  entry: CatalogueEntry,
  promptTokens: number,
  reservedNanoUsd: number | null,
): void => {
  const { input, policy, order, projectedNanoUsd } = plan
  const hasCeiling = input.intent.maxTokens !== null
  const values = plainValues(plan, promptTokens, reservedNanoUsd)
  const projected = values.length - projectedNanoUsd.length - (hasCeiling ? 1 : 0)
  const intent = {
    ...input.intent,
    textBytes: gap(0),
    messageCount: gap(1),
    promptBytes: gap(2),
    maxTokens: hasCeiling ? gap(values.length - 1) : null,
  }
  const gaps = {
    ...plan,
    input: { ...input, intent },
    projectedNanoUsd: projectedNanoUsd.map((_, i) => gap(projected + i)),
  }
  const json = membersJson(gaps, entry, gap(3), gap(4))
  const key = { entry, source: policy.source, order, hasCeiling, hardCaps: input.overrides.hardCaps }
  known.learn(
    key,
    values,
    (other) => fits(other, plan, entry),
    (outgrown) => TextTemplate.of(json, values, outgrown),
  )
}

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
