// What a prompt is estimated at, for reports, and at most, for reservations.
import { describe, expect, test } from 'bun:test'
import { readIntent } from '../../../src/inference/intent/intent.ts'
import { promptTokensEstimate, reservedNanoUsd } from '../../../src/inference/money/estimate.ts'
import { entry } from '../gateway.ts'

const asked = (body: Record<string, unknown>) => readIntent(JSON.stringify(body), body, new Headers())
const estimate = (body: Record<string, unknown>): number => promptTokensEstimate(asked({ model: 'm', ...body }))
const text = 'x'.repeat(400)

describe('the estimate of a prompt', () => {
  test('is that of its text, whatever else the body says', () => {
    const plain = estimate({ messages: [{ role: 'user', content: text }] })
    expect(plain).toBe(104)
    const parts = [
      { type: 'text', text: text.slice(0, 100) },
      { type: 'text', text: text.slice(100) },
    ]
    expect(estimate({ messages: [{ role: 'user', content: parts }] })).toBe(plain)
    const metadata = { note: 'y'.repeat(10_000) }
    const messages = [{ role: 'user', content: text, cache_control: metadata }]
    expect(estimate({ messages, metadata, stop: ['z'.repeat(1_000)], stream: true })).toBe(plain)
    expect(estimate({ prompt: text })).toBe(plain)
    expect(estimate({ prompt: text, system: text })).toBe(2 * plain)
  })

  test('grows with messages, bytes, declared tools and called ones', () => {
    const messages = [{ role: 'user', content: 'hi' }]
    expect(estimate({ messages: [...messages, ...messages] })).toBe(estimate({ messages }) + 4)
    expect(estimate({ messages: [{ role: 'user', content: '日本語'.repeat(100) }] })).toBe(229)
    const parameters = { type: 'object', properties: { city: { type: 'string' } } }
    const tools = [{ type: 'function', function: { name: 'weather', parameters } }]
    expect(estimate({ messages, tools })).toBe(4 + Math.ceil((JSON.stringify(tools).length + 2) / 4))
    expect(estimate({ messages, functions: [{ name: 'f', parameters }] })).toBeGreaterThan(estimate({ messages }))
    const tool_calls = [{ id: 'a', type: 'function', function: { name: 'f', arguments: text } }]
    expect(estimate({ messages: [{ role: 'assistant', content: null, tool_calls }] })).toBeGreaterThan(100)
  })

  test('counts an image by itself, not by its bytes', () => {
    const image = (size: number) => ({
      type: 'image_url',
      image_url: { url: `data:image/png;base64,${'A'.repeat(size)}` },
    })
    const of = (size: number) => estimate({ messages: [{ role: 'user', content: [image(size)] }] })
    expect(of(10_000)).toBe(of(10))
  })
})

test('a file is counted by its bytes, and is no prompt that is too long', () => {
  const file = (size: number) => ({
    type: 'file',
    file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${'A'.repeat(size)}` },
  })
  const of = (...parts: unknown[]) => asked({ model: 'm', max_tokens: 1, messages: [{ role: 'user', content: parts }] })
  const row = entry({ contextWindow: null })
  const large = of(file(4_000_000))
  expect(large.promptBytes).toBeLessThan(200)
  expect(reservedNanoUsd(large, row)!).toBeGreaterThan(4_000_000 * 1_000)
  expect(promptTokensEstimate(large)).toBeGreaterThan(400_000)
  expect(promptTokensEstimate(of(file(10)))).toBeGreaterThan(promptTokensEstimate(of({ type: 'text', text: 'A' })))
  // Whatever a part is called, what it holds counts.
  const odd = { type: 'documentary', body: 'x'.repeat(4_000) }
  expect(promptTokensEstimate(of(odd))).toBeGreaterThan(1_000)
  expect(reservedNanoUsd(of({ ...odd, body: 'x'.repeat(100_000) }), row)!).toBeGreaterThan(100_000 * 1_000)
})

test('the reservation is an upper bound: every byte of the body a token', () => {
  const body = { model: 'm', max_tokens: 1, messages: [{ role: 'user', content: '日本語' }], metadata: { a: 'b' } }
  const bytes = Buffer.byteLength(JSON.stringify(body))
  expect(reservedNanoUsd(asked(body), entry())).toBe(bytes * 1_000 + 2_000)
})
