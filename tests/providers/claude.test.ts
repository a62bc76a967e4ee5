// What Claude refuses, on both kinds that serve it: never sent, and named in `shaping`.
import { describe, expect, test } from 'bun:test'
import { kindOf } from '../../src/providers/kinds.ts'
import { GatewayError } from '../../src/wire/errors.ts'

type Json = Record<string, unknown>
const NAMES: Readonly<Record<string, (model: string) => string>> = {
  anthropic: (model) => model,
  bedrock: (model) => `us.anthropic.${model}-v1:0`,
}
const HI = [{ role: 'user', content: 'hi' }]

const sent = (kind: string, model: string, body: Json): { body: Json; shaping: readonly string[] } => {
  const whole = { model: 'm', messages: HI, ...body }
  const call = { raw: JSON.stringify(whole), body: whole, stream: false, capabilities: [] }
  const target = {
    baseUrl: kindOf(kind)!.defaultBaseUrl!,
    secret: 'AKIDEXAMPLE:secretsecret',
    region: 'us-east-1',
    upstreamModel: model.includes('.') ? model : NAMES[kind]!(model),
    options: {},
    maxOutputTokens: 32_000,
    usageOnStream: false,
  }
  const request = kindOf(kind)!.request(call, target)
  return { body: JSON.parse(request.body!), shaping: request.shaping }
}

/** Sampling, thinking, effort and messages, wherever the wire puts them. */
const read = (kind: string, model: string, body: Json) => {
  const { body: out, shaping } = sent(kind, model, body)
  const inference = (kind === 'bedrock' ? (out.inferenceConfig ?? {}) : out) as Json
  const more = (kind === 'bedrock' ? (out.additionalModelRequestFields ?? {}) : out) as Json
  return {
    temperature: inference.temperature,
    topP: kind === 'bedrock' ? inference.topP : inference.top_p,
    topK: more.top_k,
    thinking: (more.thinking as Json | undefined)?.type,
    effort: (more.output_config as Json | undefined)?.effort,
    messages: out.messages as { role: string; content: Json[] }[],
    system: out.system as Json[] | undefined,
    shaping,
  }
}

const LOOP = [
  ...HI,
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }],
  },
  { role: 'tool', tool_call_id: 'a', content: 'x' },
]
const signed = (messages: readonly Json[]) =>
  messages.map((message) =>
    message.role === 'assistant'
      ? { ...message, reasoning_details: [{ type: 'thinking', thinking: 'hm', signature: 's' }] }
      : message,
  )
const TOOLS = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }]

describe.each(['anthropic', 'bedrock'])('%s', (kind) => {
  test.each([
    ['claude-opus-4-1-20250805', true],
    ['claude-sonnet-4-5-20250929', true],
    ['claude-haiku-4-5', true],
    ['claude-sonnet-4-6', true],
    ['claude-opus-4-20250514', false],
    ['claude-3-5-haiku-20241022', false],
  ])('of temperature and top_p for %s: one alone is %p', (model, one) => {
    const { temperature, topP, shaping } = read(kind, model, { temperature: 0.2, top_p: 0.5 })
    expect([temperature, topP]).toEqual([0.2, one ? undefined : 0.5])
    expect(shaping).toEqual(one ? ['dropped top_p: the model refuses it beside temperature'] : [])
    expect(read(kind, model, { top_p: 0.5 }).topP).toBe(0.5)
  })

  test.each(['claude-sonnet-4-5', 'claude-sonnet-4-6'])(
    'no thinking within a loop without a signed thought, %s',
    (model) => {
      const NOTE = 'reasoning_effort without thinking: the assistant message before it has no signed thought'
      const asked = { tools: TOOLS, reasoning_effort: 'high', temperature: 0.5 }
      const loop = read(kind, model, { ...asked, messages: LOOP })
      expect([loop.thinking, loop.temperature, loop.shaping]).toEqual([undefined, 0.5, [NOTE]])
      expect(loop.effort).toBe(model.endsWith('6') ? 'high' : undefined)
      expect(read(kind, model, { ...asked, messages: signed(LOOP) }).thinking).toBeDefined()
      // The loop is over: the client asked again.
      const over = [...LOOP, { role: 'assistant', content: 'done' }, ...HI]
      expect(read(kind, model, { ...asked, messages: over }).thinking).toBeDefined()
      const continued = [...HI, { role: 'assistant', content: 'It is' }]
      expect(read(kind, model, { ...asked, messages: continued }).shaping).toEqual([NOTE])
    },
  )

  test('beside thinking no sampling that it refuses, whichever field switched it on', () => {
    const own =
      kind === 'anthropic'
        ? { thinking: { type: 'enabled', budget_tokens: 2_048 } }
        : { additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 2_048 } } }
    for (const [on, field] of [
      [own, 'thinking'],
      [{ reasoning_effort: 'low' }, 'reasoning_effort'],
    ] as const) {
      const low = read(kind, 'claude-sonnet-4-5', { ...on, temperature: 0.3, top_p: 0.5, top_k: 4 })
      expect([low.thinking, low.temperature, low.topP, low.topK]).toEqual(['enabled', undefined, undefined, undefined])
      expect([...low.shaping].sort()).toEqual(
        ['temperature', 'top_k', 'top_p'].map((name) => `dropped ${name}: not with ${field}`),
      )
      // What thinking leaves out takes nothing else with it.
      const high = read(kind, 'claude-sonnet-4-5', { ...on, temperature: 0.3, top_p: 0.97 })
      expect([high.temperature, high.topP, high.shaping]).toEqual([
        undefined,
        0.97,
        [`dropped temperature: not with ${field}`],
      ])
      expect(read(kind, 'claude-sonnet-4-5', { ...on, top_p: 0.5 }).topP).toBeUndefined()
      expect(read(kind, 'claude-sonnet-4-5', { ...on, top_p: 0.97 }).topP).toBe(0.97)
      const loop = read(kind, 'claude-sonnet-4-5', { ...on, tools: TOOLS, messages: LOOP, temperature: 0.3 })
      expect([loop.thinking, loop.temperature]).toEqual([undefined, 0.3])
    }
    const forced = read(kind, 'claude-sonnet-4-5', { ...own, tools: TOOLS, tool_choice: 'required', temperature: 0.3 })
    expect([forced.thinking, forced.temperature, forced.shaping]).toEqual([
      undefined,
      0.3,
      ['dropped thinking: a tool is forced'],
    ])
  })

  test.each([
    ['claude-fable-5', undefined, ['dropped reasoning_effort: the model always thinks']],
    ['claude-mythos-5', undefined, ['dropped reasoning_effort: the model always thinks']],
    ['claude-opus-4-6', 'disabled', []],
  ] as const)('an effort of none for %s: thinking is %p', (model, thinking, shaping) => {
    const none = read(kind, model, { reasoning_effort: 'none' })
    expect([none.thinking, none.effort, none.shaping]).toEqual([thinking, undefined, [...shaping]])
  })

  test('a strict tool whose schema holds a map keeps the map, and is not strict', () => {
    const NOTE = 'dropped tools[].function.strict: an object of its schema takes members of any name'
    const map = { type: 'object', properties: {}, additionalProperties: { type: 'string', minLength: 2 } }
    const schemas = [
      map,
      { type: 'object', properties: { labels: { type: 'object', additionalProperties: true } } },
      { type: 'object', properties: { a: { type: 'array', items: { anyOf: [{ type: 'null' }, map] } } } },
      { type: 'object', properties: {}, patternProperties: { '^x-': { type: 'string' } } },
      { type: 'object', properties: { a: { $ref: '#/$defs/m' } }, $defs: { m: map } },
    ]
    for (const parameters of schemas) {
      const closed = { type: 'object', properties: { n: { type: 'integer' } }, additionalProperties: false }
      const tools = [parameters, closed].map((schema, i) => ({
        type: 'function',
        function: { name: `f${i}`, parameters: schema, strict: true },
      }))
      const { body, shaping } = sent(kind, 'claude-sonnet-4-5', { tools })
      const list = ((kind === 'bedrock' ? (body.toolConfig as Json).tools : body.tools) as Json[]).map((tool) => {
        const { strict, inputSchema, input_schema } = (tool.toolSpec ?? tool) as Json
        return [strict, input_schema ?? (inputSchema as Json).json]
      })
      expect(list).toEqual([
        [undefined, parameters],
        [true, closed],
      ])
      expect(shaping).toEqual([NOTE])
    }
  })

  test('blank texts are left out; of a conversation of nothing else nothing is sent', () => {
    const blank = { role: 'user', content: ' \n\t' }
    expect(
      read(kind, 'claude-sonnet-4-5', { messages: [...HI, { role: 'assistant', content: ' ' }, blank] }).messages,
    ).toHaveLength(1)
    expect(
      read(kind, 'claude-sonnet-4-5', {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: ' ' },
              { type: 'text', text: 'x' },
            ],
          },
        ],
      }).messages[0]!.content,
    ).toHaveLength(1)
    try {
      sent(kind, 'claude-sonnet-4-5', { messages: [blank] })
      throw new Error('it was sent')
    } catch (error) {
      expect(error).toBeInstanceOf(GatewayError)
      expect((error as GatewayError).param).toBe('messages')
    }
  })

  test('a system message alone is the text of the user', () => {
    const { system, messages, shaping } = read(kind, 'claude-sonnet-4-5', {
      messages: [{ role: 'system', content: 'Be brief.' }],
    })
    expect(system).toBeUndefined()
    expect(messages.map(({ role, content }) => [role, content[0]!.text])).toEqual([['user', 'Be brief.']])
    expect(shaping).toEqual(['system as a user text: the provider refuses a request without one'])
  })

  test('an assistant that speaks first gets a user in front, and its open end is trimmed', () => {
    const { messages, shaping } = read(kind, 'claude-sonnet-4-5', {
      messages: [{ role: 'assistant', content: 'Once ' }],
    })
    expect(messages.map(({ role, content }) => [role, content[0]!.text])).toEqual([
      ['user', '.'],
      ['assistant', 'Once'],
    ])
    expect(shaping).toEqual([
      'trimmed the end of the last assistant message: the provider refuses white space there',
      'added a user message in front: the provider refuses an assistant that speaks first',
    ])
  })

  test('strict tools have the schema that strictness takes, and are strict only where the model takes it', () => {
    const schema = {
      type: 'object',
      properties: {
        n: { type: 'integer', minimum: 1 },
        s: { type: 'array', minItems: 2, items: { type: 'string', pattern: 'a' } },
      },
    }
    const tool = (strict: boolean) => ({
      type: 'function',
      function: { name: strict ? 's' : 'f', parameters: schema, strict },
    })
    const toolsOf = (model: string, tools: unknown) => {
      const { body, shaping } = sent(kind, model, { tools })
      const list =
        kind === 'bedrock'
          ? ((body.toolConfig as Json).tools as Json[]).map(({ toolSpec }) => toolSpec as Json)
          : (body.tools as Json[])
      return {
        list: list.map(({ strict, inputSchema, input_schema }) => ({
          strict,
          schema: input_schema ?? (inputSchema as Json).json,
        })),
        shaping,
      }
    }
    const newer = toolsOf('claude-sonnet-4-5', [tool(true), tool(false)])
    expect(newer.list).toEqual([
      {
        strict: true,
        schema: {
          type: 'object',
          properties: { n: { type: 'integer' }, s: { type: 'array', items: { type: 'string' } } },
          additionalProperties: false,
        },
      },
      { strict: undefined, schema },
    ])
    expect([...newer.shaping].sort()).toEqual([
      'dropped minItems of a strict tool',
      'dropped minimum of a strict tool',
      'dropped pattern of a strict tool',
      'set additionalProperties of a strict tool to false',
    ])
    const older = toolsOf('claude-opus-4-1', [tool(true)])
    expect(older.list).toEqual([{ strict: undefined, schema }])
    expect(older.shaping).toEqual(['dropped tools[].function.strict: the model does not take it'])
    const many = Array.from({ length: 21 }, (_, i) => ({
      type: 'function',
      function: { name: `t${i}`, parameters: schema, strict: true },
    }))
    expect(toolsOf('claude-sonnet-4-5', many).shaping).toEqual([
      'dropped tools[].function.strict: at most 20 tools may have it',
    ])
  })
})

test('a user that names a person, or is long, is sent as a digest', () => {
  const idOf = (body: Json) => {
    const { body: out, shaping } = sent('anthropic', 'claude-sonnet-4-5', body)
    return [(out.metadata as Json).user_id as string, shaping] as const
  }
  for (const user of [
    'ada@example.com',
    'mail: ada@example.com',
    '+49 (170) 123-4567',
    '0170 1234567',
    'x'.repeat(257),
  ]) {
    const [id, shaping] = idOf({ user })
    expect(id).toMatch(/^user_[0-9a-f]{64}$/)
    expect([idOf({ user })[0], shaping]).toEqual([id, ['replaced user by a digest: the provider refuses it']])
  }
  expect(idOf({ metadata: { user_id: 'ada@example.com' } })[1]).toEqual([
    'replaced metadata.user_id by a digest: the provider refuses it',
  ])
  for (const user of ['u1', 'user_2abc', '1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed', 'x'.repeat(256)])
    expect(idOf({ user })).toEqual([user, []])
})

test('thinking in its own words is moved to where Converse reads it', () => {
  const thinking = { type: 'enabled', budget_tokens: 2_048 }
  const { body, shaping } = sent('bedrock', 'claude-sonnet-4-5', { thinking, temperature: 0.3 })
  expect([body.thinking, body.additionalModelRequestFields]).toEqual([undefined, { thinking }])
  expect(shaping).toEqual([
    'moved thinking into additionalModelRequestFields',
    'dropped temperature: not with thinking',
  ])
})

test('markers of a cache go only to models that have one', () => {
  const marked = { cache_control: { type: 'ephemeral' } }
  const request = {
    messages: [{ role: 'user', content: [{ type: 'text', text: 'hi', ...marked }] }],
    tools: TOOLS.map((tool) => ({ ...tool, ...marked })),
  }
  const pointsOf = (model: string) => {
    const { body, shaping } = sent('bedrock', model, request)
    return [JSON.stringify(body).split('cachePoint').length - 1, shaping]
  }
  expect(pointsOf('us.anthropic.claude-sonnet-4-5-20250929-v1:0')).toEqual([2, []])
  expect(pointsOf('amazon.nova-pro-v1:0')).toEqual([1, ['dropped cache_control of tools: the model refuses it']])
  expect(pointsOf('meta.llama3-3-70b-instruct-v1:0')).toEqual([0, ['dropped cache_control: the model refuses it']])
})

test('a marker of the cache on a part of a result is beside the result', () => {
  const marked = { type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }
  const messages = [
    ...LOOP.slice(0, 2),
    { role: 'tool', tool_call_id: 'a', content: [marked, { type: 'text', text: 'y' }] },
  ]
  const last = read('bedrock', 'claude-sonnet-4-5', { tools: TOOLS, messages }).messages.at(-1)!
  expect(last.content).toEqual([
    { toolResult: { toolUseId: 'a', content: [{ text: 'x' }, { text: 'y' }] } },
    { cachePoint: { type: 'default' } },
  ])
})

test('white space at the end of an answer that is continued is trimmed for Claude alone', () => {
  const messages = [...HI, { role: 'assistant', content: 'Once ' }]
  const { messages: out, shaping } = read('bedrock', 'meta.llama3-3-70b-instruct-v1:0', { messages })
  expect([out.at(-1)!.content[0]!.text, shaping]).toEqual(['Once ', []])
})
