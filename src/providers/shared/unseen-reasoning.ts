// Whether a model may reason where nobody sees it: what it is billed for then does not show in what it said.
import { isObject } from '../../wire/json.ts'
import type { Json } from './read-json.ts'

/**
 * Families that reason unless they are told not to, by their names on every platform (`openai/o3`, `google/gemini-2.5-pro`). Most of them show nothing, or a
 * summary. `auto` is a router's word for any of them.
 */
const REASONS =
  /(?:^|[/:.])(?:o\d|gpt-(?!35)(?:[5-9]|\d\d)(?!(?:\.\d+)?-chat)|gpt-oss|codex|computer-use|gemini-(?:2\.5|[3-9]|flash|pro)|grok-(?:3-mini|code|[4-9])|magistral|claude-(?:opus|sonnet|haiku|fable|mythos)-(?:[5-9]|\d\d)|(?:auto|[a-z-]*router)(?:$|:))|codex|deep-research|reason|think/i

/** Families that do not, as deployments tend to be called after them. */
const PLAIN =
  /^(?:gpt-?(?:35|3\.5|4)|gpt-?\d+(?:\.\d+)?-chat|(?:meta-)?llama|mistral|ministral|codestral|phi-[34](?!.*reason))/i
/** Here a model has the name that its operator gave to it: one that says nothing may be any. */
const NAMED_BY_OPERATOR: ReadonlySet<string> = new Set(['azure_openai'])

/** Fields with which a client asks for it, or for sound, of which only the words are seen. */
const ASKS = [
  'reasoning_effort',
  'reasoning',
  'thinking',
  'thinking_budget',
  'thinkingConfig',
  'thinking_config',
  'audio',
]

const asks = (value: unknown): boolean =>
  isObject(value) ? value.type !== 'disabled' : value !== undefined && value !== null && value !== 'none'

/** By the name of the model at a provider of this kind, or by what the client asks of it. */
export const reasonsUnseen = (body: Json, model: string, kind: string): boolean =>
  REASONS.test(model) || (NAMED_BY_OPERATOR.has(kind) && !PLAIN.test(model)) || ASKS.some((name) => asks(body[name]))
