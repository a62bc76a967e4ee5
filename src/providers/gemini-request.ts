// A chat call -> Gemini's generateContent and streamGenerateContent.
import { isObject } from '../wire/json.ts'
import { CONVERTED, exactBody, OPENAI_ONLY, outputLimit, present, refuse, stopList } from './converting.ts'
import { convertMessages } from './gemini-contents.ts'
import { familyOf, type GeminiFamily } from './gemini-models.ts'
import { convertFormat, convertTools } from './gemini-tools.ts'
import { joinUrl } from './openai-request.ts'
import type { ChatCall, Target, UpstreamRequest } from './provider.ts'
import { type Json, objectOf, textOf } from './read-json.ts'

/** Of these there is a counterpart here. */
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
])
/** Fields of Gemini's own request that only the gateway writes: they would say something else than what was authorised and counted. */
const WRITTEN = new Set(['contents', 'model', 'systemInstruction'])

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
/** As Google's own OpenAI door understands the efforts. */
const BUDGETS: Readonly<Record<string, number>> = { minimal: 1_024, low: 1_024, medium: 8_192, high: 24_576 }
const TIERS: Readonly<Record<string, string>> = {
  default: 'standard',
  standard: 'standard',
  flex: 'flex',
  priority: 'priority',
}

/** Its JSON takes both spellings; one of them is written, so that no field stands there twice. */
const camelCase = (name: string): string =>
  name.includes('_') ? name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : name
const camelKeys = (fields: Json): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [camelCase(name), value]))

/** What the client says in Gemini's own words: top-level fields, and what Google's OpenAI door takes as `extra_body.google`. */
const ownFields = (body: Json, shaping: Set<string>): Record<string, unknown> => {
  const own: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(body)) {
    if (HANDLED.has(name)) continue
    const google = name === 'extra_body' ? objectOf(value).google : undefined
    if (!isObject(google)) {
      own[camelCase(name)] = value
      continue
    }
    const { thinkingConfig, ...fields } = camelKeys(google)
    Object.assign(own, fields)
    if (isObject(thinkingConfig))
      own.generationConfig = { ...objectOf(own.generationConfig), thinkingConfig: camelKeys(thinkingConfig) }
  }
  for (const name of Object.keys(own)) {
    if (!WRITTEN.has(name) && name.toLowerCase() !== 'model') continue
    delete own[name]
    if (name !== 'model') shaping.add(`dropped ${name.slice(0, 40)}`)
  }
  return own
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
  const known = high ? 'high' : effort
  if (!Object.hasOwn(BUDGETS, known))
    throw refuse('this provider takes none, minimal, low, medium, high, xhigh and max', 'reasoning_effort')
  if (family.thinking === 'budget') return { thinkingBudget: BUDGETS[known] }
  if (known !== 'minimal' || family.leastThinking === 'minimal') return { thinkingLevel: known }
  shaping.add('clamped reasoning_effort to low')
  return { thinkingLevel: 'low' }
}

const addThinking = (body: Json, out: Record<string, unknown>, family: GeminiFamily, shaping: Set<string>): void => {
  const effort = textOf(body.reasoning_effort)
  if (effort === null) return
  const own = camelKeys(objectOf(out.thinkingConfig))
  if (present(own.thinkingBudget) || present(own.thinkingLevel)) {
    shaping.add('dropped reasoning_effort: the thinking that was asked for stands')
    return
  }
  shaping.add('renamed reasoning_effort to thinkingConfig')
  out.thinkingConfig = { ...own, ...thinkingOf(effort, family, shaping) }
}

const addLimits = (body: Json, out: Record<string, unknown>, shaping: Set<string>): void => {
  const limit = outputLimit(body)
  const wins = present(body.max_completion_tokens)
  if (limit !== undefined) {
    out.maxOutputTokens = limit
    shaping.add(`renamed ${wins ? 'max_completion_tokens' : 'max_tokens'} to maxOutputTokens`)
  }
  if (wins && present(body.max_tokens)) shaping.add('dropped max_tokens: max_completion_tokens wins')
  const stop = stopList(body.stop)
  if (stop !== null) {
    out.stopSequences = stop
    shaping.add('renamed stop to stopSequences')
  }
}

const generationConfig = (
  body: Json,
  own: unknown,
  family: GeminiFamily,
  takesSeed: boolean,
  shaping: Set<string>,
): Json => {
  const out = camelKeys(objectOf(own))
  // Several answers cost several times: how many is said in the field that was counted.
  if (present(out.candidateCount)) {
    delete out.candidateCount
    shaping.add('dropped generationConfig.candidateCount: use n')
  }
  for (const [field, to] of RENAMED) {
    if (!present(body[field])) continue
    if (!family.penalties && field.endsWith('_penalty')) {
      shaping.add(`dropped ${field}: the model refuses it`)
      continue
    }
    out[to] = body[field]
    if (field !== to) shaping.add(`renamed ${field} to ${to}`)
  }
  // 0 is what the wire says by leaving it out.
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

/** `/v1beta`, unless the base names a version of its own; a bare `/v1` or Google's OpenAI door at its end is only habit. */
export const geminiUrl = ({ baseUrl, options }: Pick<Target, 'baseUrl' | 'options'>, path: string): string => {
  const base = baseUrl
    .replace(/\/+$/, '')
    .replace(/\/openai$/, '')
    .replace(/\/v1$/, '')
  const version = textOf(options.api_version)
  const named = version !== null && GEMINI_VERSION.test(version) ? version : 'v1beta'
  return joinUrl(base, `${/\/v\d\w*(?:\/|\?|$)/.test(base) ? '' : `/${named}`}${path}`)
}

/** In a header, never as `?key=`: addresses end up in logs. `options.auth: "bearer"` is for access tokens. */
export const geminiHeaders = ({ secret, options }: Target): Readonly<Record<string, string>> => {
  if (secret === null) return {}
  return options.auth === 'bearer' ? { authorization: `Bearer ${secret}` } : { 'x-goog-api-key': secret }
}

/** `models/<name>`, unless the name says what it is (`tunedModels/x`). */
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
  const { generationConfig: ownGeneration, toolConfig: ownTools, ...own } = ownFields(body, shaping)
  const { system, contents } = convertMessages(body.messages, {
    family,
    filesUrl: geminiUrl(target, ''),
    // The platform for companies refuses them.
    callIds: !/\baiplatform\./.test(target.baseUrl),
    shaping,
  })
  const generation = generationConfig(body, ownGeneration, family, capabilities.includes('seed'), shaping)
  const tier = textOf(body.service_tier)
  const serviceTier = tier !== null && Object.hasOwn(TIERS, tier) ? TIERS[tier] : null
  if (tier !== null) shaping.add(serviceTier === null ? 'dropped service_tier' : 'renamed service_tier to serviceTier')
  return {
    ...own,
    ...(system.length === 0 ? {} : { systemInstruction: { parts: system } }),
    contents,
    ...convertTools(body, ownTools),
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
