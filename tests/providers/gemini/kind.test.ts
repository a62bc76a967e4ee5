// What the fixtures of tests/fixtures/providers/gemini cannot say in one line each.
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createSseParser } from '../../../src/lib/text/sse.ts'
import { gemini } from '../../../src/providers/gemini/kind.ts'
import { kindOf } from '../../../src/providers/kinds.ts'
import type { Reading, Target } from '../../../src/providers/port.ts'
import { GatewayError } from '../../../src/wire/errors.ts'

const reading: Reading = {
  id: 'chatcmpl-0198-abcd',
  createdS: 1_770_000_000,
  model: 'asked-for',
  secret: 'AIza-secret-of-ours',
}
const target = (upstreamModel: string): Target => ({
  baseUrl: gemini.defaultBaseUrl!,
  secret: 'k',
  upstreamModel,
  options: {},
  maxOutputTokens: 65_536,
  usageOnStream: true,
})

/** The converted body of a call with these fields. */
const sent = (model: string, fields: Record<string, unknown>) => {
  const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }], ...fields }
  const { body: text, shaping } = gemini.request(
    { raw: JSON.stringify(body), body, stream: false, capabilities: [] },
    target(model),
  )
  return { body: JSON.parse(text!), shaping }
}

test('it is found by the names that others give it', () => {
  for (const name of ['gemini', 'Google', 'google-ai-studio', 'google_genai', 'google-generative-ai', 'GoogleAI'])
    expect(kindOf(name)).toBe(gemini)
})

describe('reasoning_effort in the words of the family', () => {
  const cases: readonly (readonly [model: string, effort: string, thinking: object, clamped: boolean])[] = [
    ['gemini-2.5-flash', 'none', { thinkingBudget: 0 }, false],
    ['gemini-2.5-flash-lite', 'minimal', { thinkingBudget: 1024 }, false],
    ['gemini-2.5-pro', 'none', { thinkingBudget: 128 }, true],
    ['models/gemini-2.5-pro', 'high', { thinkingBudget: 24_576 }, false],
    ['gemini-2.5-pro', 'xhigh', { thinkingBudget: 24_576 }, true],
    ['gemini-3-pro-preview', 'none', { thinkingLevel: 'low' }, true],
    ['gemini-3.1-pro-preview', 'minimal', { thinkingLevel: 'low' }, true],
    ['gemini-3-flash-preview', 'minimal', { thinkingLevel: 'minimal' }, false],
    ['gemini-3-flash-preview', 'none', { thinkingLevel: 'minimal' }, true],
    ['gemini-3.7-flash', 'none', { thinkingLevel: 'low' }, true],
    ['gemini-3.7-flash-lite', 'none', { thinkingLevel: 'minimal' }, true],
    ['gemini-flash-latest', 'max', { thinkingLevel: 'high' }, true],
    ['gemini-9-ultra', 'medium', { thinkingLevel: 'medium' }, false],
  ]
  for (const [model, effort, thinking, clamped] of cases)
    test(`${model} ${effort}`, () => {
      const { body, shaping } = sent(model, { reasoning_effort: effort })
      expect(body.generationConfig.thinkingConfig).toEqual(thinking)
      expect(shaping.some((line) => line.startsWith('clamped reasoning_effort'))).toBe(clamped)
    })
})

test('signatures are asked of the families that check them only', () => {
  const messages = [
    { role: 'user', content: 'hi' },
    { role: 'assistant', tool_calls: [{ id: 'c', function: { name: 'f', arguments: '{}' } }] },
    { role: 'tool', tool_call_id: 'c', content: 'x' },
  ]
  const signatureFor = (model: string) => sent(model, { messages }).body.contents[1].parts[0].thoughtSignature
  expect(signatureFor('gemini-3.1-pro-preview')).toBe('skip_thought_signature_validator')
  expect(signatureFor('gemini-flash-latest')).toBe('skip_thought_signature_validator')
  for (const model of ['gemini-2.5-pro', 'gemini-2.0-flash-001', 'gemini-1.5-pro', 'gemma-3-27b-it'])
    expect([model, signatureFor(model)]).toEqual([model, undefined])
})

test('what an assistant is handed out comes back as it was: a conversation over a turn of tools', () => {
  const parts = [
    { functionCall: { id: 'fc-1', name: 'look', args: { at: 1 } }, thoughtSignature: 'c2ln' },
    { functionCall: { id: 'fc-2', name: 'look', args: {} } },
  ]
  const answer = gemini.response(
    JSON.stringify({ candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP' }] }),
    reading,
  )
  const { message } = JSON.parse(answer.json).choices[0]
  const messages = [{ role: 'user', content: 'hi' }, message, { role: 'tool', tool_call_id: 'fc-1', content: 'x' }]
  const { body, shaping } = sent('gemini-3.1-pro-preview', { messages })
  expect(body.contents[1]).toEqual({ role: 'model', parts })
  expect(shaping).toEqual([])
})

test('ids of calls are made of the request, without hyphens: other wires limit their length', () => {
  const call = { functionCall: { name: 'f', args: {} } }
  const { json } = gemini.response(JSON.stringify({ candidates: [{ content: { parts: [call, call] } }] }), reading)
  expect(JSON.parse(json).choices[0].message.tool_calls.map(({ id }: { id: string }) => id)).toEqual([
    'call_0198abcd_0',
    'call_0198abcd_1',
  ])
})

describe('streams of several candidates', () => {
  const event = (index: number, text: string, finishReason?: string) => ({
    event: null,
    data: JSON.stringify({ candidates: [{ index, content: { parts: [{ text }] }, finishReason }] }),
  })

  test('each keeps its index; the stream is complete when all have ended; only the first is the text', () => {
    const decoder = gemini.stream(reading)
    expect(decoder.complete).toBe(false)
    const parts = [event(0, 'a'), event(1, 'b'), event(0, 'c', 'STOP')].flatMap((one) => [...decoder.push(one)])
    expect(decoder.complete).toBe(false)
    parts.push(...decoder.push(event(1, 'd', 'MAX_TOKENS')))
    expect(decoder.complete).toBe(true)
    const seen = parts.map(({ json }) => JSON.parse(json!).choices[0])
    const of = (index: number) => seen.filter((choice) => choice.index === index)
    expect(of(0).map(({ delta, finish_reason }) => finish_reason ?? delta.content)).toEqual(['', 'a', 'c', 'stop'])
    expect(of(1).map(({ delta, finish_reason }) => finish_reason ?? delta.content)).toEqual(['', 'b', 'd', 'length'])
    expect(parts.map(({ text }) => text).join('')).toBe('ac')
    expect(decoder.end()).toEqual([])
  })

  test('one that does not end fails the stream', () => {
    const decoder = gemini.stream(reading)
    decoder.push(event(0, 'a', 'STOP'))
    decoder.push(event(1, 'b'))
    expect(() => decoder.end()).toThrow(GatewayError)
  })

  test('one that fails is heard before it fails the stream, which ends there', () => {
    for (const data of [
      JSON.stringify({
        candidates: [{ content: { parts: [{ text: 'a' }] }, finishReason: 'MALFORMED_FUNCTION_CALL' }],
      }),
      JSON.stringify([
        { candidates: [{ content: { parts: [{ text: 'a' }] } }] },
        { error: { code: 503, message: 'no' } },
      ]),
    ]) {
      const decoder = gemini.stream(reading)
      const parts = [...decoder.push({ event: null, data }), ...decoder.push(event(0, 'b', 'STOP'))]
      expect(parts.map(({ text }) => text).join('')).toBe('a')
      expect(parts.map(({ finishReason }) => finishReason)).toEqual([null, null])
      expect([decoder.over, decoder.complete]).toEqual([true, false])
      expect(() => decoder.end()).toThrow(GatewayError)
    }
    const mute = gemini.stream(reading)
    expect(() => mute.push({ event: null, data: '{"error":{"code":503,"message":"no"}}' })).toThrow('no')
  })

  test('candidates without number are refused before they fill the memory', () => {
    const decoder = gemini.stream(reading)
    expect(() => {
      for (let i = 0; i < 200; i++) decoder.push(event(i, 'x'))
    }).toThrow('too many candidates')
  })
})

describe('the framing', () => {
  const bytes = (text: string) => new TextEncoder().encode(text)

  test('of streams in the standard grammar is what the standard parser says', () => {
    const line = fc.constantFrom('data: {"a":1}', 'data:x', ': ping', 'event: e', 'id: 1', '', 'retry: 5', 'data')
    fc.assert(
      fc.property(fc.array(line, { maxLength: 20 }), fc.constantFrom('\n', '\r\n', '\r'), (lines, end) => {
        const text = bytes(lines.map((one) => `${one}${end}`).join(''))
        const [ours, standard] = [gemini.framing!(), createSseParser()]
        expect([...ours.push(text), ...ours.end()]).toEqual([...standard.push(text), ...standard.end()])
      }),
    )
  })

  test('of bare text without end is given up', () => {
    const parser = gemini.framing!()
    expect(() => {
      for (let i = 0; i < 40; i++) parser.push(bytes(`{${' '.repeat(64 * 1024)}`))
    }).toThrow()
  })
})

test('no message quotes the secret, wherever Google puts it', () => {
  const error = { error: { code: 400, message: `bad ${reading.secret}`, status: 'INVALID_ARGUMENT' } }
  const thrown = gemini.failure(400, JSON.stringify(error), new Headers(), reading)
  expect([thrown.code, thrown.message]).toEqual(['invalid_request', 'bad [redacted]'])
})
