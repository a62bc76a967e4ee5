// Price corrections -> what they change of a sum. Nothing is stored: a correction counts from the moment at which it is
// decided, and for all of its range.
import { microUsdOf } from '../../src/domain/registry/price-correction.ts'
import type { Tier } from './cells.ts'
import { type Piece, piecesOf, roundedTo, type UsageWindow } from './window.ts'

/** A correction as it is decided; the later one of a list holds where two overlap. */
export interface PriceCorrection {
  /** Names as they were recorded. */
  readonly provider: string
  readonly model: string
  /** RFC 3339, whole minutes, `to` exclusive. */
  readonly from: string
  readonly to: string
  readonly input_cost_per_million: number
  readonly output_cost_per_million: number
  /** Null: the price of the other tokens of the prompt. */
  readonly cached_input_cost_per_million: number | null
}

/** Where exactly one correction holds. */
export interface PriceSpan extends UsageWindow {
  readonly correction: PriceCorrection
}

/** The spans of a window in which a correction holds: none overlaps another of the same provider and model. */
export const spansOf = (corrections: readonly PriceCorrection[], window: UsageWindow): readonly PriceSpan[] => {
  const byModel = new Map<string, PriceSpan[]>()
  for (const correction of corrections.toReversed()) {
    const fromMs = Math.max(window.fromMs, Date.parse(correction.from))
    const toMs = Math.min(window.toMs, Date.parse(correction.to))
    if (fromMs >= toMs) continue
    const key = JSON.stringify([correction.provider, correction.model])
    const taken = byModel.get(key) ?? []
    byModel.set(key, taken)
    taken.push(...uncovered({ fromMs, toMs }, taken).map((free) => ({ ...free, correction })))
    taken.sort((a, b) => a.fromMs - b.fromMs)
  }
  return [...byModel.values()].flat()
}

/** The rest of a window without those, which stand in order. */
const uncovered = (window: UsageWindow, taken: readonly UsageWindow[]): readonly UsageWindow[] => {
  const free: UsageWindow[] = []
  let fromMs = window.fromMs
  for (const span of taken) {
    if (span.toMs <= fromMs || span.fromMs >= window.toMs) continue
    if (span.fromMs > fromMs) free.push({ fromMs, toMs: span.fromMs })
    fromMs = span.toMs
  }
  return fromMs < window.toMs ? [...free, { fromMs, toMs: window.toMs }] : free
}

/**
 * Buckets in which a correction holds, with its prices in millionths of a USD per million tokens (a thousandth of a
 * nano-USD each token).
 */
export interface CorrectedPiece {
  readonly tier: Tier | 'part'
  readonly from_ms: number
  readonly to_ms: number
  readonly provider: string
  readonly priced_model: string
  readonly input: number
  readonly cached: number
  readonly output: number
}

/**
 * Where minutes are no longer kept (`finest` is `hour`), an hour is corrected when it begins in the range of a
 * correction; a day likewise.
 */
export const correctedPieces = (spans: readonly PriceSpan[], finest: Tier, coarsest: Tier): readonly CorrectedPiece[] =>
  spans.flatMap(({ correction, fromMs, toMs }) => {
    const within = {
      fromMs: roundedTo({ fromMs, toMs: fromMs }, finest).toMs,
      toMs: roundedTo({ fromMs, toMs }, finest).toMs,
    }
    const pieces: readonly Piece[] = piecesOf(within, finest, coarsest)
    return pieces.map(({ tier, fromMs: from_ms, toMs: to_ms }) => ({ tier, from_ms, to_ms, ...pricesOf(correction) }))
  })

/**
 * The same of a part of minutes that is counted by row. Corrections begin and end with whole minutes: each holds in all
 * of a minute of it, or not at all.
 */
export const correctedPart = (corrections: readonly PriceCorrection[], part: UsageWindow): readonly CorrectedPiece[] =>
  spansOf(corrections, roundedTo(part, 'minute')).map(({ correction, fromMs, toMs }) => ({
    ...{ tier: 'part', from_ms: fromMs, to_ms: toMs },
    ...pricesOf(correction),
  }))

const pricesOf = (correction: PriceCorrection) => {
  const { input_cost_per_million: input, output_cost_per_million: output } = correction
  return {
    provider: correction.provider,
    priced_model: correction.model,
    input: microUsdOf(input),
    cached: microUsdOf(correction.cached_input_cost_per_million ?? input),
    output: microUsdOf(output),
  }
}

/**
 * SQL of what corrections add to each group (negative where the corrected price is lower), exactly: `name, model,
 * nano_usd, unpriced`. `by` and `model` are SQL over the columns of `usage`, `whose` a condition on `tenant_id`,
 * `pieces` the parameter with the pieces as JSON, `parts` a relation of what is counted by row (null: nothing is). The
 * two are joined apart: only usage has an index.
 */
export const correctionSql = (
  schemaName: string,
  {
    by,
    model,
    tenantCondition,
    pieces,
    parts,
  }: {
    readonly by: string
    readonly model: string
    readonly tenantCondition: string
    readonly pieces: string
    readonly parts: string | null
  },
): string => {
  const joined = (relation: string, tier: string) => `
    select held.*, piece.input, piece.cached, piece.output
    from json_to_recordset(${pieces}::text::json) as piece (
      tier text, from_ms bigint, to_ms bigint, provider text, priced_model text, input numeric, cached numeric,
        output numeric)
    join ${relation} held
      on ${tier} = piece.tier and held.dimension = 'model' and held.bucket_ms >= piece.from_ms
      and held.bucket_ms < piece.to_ms
      and held.name = piece.provider and held.model = piece.priced_model
    where ${tenantCondition}`
  const ofParts = parts === null ? '' : `union all ${joined(parts, "'part'")}`
  return `
  select ${by} as name, ${model} as model, sum(unpriced) as unpriced,
    sum(((billed_prompt_tokens - billed_cached_tokens) * input + billed_cached_tokens * cached +
      billed_completion_tokens * output) * 0.001
      - billed_nano_usd) as nano_usd
  from (${joined(`"${schemaName}".usage`, 'held.tier')} ${ofParts}) corrected
  group by 1, 2`
}
