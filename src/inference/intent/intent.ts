// Station 3: reads the request. Every rule on the body of a chat completion, and the capabilities that it needs.
import type { HeaderReader } from '../../lib/http-server/http-server.ts'
import { type Edit, editMembers, memberText } from '../../lib/json/edit.ts'
import type { Capability } from '../../providers/port.ts'
import { readVendorFields, type VendorAmounts } from '../../providers/shared/vendor-fields.ts'
import { GatewayError } from '../../wire/errors.ts'
import { isObject } from '../../wire/json.ts'
import { type HeaderIntent, readHeaderIntent } from './headers.ts'
import { TOOLS_TOKENS } from './media-bounds.ts'
import { jsonBytes, readMessages } from './messages.ts'
import { refersOutside } from './outside-bounds.ts'
import { demandsJson, type StructuredRequest, structuredRequestOf } from './structured.ts'
import { checkTools, type ToolsField } from './tools.ts'

type Body = Readonly<Record<string, unknown>>

/** A capability that the chosen model must have, and the field that requires it. */
export interface Requirement {
  readonly capability: Capability
  readonly param: string
}

export interface Intent {
  /** As the client wrote it. */
  readonly model: string
  readonly stream: boolean
  readonly includeUsage: boolean
  /** The client's body without the fields that only the gateway reads; unchanged bytes are the client's. */
  readonly raw: string
  readonly body: Body
  readonly requirements: readonly Requirement[]
  /** The output ceiling that the client sent. */
  readonly maxTokens: number | null
  readonly choices: number
  /** Amounts in vendor fields that add to an answer, by kind of upstream. Null: none. */
  readonly vendorFields: VendorAmounts | null
  /**
   * UTF-8 bytes that count as prompt: text and tool calls of the messages, tool declarations, and fields that are not
   * of the client's wire.
   */
  readonly textBytes: number
  readonly messageCount: number
  /** UTF-8 bytes of the whole body without media, never less than `textBytes`. */
  readonly promptBytes: number
  /** Images, audio parts and pieces of files. */
  readonly mediaParts: number
  /**
   * The most tokens of the prompt beside `promptBytes`: media, and what a vendor adds for tools. Infinity: as many as
   * the model takes.
   */
  readonly unseenTokens: number
  /**
   * Kinds of upstream for which a field of the body refers to content outside of it (`outside-bounds.ts`). Null: none.
   */
  readonly outside: ReadonlySet<string> | null
  readonly structured: StructuredRequest | null
  /** `tool_execution` was sent; the mode is always clamped to `manual`, since the gateway runs no tools by itself. */
  readonly toolExecution: 'manual' | null
  /** End-user identifier as sent: `metadata.user_id`, else `user`. */
  readonly user: string | null
  readonly task: string
  readonly shaping: readonly string[]
  readonly headers: HeaderIntent
  readonly debug: boolean
}

const MAX_NAME_LENGTH = 256
const MAX_TOKENS = 1_000_000_000
const MAX_CHOICES = 128
const NO_SHAPING: readonly string[] = []

const bad = (message: string, param: string): GatewayError => new GatewayError('invalid_request', message, { param })

/** The model name of a body, cut for the record; null when it has no possible name. */
export const modelNameOf = (body: Body): string | null =>
  typeof body.model === 'string' && body.model !== '' ? body.model.slice(0, MAX_NAME_LENGTH) : null

/**
 * Reads a body and the headers. Throws 400 naming the field or header. `gatewayExecution`: the setting that lets the
 * gateway run tools.
 */
export const readIntent = (raw: string, body: Body, headers: HeaderReader, gatewayExecution = false): Intent => {
  const model = modelOf(body)
  const normal = normalised(raw, body)
  const stream = booleanOf(body, 'stream') === true
  if (stream && gatewayExecution && toolModeOf(body.tool_execution) === 'automatic') throw noAutomaticStream()
  const requirements: Requirement[] = []
  if (stream) requirements.push(NEEDS.streaming)
  const media = readMessages(normal.body.messages)
  if (media.images > 0) requirements.push(NEEDS.vision)
  checkSampling(body)
  const toolsField = checkTools(body)
  if (toolsField !== null) requirements.push(TOOL_NEEDS[toolsField])
  if (body.parallel_tool_calls === true) requirements.push(NEEDS.parallelTool)
  const structured = structuredRequestOf(body.response_format)
  const json = structured !== null && demandsJson(structured)
  const declaresTools = toolsField === 'tools' || toolsField === 'functions'
  if (json) requirements.push(structured.type === 'json_schema' ? NEEDS.jsonSchema : NEEDS.jsonMode)
  if (isPresent(body.seed)) requirements.push(NEEDS.seed)
  const intentHeaders = readHeaderIntent(headers)
  const own = readVendorFields(normal.body)
  return {
    model,
    stream,
    includeUsage: includesUsage(body, stream),
    raw: normal.raw,
    body: normal.body,
    requirements,
    maxTokens: ceilingOf(body, 'max_completion_tokens') ?? ceilingOf(body, 'max_tokens'),
    choices: choicesOf(body),
    vendorFields: own.amounts,
    textBytes: media.textBytes + own.textBytes + (declaresTools ? jsonBytes(body.tools ?? body.functions) : 0),
    messageCount: (normal.body.messages as unknown[]).length,
    promptBytes: Math.max(0, Buffer.byteLength(normal.raw) - media.chars),
    mediaParts: media.images + media.audio + media.pieces,
    // For a form of the answer, some vendors add a tool or a prompt of their own.
    unseenTokens: media.tokensBound + (declaresTools || json ? TOOLS_TOKENS : 0),
    outside: refersOutside(normal.body),
    structured,
    toolExecution: isPresent(body.tool_execution) ? 'manual' : null,
    user: userOf(body),
    task: taskOf(intentHeaders.batch, declaresTools, json, media.images > 0),
    shaping: normal.shaping,
    headers: intentHeaders,
    debug: intentHeaders.debug,
  }
}

const NEEDS = {
  streaming: { capability: 'streaming', param: 'stream' },
  vision: { capability: 'vision', param: 'messages' },
  tools: { capability: 'tools', param: 'tools' },
  parallelTool: { capability: 'parallel_tool', param: 'parallel_tool_calls' },
  jsonMode: { capability: 'json_mode', param: 'response_format' },
  jsonSchema: { capability: 'json_schema', param: 'response_format' },
  seed: { capability: 'seed', param: 'seed' },
} as const satisfies Record<string, Requirement>

/** Each of these fields requires `tools`. */
const TOOL_NEEDS: Readonly<Record<ToolsField, Requirement>> = {
  tools: NEEDS.tools,
  functions: { capability: 'tools', param: 'functions' },
  tool_choice: { capability: 'tools', param: 'tool_choice' },
  function_call: { capability: 'tools', param: 'function_call' },
  parallel_tool_calls: { capability: 'tools', param: 'parallel_tool_calls' },
}

/** The requirement with that capability; undefined when no request requires it. */
export const requirementOf = (capability: string): Requirement | undefined =>
  Object.values(NEEDS).find((requirement) => requirement.capability === capability)

const isPresent = (value: unknown): boolean => value !== undefined && value !== null

const modelOf = (body: Body): string => {
  const { model } = body
  if (!isPresent(model)) throw bad('`model` is required', 'model')
  if (typeof model !== 'string' || model.trim() === '') throw bad('`model` must be the name of a model', 'model')
  if (model.length > MAX_NAME_LENGTH) throw bad(`\`model\` is longer than ${MAX_NAME_LENGTH} characters`, 'model')
  return model
}

const booleanOf = (body: Body, name: string): boolean | null => {
  const value = body[name]
  if (!isPresent(value)) return null
  if (typeof value !== 'boolean') throw bad(`\`${name}\` must be true or false`, name)
  return value
}

/** Folds the shorthands `prompt` and `system` into `messages`, and removes the fields that only the gateway reads. */
const normalised = (raw: string, body: Body): { raw: string; body: Body; shaping: readonly string[] } => {
  const { prompt, system, messages } = body
  if (prompt === undefined && system === undefined && body.tool_execution === undefined && Array.isArray(messages))
    return { raw, body, shaping: NO_SHAPING }
  const edits = new Map<string, Edit>()
  let shaping = NO_SHAPING
  if (isPresent(body.tool_execution) || body.tool_execution === null) {
    if (toolModeOf(body.tool_execution) === 'automatic') shaping = ['tool_execution clamped to manual']
    edits.set('tool_execution', { do: 'remove' })
  }
  if (isPresent(prompt)) {
    if (typeof prompt !== 'string') throw bad('`prompt` must be a string', 'prompt')
    if (isPresent(messages)) throw bad('`prompt` and `messages` exclude each other', 'prompt')
  } else if (!Array.isArray(messages)) {
    throw bad(isPresent(messages) ? '`messages` must be an array' : '`messages` is required', 'messages')
  }
  if (isPresent(system) && typeof system !== 'string') throw bad('`system` must be a string', 'system')
  if (prompt === undefined && system === undefined && edits.size === 0) return { raw, body, shaping }

  const folded: unknown[] = isPresent(prompt) ? [{ role: 'user', content: prompt }] : (messages as unknown[])
  const lead = isPresent(system) ? [{ role: 'system', content: system }] : []
  if (isPresent(prompt) || lead.length > 0) {
    edits.set('messages', { do: 'set', json: withLead(raw, lead, isPresent(prompt) ? folded : null) })
  }
  if (prompt !== undefined) edits.set('prompt', { do: 'remove' })
  if (system !== undefined) edits.set('system', { do: 'remove' })
  const { prompt: _, system: __, tool_execution: ___, ...rest } = body
  return { raw: editMembers(raw, edits), body: { ...rest, messages: [...lead, ...folded] }, shaping }
}

/** `messages` as JSON text: the client's own bytes after the messages that lead them. */
const withLead = (raw: string, lead: readonly unknown[], folded: readonly unknown[] | null): string => {
  if (folded !== null) return JSON.stringify([...lead, ...folded])
  const own = (memberText(raw, 'messages') as string).trim()
  const inner = own.slice(1, -1)
  return `[${JSON.stringify(lead[0])}${inner.trim() === '' ? '' : ','}${inner}]`
}

const noAutomaticStream = (): GatewayError =>
  bad('tools that the gateway runs itself need `stream: false`', 'tool_execution.mode')

const toolModeOf = (value: unknown): string => {
  if (!isPresent(value)) return 'manual'
  if (!isObject(value)) throw bad('`tool_execution` must be an object', 'tool_execution')
  const mode = value.mode ?? 'manual'
  if (mode !== 'manual' && mode !== 'automatic') {
    throw bad('`tool_execution.mode` must be "manual" or "automatic"', 'tool_execution.mode')
  }
  return mode
}

const checkSampling = (body: Body): void => {
  const { top_k, min_p, repetition_penalty } = body
  if (isPresent(top_k) && !(Number.isSafeInteger(top_k) && (top_k as number) >= 1)) {
    throw bad('`top_k` must be a whole number of at least 1', 'top_k')
  }
  if (isPresent(min_p) && !(typeof min_p === 'number' && min_p >= 0 && min_p <= 1)) {
    throw bad('`min_p` must be a number from 0 to 1', 'min_p')
  }
  if (isPresent(repetition_penalty) && !(typeof repetition_penalty === 'number' && repetition_penalty >= 0)) {
    throw bad('`repetition_penalty` must be a number of at least 0', 'repetition_penalty')
  }
}

const includesUsage = (body: Body, stream: boolean): boolean => {
  const options = body.stream_options
  if (!isPresent(options)) return false
  if (!isObject(options)) throw bad('`stream_options` must be an object', 'stream_options')
  if (!stream) throw bad('`stream_options` needs `stream: true`', 'stream_options')
  const include = options.include_usage
  if (isPresent(include) && typeof include !== 'boolean') {
    throw bad('`stream_options.include_usage` must be true or false', 'stream_options.include_usage')
  }
  return include === true
}

const ceilingOf = (body: Body, name: string): number | null => {
  const value = body[name]
  if (!isPresent(value)) return null
  if (!Number.isSafeInteger(value) || (value as number) < 1 || (value as number) > MAX_TOKENS) {
    throw bad(`\`${name}\` must be a positive whole number`, name)
  }
  return value as number
}

const choicesOf = (body: Body): number => {
  const { n } = body
  if (!isPresent(n)) return 1
  if (!Number.isSafeInteger(n) || (n as number) < 1 || (n as number) > MAX_CHOICES) {
    throw bad(`\`n\` must be a whole number from 1 to ${MAX_CHOICES}`, 'n')
  }
  return n as number
}

const userOf = (body: Body): string | null => {
  const { metadata, user } = body
  if (isPresent(metadata) && !isObject(metadata)) throw bad('`metadata` must be an object', 'metadata')
  if (isObject(metadata) && typeof metadata.user_id === 'string' && metadata.user_id !== '') return metadata.user_id
  return typeof user === 'string' && user !== '' ? user : null
}

const taskOf = (batch: boolean, tools: boolean, json: boolean, vision: boolean): string => {
  if (batch) return 'batch'
  if (tools) return 'tools'
  if (json) return 'json'
  return vision ? 'vision' : 'chat'
}
