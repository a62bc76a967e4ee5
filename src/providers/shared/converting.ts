// Shared parts of kinds that convert a request into a wire of their own.
import { hasLongNumber, isLongNumber, parseExact } from '../../lib/json/exact-json.ts'
import { GatewayError } from '../../wire/errors.ts'
import { isObject } from '../../wire/json.ts'
import type { ChatCall, Target, UpstreamRequest } from '../port.ts'
import { arrayOf, type Json, objectOf, parseInnerExactJson, textOf } from './read-json.ts'
import { bearer } from './target-url.ts'

/** 400, naming the field. */
export const refuse = (message: string, param: string): GatewayError =>
  new GatewayError('invalid_request', message, { param })

/** Null means the same as leaving it out. */
export const present = (value: unknown): boolean => value !== undefined && value !== null

/** A name that the client chose, short enough to be shown. */
export const quoted = (value: unknown): string =>
  typeof value === 'string' ? JSON.stringify(value.slice(0, 40)) : 'that is no string'

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,/i

/** A data URL taken apart; `mediaType` in lower case, null when it names none. Refuses one that is not base64. */
export const dataUrl = (url: string, param: string): { mediaType: string | null; data: string } => {
  const [prefix, type] = DATA_URL.exec(url.slice(0, 256)) ?? []
  if (prefix === undefined) throw refuse('a data URL must be base64', param)
  return { mediaType: type?.toLowerCase() ?? null, data: url.slice(prefix.length) }
}

/** The client's body; numbers beyond JavaScript's range keep their spelling. */
export const exactBody = ({ raw, body }: Pick<ChatCall, 'raw' | 'body'>): Json =>
  hasLongNumber(raw) ? objectOf(parseExact(raw)) : body

/** Replaces native JSON output on models that lack it; its input becomes the content. */
export const JSON_TOOL = 'gateway_json_answer'

/** The arguments of a call as the object that they must be; blank text is the empty object. */
export const argumentsOf = (args: unknown, param: string): Json => {
  const text = textOf(args) ?? ''
  const input = text.trim() === '' ? {} : parseInnerExactJson(text)
  if (!isObject(input) || isLongNumber(input)) throw refuse('arguments must be the JSON text of an object', param)
  return input
}

/** OpenAI's fields that no other wire has. */
// biome-ignore format: one list
export const OPENAI_ONLY = [
  'audio', 'logit_bias', 'modalities', 'moderation', 'prediction', 'prompt_cache_key', 'prompt_cache_options',
  'prompt_cache_retention', 'safety_identifier', 'service_tier', 'store', 'verbosity', 'web_search_options',
] as const

/** Notes of converting kinds about conversations in a form that their wire refuses. */
export const SYSTEM_AS_USER = 'system as a user text: the provider refuses a request without one'
export const USER_IN_FRONT = 'added a user message in front: the provider refuses an assistant that speaks first'
export const TRIMMED_END = 'trimmed the end of the last assistant message: the provider refuses white space there'

/** The schema of a tool; its type must be named, and can only be `object`. */
export const toolSchema = (parameters: unknown, note: (text: string) => void): Json => {
  if (!isObject(parameters)) return { type: 'object', properties: {} }
  if (parameters.type !== undefined) return parameters
  note('added type object to the parameters of a tool')
  return { type: 'object', ...parameters }
}

/** What an assistant message says: its content, or its refusal where that is all. */
export const spokenContent = ({ content, refusal }: Json): unknown =>
  !present(content) && typeof refusal === 'string' ? refusal : content

/** Fields of the client's wire that every converting kind has read already, or that control only the gateway. */
// biome-ignore format: one list
export const CONVERTED = [
  'max_completion_tokens', 'max_tokens', 'messages', 'model', 'n', 'prompt', 'reasoning_effort', 'response_format',
  'stop', 'stream', 'stream_options', 'system', 'temperature', 'tool_choice', 'tool_execution', 'tools', 'top_p',
] as const

/** The client's output limit in its spelling, `max_completion_tokens` first; undefined without one. */
export const outputLimit = (body: Json): unknown =>
  [body.max_completion_tokens, body.max_tokens].find((value) => present(value))

/** Refuses what no converting kind supports: more than one choice, and the functions that preceded tools. */
export const refuseUnsupported = (body: Json): void => {
  if (present(body.n) && body.n !== 1) throw refuse('this provider gives one choice only', 'n')
  if (present(body.functions) || present(body.function_call))
    throw refuse('functions are not supported by this provider; use tools', 'functions')
}

/** Notes which of these fields the client sent: they are not passed on. Of messages it is their `name`. */
export const dropFields = (body: Json, names: readonly string[], shaping: string[]): void => {
  for (const name of names) if (present(body[name])) shaping.push(`dropped ${name}`)
  if (arrayOf(body.messages).some((message) => present(objectOf(message).name))) shaping.push('dropped messages[].name')
}

/** Passes a field on under another name. */
export const rename = (body: Json, from: string, out: Record<string, unknown>, to: string, shaping: string[]): void => {
  if (!present(body[from])) return
  out[to] = body[from]
  if (from !== to) shaping.push(`renamed ${from} to ${to}`)
}

/** Notes which of the two output limits is ignored, where the client sent both. */
export const noteLimits = (body: Json, note: (text: string) => void): void => {
  if (present(body.max_completion_tokens) && present(body.max_tokens))
    note('dropped max_tokens: max_completion_tokens wins')
}

/** Passes the output limit on under the wire's own name, if there is one. */
export const addLimit = (body: Json, out: Record<string, unknown>, to: string, shaping: string[]): void => {
  noteLimits(body, (text) => shaping.push(text))
  rename(body, present(body.max_completion_tokens) ? 'max_completion_tokens' : 'max_tokens', out, to, shaping)
}

/** The requested detail of an image; `auto` means the same as leaving it out. */
const requestsDetail = (part: unknown): boolean => {
  const { detail } = objectOf(objectOf(part).image_url)
  return typeof detail === 'string' && detail !== 'auto'
}

/** Notes that a wire without a counterpart takes images as they are. */
export const dropDetail = (body: Json, shaping: string[]): void => {
  if (arrayOf(body.messages).some((message) => arrayOf(objectOf(message).content).some(requestsDetail)))
    shaping.push('dropped image_url.detail')
}

export interface ConvertedRequest {
  readonly url: string
  /** Media type of a stream. */
  readonly streamType: string
  readonly body: Json
  readonly shaping: readonly string[]
}

/**
 * The upstream's request: `POST` with a JSON body, for an answer as JSON or as a stream of that media type, with the
 * secret as a bearer.
 */
export const convertedRequest = (
  { stream }: ChatCall,
  { secret }: Target,
  { url, streamType, body, shaping }: ConvertedRequest,
): UpstreamRequest => ({
  method: 'POST',
  url,
  headers: {
    'content-type': 'application/json',
    accept: stream ? streamType : 'application/json',
    ...bearer(secret),
  },
  body: JSON.stringify(body),
  shaping,
})
