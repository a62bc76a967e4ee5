// Whole answers of Converse, its usage and its failures inside a success -> the client's wire.
import { appendMembers } from '../../lib/json/edit.ts'
import type { GatewayError } from '../../wire/errors.ts'
import { isObject } from '../../wire/json.ts'
import type { Answer, Reading, Usage } from '../port.ts'
import { cacheWritesOf } from '../shared/billing.ts'
import { clientUsage, completionJson } from '../shared/client-wire.ts'
import { JSON_TOOL } from '../shared/converting.ts'
import { inBandFailure, malformed } from '../shared/failure.ts'
import { finishReasonOf, isFailedFinish } from '../shared/finish-reason.ts'
import { arrayOf, countOf, type Json, objectOf, parseExactJson, textOf } from '../shared/read-json.ts'

/** AWS's exceptions (lower case) -> the status that fits their meaning. Some are sent with another. */
export const EXCEPTIONS: Readonly<Record<string, number>> = {
  validationexception: 400,
  incompletesignatureexception: 401,
  invalidclienttokenid: 401,
  invalidsignatureexception: 401,
  missingauthenticationtokenexception: 401,
  expiredtokenexception: 401,
  unrecognizedclientexception: 401,
  accessdeniedexception: 403,
  resourcenotfoundexception: 404,
  modeltimeoutexception: 408,
  modelerrorexception: 424,
  modelstreamerrorexception: 424,
  servicequotaexceededexception: 429,
  throttlingexception: 429,
  toomanyrequestsexception: 429,
  internalserverexception: 500,
  internalfailure: 500,
  modelnotreadyexception: 503,
  serviceunavailableexception: 503,
}

/** The status of an exception by its name, undefined for an unknown one. */
export const statusOfException = (name: string): number | undefined =>
  Object.hasOwn(EXCEPTIONS, name) ? EXCEPTIONS[name] : undefined

/** A failure as an event of a stream, or in place of an answer. */
export const bedrockInBand = (type: string | null, body: unknown, reading?: Reading): GatewayError => {
  const error = isObject(objectOf(body).error) ? objectOf(objectOf(body).error) : objectOf(body)
  const message = textOf(error.message) ?? textOf(error.Message) ?? ''
  return inBandFailure({ code: type ?? error.code, message }, reading, statusOfException)
}

const sum = (...counts: readonly (number | null)[]): number | null =>
  counts.every((count) => count === null) ? null : counts.reduce<number>((total, count) => total + (count ?? 0), 0)

/** `inputTokens` omits tokens that were read from or written to the cache; the client's prompt_tokens includes them. */
export const bedrockUsage = (raw: Json): Usage => {
  const cached = countOf(raw.cacheReadInputTokens)
  return {
    promptTokens: sum(countOf(raw.inputTokens), cached, cacheWrites(raw)),
    completionTokens: countOf(raw.outputTokens),
    cachedPromptTokens: cached,
    reasoningTokens: null,
    ...cacheWritesOf(cacheWrites(raw), writtenFor('5m', raw), writtenFor('1h', raw)),
    raw,
  }
}

const writtenFor = (ttl: string, raw: Json): number | null =>
  sum(
    ...arrayOf(raw.cacheDetails).map((each) =>
      objectOf(each).ttl === ttl ? countOf(objectOf(each).inputTokens) : null,
    ),
  )

/** Tokens that were written to the cache; null when the usage does not report them. */
export const cacheWrites = (raw: unknown): number | null => countOf(objectOf(raw).cacheWriteInputTokens)

/** Throws for an end that is a failure. The tool that carries the JSON answer is no tool call to the client. */
export const bedrockFinish = (reason: string | null, answeredByTool: boolean): string | null => {
  if (reason === null) return null
  if (isFailedFinish(reason)) throw malformed(`it ended with ${reason}`)
  return answeredByTool && reason === 'tool_use' ? 'stop' : finishReasonOf(reason)
}

/**
 * The same form as Anthropic's, so that a conversation can continue with either. Unsigned reasoning is of no use there
 * and stays text.
 */
export const reasoningDetail = (text: string, signature: string, redacted: string): readonly Json[] => [
  ...(signature === '' ? [] : [{ type: 'thinking', thinking: text, signature }]),
  ...(redacted === '' ? [] : [{ type: 'redacted_thinking', data: redacted }]),
]

interface Read {
  readonly texts: string[]
  readonly thoughts: string[]
  readonly details: Json[]
  readonly calls: Json[]
  readonly names: string[]
  byTool: boolean
}

const readBlock = (block: Json, into: Read): void => {
  const { text, toolUse, reasoningContent, citationsContent } = block
  if (typeof text === 'string') into.texts.push(text)
  if (isObject(toolUse)) {
    const args = JSON.stringify(toolUse.input ?? {})
    if (toolUse.name === JSON_TOOL) {
      into.texts.push(args)
      into.byTool = true
    } else {
      into.calls.push({ id: toolUse.toolUseId, type: 'function', function: { name: toolUse.name, arguments: args } })
      into.names.push(textOf(toolUse.name) ?? '')
    }
  }
  if (isObject(reasoningContent)) {
    const { text: thought, signature } = objectOf(reasoningContent.reasoningText)
    if (typeof thought === 'string') into.thoughts.push(thought)
    const redacted = textOf(reasoningContent.redactedContent) ?? ''
    into.details.push(...reasoningDetail(textOf(thought) ?? '', textOf(signature) ?? '', redacted))
  }
  for (const part of arrayOf(objectOf(citationsContent).content)) into.texts.push(textOf(objectOf(part).text) ?? '')
}

/** Members of Bedrock's answer that matter to a client: findings of guardrails, and the fields that it requested. */
export const extras = (from: Json): string =>
  ['trace', 'additionalModelResponseFields', 'serviceTier', 'performanceConfig']
    .filter((name) => isObject(from[name]))
    .map((name) => `${JSON.stringify(name)}:${JSON.stringify(from[name])}`)
    .join(',')

/** The model as the client gets it: an ARN names the operator's account. */
export const shownModel = (model: string | undefined): string =>
  model === undefined ? '' : model.startsWith('arn:') ? model.slice(model.lastIndexOf('/') + 1) : model

export const bedrockAnswer = (body: string, reading?: Reading): Answer => {
  const parsed = parseExactJson(body)
  if (!isObject(parsed)) throw malformed('it is no JSON object')
  const { content } = objectOf(objectOf(parsed.output).message)
  if (!Array.isArray(content)) {
    if (typeof parsed.message === 'string' || isObject(parsed.error)) throw bedrockInBand(null, parsed, reading)
    throw malformed('it has no content')
  }
  const read: Read = { texts: [], thoughts: [], details: [], calls: [], names: [], byTool: false }
  for (const block of content) readBlock(objectOf(block), read)
  const finishReason = bedrockFinish(textOf(parsed.stopReason), read.byTool)
  const text = read.texts.length === 0 && read.calls.length > 0 ? null : read.texts.join('')
  const usage = isObject(parsed.usage) ? bedrockUsage(parsed.usage) : null
  const json = completionJson({
    id: null,
    createdS: null,
    model: shownModel(reading?.model),
    message: {
      role: 'assistant',
      content: text,
      ...(read.thoughts.length === 0 ? {} : { reasoning_content: read.thoughts.join('') }),
      ...(read.details.length === 0 ? {} : { reasoning_details: read.details }),
      ...(read.calls.length === 0 ? {} : { tool_calls: read.calls }),
    },
    logprobs: null,
    finishReason,
    usage: usage === null ? null : clientUsage(usage, cacheWrites(usage.raw)),
    reading,
  })
  const more = extras(parsed)
  return {
    json: more === '' ? json : appendMembers(json, more),
    usage,
    finishReason,
    content: text,
    refusal: finishReason === 'content_filter',
    toolNames: read.names,
  }
}
