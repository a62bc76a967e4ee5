// Gemini's candidates and usage -> choices of the client's wire. Whole answers are the sum of the deltas of a stream.
import { parseExact } from '../../lib/json/exact-json.ts'
import { isObject } from '../../wire/json.ts'
import type { Answer, Reading, Usage } from '../port.ts'
import { clientUsage } from '../shared/client-wire.ts'
import { malformed } from '../shared/failure.ts'
import { arrayOf, countOf, type Json, objectOf, textOf } from '../shared/read-json.ts'
import { blockedPrompt, geminiInBand } from './failure.ts'

const FINISH: Readonly<Record<string, string>> = {
  STOP: 'stop',
  MAX_TOKENS: 'length',
  SAFETY: 'content_filter',
  RECITATION: 'content_filter',
  LANGUAGE: 'content_filter',
  BLOCKLIST: 'content_filter',
  PROHIBITED_CONTENT: 'content_filter',
  SPII: 'content_filter',
  MODEL_ARMOR: 'content_filter',
  IMAGE_SAFETY: 'content_filter',
  IMAGE_PROHIBITED_CONTENT: 'content_filter',
  IMAGE_RECITATION: 'content_filter',
  IMAGE_OTHER: 'content_filter',
}
/** Not an end but a failure: the model broke its own rules. */
const FAILED = new Set([
  'MALFORMED_FUNCTION_CALL',
  'MALFORMED_RESPONSE',
  'MISSING_THOUGHT_SIGNATURE',
  'TOO_MANY_TOOL_CALLS',
  'UNEXPECTED_TOOL_CALL',
])

/** Null while the candidate is unfinished. Throws for one that failed. An unknown reason stays as it is. */
export const geminiFinish = (reason: unknown, called: boolean): string | null => {
  if (typeof reason !== 'string' || reason === '' || reason === 'FINISH_REASON_UNSPECIFIED') return null
  if (FAILED.has(reason)) throw malformed(`the generation ended with ${reason}`)
  if (reason === 'STOP' && called) return 'tool_calls'
  return Object.hasOwn(FINISH, reason) ? FINISH[reason]! : reason
}

/** Its wire omits zeros: once a total is present, a missing count is 0. */
export const geminiUsage = (raw: Json): Usage => {
  const sum = (...counts: readonly (number | null)[]): number | null =>
    counts.every((count) => count === null) && countOf(raw.totalTokenCount) === null
      ? null
      : counts.reduce<number>((total, count) => total + (count ?? 0), 0)
  const thoughts = countOf(raw.thoughtsTokenCount)
  return {
    promptTokens: sum(countOf(raw.promptTokenCount), countOf(raw.toolUsePromptTokenCount)),
    completionTokens: sum(countOf(raw.candidatesTokenCount), thoughts),
    cachedPromptTokens: countOf(raw.cachedContentTokenCount),
    reasoningTokens: thoughts,
    ...picturesIn(raw.candidatesTokensDetails),
    raw,
  }
}

const picturesIn = (details: unknown): Pick<Usage, 'pictureTokens'> => {
  let pictureTokens = 0
  for (const detail of arrayOf(details)) {
    const { modality, tokenCount } = objectOf(detail)
    if (modality === 'IMAGE') pictureTokens += countOf(tokenCount) ?? 0
  }
  return pictureTokens === 0 ? {} : { pictureTokens }
}

/** What one part adds to a message of the client's wire. */
export interface Delta {
  content?: string
  reasoning_content?: string
  tool_calls?: readonly { id: string; type: 'function'; function: { name: string; arguments: string } }[]
  images?: readonly Json[]
  audio?: Json
  /** Google's container in the OpenAI wire: `{google: {...}}`. */
  extra_content?: Json
}

/** Numbers the calls of an answer that have no id. */
export class CallIds {
  readonly #prefix: string
  #next = 0

  constructor(reading: Reading | undefined) {
    // Short enough for every wire that limits the length of such ids.
    this.#prefix = (reading?.id ?? 'unnamed').replace(/^chatcmpl-/, '').replaceAll('-', '')
  }

  next(): string {
    return `call_${this.#prefix}_${this.#next++}`
  }
}

const mediaDelta = (mimeType: string, data: string | null, url: string): Delta =>
  mimeType.startsWith('audio/') && data !== null
    ? { audio: { data, format: mimeType } }
    : { images: [{ type: 'image_url', image_url: { url } }] }

const plainDelta = (part: Json, ids: CallIds): Delta | null => {
  const text = textOf(part.text)
  if (text !== null) {
    if (text === '') return null
    return part.thought === true ? { reasoning_content: text } : { content: text }
  }
  if (isObject(part.functionCall)) {
    const { id, name, args } = part.functionCall
    const called = { name: textOf(name) ?? '', arguments: JSON.stringify(args ?? {}) }
    return { tool_calls: [{ id: textOf(id) || ids.next(), type: 'function', function: called }] }
  }
  const { mimeType, data, fileUri } = objectOf(part.inlineData ?? part.fileData)
  const type = textOf(mimeType) ?? 'application/octet-stream'
  // Pictures of a thought do not belong to the answer.
  if (part.thought === true) return null
  if (typeof data === 'string') return mediaDelta(type, data, `data:${type};base64,${data}`)
  if (typeof fileUri === 'string') return mediaDelta(type, null, fileUri)
  const { code, language } = objectOf(part.executableCode)
  if (typeof code === 'string') return { content: `\`\`\`${(textOf(language) ?? '').toLowerCase()}\n${code}\n\`\`\`\n` }
  const { output } = objectOf(part.codeExecutionResult)
  return typeof output === 'string' ? { content: `\`\`\`\n${output}\n\`\`\`\n` } : null
}

/** Null for a part without content for a client. A signature belongs to its call, else to the message. */
export const deltaOf = (part: Json, ids: CallIds): Delta | null => {
  const delta = plainDelta(part, ids)
  const signature = textOf(part.thoughtSignature)
  if (signature === null || signature === '') return delta
  const extra = { extra_content: { google: { thought_signature: signature } } }
  const call = delta?.tool_calls?.[0]
  return call === undefined ? { ...delta, ...extra } : { tool_calls: [{ ...call, ...extra }] }
}

export const partsOf = (candidate: Json): readonly Json[] => arrayOf(objectOf(candidate.content).parts).map(objectOf)

/** Google's other facts about a candidate: its sources, and why it was blocked. */
export const candidateFacts = (candidate: Json): Json | null => {
  const { groundingMetadata, citationMetadata, urlContextMetadata, safetyRatings } = candidate
  const facts = {
    ...(isObject(groundingMetadata) ? { grounding_metadata: groundingMetadata } : {}),
    ...(isObject(citationMetadata) ? { citation_metadata: citationMetadata } : {}),
    ...(isObject(urlContextMetadata) ? { url_context_metadata: urlContextMetadata } : {}),
    ...(candidate.finishReason === 'SAFETY' && Array.isArray(safetyRatings) ? { safety_ratings: safetyRatings } : {}),
  }
  return Object.keys(facts).length === 0 ? null : facts
}

const tokenOf = (value: unknown): Json => {
  const { token, logProbability } = objectOf(value)
  const text = textOf(token) ?? ''
  return { token: text, logprob: logProbability, bytes: [...Buffer.from(text)] }
}

/** Null when none were requested. */
export const clientLogprobs = (result: unknown): Json | null => {
  if (!isObject(result)) return null
  const top = arrayOf(result.topCandidates)
  return {
    content: arrayOf(result.chosenCandidates).map((chosen, i) => ({
      ...tokenOf(chosen),
      top_logprobs: arrayOf(objectOf(top[i]).candidates).map(tokenOf),
    })),
    refusal: null,
  }
}

const messageOf = (candidate: Json, ids: CallIds) => {
  let content = ''
  let reasoning = ''
  const calls: Json[] = []
  const images: Json[] = []
  let audio: Json | undefined
  const google: Record<string, unknown> = {}
  for (const part of partsOf(candidate)) {
    const delta = deltaOf(part, ids)
    if (delta === null) continue
    content += delta.content ?? ''
    reasoning += delta.reasoning_content ?? ''
    calls.push(...(delta.tool_calls ?? []))
    images.push(...(delta.images ?? []))
    audio ??= delta.audio
    Object.assign(google, objectOf(delta.extra_content).google)
  }
  Object.assign(google, candidateFacts(candidate))
  const text = content === '' && calls.length > 0 ? null : content
  return {
    text,
    names: calls.flatMap((call) => textOf(objectOf(call.function).name) ?? []),
    message: {
      role: 'assistant',
      content: text,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(images.length === 0 ? {} : { images }),
      ...(audio === undefined ? {} : { audio }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
      ...(Object.keys(google).length === 0 ? {} : { extra_content: { google } }),
    },
  }
}

const exactOrNot = (body: string): unknown => {
  try {
    return parseExact(body)
  } catch {
    return undefined // said below: it is no JSON object
  }
}

export const indexOf = (candidate: Json): number => countOf(candidate.index) ?? 0

/**
 * Throws GatewayError: a blocked prompt is `content_filtered`, an error is classified, any other text that is no
 * answer is `upstream_error`.
 */
export const geminiAnswer = (body: string, reading?: Reading): Answer => {
  const parsed = exactOrNot(body)
  if (isObject(errorOf(parsed))) throw geminiInBand(parsed, reading)
  if (!isObject(parsed)) throw malformed('it is no JSON object')
  const blocked = blockedPrompt(parsed)
  if (blocked !== null) throw blocked
  const candidates = arrayOf(parsed.candidates).map(objectOf)
  if (candidates.length === 0) throw malformed('it has no candidates')
  const ids = new CallIds(reading)
  const choices = candidates.map((candidate) => {
    const { message, text, names } = messageOf(candidate, ids)
    return {
      index: indexOf(candidate),
      message,
      text,
      names,
      finish: geminiFinish(candidate.finishReason, names.length > 0),
      logprobs: clientLogprobs(candidate.logprobsResult),
    }
  })
  const first = choices.find(({ index }) => index === 0) ?? choices[0]!
  const usage = isObject(parsed.usageMetadata) ? geminiUsage(parsed.usageMetadata) : null
  return {
    json: JSON.stringify({
      id: textOf(parsed.responseId) ?? reading?.id ?? 'chatcmpl-unnamed',
      object: 'chat.completion',
      created: reading?.createdS ?? 0,
      model: textOf(parsed.modelVersion) ?? reading?.model ?? '',
      choices: choices.map(({ index, message, logprobs, finish }) => ({
        index,
        message,
        logprobs,
        finish_reason: finish,
      })),
      ...(usage === null ? {} : { usage: clientUsage(usage) }),
    }),
    usage,
    finishReason: first.finish,
    content: first.text,
    refusal: first.finish === 'content_filter',
    toolNames: first.names,
  }
}

const errorOf = (parsed: unknown): unknown => objectOf(Array.isArray(parsed) ? parsed[0] : parsed).error
