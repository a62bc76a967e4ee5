// The places of usage and cost in kinds of the OpenAI shape, where they differ from the standard.

import { isObject } from '../../wire/json.ts'
import type { Usage } from '../port.ts'
import { arrayOf, countOf, type Json, objectOf } from '../shared/read-json.ts'
import { type Dialect, openaiUsage } from './answer.ts'

/** No answer costs a million USD: a larger number is a mistake. */
const MOST_USD = 1_000_000

/** USD as whole nano-USD; null when it is no amount of money. */
const nanoUsd = (usd: unknown): number | null =>
  typeof usd === 'number' && usd >= 0 && usd <= MOST_USD ? Math.round(usd * 1e9) : null

const withCost = (usage: Usage, reportedNanoUsd: number | null): Usage =>
  reportedNanoUsd === null ? usage : { ...usage, reportedNanoUsd }

const dialect = (more: (usage: Usage, raw: Json, source: Json) => Usage): Dialect => ({
  usageOf(source) {
    const usage = openaiUsage(source.usage)
    return usage === null ? null : more(usage, objectOf(source.usage), source)
  },
})

/** On streams in `x_groq.usage` of the last chunk. */
export const groqUsage: Dialect = {
  usageOf: (source) => openaiUsage(source.usage) ?? openaiUsage(objectOf(source.x_groq).usage),
}

/** Of a server that may be any: also in a choice (Kimi), or where Groq has it. */
export const compatibleUsage: Dialect = {
  usageOf: (source) =>
    groqUsage.usageOf(source) ?? openaiUsage(arrayOf(source.choices).map(objectOf).find(hasUsage)?.usage),
}
const hasUsage = ({ usage }: Json): boolean => isObject(usage)

/**
 * `usage.cost` in USD; with the caller's own key at the model's vendor, that vendor charges `upstream_inference_cost`
 * beside it.
 */
export const openrouterUsage: Dialect = dialect((usage, raw) => {
  const own = nanoUsd(raw.cost)
  const vendor = raw.is_byok === true ? nanoUsd(objectOf(raw.cost_details).upstream_inference_cost) : null
  return withCost(usage, own === null ? null : own + (vendor ?? 0))
})

/** Cached tokens as `timings.cache_n`, beside the usage. */
export const llamacppUsage: Dialect = dialect((usage, _raw, source) => ({
  ...usage,
  cachedPromptTokens: usage.cachedPromptTokens ?? countOf(objectOf(source.timings).cache_n),
}))

/**
 * Reasoning tokens are additional to `completion_tokens`, cached ones additional to the prompt when they are more; the
 * cost is in ticks of 10^-10 USD.
 */
export const xaiUsage: Dialect = dialect((usage, raw) => {
  const { promptTokens, completionTokens, cachedPromptTokens, reasoningTokens } = usage
  const cachedApart = promptTokens !== null && cachedPromptTokens !== null && cachedPromptTokens > promptTokens
  const ticks = raw.cost_in_usd_ticks
  const total = {
    ...usage,
    promptTokens: cachedApart ? promptTokens + cachedPromptTokens : promptTokens,
    completionTokens: completionTokens === null ? null : completionTokens + (reasoningTokens ?? 0),
  }
  return withCost(total, typeof ticks === 'number' ? nanoUsd(ticks / 1e10) : null)
})

/** In every chunk, cumulative; reasoning tokens beside the others; the cost with its searches in `cost.total_cost`. */
export const perplexityUsage: Dialect = dialect((usage, raw) =>
  withCost(
    { ...usage, reasoningTokens: usage.reasoningTokens ?? countOf(raw.reasoning_tokens) },
    nanoUsd(objectOf(raw.cost).total_cost),
  ),
)
