// Mistral: the OpenAI wire with quirks in both directions. Its requests are in `mistral-request.ts`.
import { isObject } from '../../wire/json.ts'
import { SWITCH } from '../options.ts'
import { ALL_CAPABILITIES } from '../port.ts'
import { arrayOf, countOf, type Json, objectOf } from '../shared/read-json.ts'
import { type Dialect, STANDARD } from './answer.ts'
import { mistralShape } from './mistral-request.ts'
import { flattened } from './parts.ts'
import { allExceptDenied, EXTENDED, type OpenAiRow } from './row.ts'

/** Fields of OpenAI without a counterpart: Mistral refuses an unsupported field with 422. */
const UNKNOWN_THERE = [
  'logprobs',
  'top_logprobs',
  'logit_bias',
  'user',
  'store',
  'service_tier',
  'verbosity',
  'modalities',
  'safety_identifier',
  'web_search_options',
  // Its streams report usage in the last chunk, always.
  'stream_options',
] as const

/** A call in OpenAI's form: with its type, its arguments as text. The same object when it has that form. */
const calledAs = (call: unknown): unknown => {
  if (!isObject(call) || !isObject(call.function)) return call
  const { arguments: given } = call.function
  const typed = call.type === 'function' || typeof call.id !== 'string'
  if (typed && (given === undefined || typeof given === 'string')) return call
  const text = given === undefined || typeof given === 'string' ? given : JSON.stringify(given)
  return { ...call, type: 'function', function: { ...call.function, arguments: text } }
}

/** A message or delta in OpenAI's form; the same object when it has that form. */
const inOpenaiForm = (message: Json): Json => {
  const flat = Array.isArray(message.content) ? flattened(message.content) : null
  const calls = arrayOf(message.tool_calls)
  const called = calls.map(calledAs)
  const renamed = called.some((call, i) => call !== calls[i])
  if (flat === null && !renamed) return message
  return { ...message, ...flat, ...(renamed ? { tool_calls: called } : {}) }
}

const mistralAnswer: Dialect = {
  usageOf(source) {
    const usage = STANDARD.usageOf(source)
    const cached = countOf(objectOf(source.usage).num_cached_tokens)
    return usage === null || usage.cachedPromptTokens !== null || cached === null
      ? usage
      : { ...usage, cachedPromptTokens: cached }
  },
  choicesOf(choices) {
    let changed = false
    const converted = choices.map((value) => {
      const choice = objectOf(value)
      const place = isObject(choice.message) ? 'message' : 'delta'
      const given = objectOf(choice[place])
      const message = inOpenaiForm(given)
      if (message === given) return value
      changed = true
      return { ...choice, [place]: message }
    })
    return changed ? converted : null
  },
}

export const mistralRow: OpenAiRow = {
  kind: 'mistral',
  aliases: ['mistralai', 'mistral_ai'],
  needsCredential: true,
  capabilities: ALL_CAPABILITIES,
  defaultBaseUrl: 'https://api.mistral.ai/v1',
  usualEnv: 'MISTRAL_API_KEY',
  options: { safe_prompt: SWITCH },
  request: {
    drop: [...EXTENDED, ...UNKNOWN_THERE],
    rename: { seed: 'random_seed' },
    limit: 'max_tokens',
    usageAlways: true,
    edit: mistralShape,
  },
  answer: mistralAnswer,
  readAs: (status, { type }) => (status === 400 && type === 'invalid_model' ? 404 : status),
  listing: {
    chats: (_id, { capabilities }) => objectOf(capabilities).completion_chat !== false,
    capabilities: ({ capabilities }) => {
      const { function_calling: tools, vision } = objectOf(capabilities)
      return typeof tools !== 'boolean'
        ? null
        : allExceptDenied({ tools, parallel_tool: tools, vision: vision === true })
    },
  },
}
