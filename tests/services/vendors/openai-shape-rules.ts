// What vendors of the OpenAI wire refuse about roles, tools and pairs of fields. Which fields each of them knows is in
// `openai-rules.ts`.
import { listOf, objectOf, type Rule } from './rule.ts'
import type { Speaker } from './wire.ts'

const CHAT = 'https://platform.openai.com/docs/api-reference/chat/create'
const kinds =
  (...names: readonly string[]) =>
  (speaker: Speaker) =>
    names.includes(speaker.kind)
const OPENAI = kinds('openai', 'azure_openai')
const TOOLS = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }]
const DEVELOPER = [
  { role: 'developer', content: 'Be brief.' },
  { role: 'user', content: 'hi' },
]

export const OPENAI_SHAPE_RULES: readonly Rule[] = [
  {
    name: 'the role developer is unknown',
    source: 'https://api-docs.deepseek.com/api/create-chat-completion',
    appliesTo: (speaker) => !OPENAI(speaker),
    holds: (body) => listOf(body.messages).every(({ role }) => role !== 'developer'),
    message: 'messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`',
    breaks: { messages: DEVELOPER },
    against: { messages: DEVELOPER },
  },
  {
    name: 'a list of tools is not empty',
    source: CHAT,
    holds: ({ tools }) => tools === undefined || listOf(tools).length > 0,
    message: "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.",
    breaks: { tools: [] },
    against: { tools: [] },
  },
  {
    name: 'parallel_tool_calls and tool_choice only with tools',
    source: CHAT,
    holds: (body) =>
      body.tools !== undefined ||
      body.functions !== undefined ||
      (body.parallel_tool_calls === undefined && body.tool_choice === undefined),
    message: "'parallel_tool_calls' is only allowed when 'tools' are specified.",
    breaks: { parallel_tool_calls: false },
    against: { parallel_tool_calls: false, tool_choice: 'auto' },
  },
  {
    name: 'models that reason take no max_tokens',
    source: 'https://platform.openai.com/docs/api-reference/chat/create#chat-create-max_tokens',
    appliesTo: (speaker) => OPENAI(speaker) && /^(?:o\d|gpt-5)/.test(speaker.model),
    holds: ({ max_tokens: limit }) => limit === undefined,
    message:
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    breaks: { max_tokens: 5 },
    against: { max_tokens: 5 },
  },
  {
    name: 'models before GPT-4o take no max_completion_tokens on Azure',
    source: 'https://learn.microsoft.com/azure/ai-services/openai/reference',
    appliesTo: ({ kind, model }) => kind === 'azure_openai' && model === 'gpt-35-turbo',
    holds: ({ max_completion_tokens: limit }) => limit === undefined,
    message: 'Unrecognized request argument supplied: max_completion_tokens',
    breaks: { max_completion_tokens: 5 },
    against: { max_completion_tokens: 5 },
  },
  {
    name: 'at most four stop sequences',
    source: CHAT,
    appliesTo: kinds('openai', 'azure_openai', 'groq', 'cerebras'),
    holds: ({ stop }) => !Array.isArray(stop) || stop.length <= 4,
    message: "Invalid 'stop': array too long. Expected an array with maximum length 4.",
    breaks: { stop: ['a', 'b', 'c', 'd', 'e'] },
    against: { stop: ['a', 'b', 'c', 'd', 'e'] },
    onPurpose: 'which of them may be left out is for the client to say',
  },
  {
    name: 'names of tools',
    source: CHAT,
    holds: ({ tools }) => listOf(tools).every((tool) => /^[\w-]{1,64}$/.test(String(objectOf(tool.function).name))),
    message: "Invalid 'tools[0].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.",
    breaks: { tools: [{ type: 'function', function: { name: 'a.b' } }] },
    against: { tools: [{ type: 'function', function: { name: 'a.b' } }] },
    onPurpose: 'the client looks for its own name in the answer',
  },
  {
    name: 'the user speaks last',
    source: 'https://docs.mistral.ai/api/endpoint/chat',
    appliesTo: kinds('mistral', 'perplexity'),
    holds: (body) => {
      const last = listOf(body.messages).at(-1)
      return last === undefined || last.role !== 'assistant' || last.prefix === true
    },
    message: 'Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant',
    breaks: { messages: [{ role: 'assistant', content: 'It is' }] },
    against: {
      messages: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: 'It is' },
      ],
    },
    onPurpose: 'the provider cannot continue an answer',
  },
  {
    name: 'users and assistants take turns',
    source: 'https://docs.perplexity.ai/api-reference/chat-completions-post',
    appliesTo: kinds('perplexity'),
    holds: (body) => {
      const roles = listOf(body.messages).flatMap(({ role }) => (role === 'system' ? [] : [role]))
      return roles[0] !== 'assistant' && roles.every((role, i) => i === 0 || role !== roles[i - 1])
    },
    message:
      'After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s).',
    breaks: { messages: [{ role: 'user' }, { role: 'user' }] },
    against: {
      messages: [
        { role: 'user', content: 'hi' },
        { role: 'user', content: 'there' },
      ],
    },
    onPurpose: 'messages of this wire are sent in the client’s bytes and never joined',
  },
  {
    name: 'tools are declared to be called',
    source: CHAT,
    appliesTo: kinds('tgi', 'vllm'),
    holds: ({ tools, tool_choice: choice }) => choice !== 'required' || listOf(tools).length > 0,
    message: 'When using `tool_choice`, `tools` must be set.',
    breaks: { tool_choice: 'required' },
    against: { tools: TOOLS, tool_choice: 'required' },
  },
]
