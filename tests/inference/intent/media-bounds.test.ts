// What is reserved for a prompt is never below what vendors document that they bill for it.
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { readIntent } from '../../../src/inference/intent/intent.ts'
import { LARGEST_WINDOW } from '../../../src/inference/intent/media-bounds.ts'
import { promptBound, promptTokensEstimate, reservedNanoUsd } from '../../../src/inference/money/estimate.ts'
import { actualNanoUsd } from '../../../src/inference/money/price.ts'
import { entry } from '../gateway.ts'

const asked = (content: unknown, more: Record<string, unknown> = {}) => {
  const body = { model: 'm', max_tokens: 1, messages: [{ role: 'user', content }], ...more }
  return readIntent(JSON.stringify(body), body, new Headers())
}
const WINDOW = 1_048_576
const row = (contextWindow: number | null) =>
  entry({ inputCostPerMillion: 0.15, outputCostPerMillion: 0.6, contextWindow })
const bound = (part: unknown, contextWindow: number | null = WINDOW) => promptBound(asked([part]), row(contextWindow))

const image = (url: string, more: object = {}) => ({ type: 'image_url', image_url: { url, ...more } })
const audio = (chars: number, format: string) => ({
  type: 'input_audio',
  input_audio: { data: 'A'.repeat(chars), format },
})
const file = (file: object) => ({ type: 'file', file })
const pdf = (chars: number) => file({ file_data: `data:application/pdf;base64,${'A'.repeat(chars)}` })
const [URL, PNG] = ['https://x/y.png', `data:image/png;base64,${'A'.repeat(400)}`]

/** A part, and what a vendor bills for the largest of its kind. */
const BILLED: readonly [string, unknown, number][] = [
  ['gpt-4o-mini: an image of 2 x 2 tiles', image(URL, { detail: 'high' }), 2_833 + 4 * 5_667],
  ['gpt-4o-mini: an image of 2 x 4 tiles', image(URL), 2_833 + 8 * 5_667],
  ['gpt-4o-mini: an image sent inline', image(PNG, { detail: 'auto' }), 2_833 + 8 * 5_667],
  ['gpt-4o-mini: an image in low detail', image(URL, { detail: 'low' }), 2_833],
  ['Qwen-VL: an image, which knows no detail', image(URL, { detail: 'low' }), 16_384],
  ['Gemini: 6 MB of mp3 at 32 kbit/s', audio(8_000_000, 'mp3'), (6_000_000 / 4_000) * 32],
  ['Gemini: 6 MB of speech at 6 kbit/s', audio(8_000_000, 'ogg'), (6_000_000 / 750) * 32],
  ['Gemini: an hour of silence', audio(8_000, 'flac'), 3_600 * 32],
  ['Gemini: an hour of film', { type: 'video_url', video_url: { url: 'https://x/hour.mp4' } }, 946_000],
  ['Gemini: an hour of film where an image stands', image('https://x/hour.mp4?a=b'), 946_000],
  ['Gemini: a film of a bucket', image('gs://bucket/hour'), 946_000],
  ['Gemini: a file that is none of an image', image('https://x/y', { format: 'video/mp4' }), 946_000],
  ['OpenAI: a file that is kept there', file({ file_id: 'file-abc' }), 100_000],
  ['a file at an address', file({ file_data: 'https://x/a.pdf' }), 100_000],
  ['a document in words of the vendor', { type: 'document', source: { type: 'url', url: 'https://x/a.pdf' } }, 100_000],
  ['Anthropic: a PDF of twenty pages in few bytes', pdf(4_000), 20 * 3_000],
  ['a text in a file', file({ file_data: `data:text/plain,${'a'.repeat(100_000)}` }), 100_000],
]

describe('what is reserved for a part', () => {
  test.each(BILLED)('%s', (_, part, billed) => {
    for (const contextWindow of [WINDOW, null]) expect(bound(part, contextWindow)).toBeGreaterThanOrEqual(billed)
    const reserved = reservedNanoUsd(asked([part]), row(null))!
    expect(reserved).toBeGreaterThanOrEqual(actualNanoUsd(row(null), Math.ceil(billed), 1, 0)!)
  })

  test('what the vendor writes for tools is reserved also where a form of the answer becomes one', () => {
    const VENDOR_PROMPT_TOKENS = 530
    const plain = promptBound(asked('hi'), row(WINDOW))
    const schema = { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object' } } }
    for (const format of [schema, { type: 'json_object' }])
      expect(promptBound(asked('hi', { response_format: format }), row(WINDOW)) - plain).toBeGreaterThan(
        VENDOR_PROMPT_TOKENS,
      )
    expect(promptBound(asked('hi', { response_format: { type: 'text' } }), row(WINDOW)) - plain).toBeLessThan(
      VENDOR_PROMPT_TOKENS,
    )
  })

  test('parts add up, and never to more than the model takes', () => {
    const parts = Array.from({ length: 5 }, () => image(URL))
    expect(promptBound(asked(parts), row(WINDOW))).toBeGreaterThan(5 * 48_000)
    expect(promptBound(asked(parts), row(128_000))).toBe(128_000)
    expect(bound(file({ file_id: 'file-abc' }), 128_000)).toBe(128_000)
    expect(bound(file({ file_id: 'file-abc' }), null)).toBeGreaterThan(LARGEST_WINDOW)
    expect(promptBound(asked('x'.repeat(1_000_000)), row(128_000))).toBe(128_000)
  })

  test('what is text is its bytes, wherever it stands', () => {
    const text = { type: 'thinking', thinking: 'https://example.com and "file_id": "abc"' }
    const { promptBytes } = asked([text])
    expect(bound(text)).toBe(promptBytes)
    expect(bound({ type: 'text', text: 'see https://example.com' })).toBeLessThan(200)
  })

  test('the estimate stays that of a part', () => {
    for (const part of [image(URL), audio(8_000_000, 'mp3')])
      expect(promptTokensEstimate(asked([part]))).toBe(promptTokensEstimate(asked([])) + 1_024)
  })
})

test('declared tools bring a prompt of the vendor with them: 530 tokens with Claude, as it says', () => {
  const tools = [{ type: 'function', function: { name: 'f' } }]
  const messages = [{ role: 'user', content: 'hi' }]
  for (const more of [{ tools }, { functions: [{ name: 'f' }] }]) {
    const body = { model: 'm', messages, ...more }
    const intent = readIntent(JSON.stringify(body), body, new Headers())
    expect(promptBound(intent, row(null))).toBeGreaterThanOrEqual(intent.promptBytes + 530 + 499)
  }
  expect(promptBound(asked('hi'), row(null))).toBe(asked('hi').promptBytes)
})

test('whatever a part is, more of it is never bound by less', () => {
  const kinds = [
    (chars: number) => audio(chars, 'mp3'),
    pdf,
    (chars: number) => file({ file_data: 'A'.repeat(chars) }),
    (chars: number) => ({ type: 'other', body: 'x'.repeat(chars) }),
    (chars: number) => ({ type: 'text', text: 'x'.repeat(chars) }),
  ]
  fc.assert(
    fc.property(fc.constantFrom(...kinds), fc.nat(20_000), fc.nat(20_000), (make, one, more) => {
      expect(bound(make(one + more), null)).toBeGreaterThanOrEqual(bound(make(one), null))
    }),
  )
})
