// What a client says in the upstream's own words must not say otherwise than what was counted, checked and authorised in its own.
import { describe, expect, test } from 'bun:test'
import { KINDS, kindOf } from '../../src/providers/kinds.ts'
import { ALL_CAPABILITIES, type Target } from '../../src/providers/provider.ts'

const TARGET: Target = {
  baseUrl: 'http://h/v1',
  secret: 'AKIDEXAMPLE:secretsecret',
  region: 'us-east-1',
  upstreamModel: 'routed',
  options: {},
  maxOutputTokens: 8_000,
  usageOnStream: false,
}
const MESSAGES = [{ role: 'user', content: 'hi' }]

const sent = (kind: string, own: Record<string, unknown>, more: Record<string, unknown> = {}) => {
  const body = { model: 'm', messages: MESSAGES, ...more, ...own }
  const raw = JSON.stringify(body)
  const call = { raw, body: JSON.parse(raw), stream: false, capabilities: ALL_CAPABILITIES }
  const { body: text, shaping } = kindOf(kind)!.request(call, TARGET)
  return { text: text!, body: JSON.parse(text!), shaping }
}

const TOOL = { name: 'smuggled', description: 'd' }
/** Every place where some upstream would read a limit, a number of answers, a tool or a model. */
const LIMITS = {
  max_output_tokens: 64_000,
  maxTokens: 64_000,
  n_predict: 64_000,
  num_predict: 64_000,
  max_new_tokens: 64_000,
}
const ANSWERS = { candidateCount: 77, candidate_count: 77, num_results: 77, best_of: 77, N: 77 }
const TOOLS = {
  toolConfig: { tools: [{ toolSpec: TOOL }], toolChoice: { any: {} }, functionCallingConfig: { mode: 'smuggled' } },
  tool_config: { function_calling_config: { mode: 'smuggled' } },
  functionDeclarations: [TOOL],
  mcp_servers: [{ type: 'url', url: 'http://smuggled', name: 'smuggled' }],
  TOOLS: [{ type: 'function', function: TOOL }],
  Tool_Choice: 'smuggled',
}
const MODELS = { Model: 'smuggled', models: ['smuggled'], modelId: 'smuggled', fallbacks: ['smuggled'] }
const INSIDE = {
  ...LIMITS,
  ...ANSWERS,
  max_tokens: 64_000,
  n: 77,
  tools: [{ functionDeclarations: [TOOL] }],
  tool_choice: { type: 'smuggled' },
}
const CONTAINERS = {
  inferenceConfig: INSIDE,
  additionalModelRequestFields: { ...INSIDE, inferenceConfig: { max_new_tokens: 64_000 } },
  generationConfig: INSIDE,
  generation_config: INSIDE,
  options: INSIDE,
  extra_body: { google: { ...INSIDE, ...TOOLS, ...MODELS, generation_config: INSIDE, contents: ['smuggled'] } },
}

describe('what was counted, checked and authorised stands', () => {
  for (const kind of KINDS.keys()) {
    test(`${kind}: at top level`, () => {
      const { text } = sent(
        kind,
        { ...LIMITS, ...ANSWERS, ...TOOLS, ...MODELS, Messages: [], Max_Tokens: 64_000 },
        { max_tokens: 5 },
      )
      expect(text).not.toMatch(/64000|77|smuggled|Messages/)
    })
  }
  for (const kind of ['bedrock', 'gemini', 'ollama']) {
    test(`${kind}: in its containers, with a limit and without`, () => {
      const own = Object.fromEntries(
        Object.entries(CONTAINERS).filter(([name]) =>
          ({ bedrock: /^inf|^add/, gemini: /^gen|^extra/, ollama: /^opt/ })[kind]!.test(name),
        ),
      )
      for (const more of [{}, { max_tokens: 5 }]) expect(sent(kind, own, more).text).not.toMatch(/64000|77|smuggled/)
    })
  }
})

test('what was dropped is said, with the field to use instead', () => {
  expect(
    sent(
      'bedrock',
      { inferenceConfig: { maxTokens: 64_000, topP: 0.5 }, toolConfig: TOOLS.toolConfig },
      { max_tokens: 1 },
    ),
  ).toMatchObject({
    body: { inferenceConfig: { maxTokens: 1, topP: 0.5 } },
    shaping: ['dropped toolConfig: use tools', 'dropped inferenceConfig.maxTokens: use max_tokens'],
  })
  expect(sent('ollama', { options: { num_predict: -1, mirostat: 1 } })).toMatchObject({
    body: { options: { mirostat: 1 } },
    shaping: ['dropped options.num_predict: use max_tokens'],
  })
  expect(sent('llamacpp', { n_predict: 9 }).shaping).toEqual(['dropped n_predict: use max_tokens'])
  expect(sent('anthropic', { mcp_servers: [] }).shaping).toContain('dropped mcp_servers: use tools')
})

test('a container that is none is refused by its name', () => {
  for (const [kind, name] of [
    ['bedrock', 'inferenceConfig'],
    ['gemini', 'generationConfig'],
    ['ollama', 'options'],
  ] as const)
    expect(() => sent(kind, { [name]: 'fast' })).toThrow(`${name} must be an object`)
})

test('fields of neither wire keep their names and their bytes', () => {
  for (const kind of KINDS.keys()) {
    const own = { xx_unknown: { some_field: 1, Tools_of: 2 }, n_ctx_hint: 3 }
    expect([kind, sent(kind, own).body]).toMatchObject([kind, own])
  }
  const inside = { xx_unknown: { yy_unknown: 1 }, top_p: 0.5, response_schema: {} }
  expect(sent('gemini', { generation_config: inside }).body.generationConfig).toEqual({
    xx_unknown: { yy_unknown: 1 },
    topP: 0.5,
    responseSchema: {},
  })
})

test('stop sequences of both wires are sent, each once', () => {
  const stop = ['a', 'b']
  const own = ['b', 'c']
  const both = ['a', 'b', 'c']
  const anthropic = sent('anthropic', { stop, stop_sequences: own })
  expect([anthropic.body.stop_sequences, anthropic.shaping]).toEqual([both, ['merged stop into stop_sequences']])
  expect(sent('cohere', { stop, stop_sequences: own }).body.stop_sequences).toEqual(both)
  expect(sent('cohere', { stop_sequences: own })).toMatchObject({ body: { stop_sequences: own }, shaping: [] })
  expect(sent('bedrock', { stop, inferenceConfig: { stopSequences: own } }).body.inferenceConfig.stopSequences).toEqual(
    both,
  )
  expect(
    sent('gemini', { stop, generationConfig: { stop_sequences: own } }).body.generationConfig.stopSequences,
  ).toEqual(both)
  expect(sent('ollama', { stop, options: { stop: own } }).body.options.stop).toEqual(both)
  expect(sent('anthropic', { stop: ['a', ' '] })).toMatchObject({
    body: { stop_sequences: ['a'] },
    shaping: ['dropped blank stop sequences', 'renamed stop to stop_sequences'],
  })
})
