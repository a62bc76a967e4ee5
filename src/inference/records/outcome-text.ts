// The record of an outcome, `RequestSettled`, as JSON text. Most differ from others of the same model by numbers only:
// those are filled into a template (docs/decisions/0052-records-written-over.md).
import type { BudgetCharge } from '../../domain/budgets/budget-events.ts'
import type { AttemptSummary, RequestFacts, RequestSettled } from '../../domain/events/request.ts'
import type { Static } from '../../lib/schema/schema.ts'
import type { TextPiece, TextPieces } from '../../lib/text/text-pieces.ts'
import { type FilledText, type GapValue, gap, TextTemplate } from '../../lib/text/text-template.ts'
import type { Appended } from '../../log/spool/spool.ts'
import type { Usage } from '../../providers/port.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import type { Measured } from '../money/charge.ts'
import { type Ending, SUCCESS } from '../request/ending.ts'
import type { Exchange } from '../request/exchange.ts'
import { chargePieces } from './budget-text.ts'
import { candidateList, decisionOf } from './decision.ts'
import { rawUsageJson } from './raw-usage.ts'
import type { FactsText } from './record-text.ts'
import { type SubjectTemplates, Templates } from './templates.ts'
import { isSameShape, readUsage, type UsageShape, usageGaps, usageShape } from './usage-shape.ts'

/** A record lists at most so many shaped fields. */
const LISTED_SHAPING = 64

export type SettledExchange = Pick<
  Exchange,
  | 'admission'
  | 'admittedMs'
  | 'attempts'
  | 'entry'
  | 'fallbackUsed'
  | 'finishReason'
  | 'firstTokenMs'
  | 'plan'
  | 'plannedMs'
  | 'shaping'
  | 'usage'
> & { readonly factsText: FactsText }

/** A request with the fields that a plain outcome has. */
type PlainExchange = SettledExchange & {
  readonly entry: CatalogueEntry
  readonly admission: Appended
  readonly usage: Usage
}

/** The facts, and the other members of a settlement. */
export const settledJson = (
  exchange: SettledExchange,
  ending: Ending,
  measured: Measured,
  latencyMs: number,
  budget: readonly BudgetCharge[] | undefined,
): TextPieces => {
  const plain = isPlain(exchange, ending, measured) ? plainJson(exchange, measured, latencyMs) : null
  const pieces: TextPiece[] = [exchange.factsText, plain ?? membersJson(exchange, ending, measured, latencyMs)]
  if (budget !== undefined) chargePieces(pieces, budget)
  pieces.push('}')
  return pieces
}

type Rest = Omit<
  RequestSettled,
  keyof Static<typeof RequestFacts> | keyof HowEnded | 'raw_usage' | 'admission' | 'budget'
>

/** All members but facts and budgets, each with a comma in front. */
const membersJson = (exchange: SettledExchange, ending: Ending, measured: Measured, latencyMs: number): string => {
  const { entry, usage, admission } = exchange
  const rest: Rest = {
    attempts: exchange.attempts,
    finish_reason: exchange.finishReason,
    prompt_tokens: measured.promptTokens,
    completion_tokens: measured.completionTokens,
    cached_prompt_tokens: usage?.cachedPromptTokens ?? null,
    reasoning_tokens: usage?.reasoningTokens ?? null,
    cost_nano_usd: measured.costNanoUsd,
    cost_basis: measured.basis,
    price_version: measured.priceVersion,
    latency_ms: latencyMs,
    ttft_ms: exchange.firstTokenMs,
  }
  const { plan, plannedMs, admittedMs, shaping } = exchange
  if (plan !== null && admission === null) {
    rest.candidates = candidateList(plan)
    rest.decision = decisionOf(plan)
  }
  if (shaping.length > 0) rest.shaping = shaping.slice(0, LISTED_SHAPING)
  if (plannedMs !== null)
    rest.timings = admittedMs === null ? { planned_ms: plannedMs } : { planned_ms: plannedMs, admitted_ms: admittedMs }
  const how = JSON.stringify(howEnded(ending, entry, exchange.fallbackUsed())).slice(1, -1)
  const admissionJson = JSON.stringify(admission?.id ?? null)
  const restJson = JSON.stringify(rest).slice(1, -1)
  return `,"raw_usage":${rawUsageJson(usage?.raw)},"admission":${admissionJson},${how},${restJson}`
}

type HowEnded = Pick<
  RequestSettled,
  | 'outcome'
  | 'status'
  | 'error_code'
  | 'provider'
  | 'provider_id'
  | 'routed_model'
  | 'model_id'
  | 'fallback_used'
  | 'cache_hit'
>

const howEnded = (ending: Ending, entry: CatalogueEntry | null, fallbackUsed: boolean): HowEnded => ({
  outcome: ending.outcome,
  status: ending.status,
  error_code: ending.error?.code ?? null,
  provider: entry?.provider ?? null,
  provider_id: entry?.providerId ?? null,
  routed_model: entry?.name ?? null,
  model_id: entry?.modelId ?? null,
  fallback_used: fallbackUsed,
  cache_hit: false,
})

/** The first attempt succeeded, its usage is known, and the record has no optional members. */
const isPlain = (exchange: SettledExchange, ending: Ending, measured: Measured): exchange is PlainExchange => {
  const { entry, attempts, usage, admission, admittedMs, plannedMs, shaping } = exchange
  return (
    ending === SUCCESS &&
    entry !== null &&
    admission !== null &&
    usage !== null &&
    attempts.length === 1 &&
    isPlainSuccess(attempts[0]!, entry) &&
    measured.priceVersion === entry.revision &&
    shaping.length === 0 &&
    plannedMs !== null &&
    admittedMs !== null &&
    !exchange.fallbackUsed()
  )
}

const isPlainSuccess = (attempt: AttemptSummary, { provider, name }: CatalogueEntry): boolean =>
  attempt.n === 1 &&
  attempt.outcome === 'success' &&
  attempt.error_code === null &&
  attempt.upstream_status === null &&
  attempt.cost_basis === undefined &&
  attempt.provider === provider &&
  attempt.model === name

/**
 * What the text of a plain outcome depends on beside its model and its gaps. A dependency that is missing here and in
 * `isPlain` would put wrong facts into records.
 */
interface PlainKey {
  /** The beginning of its admission's id. */
  readonly idPrefix: string
  readonly finishReason: string | null
  readonly basis: Measured['basis']
  readonly usage: UsageShape
}

const templates = new Templates<CatalogueEntry, PlainKey>()

const plainJson = (exchange: PlainExchange, measured: Measured, latencyMs: number): FilledText | null => {
  const { entry, finishReason, usage } = exchange
  const cached = templates.of(entry)
  for (const { key, template } of cached.all) {
    if (key.finishReason !== finishReason || key.basis !== measured.basis) continue
    if (key.idPrefix !== exchange.admission.idPrefix) continue
    const values = plainValues(exchange, measured, latencyMs, key.usage.numbers)
    if (!readUsage(key.usage, usage.raw, values, OWN_VALUES)) continue
    const filled = template.filled(values)
    if (filled !== null) return cached.hit(filled)
  }
  if (cached.miss()) learnPlain(cached, exchange, measured, latencyMs)
  return null
}

/** In the order of `learnPlain`; the numbers of the usage follow. */
const plainValues = (
  exchange: PlainExchange,
  measured: Measured,
  latencyMs: number,
  usageNumbers: number,
): GapValue[] => {
  const { usage, attempts } = exchange
  const values = new Array<GapValue>(OWN_VALUES + usageNumbers)
  values[0] = exchange.admission.sequence
  values[1] = attempts[0]!.latency_ms
  values[2] = attempts[0]!.ttft_ms
  values[3] = measured.promptTokens
  values[4] = measured.completionTokens
  values[5] = usage.cachedPromptTokens
  values[6] = usage.reasoningTokens
  values[7] = measured.costNanoUsd
  values[8] = latencyMs
  values[9] = exchange.firstTokenMs
  values[10] = exchange.plannedMs
  values[11] = exchange.admittedMs
  return values
}
const OWN_VALUES = 12

const learnPlain = (
  cached: SubjectTemplates<PlainKey>,
  exchange: PlainExchange,
  measured: Measured,
  latencyMs: number,
): void => {
  const { finishReason, usage } = exchange
  const { idPrefix } = exchange.admission
  const shape = usageShape(usage.raw)
  if (shape === null) return
  const values = plainValues(exchange, measured, latencyMs, shape.numbers)
  readUsage(shape, usage.raw, values, OWN_VALUES)
  const gaps: SettledExchange = {
    ...exchange,
    fallbackUsed: () => false,
    admission: { idPrefix, sequence: gap(0), id: `${idPrefix}${gap(0)}` },
    attempts: [{ ...exchange.attempts[0]!, latency_ms: gap(1), ttft_ms: gap(2) }],
    usage: { ...usage, cachedPromptTokens: gap(5), reasoningTokens: gap(6), raw: usageGaps(usage.raw, OWN_VALUES) },
    firstTokenMs: gap(9),
    plannedMs: gap(10),
    admittedMs: gap(11),
  }
  const counted = { ...measured, promptTokens: gap(3), completionTokens: gap(4), costNanoUsd: gap(7) }
  const json = membersJson(gaps, SUCCESS, counted, gap(8))
  const { basis } = measured
  const isSame = (other: PlainKey): boolean =>
    other.idPrefix === idPrefix &&
    other.finishReason === finishReason &&
    other.basis === basis &&
    isSameShape(other.usage, shape)
  cached.learn({ idPrefix, finishReason, basis, usage: shape }, values, isSame, (outgrown) =>
    TextTemplate.of(json, values, outgrown),
  )
}
