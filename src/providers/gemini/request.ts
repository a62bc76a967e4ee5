// A chat call -> Gemini's generateContent and streamGenerateContent.
import { isObject } from '../../wire/json.ts'
import type { ChatCall, Target, UpstreamRequest } from '../port.ts'
import { CONVERTED, exactBody, noteLimits, OPENAI_ONLY, outputLimit, present, refuse } from '../shared/converting.ts'
import { type Json, objectOf, textOf } from '../shared/read-json.ts'
import { joinUrl } from '../shared/target-url.ts'
import { type Note, noteReplaced, stopsOf, vendorFields, vendorMembers } from '../shared/vendor-fields.ts'
import { convertMessages } from './contents.ts'
import { familyOf, type GeminiFamily } from './models.ts'
import { convertFormat, convertTools } from './tools.ts'

/** These have a counterpart here. */
const HAS_COUNTERPART = new Set<string>(['modalities', 'service_tier'])
/** The client's fields without a counterpart. Fields of neither wire are passed on as they are. */
const NO_COUNTERPART: readonly string[] = [
  ...OPENAI_ONLY.filter((name) => !HAS_COUNTERPART.has(name)),
  ...['metadata', 'min_p', 'parallel_tool_calls', 'repetition_penalty', 'user'],
]
// biome-ignore format: one list
const HANDLED = new Set([
  ...NO_COUNTERPART, ...HAS_COUNTERPART, ...CONVERTED,
  'frequency_penalty', 'function_call', 'functions', 'logprobs', 'presence_penalty', 'seed', 'top_k', 'top_logprobs',
  'extra_body', 'generationConfig', 'generation_config', 'toolConfig', 'tool_config',
])

/** Members of `generationConfig` that only change their name. */
const RENAMED: readonly (readonly [field: string, to: string])[] = [
  ['temperature', 'temperature'],
  ['top_p', 'topP'],
  ['top_k', 'topK'],
  ['frequency_penalty', 'frequencyPenalty'],
  ['presence_penalty', 'presencePenalty'],
  ['n', 'candidateCount'],
  ['logprobs', 'responseLogprobs'],
]
/** The budgets that Google's own OpenAI endpoint uses for the efforts. */
const BUDGETS: Readonly<Record<string, number>> = { minimal: 1_024, low: 1_024, medium: 8_192, high: 24_576 }
const TIERS: Readonly<Record<string, string>> = {
  default: 'standard',
  standard: 'standard',
  flex: 'flex',
  priority: 'priority',
}

/**
 * Request fields with two spellings, both of which Google's JSON accepts: one of them is written, so that none occurs
 * twice.
 */
// biome-ignore format: one list
const SPELLED = new Map([
  'audioTimestamp', 'cachedContent', 'candidateCount', 'enableEnhancedCivicAnswers', 'frequencyPenalty',
  'functionCallingConfig', 'generationConfig', 'imageConfig', 'includeServerSideToolInvocations', 'includeThoughts',
  'logprobs', 'maxOutputTokens', 'mediaResolution', 'presencePenalty', 'responseJsonSchema', 'responseLogprobs',
  'responseMimeType', 'responseModalities', 'responseSchema', 'retrievalConfig', 'routingConfig', 'safetySettings',
  'serviceTier', 'speechConfig', 'stopSequences', 'systemInstruction', 'thinkingBudget', 'thinkingConfig',
  'thinkingLevel', 'toolConfig', 'topK', 'topP',
].map((name) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), name]))
/** Those of them at the top level. */
const AT_TOP = new Set(['cached_content', 'safety_settings', 'service_tier', 'system_instruction'])
/** An unlisted name stays as it is. */
const spelled = (fields: Json, names?: ReadonlySet<string>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      names?.has(name) === false ? name : (SPELLED.get(name) ?? name),
      value,
    ]),
  )

/** Gemini's own fields in the client's request. */
interface GeminiFields {
  readonly fields: Json
  readonly generation: Json
  readonly toolConfig: Json
}

/** Top-level fields, and those that Google's OpenAI endpoint takes as `extra_body.google`. */
const geminiFieldsOf = (body: Json, note: Note): GeminiFields => {
  const { extra_body: extra } = body
  const { google, ...others } = objectOf(extra)
  const isDoor = isObject(google)
  for (const name of isDoor ? Object.keys(others) : []) note(`dropped extra_body.${name.slice(0, 40)}`)
  const { generation_config, generationConfig, tool_config, toolConfig, thinking_config, thinkingConfig, ...more } =
    objectOf(google)
  const membersOf = (name: string, ...given: readonly unknown[]): Record<string, unknown> =>
    Object.assign({}, ...given.map((value) => spelled(vendorMembers('gemini', value, name, note))))
  const generation = membersOf(
    'generationConfig',
    ...[body.generation_config, body.generationConfig, generation_config, generationConfig],
  )
  const thinking = thinkingConfig ?? thinking_config ?? generation.thinkingConfig
  if (isObject(thinking)) generation.thinkingConfig = spelled(thinking)
  return {
    fields: spelled(
      {
        ...vendorFields('gemini', body, HANDLED, note),
        ...(isDoor || extra === undefined ? {} : { extra_body: extra }),
        ...vendorMembers('gemini', more, 'extra_body.google', note),
      },
      AT_TOP,
    ),
    generation,
    toolConfig: membersOf('toolConfig', body.tool_config, body.toolConfig, tool_config, toolConfig),
  }
}

const thinkingOf = (effort: string, family: GeminiFamily, shaping: Set<string>): Json | null => {
  if (effort === 'none') {
    if (family.leastThinking === null) return { thinkingBudget: 0 }
    shaping.add(`clamped reasoning_effort to ${family.leastThinking}: the model always thinks`)
    return family.thinking === 'budget'
      ? { thinkingBudget: family.leastThinking }
      : { thinkingLevel: family.leastThinking }
  }
  const high = effort === 'xhigh' || effort === 'max'
  if (high) shaping.add('clamped reasoning_effort to high')
  const level = high ? 'high' : effort
  if (!Object.hasOwn(BUDGETS, level))
    throw refuse('this provider takes none, minimal, low, medium, high, xhigh and max', 'reasoning_effort')
  if (family.thinking === 'budget') return { thinkingBudget: BUDGETS[level] }
  if (level !== 'minimal' || family.leastThinking === 'minimal') return { thinkingLevel: level }
  shaping.add('clamped reasoning_effort to low')
  return { thinkingLevel: 'low' }
}

const addThinking = (body: Json, out: Record<string, unknown>, family: GeminiFamily, shaping: Set<string>): void => {
  const effort = textOf(body.reasoning_effort)
  if (effort === null) return
  const own = objectOf(out.thinkingConfig)
  if (present(own.thinkingBudget) || present(own.thinkingLevel)) {
    shaping.add('dropped reasoning_effort: the thinking that was asked for stands')
    return
  }
  shaping.add('renamed reasoning_effort to thinkingConfig')
  out.thinkingConfig = { ...own, ...thinkingOf(effort, family, shaping) }
}

const addLimits = (body: Json, out: Record<string, unknown>, shaping: Set<string>): void => {
  const limit = outputLimit(body)
  if (limit !== undefined) {
    const field = present(body.max_completion_tokens) ? 'max_completion_tokens' : 'max_tokens'
    noteReplaced(out, 'maxOutputTokens', 'generationConfig', field, (text) => shaping.add(text))
    out.maxOutputTokens = limit
    shaping.add(`renamed ${field} to maxOutputTokens`)
  }
  noteLimits(body, (text) => shaping.add(text))
  const stop = stopsOf(body.stop, out.stopSequences, 'stopSequences', (text) => shaping.add(text))
  if (stop !== null) out.stopSequences = stop
}

const generationConfig = (
  body: Json,
  own: Json,
  family: GeminiFamily,
  takesSeed: boolean,
  shaping: Set<string>,
): Json => {
  const out: Record<string, unknown> = { ...own }
  for (const [field, to] of RENAMED) {
    if (!present(body[field])) continue
    if (!family.penalties && field.endsWith('_penalty')) {
      shaping.add(`dropped ${field}: the model refuses it`)
      continue
    }
    noteReplaced(own, to, 'generationConfig', field, (text) => shaping.add(text))
    out[to] = body[field]
    if (field !== to) shaping.add(`renamed ${field} to ${to}`)
  }
  // The wire expresses 0 by leaving it out.
  if (present(body.top_logprobs) && body.top_logprobs !== 0) {
    out.logprobs = body.top_logprobs
    shaping.add('renamed top_logprobs to logprobs')
  }
  if (present(body.seed)) {
    if (takesSeed) out.seed = body.seed
    else shaping.add('dropped seed')
  }
  addLimits(body, out, shaping)
  if (Array.isArray(body.modalities)) {
    out.responseModalities = body.modalities.map((one) => (typeof one === 'string' ? one.toUpperCase() : one))
    shaping.add('renamed modalities to responseModalities')
  }
  addThinking(body, out, family, shaping)
  return Object.assign(out, convertFormat(body.response_format, shaping))
}

/** `options.api_version`. */
export const GEMINI_VERSION = /^v[\w.]{1,20}$/

/**
 * `/v1beta`, unless the base names a version of its own; a bare `/v1` or the path of Google's OpenAI endpoint at its
 * end is ignored.
 */
export const geminiUrl = ({ baseUrl, options }: Pick<Target, 'baseUrl' | 'options'>, path: string): string => {
  const base = baseUrl
    .replace(/\/+$/, '')
    .replace(/\/openai$/, '')
    .replace(/\/v1$/, '')
  const version = textOf(options.api_version)
  const named = version !== null && GEMINI_VERSION.test(version) ? version : 'v1beta'
  return joinUrl(base, `${/\/v\d\w*(?:\/|\?|$)/.test(base) ? '' : `/${named}`}${path}`)
}

/** In a header, never as `?key=`: URLs end up in logs. `options.auth: "bearer"` is for access tokens. */
export const geminiHeaders = ({ secret, options }: Target): Readonly<Record<string, string>> => {
  if (secret === null) return {}
  return options.auth === 'bearer' ? { authorization: `Bearer ${secret}` } : { 'x-goog-api-key': secret }
}

/** `models/<name>`, unless the name has a collection (`tunedModels/x`). */
const modelPath = (model: string): string =>
  (model.includes('/') ? model : `models/${model}`)
    .split('/')
    .map((segment) => encodeURIComponent(segment).replaceAll('%40', '@'))
    .join('/')

export const withQuery = (url: string, query: string): string => `${url}${url.includes('?') ? '&' : '?'}${query}`

const contentBody = (
  { body, capabilities }: Pick<ChatCall, 'body' | 'capabilities'>,
  target: Target,
  shaping: Set<string>,
): Json => {
  for (const name of NO_COUNTERPART) if (present(body[name])) shaping.add(`dropped ${name}`)
  const family = familyOf(target.upstreamModel)
  const own = geminiFieldsOf(body, (text) => shaping.add(text))
  const { system, contents } = convertMessages(body.messages, {
    family,
    filesUrl: geminiUrl(target, ''),
    // Vertex AI refuses them.
    callIds: !/\baiplatform\./.test(target.baseUrl),
    shaping,
  })
  const generation = generationConfig(body, own.generation, family, capabilities.includes('seed'), shaping)
  if (system.length > 0)
    noteReplaced(own.fields, 'systemInstruction', '', 'the system message', (text) => shaping.add(text))
  const tier = textOf(body.service_tier)
  const serviceTier = tier !== null && Object.hasOwn(TIERS, tier) ? TIERS[tier] : null
  if (tier !== null) shaping.add(serviceTier === null ? 'dropped service_tier' : 'renamed service_tier to serviceTier')
  return {
    ...own.fields,
    ...(system.length === 0 ? {} : { systemInstruction: { parts: system } }),
    contents,
    ...convertTools(body, own.toolConfig),
    ...(Object.keys(generation).length === 0 ? {} : { generationConfig: generation }),
    ...(serviceTier === null ? {} : { serviceTier }),
  }
}

export const geminiRequest = (call: ChatCall, target: Target): UpstreamRequest => {
  const shaping = new Set<string>()
  const converted = contentBody({ body: exactBody(call), capabilities: call.capabilities }, target, shaping)
  const path = `/${modelPath(target.upstreamModel)}:${call.stream ? 'streamGenerateContent' : 'generateContent'}`
  const url = geminiUrl(target, path)
  return {
    method: 'POST',
    // Without `alt=sse` a stream is one JSON array.
    url: call.stream ? withQuery(url, 'alt=sse') : url,
    headers: {
      'content-type': 'application/json',
      accept: call.stream ? 'text/event-stream' : 'application/json',
      ...geminiHeaders(target),
    },
    body: JSON.stringify(converted),
    shaping: [...shaping],
  }
}
