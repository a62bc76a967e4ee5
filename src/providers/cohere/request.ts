// A chat call -> Cohere's v2 chat.
import { isObject } from '../../wire/json.ts'
import type { ChatCall, Target, UpstreamRequest } from '../port.ts'
import {
  addLimit,
  CONVERTED,
  convertedRequest,
  dropFields,
  exactBody,
  OPENAI_ONLY,
  present,
  refuse,
  refuseUnsupported,
  rename,
} from '../shared/converting.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'
import { joinUrl } from '../shared/target-url.ts'
import { stopsOf, vendorFields } from '../shared/vendor-fields.ts'
import { cohereMessages } from './messages.ts'

// biome-ignore format: one list
const NO_COUNTERPART = [
  ...OPENAI_ONLY, 'metadata', 'min_p', 'parallel_tool_calls', 'repetition_penalty', 'top_logprobs', 'user',
]
const SAME = ['temperature', 'frequency_penalty', 'presence_penalty', 'seed'] as const
const HANDLED = new Set<string>([...NO_COUNTERPART, ...CONVERTED, ...SAME, 'logprobs', 'stop_sequences', 'top_k'])

/**
 * `strict` belongs to the tool in the client's wire and to the request in Cohere's: it is on when every tool requests
 * it.
 */
const addTools = (body: Json, out: Record<string, unknown>, shaping: string[]): void => {
  let strict = 0
  const tools = arrayOf(body.tools).map((tool, i): Json => {
    if (!isObject(tool) || tool.type !== 'function' || !isObject(tool.function))
      throw refuse('this provider takes function tools only', `tools[${i}].type`)
    if (!('strict' in tool.function)) return tool
    const { strict: isStrict, ...declaration } = tool.function
    if (isStrict === true) strict++
    return { ...tool, function: declaration }
  })
  if (tools.length === 0) return
  if (body.tool_choice === 'none' && asksForm(body)) {
    shaping.push('dropped tools: tool_choice is "none", and the provider takes no response_format beside tools')
    return
  }
  out.tools = tools
  if (strict === tools.length) {
    out.strict_tools ??= true
    shaping.push('renamed tools[].function.strict to strict_tools')
  } else if (strict > 0) shaping.push('dropped tools[].function.strict: not every tool has it')
  addChoice(body.tool_choice, tools, out, shaping)
}

/** `auto` means the same as leaving it out; one tool is forced by offering no other. */
const addChoice = (choice: unknown, tools: readonly Json[], out: Record<string, unknown>, shaping: string[]): void => {
  if (!present(choice) || choice === 'auto') return
  if (choice === 'none' || choice === 'required') {
    out.tool_choice = choice.toUpperCase()
    return
  }
  const { type, function: named } = objectOf(choice)
  const name = textOf(objectOf(named).name)
  const chosen = tools.filter((tool) => objectOf(tool.function).name === name)
  if (type !== 'function' || name === null || chosen.length === 0)
    throw refuse('this provider has no counterpart for this tool_choice', 'tool_choice')
  out.tools = chosen
  out.tool_choice = 'REQUIRED'
  if (tools.length > 1) shaping.push('tool_choice of one tool: the other tools are left out')
}

/** It asks for JSON. */
const asksForm = ({ response_format: format }: Json): boolean =>
  ['json_object', 'json_schema'].includes(textOf(objectOf(format).type) ?? '')

const addFormat = (body: Json, out: Record<string, unknown>, shaping: string[]): void => {
  const format = objectOf(body.response_format)
  if (out.tools !== undefined && format.type === 'json_object') {
    shaping.push('dropped response_format json_object: not with tools; the gateway checks the answer')
    return
  }
  if (out.tools !== undefined && format.type === 'json_schema')
    throw refuse('this provider cannot combine tools with a JSON schema', 'response_format')
  if (format.type === 'json_object' || format.type === 'text') out.response_format = format
  else if (format.type === 'json_schema') {
    const { schema } = objectOf(format.json_schema)
    if (!isObject(schema)) throw refuse('json_schema needs a schema', 'response_format.json_schema.schema')
    out.response_format = { type: 'json_object', json_schema: schema }
  } else if (present(body.response_format))
    shaping.push('dropped response_format: this provider has no format of this type')
}

/**
 * Cohere's models think or do not; only a budget sets how much, and the client sent none. A `thinking` of the client
 * takes precedence.
 */
const addThinking = (body: Json, out: Record<string, unknown>, shaping: string[]): void => {
  const effort = textOf(body.reasoning_effort)
  if (effort === null) return
  if (out.thinking !== undefined) {
    shaping.push('dropped reasoning_effort: thinking wins')
    return
  }
  out.thinking = { type: effort === 'none' ? 'disabled' : 'enabled' }
  shaping.push('renamed reasoning_effort to thinking')
}

/** Cohere refuses what is beyond them. */
const BOUNDS: readonly (readonly [name: string, least: number, most: number])[] = [
  ['temperature', 0, 1],
  ['p', 0.01, 0.99],
  ['k', 0, 500],
  ['frequency_penalty', 0, 1],
  ['presence_penalty', 0, 1],
]

const clamp = (out: Record<string, unknown>, shaping: string[]): void => {
  for (const [name, least, most] of BOUNDS) {
    const value = out[name]
    if (typeof value !== 'number' || (value >= least && value <= most)) continue
    out[name] = value < least ? least : most
    shaping.push(`clamped ${name} to ${out[name]}`)
  }
}

const chatBody = (call: ChatCall, target: Target, shaping: string[]): Json => {
  const body = exactBody(call)
  const note = (text: string) => void shaping.push(text)
  refuseUnsupported(body)
  dropFields(body, NO_COUNTERPART, shaping)
  const out: Record<string, unknown> = {
    ...vendorFields('cohere', body, HANDLED, note),
    model: target.upstreamModel,
    messages: cohereMessages(body.messages),
    ...(call.stream ? { stream: true } : {}),
  }
  addLimit(body, out, 'max_tokens', shaping)
  for (const name of SAME) if (present(body[name])) out[name] = body[name]
  if (present(body.seed) && !call.capabilities.includes('seed')) {
    delete out.seed
    shaping.push('dropped seed')
  }
  rename(body, 'top_p', out, 'p', shaping)
  rename(body, 'top_k', out, 'k', shaping)
  clamp(out, shaping)
  if (body.logprobs === true) out.logprobs = true
  const stop = stopsOf(body.stop, body.stop_sequences, 'stop_sequences', note)
  if (stop !== null) out.stop_sequences = stop
  addTools(body, out, shaping)
  addFormat(body, out, shaping)
  addThinking(body, out, shaping)
  return out
}

/** The API's root, with or without a version at its end; the chat is of version 2, the listing of version 1. */
export const cohereUrl = (baseUrl: string, path: string): string =>
  joinUrl(baseUrl.replace(/\/v[12]\/*(?=$|[?#])/, ''), path)

export const cohereRequest = (call: ChatCall, target: Target): UpstreamRequest => {
  const shaping: string[] = []
  const body = chatBody(call, target, shaping)
  const url = cohereUrl(target.baseUrl, '/v2/chat')
  return convertedRequest(call, target, { url, streamType: 'text/event-stream', body, shaping })
}
