// The table of the upstreams that speak the OpenAI wire, a row each. A new one is a row here and a folder of fixtures:
// CONTRIBUTING, "Add a provider kind".

import { headerName, headerText } from '../options.ts'
import { ALL_CAPABILITIES } from '../port.ts'
import { type Json, objectOf } from '../shared/read-json.ts'
import { joinUrl } from '../shared/target-url.ts'
import { azureRow } from './azure.ts'
import { countedLogprobs, withoutNames } from './edits.ts'
import { lists, priceOf } from './listing.ts'
import { LOCAL_ROWS } from './local-rows.ts'
import { mistralRow } from './mistral.ts'
import { allBut, allExceptDenied, EXTENDED, header, type OpenAiRow, textHeader, vision } from './row.ts'
import { groqUsage, openrouterUsage, perplexityUsage, xaiUsage } from './usage.ts'

/** OpenAI lists everything it serves; these families do not chat. */
const NO_CHAT = /embedding|whisper|tts|dall-e|image|moderation|transcribe|realtime|audio|sora|davinci|babbage|-instruct/
/** Grok models that reason: they refuse stop sequences and penalties. */
const GROK_REASONS = /^grok-(?:[4-9]|[1-9]\d|3-mini|code)(?!.*non-reasoning)/

/** All rows, in the order of the documentation. */
export const OPENAI_ROWS: readonly OpenAiRow[] = [
  {
    kind: 'openai',
    needsCredential: true,
    capabilities: ALL_CAPABILITIES,
    stopsBillingWhenLeft: true,
    defaultBaseUrl: 'https://api.openai.com/v1',
    usualEnv: 'OPENAI_API_KEY',
    options: { organization: headerName('an id of an organization'), project: headerName('an id of a project') },
    request: {
      // It refuses unknown keys, so these are never sent.
      drop: EXTENDED,
      never: EXTENDED,
      reasoningFamilies: true,
      takesOwnMessages: true,
      headers: (target) => ({
        ...header(target, 'organization', 'openai-organization'),
        ...header(target, 'project', 'openai-project'),
      }),
    },
    listing: { chats: (id) => !NO_CHAT.test(id) },
  },
  azureRow,
  mistralRow,
  ...LOCAL_ROWS,
  {
    kind: 'openrouter',
    aliases: ['open_router'],
    needsCredential: true,
    capabilities: ALL_CAPABILITIES,
    defaultBaseUrl: 'https://openrouter.ai/api/v1',
    usualEnv: 'OPENROUTER_API_KEY',
    options: { referer: headerText('an address'), title: headerText('a title') },
    request: {
      usageAlways: true,
      headers: (target) => ({
        ...textHeader(target, 'referer', 'http-referer'),
        ...textHeader(target, 'title', 'x-title'),
      }),
    },
    answer: openrouterUsage,
    // Requests in flight have reserved the credit: a temporary state.
    readAs: (status, _error, headers) => (status === 402 && headers.has('retry-after') ? 429 : status),
    listing: {
      chats: (_id, { architecture }) => {
        const output = objectOf(architecture).output_modalities
        return output === undefined || lists(output, 'text')
      },
      prices: ({ pricing }) => {
        const { prompt, completion, input_cache_read } = objectOf(pricing)
        return {
          input: priceOf(prompt, 1e6),
          output: priceOf(completion, 1e6),
          cachedInput: priceOf(input_cache_read, 1e6),
        }
      },
      capabilities: ({ supported_parameters: takes, architecture }) =>
        Array.isArray(takes)
          ? allExceptDenied({
              tools: lists(takes, 'tools'),
              parallel_tool: lists(takes, 'parallel_tool_calls') || lists(takes, 'tools'),
              json_mode: lists(takes, 'response_format'),
              json_schema: lists(takes, 'structured_outputs'),
              seed: lists(takes, 'seed'),
              vision: vision(objectOf(architecture).input_modalities),
            })
          : null,
    },
  },
  {
    kind: 'groq',
    needsCredential: true,
    capabilities: ALL_CAPABILITIES,
    defaultBaseUrl: 'https://api.groq.com/openai/v1',
    usualEnv: 'GROQ_API_KEY',
    request: {
      drop: [...EXTENDED, 'logprobs', 'top_logprobs', 'logit_bias'],
      oneChoice: true,
      edit: withoutNames,
    },
    answer: groqUsage,
    // The model's own call or answer did not parse: another provider may succeed.
    readAs: (status, { code }) =>
      status === 400 && (code === 'tool_use_failed' || code === 'json_validate_failed') ? 424 : status,
    listing: { chats: (id, { active }) => active !== false && !/whisper|tts|orpheus|guard/.test(id) },
  },
  {
    kind: 'together',
    aliases: ['together_ai', 'togetherai'],
    needsCredential: true,
    capabilities: allBut('parallel_tool'),
    stopsBillingWhenLeft: true,
    defaultBaseUrl: 'https://api.together.xyz/v1',
    usualEnv: 'TOGETHER_API_KEY',
    request: { drop: ['parallel_tool_calls'], limit: 'max_tokens', edit: countedLogprobs },
    listing: {
      chats: (_id, { type }) => type === undefined || type === 'chat',
      prices: ({ pricing }) => {
        const { input, output, cached_input } = objectOf(pricing)
        const price = { input: priceOf(input), output: priceOf(output), cachedInput: priceOf(cached_input) }
        // Zero marks models on the caller's own machines there, not free ones.
        return price.input === 0 && price.output === 0 ? { input: null, output: null, cachedInput: null } : price
      },
    },
  },
  {
    kind: 'fireworks',
    aliases: ['fireworks_ai'],
    needsCredential: true,
    capabilities: ALL_CAPABILITIES,
    stopsBillingWhenLeft: true,
    defaultBaseUrl: 'https://api.fireworks.ai/inference/v1',
    usualEnv: 'FIREWORKS_API_KEY',
    listing: {
      chats: (_id, { supports_chat }) => supports_chat !== false,
      capabilities: ({ supports_tools: tools, supports_image_input: images }: Json) =>
        typeof tools !== 'boolean' ? null : allExceptDenied({ tools, parallel_tool: tools, vision: images === true }),
    },
  },
  {
    kind: 'deepseek',
    needsCredential: true,
    capabilities: allBut('json_schema', 'parallel_tool', 'seed', 'vision'),
    stopsBillingWhenLeft: true,
    defaultBaseUrl: 'https://api.deepseek.com/v1',
    usualEnv: 'DEEPSEEK_API_KEY',
    request: { drop: [...EXTENDED, 'seed', 'parallel_tool_calls'], limit: 'max_tokens', oneChoice: true },
  },
  {
    kind: 'xai',
    aliases: ['x_ai', 'grok'],
    needsCredential: true,
    capabilities: ALL_CAPABILITIES,
    stopsBillingWhenLeft: true,
    defaultBaseUrl: 'https://api.x.ai/v1',
    usualEnv: 'XAI_API_KEY',
    request: {
      drop: EXTENDED,
      dropFor: (model) => (GROK_REASONS.test(model) ? ['frequency_penalty', 'presence_penalty', 'stop'] : []),
      rename: { parallel_tool_calls: 'parallel_function_calling' },
      limit: 'max_completion_tokens',
    },
    answer: xaiUsage,
    listing: {
      // `/models` has neither prices nor modalities.
      url: (baseUrl) => joinUrl(baseUrl, '/language-models'),
      chats: (_id, { output_modalities: output }) => output === undefined || lists(output, 'text'),
      // In cents for a hundred million tokens.
      prices: (row) => ({
        input: priceOf(row.prompt_text_token_price, 1e-4),
        output: priceOf(row.completion_text_token_price, 1e-4),
        cachedInput: priceOf(row.cached_prompt_text_token_price, 1e-4),
      }),
      capabilities: ({ input_modalities: input }) =>
        input === undefined ? null : allExceptDenied({ vision: vision(input) }),
    },
  },
  {
    kind: 'perplexity',
    aliases: ['perplexity_ai', 'pplx'],
    needsCredential: true,
    capabilities: ['chat', 'streaming', 'json_schema', 'vision'],
    defaultBaseUrl: 'https://api.perplexity.ai',
    usualEnv: 'PERPLEXITY_API_KEY',
    request: {
      drop: [...EXTENDED, 'seed', 'parallel_tool_calls'],
      limit: 'max_tokens',
      oneChoice: true,
      usageAlways: true,
    },
    answer: perplexityUsage,
    readAs: (status, { type }) => {
      if (status === 401 && type === 'insufficient_quota') return 402
      return status === 400 && type === 'invalid_model' ? 404 : status
    },
    listing: null,
  },
  {
    kind: 'cerebras',
    needsCredential: true,
    capabilities: allBut('vision'),
    defaultBaseUrl: 'https://api.cerebras.ai/v1',
    usualEnv: 'CEREBRAS_API_KEY',
    request: {
      drop: [...EXTENDED, 'frequency_penalty', 'presence_penalty', 'logit_bias'],
      limit: 'max_completion_tokens',
    },
  },
]
