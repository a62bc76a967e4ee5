// Vendor fields of a client's body are forwarded unchanged, except those that would name another model, other tools or
// other messages.
import { describe, expect, test } from 'bun:test'
import { KINDS, kindOf } from '../../../src/providers/kinds.ts'
import { ALL_CAPABILITIES, type Target } from '../../../src/providers/port.ts'
import { EXACT_KINDS, VENDOR_FIELDS } from '../../../src/providers/shared/vendor-fields-table.ts'

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

const ROWS = Object.entries(VENDOR_FIELDS).flatMap(([kind, rows]) => rows.map((row) => ({ kind, ...row })))
/** Every name of the table, as a body would say it. */
const NAMES = [...new Set(ROWS.flatMap(({ names }) => names))]
const pathOf = (name: string): string[] => name.split('.').filter((part) => part !== '*')
const nested = (path: readonly string[], value: unknown): Record<string, unknown> =>
  Object.fromEntries([[path[0]!, path.length === 1 ? value : nested(path.slice(1), value)]])
const CONVERTING = ['anthropic', 'bedrock', 'cohere', 'gemini', 'ollama']
const TOOL = { name: 'smuggled', description: 'd' }
const VALUES: Readonly<Record<string, unknown>> = {
  max_tokens: 64_000,
  n: 77,
  models: ['smuggled'],
  tools: [TOOL],
  toolConfig: { tools: [TOOL] },
  tool_config: { tools: [TOOL] },
}
const sampleFor = (path: readonly string[]): unknown => VALUES[path.at(-1)!] ?? 'smuggled 64000'
/** Containers that a kind takes apart and writes anew. */
const OWN_CONTAINERS =
  /^(generation_?config|tool_?config|inferenceconfig|additionalmodelrequestfields|options|extra_body)$/i

describe('a field in the words of an upstream is forwarded as it was sent, or told', () => {
  for (const kind of KINDS.keys())
    test(kind, () => {
      for (const name of NAMES) {
        const path = pathOf(name)
        if (path.length === 1 && ['max_tokens', 'max_completion_tokens', 'n', 'tools'].includes(path[0]!)) continue
        const own = nested(path, sampleFor(path))
        const { text, body, shaping } = sent(kind, own)
        // A field of OpenAI's own, which has no counterpart in other wires.
        if (name === 'prediction' && CONVERTING.includes(kind)) continue
        const isKept = ROWS.some((row) => row.kind === kind && row.withholds !== undefined && row.names.includes(name))
        const told = shaping.filter((note) => /^dropped \S+: (?:use|the gateway)/.test(note))
        expect([kind, name, shaping.filter((note) => note.startsWith('dropped'))]).toEqual([kind, name, told])
        if (told.length > 0) {
          expect([kind, name, text.includes('smuggled')]).toEqual([kind, name, false])
          continue
        }
        expect([kind, name, isKept]).toEqual([kind, name, false])
        if (OWN_CONTAINERS.test(path[0]!))
          expect([kind, name, text.includes(JSON.stringify(sampleFor(path)))]).toEqual([kind, name, true])
        else expect([kind, name, body]).toMatchObject([kind, name, own])
      }
    })

  test('byte for byte, in every wire of the OpenAI shape', () => {
    const raw =
      '{ "model" : "m","messages":[{"role":"user","content":"hi"}], "best_of" : 3.0e0,"n_predict":12345678901234567890,"reasoning": {"max_tokens" : 9 } ,"max_output_tokens":"7"}'
    for (const kind of KINDS.keys()) {
      if (CONVERTING.includes(kind)) continue
      const call = { raw, body: JSON.parse(raw), stream: false, capabilities: ALL_CAPABILITIES }
      const { body, shaping } = kindOf(kind)!.request(call, TARGET)
      expect([kind, body, shaping]).toEqual([kind, raw.replace('"m"', '"routed"'), []])
    }
  })

  test('in a field of which a part is kept, every other byte is the client’s', () => {
    const raw =
      '{"model":"m","messages":[],"extra_body":{ "a" : 12345678901234567890,"models":["smuggled"],"b":{"tools":1.0}, "best_of":2 }}'
    const call = { raw, body: JSON.parse(raw), stream: false, capabilities: ALL_CAPABILITIES }
    const { body, shaping } = kindOf('openai_compatible')!.request(call, TARGET)
    expect(body).toBe(raw.replace('"m"', '"routed"').replace('"models":["smuggled"],', ''))
    expect(shaping).toEqual(['dropped extra_body.models: the gateway chooses the model'])
  })

  test('a key that stands twice inside a field is sent as it was read', () => {
    const raw =
      '{"model":"m","messages":[],"provider":{"sort":"throughput", "sort":"price"},"plugins":[ {"id":"web","id":"none"} ]}'
    const call = { raw, body: JSON.parse(raw), stream: false, capabilities: ALL_CAPABILITIES }
    const { body, shaping } = kindOf('openrouter')!.request(call, TARGET)
    expect(body).toBe('{"model":"routed","messages":[],"provider":{ "sort":"price"},"plugins":[ {"id":"none"} ]}')
    expect(shaping).toEqual(['made repeated keys of provider one', 'made repeated keys of plugins one'])
  })

  test('an operator may let it pass', () => {
    const raw = '{"model":"m","messages":[],"models":["other"]}'
    const call = { raw, body: JSON.parse(raw), stream: false, capabilities: ALL_CAPABILITIES }
    const kind = kindOf('openrouter')!
    expect(kind.request(call, TARGET).shaping).toEqual(['dropped models: the gateway chooses the model'])
    const lets = { ...TARGET, options: { forward: ['models'] } }
    expect(kind.request(call, lets)).toMatchObject({ body: raw.replace('"m"', '"routed"'), shaping: [] })
  })
})

test('another spelling of the client’s own fields goes only where it is known not to be read', () => {
  const own = { Model: 'smuggled', MESSAGES: ['smuggled'], toolſ: ['smuggled'], Max_Tokens: 64_000 }
  for (const kind of KINDS.keys()) {
    const { text, shaping } = sent(kind, own)
    if (EXACT_KINDS.has(kind)) expect([kind, text.match(/smuggled|64000/g)?.length]).toEqual([kind, 4])
    else {
      expect([kind, text.match(/smuggled|64000/g)]).toEqual([kind, null])
      expect(shaping).toContain('dropped Model: use model')
    }
  }
})

test('the client’s own limit stands where a container has one too, and that is said', () => {
  expect(sent('bedrock', { inferenceConfig: { maxTokens: 64_000, topP: 0.5 } }, { max_tokens: 1 })).toMatchObject({
    body: { inferenceConfig: { maxTokens: 1, topP: 0.5 } },
    shaping: ['dropped inferenceConfig.maxTokens: max_tokens wins'],
  })
  expect(sent('ollama', { options: { num_predict: 64_000, mirostat: 1 } }, { max_tokens: 1 })).toMatchObject({
    body: { options: { num_predict: 1, mirostat: 1 } },
    shaping: ['dropped options.num_predict: max_tokens wins', 'renamed max_tokens to num_predict'],
  })
  const gemini = sent(
    'gemini',
    { generation_config: { max_output_tokens: 64_000, candidateCount: 3 } },
    { max_tokens: 1, n: 2 },
  )
  expect(gemini.body.generationConfig).toEqual({ maxOutputTokens: 1, candidateCount: 2 })
  expect(gemini.shaping).toContain('dropped generationConfig.maxOutputTokens: max_tokens wins')
  expect(gemini.shaping).toContain('dropped generationConfig.candidateCount: n wins')
  expect(sent('gemini', { generation_config: { max_output_tokens: 900 } }).body.generationConfig.maxOutputTokens).toBe(
    900,
  )
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
