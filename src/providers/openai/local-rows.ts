// Rows of the table of OpenAI-shaped upstreams: runtimes that operators run themselves, and any other compatible
// server. Local runtimes stop generating when their client disconnects, and send no bill for what they did not
// generate.

import { SWITCH } from '../options.ts'
import { ALL_CAPABILITIES } from '../port.ts'
import { objectOf } from '../shared/read-json.ts'
import { tgiShape } from './edits.ts'
import { lists } from './listing.ts'
import { allBut, allExceptDenied, beside, EXTENDED, type OpenAiRow, vision } from './row.ts'
import { compatibleUsage, llamacppUsage } from './usage.ts'

export const LOCAL_ROWS: readonly OpenAiRow[] = [
  {
    kind: 'openai_compatible',
    aliases: ['openai_like', 'openai_compat', 'custom_openai', 'sglang'],
    needsCredential: false,
    capabilities: ALL_CAPABILITIES,
    // Any server may be behind it, also a vendor that bills unread tokens: the operator sets this option.
    stopsBillingWhenLeft: ({ stops_billing_when_left: stops }) => stops === true,
    defaultBaseUrl: null,
    usualEnv: null,
    options: { stops_billing_when_left: SWITCH },
    // Most compatible servers take min_p and repetition_penalty, not top_k; `options.forward: ["top_k"]` adds it.
    request: { drop: ['top_k'] },
    answer: compatibleUsage,
  },
  {
    kind: 'vllm',
    aliases: ['hosted_vllm'],
    needsCredential: false,
    capabilities: ALL_CAPABILITIES,
    stopsBillingWhenLeft: true,
    defaultBaseUrl: 'http://127.0.0.1:8000/v1',
    usualEnv: null,
  },
  {
    kind: 'llamacpp',
    aliases: ['llama_cpp', 'llama.cpp', 'llama_server'],
    needsCredential: false,
    capabilities: ALL_CAPABILITIES,
    stopsBillingWhenLeft: true,
    // Its usual port, 8080, is the gateway's own.
    defaultBaseUrl: null,
    usualEnv: null,
    request: { rename: { repetition_penalty: 'repeat_penalty' }, limit: 'max_tokens' },
    answer: llamacppUsage,
    listing: {
      capabilities: ({ architecture }) => {
        const modalities = objectOf(architecture).input_modalities
        return modalities === undefined ? null : allExceptDenied({ vision: vision(modalities) })
      },
    },
  },
  {
    kind: 'tgi',
    aliases: ['huggingface_tgi', 'text_generation_inference'],
    needsCredential: false,
    capabilities: allBut('parallel_tool'),
    stopsBillingWhenLeft: true,
    defaultBaseUrl: null,
    usualEnv: null,
    request: {
      drop: [...EXTENDED, 'parallel_tool_calls', 'reasoning_effort', 'logit_bias'],
      oneChoice: true,
      edit: tgiShape,
    },
    // Its `/v1/models` has the model's name only.
    listing: { url: beside('/info') },
  },
  {
    kind: 'lmstudio',
    aliases: ['lm_studio'],
    needsCredential: false,
    capabilities: ALL_CAPABILITIES,
    stopsBillingWhenLeft: true,
    defaultBaseUrl: 'http://127.0.0.1:1234/v1',
    usualEnv: null,
    request: { rename: { repetition_penalty: 'repeat_penalty' }, limit: 'max_tokens' },
    listing: {
      url: beside('/api/v0/models'),
      chats: (_id, row) => row.type !== 'embeddings',
      capabilities: ({ type, capabilities }) => {
        const tools = Array.isArray(capabilities) ? lists(capabilities, 'tool_use') : undefined
        return typeof type !== 'string'
          ? null
          : allExceptDenied({ vision: type === 'vlm', tools, parallel_tool: tools })
      },
    },
  },
]
