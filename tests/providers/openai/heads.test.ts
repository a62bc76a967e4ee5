// The head of a request is put together once for each target: never that of another, or of before a change.
import { expect, test } from 'bun:test'
import { openaiRequest, type RequestQuirks } from '../../../src/providers/openai/request.ts'
import type { Target } from '../../../src/providers/port.ts'

const options = {}
const target = (more: Partial<Target> = {}): Target => ({
  baseUrl: 'https://one.example/v1',
  secret: 'sk-one',
  upstreamModel: 'm',
  options,
  maxOutputTokens: null,
  usageOnStream: false,
  ...more,
})
const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
const STANDARD = {}
const head = (of: Target, stream = false, quirks: RequestQuirks = STANDARD) => {
  const { url, headers } = openaiRequest(
    { raw: JSON.stringify(body), body, stream, capabilities: [] },
    of,
    quirks,
    'openai',
  )
  return { url, headers }
}

test('the same target has the same headers object, whole and streamed by turns', () => {
  const whole = head(target()).headers
  const stream = head(target(), true).headers
  expect(whole).toMatchObject({ authorization: 'Bearer sk-one', accept: 'application/json' })
  expect(stream).toMatchObject({ authorization: 'Bearer sk-one', accept: 'text/event-stream' })
  expect(head(target()).headers).toBe(whole)
  expect(head(target(), true).headers).toBe(stream)
})

test('models of one provider that are asked by turns share it, where the address does not name the model', () => {
  const { headers } = head(target())
  expect(head(target({ upstreamModel: 'n' })).headers).toBe(headers)
  expect(head(target()).headers).toBe(headers)
})

test('whatever the head depends on makes a new one, though the options are the same object', () => {
  head(target())
  expect(head(target({ secret: 'sk-two' })).headers.authorization).toBe('Bearer sk-two')
  expect(head(target({ baseUrl: 'https://two.example/v1' })).url).toBe('https://two.example/v1/chat/completions')
  const quirks = {
    url: ({ baseUrl, upstreamModel }: Target) => `${baseUrl}/${upstreamModel}`,
    headers: ({ region }: Target) => ({ 'x-region': region ?? 'none' }),
  }
  expect(head(target(), false, quirks)).toMatchObject({
    url: 'https://one.example/v1/m',
    headers: { 'x-region': 'none' },
  })
  expect(head(target({ upstreamModel: 'n' }), false, quirks).url).toBe('https://one.example/v1/n')
  expect(head(target({ region: 'eu' }), false, quirks).headers['x-region']).toBe('eu')
  expect(head(target()).headers.authorization).toBe('Bearer sk-one')
})
