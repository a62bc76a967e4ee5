import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { canonicalKind, KINDS, kindOf } from '../../src/providers/kinds.ts'
import { OPENAI_ROWS } from '../../src/providers/openai/rows.ts'
import type { ProviderKind, Reading } from '../../src/providers/port.ts'
import { GatewayError } from '../../src/wire/errors.ts'

test('kinds are found by their name, with hyphens and by alias; others are not', () => {
  expect(kindOf('openai')?.kind).toBe('openai')
  expect(kindOf(' OpenAI-Compatible ')?.kind).toBe('openai_compatible')
  expect(kindOf('claude')?.kind).toBe('anthropic')
  expect([kindOf('Cohere-Chat')?.kind, kindOf('ollama_chat')?.kind]).toEqual(['cohere', 'ollama'])
  for (const name of ['', 'nonsense', '__proto__', 'constructor', 'toString']) expect(kindOf(name)).toBeNull()
  expect(canonicalKind('Azure-OpenAI')).toBe('azure_openai')
})

test('the aliases of a row are the name of no other kind', () => {
  const names = new Map<string, string>()
  for (const { kind, aliases = [] } of OPENAI_ROWS)
    for (const alias of aliases) {
      expect([alias, KINDS.has(alias), names.get(alias)]).toEqual([alias, false, undefined])
      expect(kindOf(alias)?.kind).toBe(kind)
      names.set(alias, kind)
    }
  expect(kindOf('llama.cpp')?.kind).toBe('llamacpp')
  expect(kindOf('Together-AI')?.kind).toBe('together')
})

test("what runs on machines of one's own needs no credential, everything else does", () => {
  const open = ['sandbox', 'ollama', 'vllm', 'llamacpp', 'tgi', 'lmstudio', 'openai_compatible']
  for (const { kind, needsCredential } of KINDS.values())
    expect([kind, needsCredential]).toEqual([kind, !open.includes(kind)])
})

test('extended sampling never reaches the reference vendor, whatever a provider is set to', () => {
  const raw = '{"model":"m","messages":[],"top_k":5,"min_p":0.1,"repetition_penalty":1.1}'
  const options = { forward: ['top_k', 'min_p', 'repetition_penalty'] }
  const target = {
    baseUrl: 'http://h/v1',
    secret: 's',
    upstreamModel: 'm',
    maxOutputTokens: null,
    usageOnStream: false,
  }
  const call = { raw, body: JSON.parse(raw), stream: false, capabilities: [] }
  const sentTo = (kind: string, more = {}) =>
    JSON.parse(kindOf(kind)!.request(call, { ...target, options: more }).body!)
  for (const kind of ['openai', 'azure_openai']) expect(sentTo(kind, options)).toEqual({ model: 'm', messages: [] })
  expect(sentTo('groq', options)).toMatchObject({ top_k: 5, min_p: 0.1, repetition_penalty: 1.1 })
  expect(sentTo('groq')).toEqual({ model: 'm', messages: [] })
  expect(sentTo('llamacpp')).toMatchObject({ top_k: 5, min_p: 0.1, repeat_penalty: 1.1 })
})

test('of two limits the one that loses, and the detail of an image that is not passed on, stand in `shaping`', () => {
  const target = {
    secret: 'AKIDEXAMPLE:secretsecret',
    region: 'us-east-1',
    options: {},
    maxOutputTokens: null,
    usageOnStream: false,
  }
  const url = 'data:image/png;base64,iVBORw0KGgo='
  const LIMIT = 'dropped max_tokens: max_completion_tokens wins'
  const DETAIL = 'dropped image_url.detail'
  for (const kind of KINDS.values()) {
    if (kind.script) continue // it asks nobody
    const asked = (detail: string, limits: object) => {
      const image = { type: 'image_url', image_url: { url, detail } }
      const messages = [{ role: 'user', content: [{ type: 'text', text: 'hi' }, image, image] }]
      const body = { model: 'm', messages, ...limits }
      const call = { raw: JSON.stringify(body), body, stream: false, capabilities: ['vision'] }
      const upstream = { ...target, baseUrl: kind.defaultBaseUrl ?? 'http://h/v1', upstreamModel: 'm' }
      return kind.request(call, upstream)
    }
    const { body, shaping } = asked('low', { max_tokens: 5, max_completion_tokens: 9 })
    const notes = shaping.filter((note) => note === LIMIT || note === DETAIL).sort()
    expect([kind.kind, notes]).toEqual([kind.kind, body!.includes('"detail":"low"') ? [LIMIT] : [DETAIL, LIMIT]])
    expect([kind.kind, /:5\b/.test(body!), /:9\b/.test(body!)]).toEqual([kind.kind, false, true])
    const plain = asked('auto', { max_tokens: 5 }).shaping
    expect([kind.kind, plain.filter((note) => note === LIMIT || note === DETAIL)]).toEqual([kind.kind, []])
  }
})

test('a kind says which options it has: it reads no other', () => {
  for (const kind of KINDS.values()) {
    const read = new Set<string>()
    const options = new Proxy<Record<string, unknown>>(
      {},
      {
        get(_, name) {
          read.add(String(name))
        },
      },
    )
    const target = {
      baseUrl: kind.defaultBaseUrl ?? 'http://h/v1',
      secret: 'AKIDEXAMPLE:secretsecret',
      region: 'us-east-1',
      upstreamModel: 'arn:aws:bedrock:us-east-1:1:application-inference-profile/x',
      options,
      maxOutputTokens: null,
      usageOnStream: false,
    }
    const raw =
      '{"model":"m","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}}}'
    kind.request({ raw, body: JSON.parse(raw), stream: false, capabilities: ['json_schema'] }, target)
    kind.listing?.request(target)
    if (typeof kind.stopsBillingWhenLeft === 'function') kind.stopsBillingWhenLeft(options)
    expect([kind.kind, [...read].filter((name) => !Object.hasOwn(kind.options ?? {}, name))]).toEqual([kind.kind, []])
    expect([kind.kind, Object.keys(kind.options ?? {}).filter((name) => !read.has(name))]).toEqual([kind.kind, []])
  }
})

test('docs/providers.md names every kind with its usual variables', () => {
  const rows = readFileSync(`${import.meta.dir}/../../docs/providers.md`, 'utf8').split('\n')
  for (const { kind, usualEnv, usualBaseUrlEnv } of KINDS.values()) {
    const row = rows.find((line) => line.startsWith('|') && line.split('|')[1]!.includes(`\`${kind}\``)) ?? ''
    const variables = [usualEnv, usualBaseUrlEnv].filter((name) => name != null)
    expect([kind, row !== '', variables.filter((name) => !row.includes(`\`${name}\``))]).toEqual([kind, true, []])
  }
})

const SECRET = 'Zq9 odd+secret/value='
const reading: Reading = { id: 'id', createdS: 1_770_000_000, secret: SECRET }
const codes = (work: () => unknown, secret = SECRET): string => {
  try {
    work()
    return 'an answer'
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    expect(error.message).not.toContain(secret)
    expect(error.param ?? '').not.toContain(secret)
    expect(error.message.length).toBeLessThan(600)
    expect(error.message).not.toMatch(/[\r\n]/)
    return error.code
  }
}

// JSON of any shape under the names that bodies and chunks use, so that every branch is met by the wrong type.
const names = [
  'error',
  'message',
  'code',
  'type',
  'choices',
  'delta',
  'content',
  'tool_calls',
  'function',
  'usage',
  'finish_reason',
  'index',
  'content_block',
  'stop_reason',
  'detail',
  'done',
  'arguments',
  'thinking',
]
const odd = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(
      null,
      0,
      -1,
      429,
      true,
      '',
      'x',
      `has ${SECRET} in it`,
      'error',
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'tool_use',
      'input_json_delta',
      'message-start',
      'content-delta',
      'tool-call-start',
      'tool-call-delta',
      'message-end',
      'ERROR',
    ),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...names), tie('value'), { maxKeys: 5 }),
  ),
})).value

/** A test of each kind, so that one has the time that it needs however many kinds there are. */
const overKinds = (check: (kind: ProviderKind) => void) => {
  for (const kind of KINDS.values()) test(kind.kind, () => check(kind))
}

describe('whatever an upstream says, a kind answers or throws a GatewayError, and never quotes the secret', () => {
  describe('failures', () => {
    const headers = fc.dictionary(
      fc.constantFrom('retry-after', 'date', 'retry-after-ms', 'x-ratelimit-reset-tokens', 'x-amzn-errortype'),
      fc.string({ maxLength: 12, unit: 'grapheme-ascii' }),
      { maxKeys: 3 },
    )
    overKinds((kind) =>
      fc.assert(
        fc.property(
          fc.integer({ min: 100, max: 599 }),
          fc.oneof(
            odd.map((value) => JSON.stringify(value)),
            fc.string(),
          ),
          headers,
          (status, body, given) => {
            const error = kind.failure(status, body, new Headers(given), reading)
            codes(() => {
              throw error
            })
            expect(error.upstreamStatus).toBe(status)
            expect(
              error.retryAfterS === undefined ||
                (Number.isInteger(error.retryAfterS) && error.retryAfterS >= 0 && error.retryAfterS <= 31_536_000),
            ).toBe(true)
          },
        ),
        { numRuns: 300 },
      ),
    )
  })

  describe('answers and listings', () => {
    overKinds((kind) =>
      fc.assert(
        fc.property(
          fc.oneof(
            odd.map((value) => JSON.stringify(value)),
            fc.string(),
          ),
          (body) => {
            codes(() => kind.response(body, reading))
            codes(() => kind.listing?.read(body))
          },
        ),
        { numRuns: 500 },
      ),
    )
  })

  describe('streams', () => {
    const event = fc.record({
      event: fc.constantFrom(null, 'error', 'ping', 'message_start'),
      data: fc.oneof(
        odd.map((value) => JSON.stringify(value)),
        fc.constantFrom('', '[DONE]', '{', 'x'),
      ),
    })
    overKinds((kind) =>
      fc.assert(
        fc.property(fc.array(event, { maxLength: 12 }), (events) => {
          const decoder = kind.stream(reading)
          codes(() => {
            for (const one of events)
              for (const part of decoder.push(one)) if (part.json !== null) JSON.parse(part.json)
            decoder.end()
          })
        }),
        { numRuns: 500 },
      ),
    )
  })
})

describe('requests: any body with messages of any shape is converted or refused with 400', () => {
  const message = fc.dictionary(
    fc.constantFrom('role', 'content', 'tool_calls', 'tool_call_id', 'name'),
    fc.oneof(odd, fc.constantFrom('user', 'assistant', 'system', 'tool')),
    { maxKeys: 4 },
  )
  const body = fc.record(
    {
      model: fc.constant('m'),
      messages: fc.array(message, { maxLength: 4 }),
      tools: odd,
      tool_choice: odd,
      response_format: odd,
      stop: odd,
      metadata: odd,
      max_tokens: odd,
      stream_options: odd,
    },
    { requiredKeys: ['model', 'messages'] },
  )
  overKinds((kind) =>
    fc.assert(
      fc.property(body, (given) => {
        const target = {
          baseUrl: 'http://h/v1',
          secret: 'only-in-a-header',
          upstreamModel: 'm',
          options: {},
          maxOutputTokens: null,
          usageOnStream: true,
        }
        const code = codes(() => {
          const request = kind.request(
            { raw: JSON.stringify(given), body: given, stream: true, capabilities: [] },
            target,
          )
          expect(JSON.parse(request.body!).model ?? request.url).toMatch(/^m$|\/m[:/]/)
          expect(request.body).not.toContain('only-in-a-header')
        }, 'only-in-a-header')
        expect(['an answer', 'invalid_request']).toContain(code)
      }),
      { numRuns: 500 },
    ),
  )
})

describe('a stream of unreadable events is given up', () => {
  overKinds((kind) => {
    const decoder = kind.stream(reading)
    expect(
      codes(() => {
        for (let i = 0; i < 50; i++) decoder.push({ event: null, data: 'ping' })
      }),
    ).toBe('upstream_error')
    expect(decoder.unreadable).toBe(16)
    expect(codes(() => kind.stream(reading).push({ event: null, data: ' {"cut' }))).toBe('upstream_error')
  })
})
