// A chat call -> Ollama's native chat. `stream` is always sent: there it is on by default.
import { t } from '../../lib/schema/schema.ts'
import { isObject } from '../../wire/json.ts'
import { countOption, type Options, SWITCH, textOption } from '../options.ts'
import type { ChatCall, Target, UpstreamRequest } from '../port.ts'
import {
  addLimit,
  CONVERTED,
  convertedRequest,
  dropDetail,
  dropFields,
  exactBody,
  OPENAI_ONLY,
  outputLimit,
  present,
  refuse,
  refuseUnsupported,
  rename,
} from '../shared/converting.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'
import { joinUrl } from '../shared/target-url.ts'
import { type Note, noteReplaced, stopsOf, vendorFields, vendorMembers } from '../shared/vendor-fields.ts'
import { ollamaMessages } from './messages.ts'

const NO_COUNTERPART = [...OPENAI_ONLY, 'metadata', 'parallel_tool_calls', 'user']
/** Same name, but among the `options`. */
// biome-ignore format: one list
const SAMPLING = [
  'temperature', 'top_p', 'top_k', 'min_p', 'frequency_penalty', 'presence_penalty', 'seed',
] as const
const HANDLED = new Set<string>([...NO_COUNTERPART, ...CONVERTED, ...SAMPLING, 'repetition_penalty', 'options'])

/** What an operator may set in the provider's `options`; a client's own value wins. */
export const PROVIDER_FIELDS: Options = {
  keep_alive: t.Union([
    textOption(/^-?(?:\d+|(?:\d+(?:\.\d+)?(?:ns|us|ms|s|m|h))+)$/, 'a duration such as "10m", or seconds'),
    t.Number(),
  ]),
  truncate: SWITCH,
  shift: SWITCH,
}
/** -1 of `num_gpu`: as many layers as fit. */
export const PROVIDER_OPTIONS: Options = {
  num_ctx: countOption(1),
  num_batch: countOption(1),
  num_gpu: countOption(-1),
  num_thread: countOption(0),
}
const FIELD_NAMES = Object.keys(PROVIDER_FIELDS)
const OPTION_NAMES = Object.keys(PROVIDER_OPTIONS)

const isSetting = (value: unknown): boolean =>
  typeof value === 'number' || typeof value === 'boolean' || typeof value === 'string'

/** Adds settings of the operator that the client did not send. */
const addSettings = (
  { options }: Target,
  names: readonly string[],
  out: Record<string, unknown>,
  prefix: string,
  shaping: string[],
): void => {
  for (const name of names) {
    if (!isSetting(options[name]) || present(out[name])) continue
    out[name] = options[name]
    shaping.push(`added ${prefix}${name}: a setting of the provider`)
  }
}

const addOptions = (
  body: Json,
  { call, target }: { readonly call: ChatCall; readonly target: Target },
  out: Record<string, unknown>,
  shaping: string[],
  note: Note,
): void => {
  const options = vendorMembers('ollama', body.options, 'options', note)
  for (const name of SAMPLING) if (present(body[name])) options[name] = body[name]
  if (present(body.seed) && !call.capabilities.includes('seed')) {
    delete options.seed
    shaping.push('dropped seed')
  }
  rename(body, 'repetition_penalty', options, 'repeat_penalty', shaping)
  if (outputLimit(body) !== undefined) noteReplaced(options, 'num_predict', 'options', 'max_tokens', note)
  addLimit(body, options, 'num_predict', shaping)
  const stop = stopsOf(body.stop, options.stop, 'options.stop', note)
  if (stop !== null) options.stop = stop
  addSettings(target, OPTION_NAMES, options, 'options.', shaping)
  if (Object.keys(options).length > 0) out.options = options
}

const addTools = (body: Json, out: Record<string, unknown>, shaping: string[]): void => {
  const tools = arrayOf(body.tools)
  tools.forEach((tool, i) => {
    if (!isObject(tool) || tool.type !== 'function' || !isObject(tool.function))
      throw refuse('this provider takes function tools only', `tools[${i}].type`)
  })
  if (tools.length === 0) return
  const choice = body.tool_choice
  if (choice === 'none') {
    shaping.push('dropped tools: tool_choice is "none"')
    return
  }
  if (present(choice) && choice !== 'auto')
    throw refuse('this provider cannot be made to call a tool; tool_choice may be "auto" or "none"', 'tool_choice')
  out.tools = tools
}

const addFormat = (body: Json, out: Record<string, unknown>, shaping: string[]): void => {
  const format = objectOf(body.response_format)
  if (!present(body.response_format) || format.type === 'text') return
  if (present(out.format)) shaping.push('dropped response_format: format wins')
  else if (format.type === 'json_object') out.format = 'json'
  else if (format.type === 'json_schema') {
    const { schema } = objectOf(format.json_schema)
    if (!isObject(schema)) throw refuse('json_schema needs a schema', 'response_format.json_schema.schema')
    out.format = schema
  } else shaping.push('dropped response_format: this provider has no format of this type')
}

/** Levels that Ollama's models lack -> the nearest that they support. */
const EFFORTS: Readonly<Record<string, unknown>> = { none: false, minimal: 'low', xhigh: 'high' }

const addThinking = (body: Json, out: Record<string, unknown>, shaping: string[]): void => {
  const effort = textOf(body.reasoning_effort)
  if (effort === null) return
  if (present(out.think)) {
    shaping.push('dropped reasoning_effort: think wins')
    return
  }
  out.think = Object.hasOwn(EFFORTS, effort) ? EFFORTS[effort] : effort
  shaping.push(`renamed reasoning_effort to think${out.think === effort ? '' : ` ${String(out.think)}`}`)
}

const chatBody = (call: ChatCall, target: Target, shaping: string[]): Json => {
  const body = exactBody(call)
  const note = (text: string) => void shaping.push(text)
  refuseUnsupported(body)
  dropFields(body, NO_COUNTERPART, shaping)
  dropDetail(body, shaping)
  const out: Record<string, unknown> = {
    ...vendorFields('ollama', body, HANDLED, note),
    model: target.upstreamModel,
    messages: ollamaMessages(body.messages),
    stream: call.stream,
  }
  addOptions(body, { call, target }, out, shaping, note)
  addTools(body, out, shaping)
  addFormat(body, out, shaping)
  addThinking(body, out, shaping)
  addSettings(target, FIELD_NAMES, out, '', shaping)
  return out
}

/** The server's root, with or without `/v1` or `/api` at its end. */
export const ollamaUrl = (baseUrl: string, path: string): string =>
  joinUrl(baseUrl.replace(/\/(?:v1|api)\/*(?=$|[?#])/, ''), path)

export const ollamaRequest = (call: ChatCall, target: Target): UpstreamRequest => {
  const shaping: string[] = []
  const body = chatBody(call, target, shaping)
  const url = ollamaUrl(target.baseUrl, '/api/chat')
  return convertedRequest(call, target, { url, streamType: 'application/x-ndjson', body, shaping })
}
