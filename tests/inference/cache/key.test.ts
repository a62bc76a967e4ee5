import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { cacheKeys, type KeyFields, MOST_BOUNDARIES } from '../../../src/inference/cache/key.ts'
import { readIntent } from '../../../src/inference/intent/intent.ts'
import { canonicalJson } from '../../../src/lib/json/canonical-json.ts'
import { ChatRequest } from '../../../src/wire/chat-request.ts'

type Body = Record<string, unknown>

const DIGEST_KEY = new Uint8Array(32).fill(5)
const FIELDS: KeyFields = { tenantId: 'ten_a', scope: null, model: 'm', policy: 'built_in', partition: [] }
const HEADERS = { get: () => null, has: () => false }

/** The exact key of a body as a client sends it. */
const keyOf = (body: Body, fields: KeyFields = FIELDS, text = JSON.stringify(body)): string => {
  const intent = readIntent(text, JSON.parse(text) as Body, HEADERS)
  const model = (body.model as string).toLowerCase()
  return cacheKeys(DIGEST_KEY, { ...fields, model, toolExecution: body.tool_execution }, intent).exact
}

/** Members that do not change the answer. */
const IGNORED = new Set(['stream', 'stream_options', 'user', 'metadata', 'store'])

const word = fc.string({ minLength: 1, maxLength: 12 })
const message = fc.record(
  { role: fc.constantFrom('user', 'assistant', 'system', 'developer'), content: word, name: word },
  { requiredKeys: ['role', 'content'] },
)
const tool = fc.record({
  type: fc.constant('function'),
  function: fc.record({ name: fc.stringMatching(/^[a-z]{1,10}$/), description: word }),
})
const tokens = fc.integer({ min: 1, max: 100_000 })
/** Valid values of each field of the schema. */
const VALUES: Record<string, fc.Arbitrary<unknown>> = {
  model: fc.stringMatching(/^[a-z0-9]{1,12}$/),
  messages: fc.array(message, { minLength: 1, maxLength: 5 }),
  prompt: word,
  system: word,
  stream: fc.boolean(),
  stream_options: fc.constantFrom({ include_usage: true }, { include_usage: false }, {}),
  temperature: fc.constantFrom(0, 0.5, 1, 2, null),
  top_p: fc.constantFrom(0.1, 0.9, 1, null),
  top_k: fc.integer({ min: 1, max: 100 }),
  min_p: fc.constantFrom(0, 0.25, 1),
  repetition_penalty: fc.constantFrom(0, 1, 1.5),
  tools: fc.uniqueArray(tool, { minLength: 1, maxLength: 3, selector: (each) => each.function.name }),
  tool_choice: fc.constantFrom('none', 'auto', 'required'),
  parallel_tool_calls: fc.boolean(),
  tool_execution: fc.constantFrom({ mode: 'manual' }, { mode: 'automatic' }, {}),
  response_format: fc.constantFrom(
    { type: 'text' },
    { type: 'json_object' },
    { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object' } } },
  ),
  seed: fc.integer(),
  stop: fc.oneof(word, fc.array(word, { minLength: 1, maxLength: 3 })),
  n: fc.integer({ min: 1, max: 128 }),
  max_completion_tokens: tokens,
  max_tokens: tokens,
  metadata: fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), word, { maxKeys: 3 }),
  user: word,
  store: fc.boolean(),
}
const UNKNOWN = [
  ...['logprobs', 'top_logprobs', 'logit_bias', 'frequency_penalty', 'presence_penalty', 'modalities', 'audio'],
  ...['prediction', 'reasoning_effort', 'service_tier', 'verbosity', 'safety_identifier', 'prompt_cache_key'],
  ...['guided_json', 'chat_template_kwargs', 'provider_words', 'Model', 'temperature ', '__proto__', 'toString'],
]
for (const name of UNKNOWN) VALUES[name] = fc.jsonValue({ maxDepth: 2 })

const differs = (left: unknown, right: unknown): boolean => canonicalJson(left) !== canonicalJson(right)

/** Drawn once: making values is most of the time of a case. */
const POOLS = new Map(
  Object.entries(VALUES).map(([name, values]) => [name, fc.sample(values, { numRuns: 60, seed: 7 })]),
)

/** Draws from the pools, the same for the same seed. */
class Draw {
  constructor(private state: number) {}

  below(bound: number): number {
    this.state = (Math.imul(this.state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((this.state / 2 ** 32) * bound)
  }

  valueOf(name: string): unknown {
    const pool = POOLS.get(name)!
    return pool[this.below(pool.length)]
  }

  /** A body of some fields, without those whose presence excludes or needs another one. */
  body(): Body {
    const optional = Object.keys(VALUES).filter((name) => !EXCLUDED.has(name) && this.below(3) === 0)
    return Object.fromEntries(
      [...new Set(['model', 'messages', 'tools', ...optional, 'stream'])].map((name) => [
        name,
        name === 'stream' ? true : this.valueOf(name),
      ]),
    )
  }
}
const EXCLUDED = new Set(['prompt', 'tool_choice', 'parallel_tool_calls'])
const base = fc.nat().map((seed) => new Draw(seed).body())

/** Own members, also of names that every object has. */
const withMember = (body: Body, name: string, value: unknown): Body =>
  Object.fromEntries([...Object.entries(body).filter(([key]) => key !== name), [name, value]])
const without = (body: Body, name: string): Body =>
  Object.fromEntries(Object.entries(body).filter(([key]) => key !== name))

const shuffled = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(shuffled)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, shuffled(member)]),
  )
}

describe('the exact key', () => {
  test('the test knows every field of the schema', () => {
    expect(Object.keys(ChatRequest.properties).filter((name) => VALUES[name] === undefined)).toEqual([])
    expect(UNKNOWN.length).toBe(20)
  })

  test('10,000 cases: another value of any field is another key, save of those that change no answer', () => {
    const names = Object.keys(VALUES)
    fc.assert(
      fc.property(fc.nat({ max: names.length - 1 }), fc.nat(), fc.boolean(), (at, seed, wasAbsent) => {
        const name = names[at]!
        const draw = new Draw(seed)
        const [body, before, after] = [draw.body(), draw.valueOf(name), draw.valueOf(name)]
        const rest = name === 'prompt' ? without(without(body, 'messages'), 'tools') : body
        const isRequired = ['model', 'messages', 'stream', 'prompt'].includes(name)
        const isAbsent = wasAbsent && !isRequired
        const left = isAbsent ? without(rest, name) : withMember(rest, name, name === 'stream' ? true : before)
        const stays = name === 'stream' ? without(rest, 'stream_options') : rest
        const right = withMember(stays, name, after)
        const same = IGNORED.has(name) || (Object.hasOwn(left, name) && !differs(left[name], right[name]))
        expect([name, keyOf(left) === keyOf(right)]).toEqual([name, same])
      }),
      { numRuns: 10_000 },
    )
  }, 120_000)

  test('another order of members, at any depth, other spacing and escapes are the same key', () => {
    fc.assert(
      fc.property(base, (body) => {
        const text = JSON.stringify(shuffled(body), null, 2)
        expect(keyOf(body, FIELDS, text)).toBe(keyOf(body))
        const escaped = JSON.stringify(body).replaceAll('"role":"user"', '"r\\u006fle":"\\u0075ser"')
        expect(keyOf(body, FIELDS, escaped)).toBe(keyOf(body))
      }),
      { numRuns: 1_000 },
    )
  })

  test('the order of messages and of list items counts', () => {
    const [a, b] = [
      { role: 'user', content: 'a' },
      { role: 'user', content: 'b' },
    ]
    expect(keyOf({ model: 'm', messages: [a, b] })).not.toBe(keyOf({ model: 'm', messages: [b, a] }))
    expect(keyOf({ model: 'm', messages: [a], stop: ['x', 'y'] })).not.toBe(
      keyOf({ model: 'm', messages: [a], stop: ['y', 'x'] }),
    )
  })

  test('shorthands are the messages that they stand for', () => {
    const messages = [
      { role: 'system', content: 's' },
      { role: 'user', content: 'u' },
    ]
    expect(keyOf({ model: 'm', system: 's', prompt: 'u' })).toBe(keyOf({ model: 'm', messages }))
  })

  test('an absent field is not its default, and a zero-width character is another text', () => {
    const messages = [{ role: 'user', content: 'hello' }]
    const keys = [
      { messages },
      { messages, temperature: 1 },
      { messages, temperature: 0 },
      { messages, temperature: null },
      { messages, n: 1 },
      { messages: [{ role: 'user', content: 'hel\u200blo' }] },
      { messages: [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }] },
    ].map((body) => keyOf({ model: 'm', ...body }))
    expect(new Set(keys).size).toBe(keys.length)
  })

  test('numbers count by their text where a double would change them', () => {
    const text = (seed: string) => `{"model":"m","messages":[{"role":"user","content":"x"}],"x_seed":${seed}}`
    const key = (seed: string) => keyOf({ model: 'm' }, FIELDS, text(seed))
    expect(key('9007199254740993')).not.toBe(key('9007199254740992'))
    expect(key('1.0')).toBe(key('1'))
  })

  test('100,000 tenants, scopes, policies and partitions share nothing, whatever stands in their names', () => {
    const body = { raw: '{"messages":[]}', body: { messages: [{ role: 'user', content: 'balance?' }] } }
    const keys = new Set<string>()
    const parts = ['', 'a', 'b', '"', '","', '\n', 'null', '[]', 'ten_a', 'a,b']
    for (let i = 0; i < 100_000; i++) {
      const at = (place: number): string => parts[Math.floor(i / 10 ** place) % 10]!
      const scope = at(1) === 'null' ? null : at(1)
      const partition = [['key', at(3)] as const, ['user', at(4)] as const]
      keys.add(cacheKeys(DIGEST_KEY, { tenantId: at(0), scope, model: 'm', policy: at(2), partition }, body).exact)
    }
    expect(keys.size).toBe(100_000)
  })

  test('another key of digests gives other keys', () => {
    const body = { raw: '{}', body: { messages: [] } }
    expect(cacheKeys(new Uint8Array(32), FIELDS, body).exact).not.toBe(cacheKeys(DIGEST_KEY, FIELDS, body).exact)
  })
})

describe('the chain of a conversation', () => {
  const say = (role: string, content: string) => ({ role, content })
  const conversation = (turns: number) =>
    Array.from({ length: turns }, (_, i) => [say('user', `q${i}`), say('assistant', `a${i}`)]).flat()
  const keysOf = (messages: unknown[]) => {
    const body = { messages }
    return cacheKeys(DIGEST_KEY, FIELDS, { raw: JSON.stringify(body), body })
  }

  test('a boundary is the exact key of the conversation that ends there, the newest first, at most eight', () => {
    const messages = [...conversation(12), say('user', 'last')]
    const { boundaries } = keysOf(messages)
    expect(boundaries.length).toBe(MOST_BOUNDARIES)
    expect(boundaries.map(({ at }) => at)).toEqual([23, 21, 19, 17, 15, 13, 11, 9])
    for (const { key, at } of boundaries) expect(key).toBe(keysOf(messages.slice(0, at)).exact)
  })

  test('a change before a boundary moves it, a change behind does not', () => {
    const messages = [...conversation(2), say('user', 'last')]
    const changed = messages.map((each, i) => (i === 2 ? say('user', 'other') : each))
    const [left, right] = [keysOf(messages).boundaries, keysOf(changed).boundaries]
    expect(left[0]!.key).not.toBe(right[0]!.key)
    expect(left[1]!.key).toBe(right[1]!.key)
  })
})

describe('the partition of likeness', () => {
  const likeness = (body: Body, fields = FIELDS) =>
    cacheKeys(DIGEST_KEY, fields, { raw: JSON.stringify(body), body }, true).likeness
  const ask = (content: unknown, before = 's') => ({
    messages: [
      { role: 'system', content: before },
      { role: 'user', content },
    ],
  })

  test('only the text of the last user message may differ', () => {
    expect(likeness(ask('one'))).toEqual({ ...likeness(ask('two'))!, text: 'one' })
    const others = [
      ask('one', 'other'),
      { ...ask('one'), temperature: 0 },
      ask([{ type: 'text', text: 'one' }]),
      { messages: [...ask('one').messages, { role: 'assistant', content: 'prefill' }] },
      {
        messages: [
          { role: 'system', content: 's' },
          { role: 'user', content: 'one', name: 'ada' },
        ],
      },
    ].map((body) => likeness(body)!.partition)
    expect(new Set([likeness(ask('one'))!.partition, ...others]).size).toBe(others.length + 1)
    expect(likeness(ask('one'), { ...FIELDS, tenantId: 'ten_b' })!.partition).not.toBe(likeness(ask('one'))!.partition)
  })

  test('a message that is more than text has none', () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } }
    expect(likeness(ask([{ type: 'text', text: 'one' }, image]))).toBeNull()
    expect(likeness(ask([{ type: 'text', text: 'one', cache_control: {} }]))).toBeNull()
    expect(likeness({ messages: [{ role: 'assistant', content: 'x' }] })).toBeNull()
    expect(likeness({ messages: [] })).toBeNull()
  })
})
