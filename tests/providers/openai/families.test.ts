// What rows of the OpenAI wire send by the family of a model, by role and without tools, and where they read usage.
import { expect, test } from 'bun:test'
import { kindOf } from '../../../src/providers/kinds.ts'
import { openaiShaped } from '../../../src/providers/openai/kind.ts'
import { OPENAI_ROWS } from '../../../src/providers/openai/rows.ts'

const sent = (kind: string, body: object, upstreamModel = 'served', options = {}) => {
  const raw = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }], ...body })
  const call = { raw, body: JSON.parse(raw), stream: false, capabilities: [] }
  const baseUrl = kindOf(kind)!.defaultBaseUrl ?? 'http://127.0.0.1:8000/v1'
  const target = { baseUrl, secret: 's', upstreamModel, options, maxOutputTokens: null, usageOnStream: false }
  const { body: text, shaping } = kindOf(kind)!.request(call, target)
  return { body: JSON.parse(text!), shaping }
}

test.each(['openai', 'azure_openai'])(
  '%s: max_tokens is renamed for models that reason, and for no name that looks like one',
  (kind) => {
    const options = kind === 'openai' ? {} : { api_version: '2024-10-21' }
    const limitOf = (model: string) => Object.keys(sent(kind, { max_tokens: 5 }, model, options).body).at(-1)
    for (const model of [
      'o1',
      'o1-mini',
      'o3',
      'o4-mini-2025-04-16',
      'gpt-5',
      'gpt-5-mini',
      'gpt-5.1',
      'gpt-5.1-codex',
      'gpt-51',
      'gpt-6',
      'gpt-10',
      'ft:gpt-5-mini:org::id',
      'O3-mini',
    ])
      expect([model, limitOf(model)]).toEqual([model, 'max_completion_tokens'])
    for (const model of [
      'gpt-35-turbo',
      'gpt-35-turbo-16k',
      'gpt-3.5-turbo',
      'gpt-40',
      'gpt-41-mini',
      'gpt-4.1-mini',
      'gpt-45-preview',
      'gpt-4o',
      'gpt-5-chat-latest',
      'gpt-5.1-chat-latest',
      'gpt-5o',
      'o365-bot',
      'o1bot',
      'o11y-helper',
      'oscar',
      'my-o3',
    ])
      expect([model, limitOf(model)]).toEqual([model, 'max_tokens'])
  },
)

test('the role `developer` reaches those who know it, and the others as `system`, row by row', () => {
  const messages = [
    { role: 'developer', content: 'Be brief.', name: 'n' },
    { role: 'user', content: 'hi' },
  ]
  const roles = OPENAI_ROWS.map(({ kind }) => {
    const { body, shaping } = sent(kind, { messages })
    return [kind, body.messages[0].role, shaping.includes('made developer messages system messages')]
  })
  const knowing = ['openai', 'azure_openai']
  expect(roles).toEqual(
    OPENAI_ROWS.map(({ kind }) => (knowing.includes(kind) ? [kind, 'developer', false] : [kind, 'system', true])),
  )
  // Two edits of one message.
  expect(sent('groq', { messages }).body.messages[0]).toEqual({ role: 'system', content: 'Be brief.' })
})

test('what asks nothing of a model without tools is not sent; with tools it is, where the row takes it', () => {
  const tools = [{ type: 'function', function: { name: 'f' } }]
  const empty = sent('openai', { tools: [], tool_choice: 'auto', parallel_tool_calls: false })
  expect([Object.keys(empty.body), empty.shaping]).toEqual([
    ['model', 'messages'],
    [
      'dropped tools: none are declared',
      'dropped parallel_tool_calls: no tools are declared',
      'dropped tool_choice: no tools are declared',
    ],
  ])
  expect(sent('openai', { tools, parallel_tool_calls: false }).body.parallel_tool_calls).toBe(false)
  for (const kind of ['ollama', 'deepseek', 'tgi', 'together', 'perplexity', 'gemini', 'cohere']) {
    const { body, shaping } = sent(kind, { tools, parallel_tool_calls: false })
    expect([kind, JSON.stringify(body).includes('parallel')]).toEqual([kind, false])
    expect([kind, shaping]).toEqual([kind, expect.arrayContaining(['dropped parallel_tool_calls'])])
  }
})

const chunk = (choice: object, more = {}) => ({
  event: null,
  data: JSON.stringify({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [choice],
    ...more,
  }),
})
const usageOf = (kind: string, usage: object, inChoice: boolean) => {
  const stream = openaiShaped(OPENAI_ROWS.find((row) => row.kind === kind)!).stream()
  const parts = [
    ...stream.push(chunk({ index: 0, delta: { role: 'assistant', content: 'a' }, finish_reason: null })),
    ...stream.push(chunk({ index: 0, delta: { content: 'b' }, finish_reason: null })),
    ...stream.push(
      chunk({ index: 0, delta: {}, finish_reason: 'stop', ...(inChoice ? { usage } : {}) }, inChoice ? {} : { usage }),
    ),
    ...stream.push({ event: null, data: '[DONE]' }),
  ]
  const read = parts.at(-1)!.usage
  return read === null
    ? null
    : [read.promptTokens, read.completionTokens, read.cachedPromptTokens, read.reasoningTokens]
}

test('usage is read where servers put it', () => {
  const plain = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 }
  expect(usageOf('openai_compatible', { ...plain, cached_tokens: 4 }, true)).toEqual([9, 2, 4, null])
  expect(usageOf('openai_compatible', { ...plain, cached_tokens: 4 }, false)).toEqual([9, 2, 4, null])
  for (const kind of ['openai_compatible', 'deepseek', 'together', 'vllm', 'fireworks']) {
    expect(usageOf(kind, { ...plain, prompt_cache_hit_tokens: 5, prompt_cache_miss_tokens: 4 }, false)).toEqual([
      9,
      2,
      5,
      null,
    ])
    expect(
      usageOf(
        kind,
        {
          input_tokens: 9,
          output_tokens: 2,
          input_tokens_details: { cached_tokens: 3 },
          output_tokens_details: { reasoning_tokens: 1 },
        },
        false,
      ),
    ).toEqual([9, 2, 3, 1])
  }
  const body = {
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop', usage: plain }],
  }
  expect(kindOf('openai_compatible')!.response(JSON.stringify(body)).usage?.promptTokens).toBe(9)
})
