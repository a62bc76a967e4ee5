// Where the vendors of the OpenAI wire differ.
import type { Speaker } from './wire.ts'

export interface Rules {
  /** Before `/chat/completions`. */
  readonly base: string
  /** All that it takes; anything else is refused. Absent: it ignores what it does not know. */
  readonly known?: readonly string[]
  readonly refuses?: readonly string[]
  readonly limit?: 'max_tokens' | 'max_completion_tokens'
  /** The names that messages may have members of, where others are refused. */
  readonly messageFields?: readonly string[]
  readonly callId?: RegExp
  /** `any` instead of `required`. */
  readonly anyTool?: boolean
  readonly noMessageNames?: boolean
  readonly stopIsList?: boolean
  readonly alternates?: boolean
  /** How it streams calls. Absent: in fragments. */
  readonly calls?: 'whole' | 'without index'
  /** Its streams report usage whether or not it is requested. */
  readonly usageAlways?: boolean
  readonly noSchema?: boolean
  /** The schema stands in `value`. */
  readonly valueFormat?: boolean
}

const EXTENDED = ['top_k', 'min_p', 'repetition_penalty', 'repeat_penalty']
// biome-ignore format: one list
export const OPENAI_FIELDS = [
  'messages', 'model', 'audio', 'frequency_penalty', 'function_call', 'functions', 'logit_bias', 'logprobs', 'max_completion_tokens',
  'max_tokens', 'metadata', 'modalities', 'moderation', 'n', 'parallel_tool_calls', 'prediction', 'presence_penalty', 'prompt_cache_key',
  'prompt_cache_options', 'prompt_cache_retention', 'reasoning_effort', 'response_format', 'safety_identifier', 'seed', 'service_tier',
  'stop', 'store', 'stream', 'stream_options', 'temperature', 'tool_choice', 'tools', 'top_logprobs', 'top_p', 'user', 'verbosity',
  'web_search_options',
]
// biome-ignore format: one list
const MISTRAL_FIELDS = [
  'model', 'messages', 'temperature', 'top_p', 'max_tokens', 'stream', 'stop', 'random_seed', 'metadata', 'response_format', 'tools', 'tool_choice',
  'presence_penalty', 'frequency_penalty', 'n', 'prediction', 'parallel_tool_calls', 'prompt_mode', 'reasoning_effort', 'safe_prompt',
]

const RULES: Readonly<Record<string, Rules>> = {
  openai: { base: '/v1', known: OPENAI_FIELDS },
  azure_openai: { base: '/openai/v1', known: OPENAI_FIELDS },
  mistral: {
    base: '/v1',
    known: MISTRAL_FIELDS,
    messageFields: ['role', 'content', 'tool_calls', 'prefix', 'tool_call_id', 'name'],
    callId: /^[A-Za-z0-9]{9}$/,
    anyTool: true,
    calls: 'whole',
    usageAlways: true,
  },
  openai_compatible: { base: '/v1', refuses: ['top_k'], calls: 'without index' },
  vllm: { base: '/v1' },
  llamacpp: { base: '/v1', refuses: ['repetition_penalty'], limit: 'max_tokens' },
  tgi: {
    base: '/v1',
    refuses: [...EXTENDED, 'parallel_tool_calls', 'reasoning_effort'],
    stopIsList: true,
    valueFormat: true,
  },
  lmstudio: { base: '/v1', refuses: ['repetition_penalty'], limit: 'max_tokens' },
  openrouter: { base: '/api/v1', usageAlways: true },
  groq: {
    base: '/openai/v1',
    refuses: [...EXTENDED, 'logprobs', 'top_logprobs', 'logit_bias'],
    noMessageNames: true,
  },
  together: { base: '/v1', refuses: ['parallel_tool_calls', 'max_completion_tokens'], limit: 'max_tokens' },
  fireworks: { base: '/inference/v1' },
  deepseek: { base: '/v1', refuses: [...EXTENDED, 'seed', 'parallel_tool_calls'], limit: 'max_tokens', noSchema: true },
  xai: { base: '/v1', refuses: [...EXTENDED, 'parallel_tool_calls'], limit: 'max_completion_tokens' },
  perplexity: {
    base: '',
    refuses: [...EXTENDED, 'seed', 'tools', 'tool_choice', 'parallel_tool_calls'],
    limit: 'max_tokens',
    alternates: true,
    usageAlways: true,
  },
  cerebras: { base: '/v1', refuses: EXTENDED, limit: 'max_completion_tokens' },
}

export const rulesOf = (speaker: Speaker): Rules => {
  const rules = RULES[speaker.kind] ?? (speaker.assumed ? { base: speaker.basePath } : undefined)
  if (rules === undefined) throw new Error(`there are no rules for ${speaker.kind}`)
  return rules
}
