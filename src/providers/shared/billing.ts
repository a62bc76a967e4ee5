// The charge of a vendor for a part of the prompt that it writes to its cache, beyond the price of any token of a
// prompt. No price of the catalogue holds it: these are the multiples of the price of a prompt that the vendors
// document.

import { isObject } from '../../wire/json.ts'
import type { Usage } from '../port.ts'
import { anyOf } from './any-of.ts'
import type { Json } from './read-json.ts'

// Whether a model may reason invisibly: the tokens billed for that do not show in its answer.

/**
 * Families that reason unless the request turns it off, by their names on every platform (`openai/o3`,
 * `google/gemini-2.5-pro`). Most of them show nothing, or a summary. `auto` is a router's name for any of them.
 */
const REASONS = anyOf(
  /(?:^|[/:.])(?:o\d|gpt-(?!35)(?:[5-9]|\d\d)(?!(?:\.\d+)?-chat)|gpt-oss|codex|computer-use)/i,
  /(?:^|[/:.])(?:gemini-(?:2\.5|[3-9]|flash|pro))/i,
  /(?:^|[/:.])(?:grok-(?:3-mini|code|[4-9])|magistral)/i,
  /(?:^|[/:.])(?:claude-(?:opus|sonnet|haiku|fable|mythos)-(?:[5-9]|\d\d)|(?:auto|[a-z-]*router)(?:$|:))/i,
  /codex|deep-research|reason|think/i,
)

/** Families that do not, by the names that deployments usually have. */
const PLAIN =
  /^(?:gpt-?(?:35|3\.5|4)|gpt-?\d+(?:\.\d+)?-chat|(?:meta-)?llama|mistral|ministral|codestral|phi-[34](?!.*reason))/i
/** Here the operator names the models: a name without a known family may be any. */
const NAMED_BY_OPERATOR: ReadonlySet<string> = new Set(['azure_openai'])

/** Fields that request reasoning, or sound, of which the answer shows only the text. */
const REASONING_FIELDS = [
  'reasoning_effort',
  'reasoning',
  'thinking',
  'thinking_budget',
  'thinkingConfig',
  'thinking_config',
  'audio',
]

const isRequested = (value: unknown): boolean =>
  isObject(value) ? value.type !== 'disabled' : value !== undefined && value !== null && value !== 'none'

/** By the name of the model at a provider of this kind, or by the fields of the client's request. */
export const reasonsInvisibly = (body: Json, model: string, kind: string): boolean =>
  REASONS.test(model) ||
  (NAMED_BY_OPERATOR.has(kind) && !PLAIN.test(model)) ||
  REASONING_FIELDS.some((name) => isRequested(body[name]))

// The charge of a vendor for the tokens of pictures that a model makes. Rows have one price of output, which is that
// of text: these are the prices that the vendors document (November 2026). Where a provider reports the cost of an
// answer, that is charged.

/** USD per million tokens. */
const GEMINI: readonly (readonly [model: RegExp, price: number])[] = [
  [/gemini-2\.5-flash-image/i, 30],
  [/gemini-3(?:\.\d+)?-pro-image/i, 120],
  [/gemini-3(?:\.\d+)?-flash-lite-image/i, 30],
  [/gemini-3(?:\.\d+)?-flash-image/i, 60],
]

/**
 * USD per million tokens of pictures; `outputPrice` is that of the row. The row's price stays where the model makes
 * none, where it is larger (an operator may have written the price of pictures there), and where it is 0: a free model
 * stays free.
 */
export const picturePrice = (kind: string, upstreamModel: string, outputPrice: number): number => {
  if (kind !== 'gemini' || outputPrice === 0) return outputPrice
  for (const [model, price] of GEMINI) if (model.test(upstreamModel)) return Math.max(outputPrice, price)
  return outputPrice
}

/** Multiples of the price of a prompt token, by how long the vendor caches it. */
export interface CacheWriteFactors {
  readonly fiveMinutes: number
  readonly oneHour: number
}

/** Anthropic, on every platform. */
const CLAUDE: CacheWriteFactors = { fiveMinutes: 1.25, oneHour: 2 }
/**
 * OpenAI since GPT-5.6, on every platform: for half an hour, and for every prompt that is long enough, requested or
 * not.
 */
const GPT: CacheWriteFactors = { fiveMinutes: 1.25, oneHour: 1.25 }
/**
 * OpenAI's models that write for free. A name that is not among them (a deployment's, an alias) is taken to be of a
 * later one.
 */
const OLDER_GPT =
  /^(?:ft:)?(?:(?:chat)?gpt-?(?:[34]|5(?:\.[0-5])?(?![.\d])|oss|audio|realtime)|o\d|codex-mini|computer-use)/i
const OF_OPENAI = /(?:^|[./~])openai[./]/i
/** Amazon's own models write at the price of a prompt; any other model behind Converse may be Claude. */
const AMAZON = /(?:^|[./])(?:amazon\.)?(?:nova|titan)/i

/** Its vendor writes every prompt that is long enough, and charges for it. */
const writesAlways = (kind: string, upstreamModel: string): boolean => {
  if (kind === 'openai' || kind === 'azure_openai') return !OLDER_GPT.test(upstreamModel)
  const vendor = kind === 'openrouter' || kind === 'bedrock' ? OF_OPENAI.exec(upstreamModel) : null
  return vendor !== null && !OLDER_GPT.test(upstreamModel.slice(vendor.index + vendor[0].length))
}

/** Null: tokens that are written to the cache cost the same as the rest. */
const cacheWriteFactors = (kind: string, upstreamModel: string): CacheWriteFactors | null => {
  if (writesAlways(kind, upstreamModel)) return GPT
  if (kind === 'anthropic' || kind === 'openrouter') return CLAUDE
  return kind === 'bedrock' && !AMAZON.test(upstreamModel) && !OF_OPENAI.test(upstreamModel) ? CLAUDE : null
}

/**
 * A whole JSON string, which a word of a prompt is only where it is the whole prompt. A letter may be written as an
 * escape.
 */
const quoted = (...texts: readonly string[]): RegExp => {
  const letter = (character: string) =>
    `(?:${character}|\\\\u00${character.charCodeAt(0).toString(16).padStart(2, '0')})`
  return new RegExp(`"(?:${texts.map((text) => [...text].map(letter).join('')).join('|')})"`, 'i')
}

/** Except for OpenAI's models, nothing is written without a mark. */
const MARKS = quoted('cache_control', 'cacheControl', 'cachePoint', 'cache_point')
const FOR_AN_HOUR = quoted('1h')

/**
 * The most that a token of this body's prompt may cost, as a multiple of its price: 1 where nothing is written to a
 * cache.
 */
export const dearestFactor = (raw: string, kind: string, upstreamModel: string): number => {
  const factors = cacheWriteFactors(kind, upstreamModel)
  if (factors === GPT) return GPT.fiveMinutes
  if (factors === null || !MARKS.test(raw)) return 1
  return FOR_AN_HOUR.test(raw) ? factors.oneHour : factors.fiveMinutes
}

/**
 * The surcharge for written tokens as a number of tokens of the prompt: null where none were written. For those
 * reported without a duration, the dearest duration that was requested counts.
 */
export const writtenAt = (
  usage: Usage | null,
  raw: string,
  kind: string,
  upstreamModel: string,
): readonly (readonly [tokens: number, factor: number])[] | null => {
  const writes = usage?.cacheWrites
  const factors = writes === undefined ? null : cacheWriteFactors(kind, upstreamModel)
  if (writes === undefined || factors === null) return null
  const { fiveMinutes, oneHour, total } = writes
  const untimed = Math.max(0, total - fiveMinutes - oneHour)
  return [
    [fiveMinutes, factors.fiveMinutes],
    [oneHour, factors.oneHour],
    [untimed, FOR_AN_HOUR.test(raw) ? factors.oneHour : factors.fiveMinutes],
  ]
}

/** For `Usage`: nothing when nothing was written. */
export const cacheWritesOf = (
  total: number | null,
  fiveMinutes: number | null,
  oneHour: number | null,
): Pick<Usage, 'cacheWrites'> => {
  const reported = (fiveMinutes ?? 0) + (oneHour ?? 0)
  const all = Math.max(total ?? 0, reported)
  return all === 0 ? {} : { cacheWrites: { total: all, fiveMinutes: fiveMinutes ?? 0, oneHour: oneHour ?? 0 } }
}
