// The model lists of kinds of the OpenAI shape: `{data: [...]}`, `{models: [...]}` or a bare list, with sizes, prices
// and abilities under many names.
import { isObject } from '../../wire/json.ts'
import type { Capability, ListedModel } from '../port.ts'
import { malformed } from '../shared/failure.ts'
import { arrayOf, countOf, type Json, objectOf, parseJson, textOf } from '../shared/read-json.ts'

/** USD per million tokens. */
export interface ListedPrices {
  readonly input: number | null
  readonly output: number | null
  readonly cachedInput: number | null
}

/** The differences of a kind in its listing: part of its row in `rows.ts`. Every member is optional. */
export interface ListingQuirks {
  /** Absent: `<base>/models`. */
  readonly url?: (baseUrl: string) => string
  /** False for models that cannot chat. Absent: all can. */
  readonly chats?: (id: string, row: Json) => boolean
  readonly prices?: (row: Json) => ListedPrices
  /** Null: the row has none. */
  readonly capabilities?: (row: Json) => readonly Capability[] | null
}

const MOST_LISTED = 10_000
const MOST_USD_PER_MILLION = 1_000_000

const positive = (...values: readonly unknown[]): number | null => {
  for (const value of values) {
    const count = countOf(value)
    if (count !== null && count > 0) return count
  }
  return null
}

/**
 * A number, or a number as text, times `factor`, without the noise of floating point; null for anything that is no
 * price.
 */
export const priceOf = (value: unknown, factor = 1): number | null => {
  const given = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  if (typeof given !== 'number' || !Number.isFinite(given) || given < 0) return null
  const price = Number((given * factor).toFixed(9))
  return price <= MOST_USD_PER_MILLION ? price : null
}

/** True when a list of modalities or features holds the word. */
export const lists = (values: unknown, word: string): boolean => arrayOf(values).includes(word)

const nameOf = (row: Json): string | null => textOf(row.id) ?? textOf(row.model_id)

const listed = (row: Json, name: string, quirks: ListingQuirks): ListedModel => {
  const meta = objectOf(row.meta)
  const prices = quirks.prices?.(row)
  return {
    name,
    contextWindow: positive(
      row.loaded_context_length,
      row.context_window,
      row.context_length,
      row.max_model_len,
      row.max_context_length,
      row.max_total_tokens,
      row.max_prompt_length,
      meta.n_ctx,
      meta.n_ctx_train,
    ),
    maxOutputTokens: positive(
      row.max_completion_tokens,
      row.max_output_tokens,
      objectOf(row.top_provider).max_completion_tokens,
    ),
    capabilities: quirks.capabilities?.(row) ?? null,
    ...(prices === undefined
      ? {}
      : {
          inputCostPerMillion: prices.input,
          outputCostPerMillion: prices.output,
          cachedInputCostPerMillion: prices.cachedInput,
        }),
  }
}

/** The models of a listing's body; throws GatewayError('upstream_error') for one that lists nothing. */
export const readListing = (body: string, quirks: ListingQuirks = {}): readonly ListedModel[] => {
  const parsed = parseJson(body)
  const { data, models, model_id } = objectOf(parsed)
  // TGI's `/info` is its one model.
  const list = Array.isArray(parsed)
    ? parsed
    : (data ?? models ?? (typeof model_id === 'string' ? [parsed] : undefined))
  if (!Array.isArray(list)) throw malformed('it lists no models')
  const found: ListedModel[] = []
  for (const row of list.slice(0, MOST_LISTED)) {
    const name = isObject(row) ? nameOf(row) : null
    if (name === null || name === '') continue
    if (quirks.chats?.(name, row) !== false) found.push(listed(row, name, quirks))
  }
  return found
}
