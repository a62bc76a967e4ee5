// The record of an admission, `RequestAdmitted`, as JSON text. Most differ from others of the same candidates by
// numbers only: those are filled into a template.
import type { BudgetPart } from '../../domain/budgets/budget-events.ts'
import type { Decision } from '../../domain/events/request.ts'
import { shallowEqual } from '../../lib/collections/shallow-equal.ts'
import type { TextPiece, TextPieces } from '../../lib/text/text-pieces.ts'
import { type FilledText, type GapValue, gap, TextTemplate } from '../../lib/text/text-template.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import type { Plan } from '../plan/plan.ts'
import { partPieces } from './budget-text.ts'
import { decisionWith } from './decision.ts'
import { entryTexts, type FactsText } from './record-text.ts'
import { type SubjectTemplates, Templates } from './templates.ts'

/** What is admitted. */
export interface Admission {
  readonly plan: Plan
  /** The candidate that is called first. */
  readonly entry: CatalogueEntry
  /** Estimated by the gateway. */
  readonly promptTokens: number
  /** Null: no price is known. */
  readonly reservedNanoUsd: number | null
}

/** The facts without their closing brace, and the other members of an admission. */
export const admittedJson = (
  facts: FactsText,
  admission: Admission,
  budget: readonly BudgetPart[] | undefined,
): TextPieces => {
  const { candidates, scores } = admission.plan
  const pieces: TextPiece[] = [facts, plainJson(admission) ?? membersJson(admission)]
  if (scores !== null) pieces.push(',"scores":', scoresJson(candidates, scores))
  pieces.push('}')
  if (budget !== undefined) partPieces(pieces, budget)
  pieces.push('}')
  return pieces
}

/**
 * All members but facts and budgets, each with a comma in front. The decision comes last, without its closing brace and
 * its scores, which change with every price.
 */
const membersJson = ({ plan, entry, promptTokens, reservedNanoUsd }: Admission): string => {
  const decision = JSON.stringify(decisionWith(plan, null)).slice(0, -1)
  const candidates = `,"candidates":${candidatesJson(plan)}${entryTexts(entry).first}${promptTokens}`
  return `${candidates},"reserved_nano_usd":${reservedNanoUsd},"decision":${decision}`
}

/** The lists are those of the catalogue: without a rejection their text stays the same. */
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

/** Texts of the last scores of a list of candidates: they stay the same until a health or a price changes. */
const scoreTexts = new WeakMap<
  readonly CatalogueEntry[],
  { readonly scores: readonly (number | null)[]; json: string }
>()

/** Cached, since the runtime is slow to format fractions. */
const scoresJson = (candidates: readonly CatalogueEntry[], scores: readonly (number | null)[]): string => {
  const last = scoreTexts.get(candidates)
  if (last !== undefined && shallowEqual(last.scores, scores)) return last.json
  const json = JSON.stringify(scores)
  scoreTexts.set(candidates, { scores, json })
  return json
}

/**
 * What the text of an admission depends on beside its list of candidates and its gaps. A dependency that is missing
 * here and in `isPlain` would put wrong facts into records.
 */
interface PlainKey {
  readonly entry: CatalogueEntry
  readonly source: Decision['source']
  readonly order: Plan['order']
  readonly hasCeiling: boolean
  readonly hardCaps: Plan['input']['overrides']['hardCaps']
}

const templates = new Templates<readonly CatalogueEntry[], PlainKey>()

/** No candidate is rejected, and the plan has no rare inputs. */
const isPlain = ({ input, reasons }: Plan): boolean => {
  const { intent, overrides } = input
  const { headers } = intent
  if (overrides.ids.length > 0 || input.turn !== 0 || input.sticky !== 0 || input.isScopeAlias) return false
  if (intent.requirements.length > 0 || intent.mediaParts > 0 || intent.choices !== 1 || intent.vendorFields !== null)
    return false
  if (headers.policy !== null || headers.maxCostUsd !== null || headers.latencyTargetMs !== null) return false
  if (headers.region !== null || headers.sensitivity.length > 0 || headers.batch || headers.noFallback) return false
  for (let i = 0; i < reasons.length; i++) if (reasons[i] !== null) return false
  return true
}

const plainJson = (admission: Admission): FilledText | null => {
  const { plan } = admission
  if (!isPlain(plan)) return null
  const cached = templates.of(plan.candidates)
  for (const { key, template } of cached.all) {
    if (!fits(key, admission)) continue
    const filled = template.filled(plainValues(admission))
    if (filled !== null) return cached.hit(filled)
  }
  if (cached.miss()) learnPlain(cached, admission)
  return null
}

const fits = (key: PlainKey, { plan: { input, policy, order }, entry }: Admission): boolean =>
  key.entry === entry &&
  key.source === policy.source &&
  key.hasCeiling === (input.intent.maxTokens !== null) &&
  key.hardCaps === input.overrides.hardCaps &&
  shallowEqual(key.order, order)

const FIRST_PROJECTED = 5
/** In the order of `learnPlain`. */
const plainValues = ({ plan, promptTokens, reservedNanoUsd }: Admission): GapValue[] => {
  const { textBytes, messageCount, promptBytes, maxTokens } = plan.input.intent
  const { projectedNanoUsd: projected } = plan
  const values = new Array<GapValue>(FIRST_PROJECTED + projected.length + (maxTokens === null ? 0 : 1))
  values[0] = textBytes
  values[1] = messageCount
  values[2] = promptBytes
  values[3] = promptTokens
  values[4] = reservedNanoUsd
  for (let i = 0; i < projected.length; i++) values[FIRST_PROJECTED + i] = projected[i]!
  if (maxTokens !== null) values[values.length - 1] = maxTokens
  return values
}

const learnPlain = (cached: SubjectTemplates<PlainKey>, admission: Admission): void => {
  const { plan, entry } = admission
  const { input, policy, order, projectedNanoUsd } = plan
  const hasCeiling = input.intent.maxTokens !== null
  const values = plainValues(admission)
  const intent = {
    ...input.intent,
    textBytes: gap(0),
    messageCount: gap(1),
    promptBytes: gap(2),
    maxTokens: hasCeiling ? gap(values.length - 1) : null,
  }
  const json = membersJson({
    plan: {
      ...plan,
      input: { ...input, intent },
      projectedNanoUsd: projectedNanoUsd.map((_, i) => gap(FIRST_PROJECTED + i)),
    },
    entry,
    promptTokens: gap(3),
    reservedNanoUsd: gap(4),
  })
  const key = { entry, source: policy.source, order, hasCeiling, hardCaps: input.overrides.hardCaps }
  cached.learn(
    key,
    values,
    (other) => fits(other, admission),
    (outgrown) => TextTemplate.of(json, values, outgrown),
  )
}
