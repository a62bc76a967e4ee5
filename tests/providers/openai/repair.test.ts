// What upstreams of the OpenAI shape get wrong, as clients of OpenAI expect it.
import { describe, expect, test } from 'bun:test'
import { kindOf } from '../../../src/providers/kinds.ts'
import type { Reading, StreamPart } from '../../../src/providers/port.ts'

const READING: Reading = { id: 'chatcmpl-r-1', createdS: 1_770_000_000, model: 'm', secret: null }
const HEAD = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' }

const decode = (datas: readonly string[], reading: Reading = READING, kind = 'openai_compatible'): StreamPart[] => {
  const decoder = kindOf(kind)!.stream(reading)
  return [...datas.flatMap((data) => decoder.push({ event: null, data })), ...decoder.end()]
}
const chunk = (choices: readonly unknown[], more = {}) => JSON.stringify({ ...HEAD, choices, ...more })
const delta = (said: unknown, more = {}, index = 0) =>
  chunk([{ index, delta: said, logprobs: null, finish_reason: null, ...more }])
const END = chunk([{ index: 0, delta: {}, finish_reason: 'stop' }])

interface Call {
  id: string
  type: string
  function: { name: string; arguments: string }
}
/** Folds calls as the SDKs do: by index, every text added up. */
const folded = (parts: readonly StreamPart[]): Record<string, Call> => {
  const calls: Record<string, Call> = {}
  for (const { json } of parts)
    for (const choice of JSON.parse(json!).choices)
      for (const { index, id = '', type, function: called = {} } of choice.delta.tool_calls ?? []) {
        calls[`${choice.index}.${index}`] ??= { id: '', type: '', function: { name: '', arguments: '' } }
        const call = calls[`${choice.index}.${index}`]!
        call.id += id ?? ''
        call.type = type ?? call.type
        call.function.name += called.name ?? ''
        call.function.arguments += called.arguments ?? ''
      }
  return calls
}
const call = (id: string, name: string, args: string): Call => ({
  id,
  type: 'function',
  function: { name, arguments: args },
})
const calling = (fragment: unknown, index = 0) => delta({ tool_calls: [fragment] }, {}, index)

describe('parallel tool calls of streams', () => {
  test('without index and id: a new name begins a call, each with an id', () => {
    const parts = decode([
      calling({ id: '', function: { name: 'a', arguments: '{"x"' } }),
      calling({ id: '', function: { arguments: ':1}' } }),
      calling({ function: { name: 'b', arguments: '{}' } }),
      END,
    ])
    expect(folded(parts)).toEqual({ '0.0': call('call_r1_0', 'a', '{"x":1}'), '0.1': call('call_r1_1', 'b', '{}') })
  })

  test('under one index with ids of their own; ids that are repeated are said once', () => {
    const parts = decode([
      calling({ index: 0, id: 'x', type: 'function', function: { name: 'a', arguments: '' } }),
      calling({ index: 0, id: 'x', function: { arguments: '{}' } }),
      calling({ index: 0, id: 'y', type: 'function', function: { name: 'a', arguments: '' } }),
      calling({ index: 0, function: { arguments: '[]' } }),
      END,
    ])
    expect(folded(parts)).toEqual({ '0.0': call('x', 'a', '{}'), '0.1': call('y', 'a', '[]') })
  })

  test('under one index without ids: a whole call is followed by another, and so are arguments by another name', () => {
    const parts = decode([
      calling({ index: 0, id: '', type: 'function', function: { name: 'a', arguments: '{"x":1}' } }),
      calling({ index: 0, id: '', type: 'function', function: { name: 'a', arguments: '{"x":2}' } }),
      calling({ index: 0, type: 'function', function: { name: 'b', arguments: '{"y"' } }),
      calling({ index: 0, function: { arguments: ':3}' } }),
      calling({ index: 0, type: 'function', function: { name: 'c', arguments: { z: 4 } } }),
      END,
    ])
    expect(Object.values(folded(parts)).map(({ function: { name, arguments: args } }) => [name, args])).toEqual([
      ['a', '{"x":1}'],
      ['a', '{"x":2}'],
      ['b', '{"y":3}'],
      ['c', '{"z":4}'],
    ])
  })

  test('a name that is repeated in each fragment is said once, one that comes in pieces is put together', () => {
    const parts = decode([
      ...['{"x"', ':1', '}'].map((args) =>
        calling({ index: 0, id: 'x', type: 'function', function: { name: 'look', arguments: args } }),
      ),
      calling({ index: 1, id: 'y', type: 'function', function: { name: 'fi' } }),
      calling({ index: 1, function: { name: 'nd', arguments: '' } }),
      calling({ index: 1, function: { arguments: '{}' } }),
      END,
    ])
    expect(folded(parts)).toEqual({ '0.0': call('x', 'look', '{"x":1}'), '0.1': call('y', 'find', '{}') })
  })

  test('each choice numbers its own', () => {
    const parts = decode([
      calling({ id: 'x', function: { name: 'a', arguments: '' } }, 0),
      calling({ id: 'y', function: { name: 'b', arguments: '' } }, 1),
      calling({ function: { arguments: '0' } }, 0),
      calling({ function: { arguments: '1' } }, 1),
      END,
      chunk([{ index: 1, delta: {}, finish_reason: 'stop' }]),
    ])
    expect(folded(parts)).toEqual({ '0.0': call('x', 'a', '0'), '1.0': call('y', 'b', '1') })
  })

  test('arguments as an object become text, long numbers as they stood', () => {
    const text = calling({ index: 0, id: 'x', type: 'function', function: { name: 'a', arguments: { n: 0 } } })
    const parts = decode([text.replace('"n":0', '"n":12345678901234567890'), END])
    expect(folded(parts)['0.0']!.function.arguments).toBe('{"n":12345678901234567890}')
  })
})

describe('finish reasons', () => {
  const reasons = (parts: readonly StreamPart[]) =>
    parts.map(({ json }) => JSON.parse(json!).choices.map((choice: Record<string, unknown>) => choice.finish_reason))

  test('an empty one is none, in whole answers and in streams', () => {
    const parts = decode([
      delta({ content: 'a' }, { finish_reason: '' }),
      delta({ content: 'b' }, { finish_reason: '' }),
      END,
    ])
    expect(reasons(parts)).toEqual([[null], [null], ['stop']])
    expect(parts.map(({ finishReason }) => finishReason)).toEqual([null, null, 'stop'])
    const whole = kindOf('vllm')!.response(
      '{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":""}]}',
      READING,
    )
    expect([whole.finishReason, JSON.parse(whole.json).choices[0].finish_reason]).toEqual(['stop', 'stop'])
  })

  test('a choice that never ends is ended by [DONE] alone; without it the stream is cut', () => {
    const datas = [
      delta({ content: 'a' }),
      calling({ index: 0, id: 'x', type: 'function', function: { name: 'f', arguments: '{}' } }, 1),
      chunk([{ index: 2, delta: { content: 'c' }, finish_reason: 'length' }]),
    ]
    const parts = decode([...datas, '[DONE]'])
    const { choices, ...head } = JSON.parse(parts.at(-1)!.json!)
    expect([head, choices]).toEqual([
      HEAD,
      [
        { index: 0, delta: {}, finish_reason: 'stop' },
        { index: 1, delta: {}, finish_reason: 'tool_calls' },
      ],
    ])
    expect(parts.at(-1)!.finishReason).toBe('stop')
    expect(decode([...datas.slice(0, 1), END, '[DONE]'])).toHaveLength(2)
    expect(decode(['[DONE]'])).toEqual([])
    expect(reasons(decode([delta({ role: 'assistant', content: '' }), '[DONE]']))).toEqual([[null]])
    expect(() => decode(datas)).toThrow('ended early')
  })
})

describe('content in parts', () => {
  const content = [
    { type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] },
    { type: 'text', text: 'a' },
    { type: 'output_text', text: 'b' },
  ]
  const said = { content: 'ab', reasoning_content: 'hm' }

  test('is a text to a client, whoever answers', () => {
    const body = JSON.stringify({ choices: [{ message: { role: 'assistant', content } }] })
    for (const kind of ['openai', 'openai_compatible', 'vllm', 'mistral']) {
      const answer = kindOf(kind)!.response(body, READING)
      expect([kind, answer.content, JSON.parse(answer.json).choices[0].message]).toMatchObject([kind, 'ab', said])
      const [first] = decode([delta({ content }), END], READING, kind)
      expect([kind, first!.text, JSON.parse(first!.json!).choices[0].delta]).toMatchObject([kind, 'ab', said])
    }
  })

  test('with more than text in it stays as it came', () => {
    const mixed = [...content, { type: 'image', image: 'aGk=' }]
    const answer = kindOf('openai')!.response(
      JSON.stringify({ choices: [{ message: { role: 'assistant', content: mixed } }] }),
    )
    expect([answer.content, JSON.parse(answer.json).choices[0].message.content]).toEqual(['ab', mixed])
  })
})

describe('chunks without a list of choices', () => {
  test('signs of life are passed over as comments are', () => {
    const parts = decode([
      '{}',
      '{"type":"ping"}',
      JSON.stringify({ ...HEAD, choices: null }),
      delta({ content: 'x' }),
      END,
    ])
    expect(parts.map(({ json }) => JSON.parse(json!).choices.length)).toEqual([1, 1])
  })

  test('with usage they have an empty one', () => {
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
    for (const choices of [null, undefined]) {
      const parts = decode([delta({ content: 'x' }), END, JSON.stringify({ ...HEAD, choices, usage })])
      expect(parts.at(-1)).toMatchObject({ usageOnly: true, usage: { promptTokens: 3 } })
      expect(JSON.parse(parts.at(-1)!.json!)).toMatchObject({ choices: [], usage })
    }
  })
})

describe('usage of streams', () => {
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
  const datas = [
    delta({ role: 'assistant', content: '' }, {}).replace('}]}', '}],"usage":null}'),
    ...['one', 'two', 'th"ree', 'four'].map((content) => delta({ content }).replace('}]}', '}],"usage":null}')),
    chunk([{ index: 0, delta: {}, finish_reason: 'stop' }], { usage }),
  ]

  test('nothing of it reaches a client who did not ask, and it is known all the same', () => {
    const parts = decode(datas, { ...READING, hidesUsage: true })
    expect(parts.map(({ json }) => JSON.parse(json!).usage)).toEqual(parts.map(() => undefined))
    expect(parts.map(({ text }) => text).join('')).toBe('onetwoth"reefour')
    const shown = parts.map(({ json }) => JSON.parse(json!).choices[0].delta.content ?? '')
    expect(shown.join('')).toBe('onetwoth"reefour')
    expect(parts.at(-1)!.usage).toMatchObject({ promptTokens: 3, completionTokens: 2 })
  })

  test('who asked gets it as it came', () => {
    expect(decode(datas).map(({ json }) => json)).toEqual(datas)
  })

  test('numbers that are none are not passed on', () => {
    const odd = chunk([]).replace(
      '}',
      ',"usage":{"prompt_tokens":-5,"completion_tokens":1e400,"total_tokens":"x","prompt_tokens_details":{"cached_tokens":-1}}}',
    )
    const [last] = decode([delta({ content: 'a' }), END, odd]).slice(-1)
    expect(JSON.parse(last!.json!).usage).toEqual({ prompt_tokens_details: {} })
  })
})

test('a `gateway` of the upstream never passes', () => {
  const block = { provider: 'theirs' }
  const parts = decode([
    delta({ content: 'a' }),
    chunk([{ index: 0, delta: { content: 'b' }, finish_reason: null }], { gateway: block }),
    chunk([{ index: 0, delta: {}, finish_reason: 'stop' }], { gateway: block }),
  ])
  for (const { json } of parts) expect(json).not.toContain('theirs')
  const body = JSON.stringify({
    ...HEAD,
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' }],
    gateway: block,
  })
  expect(kindOf('openai')!.response(body, READING).json).not.toContain('theirs')
})

describe('whole answers', () => {
  const answer = (choice: unknown, more = {}) =>
    kindOf('openai_compatible')!.response(JSON.stringify({ choices: [choice], ...more }), READING)
  const shown = (choice: unknown) => JSON.parse(answer(choice).json).choices[0]

  test('get what every choice has', () => {
    expect(shown({ message: { content: 'a' } })).toEqual({
      index: 0,
      message: { role: 'assistant', content: 'a' },
      finish_reason: 'stop',
    })
    expect(answer({ message: { content: null }, finish_reason: null })).toMatchObject({
      content: '',
      finishReason: 'stop',
    })
    expect(shown({ message: { content: null } }).message).toEqual({ role: 'assistant', content: '' })
    expect(shown({ message: { content: null, refusal: 'No.' } }).message.content).toBeNull()
  })

  test('get calls with arguments as text, an id and a type', () => {
    const calls = [
      { function: { name: 'a', arguments: { x: 1 } } },
      { id: 'y', type: 'function', function: { name: 'b' } },
    ]
    expect(shown({ message: { role: 'assistant', tool_calls: calls } })).toEqual({
      index: 0,
      message: {
        role: 'assistant',
        content: null,
        tool_calls: [call('call_r1_0', 'a', '{"x":1}'), call('y', 'b', '{}')],
      },
      finish_reason: 'tool_calls',
    })
    const long =
      '{"choices":[{"message":{"tool_calls":[{"function":{"name":"a","arguments":{"x":12345678901234567890}}}]}}]}'
    const { json } = kindOf('openai')!.response(long, READING)
    expect(JSON.parse(json).choices[0].message.tool_calls[0].function.arguments).toBe('{"x":12345678901234567890}')
  })

  test('say the usage that is recorded', () => {
    const choice = { message: { content: 'a' } }
    const usage = { prompt_tokens: 1, completion_tokens: 2, completion_tokens_details: { reasoning_tokens: 5 } }
    const { json, usage: recorded } = kindOf('xai')!.response(JSON.stringify({ choices: [choice], usage }), READING)
    expect(recorded).toMatchObject({ promptTokens: 1, completionTokens: 7 })
    expect(JSON.parse(json).usage).toMatchObject({ prompt_tokens: 1, completion_tokens: 7, total_tokens: 8 })
    for (const odd of [-5, 1.5, 'x', null])
      expect(JSON.parse(answer(choice, { usage: { prompt_tokens: odd, completion_tokens: 2 } }).json).usage).toEqual({
        completion_tokens: 2,
      })
    expect(JSON.parse(answer(choice, { usage: 'x' }).json).usage).toBeUndefined()
  })
})

describe('frames that cannot be read', () => {
  test('litter is passed over and counted; behind a whole answer everything is litter', () => {
    const decoder = kindOf('openai')!.stream(READING)
    for (const data of [delta({ content: 'a' }), 'ping', '[]', '1', END, '{"cut']) decoder.push({ event: null, data })
    expect(decoder.unreadable).toBe(4)
  })

  test('a piece of an answer ends the stream', () => {
    expect(() => decode([delta({ content: 'a' }), '{"choices":[{"delta":{"content":"lo', END])).toThrow(
      'cannot be read',
    )
  })
})
