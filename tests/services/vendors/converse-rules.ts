// What Converse refuses, whatever the model, and what Claude refuses behind it.
import { CLAUDE_RULES, is } from './claude-rules.ts'
import type { Json } from './conversation.ts'
import { isBlank, listOf, objectOf, type Rule } from './rule.ts'

const CONVERSE = 'https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html'
const CACHING = 'https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html'

const blockOf = (block: Json): Json => {
  const { toolUse, toolResult, reasoningContent } = block
  if (toolUse !== undefined) return { type: 'tool_use', ...objectOf(toolUse) }
  if (toolResult !== undefined) return { type: 'tool_result', ...objectOf(toolResult) }
  if (reasoningContent !== undefined) return { type: 'thinking' }
  return block.text === undefined ? { type: 'other' } : { type: 'text', text: block.text }
}

/** The body as Anthropic's own wire has it. */
const asMessages = (body: Json): Json => {
  const { temperature, topP, maxTokens } = objectOf(body.inferenceConfig)
  const { tools, toolChoice } = objectOf(body.toolConfig)
  const forced = objectOf(toolChoice)
  const own = objectOf(body.additionalModelRequestFields)
  return {
    ...own,
    messages: listOf(body.messages).map(({ role, content }) => ({ role, content: listOf(content).map(blockOf) })),
    system: listOf(body.system).map(blockOf),
    tools: listOf(tools).flatMap(({ toolSpec }) => {
      if (toolSpec === undefined) return []
      const { name, strict, inputSchema } = objectOf(toolSpec)
      return [{ name, ...(strict === undefined ? {} : { strict }), input_schema: objectOf(inputSchema).json }]
    }),
    ...(forced.any === undefined && forced.tool === undefined ? {} : { tool_choice: { type: 'any' } }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
  }
}

const CLAUDE = is(/claude/)
const USER = { role: 'user', content: [{ text: 'hi' }] }

/** The bodies that break Claude's rules stay in its own wire: they are read after the conversion. */
const BEHIND: readonly Rule[] = CLAUDE_RULES.map((rule) => ({
  ...rule,
  name: `Claude: ${rule.name}`,
  appliesTo: (speaker) => CLAUDE(speaker) && rule.appliesTo?.(speaker) !== false,
  holds: (body, speaker) =>
    rule.holds(
      body.inferenceConfig === undefined && body.toolConfig === undefined && isOwn(body) ? body : asMessages(body),
      speaker,
    ),
}))
const OWN = ['temperature', 'top_p', 'thinking', 'tools', 'max_tokens', 'system']
const isOwn = (body: Json): boolean =>
  OWN.some((name) => body[name] !== undefined) ||
  listOf(body.messages).some(({ content }) => typeof content === 'string')

export const CONVERSE_RULES: readonly Rule[] = [
  {
    name: 'a conversation starts with a user message',
    source: CONVERSE,
    holds: (body) => listOf(body.messages)[0]?.role === 'user',
    message:
      'A conversation must start with a user message. Try again with a conversation that starts with a user message.',
    breaks: { messages: [{ role: 'assistant', content: [{ text: 'x' }] }] },
    against: {
      messages: [
        { role: 'assistant', content: 'Hello, how can I help?' },
        { role: 'user', content: 'hi' },
      ],
    },
  },
  {
    name: 'no text is blank',
    source: CONVERSE,
    holds: (body) =>
      [...listOf(body.messages).flatMap(({ content }) => listOf(content)), ...listOf(body.system)].every(
        ({ text }) => !isBlank(text),
      ),
    message: 'The text field in the ContentBlock object at messages.0.content.0 is blank.',
    breaks: { messages: [{ role: 'user', content: [{ text: ' ' }] }] },
    against: {
      messages: [
        { role: 'user', content: 'hi' },
        { role: 'user', content: ' ' },
      ],
    },
  },
  {
    name: 'no cachePoint inside a result',
    source: CONVERSE,
    holds: (body) =>
      listOf(body.messages)
        .flatMap(({ content }) => listOf(content))
        .flatMap(({ toolResult }) => listOf(objectOf(toolResult).content))
        .every(({ cachePoint }) => cachePoint === undefined),
    message: 'The value at messages.2.content.0.toolResult.content.1 is no member of the union.',
    breaks: {
      messages: [
        { role: 'user', content: [{ toolResult: { toolUseId: 'a', content: [{ cachePoint: { type: 'default' } }] } }] },
      ],
    },
    against: {
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }],
      messages: [
        { role: 'user', content: 'hi' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }],
        },
        {
          role: 'tool',
          tool_call_id: 'a',
          content: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }],
        },
      ],
    },
  },
  {
    name: 'cachePoint only for models with a prompt cache; of Nova not among tools',
    source: CACHING,
    appliesTo: (speaker) => !CLAUDE(speaker),
    holds: (body, { model }) => {
      const isPoint = ({ cachePoint }: Json) => cachePoint !== undefined
      const tools = listOf(objectOf(body.toolConfig).tools)
      const others = [...listOf(body.system), ...listOf(body.messages).flatMap(({ content }) => listOf(content))]
      return !tools.some(isPoint) && (/nova/.test(model) || !others.some(isPoint))
    },
    message: 'You invoked an unsupported model or your request did not allow prompt caching.',
    breaks: { toolConfig: { tools: [{ cachePoint: { type: 'default' } }] } },
    against: {
      tools: [
        {
          type: 'function',
          function: { name: 'f', parameters: { type: 'object', properties: {} } },
          cache_control: { type: 'ephemeral' },
        },
      ],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'hi', cache_control: { type: 'ephemeral' } }] }],
    },
  },
  {
    name: 'stop sequences are not empty',
    source: CONVERSE,
    holds: (body) => (objectOf(body.inferenceConfig).stopSequences as unknown[] | undefined)?.includes('') !== true,
    message: "Value at 'inferenceConfig.stopSequences' failed to satisfy constraint: minimum length of 1",
    breaks: { inferenceConfig: { stopSequences: [''] } },
    against: { stop: ['', 'END'] },
  },
  {
    name: 'names of tools',
    source: 'https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html',
    holds: (body) =>
      listOf(objectOf(body.toolConfig).tools).every(
        ({ toolSpec }) => toolSpec === undefined || /^[a-zA-Z0-9_-]{1,64}$/.test(String(objectOf(toolSpec).name)),
      ),
    message: "Value at 'toolConfig.tools.1.member.toolSpec.name' failed to satisfy constraint: [a-zA-Z0-9_-]+",
    breaks: { messages: [USER], toolConfig: { tools: [{ toolSpec: { name: 'a.b' } }] } },
    against: {
      tools: [{ type: 'function', function: { name: 'a.b', parameters: { type: 'object', properties: {} } } }],
    },
    onPurpose: 'the client looks for its own name in the answer',
  },
  ...BEHIND,
]
