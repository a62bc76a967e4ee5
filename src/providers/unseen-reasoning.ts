// Whether a model may reason where nobody sees it: what it is billed for then does not show in what it said.
import { isObject } from '../wire/json.ts'
import type { Json } from './read-json.ts'

/** Families that reason unless they are told not to, by their names on every platform (`openai/o3`, `google/gemini-2.5-pro`). Most of them show nothing, or a summary. */
const REASONS =
  /(?:^|[/:.])(?:o\d|gpt-(?!35)(?:[5-9]|\d\d)(?!(?:\.\d+)?-chat)|gpt-oss|gemini-(?:2\.5|[3-9]|flash|pro)|grok-(?:3-mini|[4-9])|magistral)|reason|think/i

/** Fields with which a client asks for it. */
const ASKS = ['reasoning_effort', 'reasoning', 'thinking', 'thinking_budget', 'thinkingConfig', 'thinking_config']

const asks = (value: unknown): boolean =>
  isObject(value) ? value.type !== 'disabled' : value !== undefined && value !== null && value !== 'none'

/** By the name of the model, or by what the client asks of it. */
export const reasonsUnseen = (body: Json, model: string): boolean =>
  REASONS.test(model) || ASKS.some((name) => asks(body[name]))
