// A chat call -> Anthropic's Messages API.
import { sha256Hex } from '../../lib/crypto/digest.ts'
import { topLevel } from '../../lib/json/edit.ts'
import { isObject } from '../../wire/json.ts'
import type { ChatCall, Target, UpstreamRequest } from '../port.ts'
import {
  ALWAYS_THINKS,
  ALWAYS_THINKS_NOTE,
  FORCED_WITHOUT_THINKING,
  LEAST_TOP_P_THINKING,
  NO_JSON_OUTPUT,
  NO_SAMPLING,
  ONE_SAMPLER,
  TEMPERATURE_WINS,
  thinkingFor,
  UNSIGNED_WITHOUT_THINKING,
} from '../shared/claude-models.ts'
import { schemaSubset, strictTools } from '../shared/claude-schema.ts'
import {
  dropDetail,
  exactBody,
  JSON_TOOL,
  noteLimits,
  outputLimit,
  present,
  refuse,
  refuseUnsupported,
  toolSchema,
} from '../shared/converting.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'
import { joinUrl } from '../shared/target-url.ts'
import { stopsOf, vendorFields } from '../shared/vendor-fields.ts'
import { convertMessages, isUnsigned } from './messages.ts'

/** `max_tokens` is required upstream. Used only when neither the client nor the catalogue sets a limit. */
const DEFAULT_MAX_TOKENS = 4_096

// OpenAI's fields without a counterpart. Fields of neither wire are passed on as they are.
// biome-ignore format: one list
const NO_COUNTERPART = [
  'audio', 'frequency_penalty', 'logit_bias', 'logprobs', 'min_p', 'modalities', 'moderation', 'prediction',
  'presence_penalty', 'prompt_cache_key', 'prompt_cache_options', 'prompt_cache_retention', 'repetition_penalty',
  'safety_identifier', 'seed', 'service_tier', 'store', 'top_logprobs', 'verbosity', 'web_search_options',
]
// biome-ignore format: one list
const CONVERTED = [
  'max_completion_tokens', 'max_tokens', 'messages', 'metadata', 'model', 'n', 'parallel_tool_calls', 'prompt',
  'reasoning_effort', 'response_format', 'stop', 'stop_sequences', 'stream', 'stream_options', 'system', 'temperature',
  'tool_choice', 'tool_execution', 'tools', 'user',
]
const HANDLED = new Set([...NO_COUNTERPART, ...CONVERTED])

const convertTool = (tool: unknown, i: number, note: (text: string) => void): Json => {
  if (!isObject(tool) || tool.type !== 'function' || !isObject(tool.function))
    throw refuse('this provider takes function tools only', `tools[${i}].type`)
  const { name, description, parameters, strict, cache_control } = tool.function
  const cache = tool.cache_control ?? cache_control
  return {
    name,
    ...(typeof description === 'string' ? { description } : {}),
    input_schema: toolSchema(parameters, note),
    ...(strict === true ? { strict } : {}),
    ...(isObject(cache) ? { cache_control: cache } : {}),
  }
}

const convertChoice = (choice: unknown): Record<string, unknown> | null => {
  if (!present(choice)) return null
  if (choice === 'auto' || choice === 'none') return { type: choice }
  if (choice === 'required') return { type: 'any' }
  const { type, function: named } = objectOf(choice)
  if (type === 'function' && typeof objectOf(named).name === 'string')
    return { type: 'tool', name: objectOf(named).name }
  throw refuse('this provider has no counterpart for this tool_choice', 'tool_choice')
}

/** Adds `tools` and `tool_choice`. */
const addTools = (body: Json, out: Record<string, unknown>, model: string, shaping: string[]): void => {
  const note = (text: string) => void shaping.push(text)
  const tools = arrayOf(body.tools).map((tool, i) => convertTool(tool, i, note))
  if (tools.length === 0) return
  out.tools = strictTools(tools, 'input_schema', !NO_JSON_OUTPUT.test(model), note)
  const choice = convertChoice(body.tool_choice)
  const single =
    body.parallel_tool_calls === false && choice?.type !== 'none' ? { disable_parallel_tool_use: true } : {}
  if (choice !== null || body.parallel_tool_calls === false)
    out.tool_choice = { ...(choice ?? { type: 'auto' }), ...single }
}

const addFormat = (body: Json, out: Record<string, unknown>, model: string, shaping: string[]): void => {
  const format = objectOf(body.response_format)
  if (format.type === 'json_object') shaping.push('dropped response_format json_object: the gateway checks the answer')
  else if (typeof format.type === 'string' && format.type !== 'json_schema' && format.type !== 'text')
    shaping.push('dropped response_format: this provider has no format of this type')
  if (format.type !== 'json_schema') return
  const schema = objectOf(format.json_schema).schema
  if (!isObject(schema)) throw refuse('json_schema needs a schema', 'response_format.json_schema.schema')
  if (!NO_JSON_OUTPUT.test(model)) {
    out.output_config = {
      ...objectOf(out.output_config),
      format: { type: 'json_schema', schema: schemaSubset(schema, (text) => shaping.push(text)) },
    }
    return
  }
  if (out.tools !== undefined) throw refuse('this model cannot combine tools with a JSON schema', 'response_format')
  out.tools = [{ name: JSON_TOOL, description: 'Gives the answer.', input_schema: schema }]
  const forced = !thinks(out)
  if (forced) out.tool_choice = { type: 'tool', name: JSON_TOOL }
  shaping.push(`response_format json_schema as a ${forced ? 'forced ' : ''}tool`)
}

/** A model that thinks refuses a forced tool. */
const thinks = ({ thinking }: Record<string, unknown>): boolean => isObject(thinking) && thinking.type !== 'disabled'

const addThinking = (
  body: Json,
  out: Record<string, unknown>,
  model: string,
  unsigned: boolean,
  shaping: string[],
): void => {
  const effort = textOf(body.reasoning_effort)
  if (effort === null) return
  if (effort === 'none') {
    if (ALWAYS_THINKS.test(model)) shaping.push(ALWAYS_THINKS_NOTE)
    else out.thinking ??= { type: 'disabled' }
    return
  }
  const thinking = thinkingFor(model, effort, out.max_tokens as number)
  if (thinking === null) {
    shaping.push('dropped reasoning_effort: max_tokens leaves no room for thinking')
    return
  }
  const forced = forcesTool(out)
  if (forced && out.thinking === undefined) shaping.push(FORCED_WITHOUT_THINKING)
  if ('effort' in thinking) out.output_config = { effort: thinking.effort, ...objectOf(out.output_config) }
  if (forced || out.thinking !== undefined) return
  if (unsigned) shaping.push(UNSIGNED_WITHOUT_THINKING)
  else
    out.thinking =
      'effort' in thinking ? { type: 'adaptive' } : { type: 'enabled', budget_tokens: thinking.budgetTokens }
}

/** The `tool_choice` of the body forces a tool, one or any. */
const forcesTool = (out: Record<string, unknown>): boolean =>
  ['any', 'tool'].includes(textOf(objectOf(out.tool_choice).type) ?? '')

/** Leaves out what Claude refuses while thinking is on, whichever field switched it on. */
const settleThinking = (
  out: Record<string, unknown>,
  unsigned: boolean,
  field: 'thinking' | 'reasoning_effort',
  shaping: string[],
): void => {
  if (thinks(out) && (unsigned || forcesTool(out))) {
    delete out.thinking
    shaping.push(
      `dropped thinking: ${unsigned ? 'the assistant message before it has no signed thought' : 'a tool is forced'}`,
    )
  }
  if (!thinks(out)) return
  const isLow = typeof out.top_p !== 'number' || out.top_p < LEAST_TOP_P_THINKING
  for (const name of isLow ? ['temperature', 'top_p', 'top_k'] : ['temperature', 'top_k'])
    if (out[name] !== undefined) {
      delete out[name]
      shaping.push(`dropped ${name}: not with ${field}`)
    }
}

const addSampling = (body: Json, out: Record<string, unknown>, model: string, shaping: string[]): void => {
  for (const name of ['temperature', 'top_p', 'top_k']) {
    delete out[name]
    if (!present(body[name])) continue
    if (NO_SAMPLING.test(model)) shaping.push(`dropped ${name}: the model refuses it`)
    else if (name === 'temperature' && typeof body[name] === 'number' && body[name] > 1) {
      out[name] = 1
      shaping.push('clamped temperature to 1')
    } else out[name] = body[name]
  }
}

/** After the decision about thinking, which may leave one sampler out. */
const settleSampling = (out: Record<string, unknown>, model: string, shaping: string[]): void => {
  if (out.temperature === undefined || out.top_p === undefined || !ONE_SAMPLER.test(model)) return
  delete out.top_p
  shaping.push(TEMPERATURE_WINS)
}

/** Anthropic refuses blank ones. */
const addStop = (body: Json, out: Record<string, unknown>, shaping: string[]): void => {
  const stop = stopsOf(body.stop, body.stop_sequences, 'stop_sequences', (text) => shaping.push(text), false)
  if (stop !== null) out.stop_sequences = stop
}

const EMAIL = /[^\s@]+@[^\s@]+\.[^\s@]/
const PHONE = /^\s*\+?[\d\s().-]{7,}$/
const MOST_USER_ID = 256

/** An id that names a person, or is too long, is refused: its digest is sent instead, always the same. */
const addUser = (body: Json, out: Record<string, unknown>, shaping: string[]): void => {
  const own = textOf(objectOf(body.metadata).user_id)
  const user = own ?? textOf(body.user)
  if (user === null) return
  const isRefused = user.length > MOST_USER_ID || EMAIL.test(user.slice(0, MOST_USER_ID)) || PHONE.test(user)
  out.metadata = { user_id: isRefused ? `user_${sha256Hex(user)}` : user }
  if (isRefused)
    shaping.push(`replaced ${own === null ? 'user' : 'metadata.user_id'} by a digest: the provider refuses it`)
}

export const messagesBody = (
  { body, stream }: Pick<ChatCall, 'body' | 'stream'>,
  target: Target,
  shaping: string[],
): Json => {
  const model = target.upstreamModel
  refuseUnsupported(body)
  for (const name of NO_COUNTERPART) if (present(body[name])) shaping.push(`dropped ${name}`)
  if (isObject(body.metadata) && Object.keys(body.metadata).some((name) => name !== 'user_id'))
    shaping.push('dropped metadata but user_id')
  if (arrayOf(body.messages).some((message) => present(objectOf(message).name))) shaping.push('dropped messages[].name')
  dropDetail(body, shaping)
  noteLimits(body, (text) => shaping.push(text))

  const limit = outputLimit(body)
  if (limit === undefined && target.maxOutputTokens === null)
    shaping.push(`max_tokens ${DEFAULT_MAX_TOKENS}: required, and the catalogue knows none`)
  const conversation = convertMessages(body.messages, (text) => shaping.push(text))
  const { system, messages } = conversation
  const out: Record<string, unknown> = {
    ...vendorFields('anthropic', body, HANDLED, (text) => shaping.push(text)),
    model,
    max_tokens: limit ?? target.maxOutputTokens ?? DEFAULT_MAX_TOKENS,
    ...(system.length > 0 ? { system } : {}),
    messages,
    ...(stream ? { stream: true } : {}),
  }
  addSampling(body, out, model, shaping)
  addStop(body, out, shaping)
  addTools(body, out, model, shaping)
  const unsigned = isUnsigned(conversation)
  const field = out.thinking === undefined ? 'reasoning_effort' : 'thinking'
  addThinking(body, out, model, unsigned, shaping)
  settleThinking(out, unsigned, field, shaping)
  settleSampling(out, model, shaping)
  addFormat(body, out, model, shaping)
  addUser(body, out, shaping)
  return out
}

/** The API's root, with or without `/v1` at its end. */
export const messagesUrl = (baseUrl: string, path: string): string =>
  joinUrl(baseUrl.replace(/\/v1\/*$/, ''), `/v1${path}`)

/** Form of an option that is sent in a header. */
export const HEADER_VALUE = /^[\w.,: -]{1,512}$/

const headerValue = (value: unknown): string | null =>
  typeof value === 'string' && HEADER_VALUE.test(value) ? value : null

/** `options.anthropic_version` and `options.anthropic_beta` of the provider override the defaults. */
export const anthropicHeaders = ({ secret, options }: Target): Readonly<Record<string, string>> => {
  const beta = headerValue(options.anthropic_beta)
  return {
    'content-type': 'application/json',
    // The first version under which every model still takes sampling parameters.
    'anthropic-version': headerValue(options.anthropic_version) ?? '2023-06-01',
    ...(beta === null ? {} : { 'anthropic-beta': beta }),
    ...(secret === null ? {} : { 'x-api-key': secret }),
  }
}

export const anthropicRequest = (call: ChatCall, target: Target): UpstreamRequest => {
  const shaping: string[] = []
  const converted = messagesBody({ body: exactBody(call), stream: call.stream }, target, shaping)
  return {
    method: 'POST',
    url: messagesUrl(target.baseUrl, '/messages'),
    headers: { ...anthropicHeaders(target), accept: call.stream ? 'text/event-stream' : 'application/json' },
    body: withRawNumbers(call.raw, converted),
    shaping,
  }
}

/** The body as text, in which unchanged members keep the client's bytes. */
const withRawNumbers = (raw: string, converted: Json): string => {
  const own = new Map(
    topLevel(raw)
      .filter(({ key }) => !HANDLED.has(key))
      .map((member) => [member.key, raw.slice(member.valueStart, member.valueEnd)]),
  )
  const members = Object.entries(converted).map(([name, value]) => {
    const bytes = name === 'output_config' || name === 'thinking' || HANDLED.has(name) ? undefined : own.get(name)
    return `${JSON.stringify(name)}:${bytes ?? JSON.stringify(value)}`
  })
  return `{${members.join(',')}}`
}
