import { describe, expect, test } from 'bun:test'
import { createSseParser } from '../../../src/lib/text/sse.ts'
import { kindOf } from '../../../src/providers/kinds.ts'
import type { Script } from '../../../src/providers/port.ts'
import { SANDBOX_MODELS } from '../../../src/providers/sandbox/kind.ts'
import type { Json } from '../../../src/providers/shared/read-json.ts'

const sandbox = kindOf('sandbox')!
const scriptOf = (model: string, more: Record<string, unknown> = {}): Script => {
  const body: Record<string, unknown> = {
    model: 'alias',
    messages: [{ role: 'user', content: 'the quick  brown fox' }],
    ...more,
  }
  const call = { raw: JSON.stringify(body), body, stream: body.stream === true, capabilities: [] }
  const target = {
    baseUrl: '',
    secret: null,
    upstreamModel: model,
    options: {},
    maxOutputTokens: null,
    usageOnStream: false,
  }
  return sandbox.script!(sandbox.request(call, target))
}
const text = ({ pieces }: Script) => pieces.map((piece) => piece.text).join('')
const answer = (model: string, more: Record<string, unknown> = {}) => sandbox.response(text(scriptOf(model, more)))
const parts = (script: Script) => {
  const parser = createSseParser()
  const decoder = sandbox.stream()
  return [...parser.push(new TextEncoder().encode(text(script))), ...parser.end()].flatMap((event) =>
    decoder.push(event),
  )
}

describe('sandbox', () => {
  test('says the same in each of several choices', () => {
    const { json, usage } = answer('sandbox-echo', { n: 3 })
    const { choices } = JSON.parse(json) as { choices: { index: number; message: { content: string } }[] }
    expect(choices.map(({ index, message }) => [index, message.content])).toEqual(
      [0, 1, 2].map((index) => [index, 'the quick  brown fox']),
    )
    expect(usage).toMatchObject({ promptTokens: 4, completionTokens: 12 })
    const streamed = parts(scriptOf('sandbox-echo', { n: 2, stream: true, stream_options: { include_usage: true } }))
    const texts = ['', '']
    const ends: string[] = []
    for (const { json } of streamed) {
      const chunk = JSON.parse(json!) as { choices: { index: number; delta: Json; finish_reason: string | null }[] }
      for (const { index, delta, finish_reason } of chunk.choices) {
        texts[index] += (delta.content as string | undefined) ?? ''
        if (finish_reason !== null) ends.push(`${index} ${finish_reason}`)
      }
    }
    expect([texts, ends]).toEqual([Array(2).fill('the quick  brown fox'), ['0 stop', '1 stop']])
    expect(streamed.at(-1)).toMatchObject({ usageOnly: true, usage: { completionTokens: 8 } })
    for (const n of [0, null, 'two']) expect(JSON.parse(answer('sandbox-echo', { n }).json).choices).toHaveLength(1)
  })

  test('echoes the last user message, whole and word by word, the same every time', () => {
    expect(answer('sandbox-echo')).toMatchObject({
      content: 'the quick  brown fox',
      finishReason: 'stop',
      usage: { promptTokens: 4, completionTokens: 4 },
    })
    const script = scriptOf('sandbox-echo', { stream: true, stream_options: { include_usage: true } })
    const got = parts(script)
    expect(got.flatMap(({ text: piece }) => (piece === '' ? [] : [piece]))).toEqual([
      'the ',
      'quick  ',
      'brown ',
      'fox',
    ])
    expect(got.at(-1)).toMatchObject({ usageOnly: true, usage: { promptTokens: 4, completionTokens: 4 } })
    expect(text(script)).toEndWith('data: [DONE]\n\n')
    expect(scriptOf('sandbox-echo', { stream: true })).toEqual(scriptOf('sandbox-echo', { stream: true }))
  })

  test('parts of a message and long messages', () => {
    const content = [
      { type: 'text', text: 'a' },
      { type: 'image_url', image_url: { url: 'x' } },
      { type: 'text', text: 'b' },
    ]
    expect(answer('sandbox-echo', { messages: [{ role: 'user', content }] }).content).toBe('a\nb')
    const long = 'word '.repeat(5_000)
    const script = scriptOf('sandbox-echo', { stream: true, messages: [{ role: 'user', content: long }] })
    expect(
      parts(script)
        .map(({ text: piece }) => piece)
        .join(''),
    ).toBe(long)
    expect(script.pieces.length).toBeLessThan(210)
  })

  test('stops at the limit of tokens', () => {
    expect(answer('sandbox-echo', { max_tokens: 2 })).toMatchObject({ content: 'the quick  ', finishReason: 'length' })
  })

  test('delays', () => {
    expect(scriptOf('sandbox-delay-250').headerDelayMs).toBe(250)
    expect(scriptOf('sandbox-delay-999999999').headerDelayMs).toBe(600_000)
    expect(scriptOf('sandbox-slow-30', { stream: true }).pieces.map(({ afterMs }) => afterMs)).toEqual([
      30, 30, 30, 30, 30, 30, 30,
    ])
  })

  test('errors by status', () => {
    const limited = scriptOf('sandbox-error-429', { stream: true })
    expect([limited.status, limited.headers['retry-after']]).toEqual([429, '1'])
    expect(sandbox.failure(429, text(limited), new Headers(limited.headers))).toMatchObject({
      code: 'rate_limited',
      retryAfterS: 1,
    })
    expect(scriptOf('sandbox-error-503').status).toBe(503)
    expect(scriptOf('sandbox-error-200').status).toBe(200)
  })

  test('faults in the middle', () => {
    const fault = (model: string) => scriptOf(model, { stream: true })
    expect(() => parts(fault('sandbox-midstream-error'))).toThrow('the sandbox fails here as asked')
    expect(scriptOf('sandbox-midstream-error').status).toBe(500)
    for (const [model, ending] of [
      ['sandbox-cut', 'abort'],
      ['sandbox-hang', 'hang'],
      ['sandbox-early-end', 'end'],
    ] as const) {
      expect([
        model,
        fault(model).ending,
        parts(fault(model))
          .map(({ text: piece }) => piece)
          .join(''),
      ]).toEqual([model, ending, 'the quick  '])
      expect([model, scriptOf(model).ending]).toEqual([model, ending])
      expect(() => answer(model)).toThrow()
    }
  })

  test('tools: calls the first one, then answers', () => {
    const tools = [
      {
        type: 'function',
        function: {
          name: 'weather',
          parameters: {
            type: 'object',
            properties: { city: { type: 'string' }, days: { type: 'integer', minimum: 2 } },
          },
        },
      },
    ]
    expect(answer('sandbox-tools', { tools })).toMatchObject({
      content: null,
      finishReason: 'tool_calls',
      toolNames: ['weather'],
    })
    expect(parts(scriptOf('sandbox-tools', { tools, stream: true })).flatMap(({ toolNames }) => toolNames)).toEqual([
      'weather',
    ])
    expect(text(scriptOf('sandbox-tools', { tools }))).toContain(
      JSON.stringify(JSON.stringify({ city: 'sample', days: 2 })),
    )
    const messages = [
      { role: 'user', content: 'hi' },
      { role: 'tool', tool_call_id: 'call_sandbox', content: 'rain' },
    ]
    expect(answer('sandbox-tools', { tools, messages })).toMatchObject({ content: 'hi', finishReason: 'stop' })
    expect(answer('sandbox-tools')).toMatchObject({ content: 'the quick  brown fox' })
  })

  test('JSON: a sample of the schema, else the question', () => {
    expect(JSON.parse(answer('sandbox-json').content!)).toEqual({ answer: 'the quick  brown fox' })
    const schema = {
      type: 'object',
      properties: {
        ok: { type: 'boolean' },
        kind: { enum: ['a', 'b'] },
        list: { type: 'array', items: { $ref: '#/$defs/n' } },
        none: { type: ['null', 'number'] },
      },
      $defs: { n: { type: 'integer' } },
    }
    const response_format = { type: 'json_schema', json_schema: { name: 'x', schema } }
    expect(JSON.parse(answer('sandbox-json', { response_format }).content!)).toEqual({
      ok: true,
      kind: 'a',
      list: [1],
      none: 1,
    })
  })

  test('lists its models', () => {
    const target = {
      baseUrl: '',
      secret: null,
      upstreamModel: '',
      options: {},
      maxOutputTokens: null,
      usageOnStream: false,
    }
    const listed = sandbox.listing!.read(text(sandbox.script!(sandbox.listing!.request(target))))
    expect(listed.map(({ name }) => name)).toEqual([...SANDBOX_MODELS])
  })
})
