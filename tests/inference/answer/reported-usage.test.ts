// The `gateway` block of an answer, for a client that requests its details: it is sent also without usage, and also
// with a refusal.
import { afterAll, afterEach, expect, test } from 'bun:test'
import { startUpstream } from '../../services/upstream.ts'
import { entry, framesOf, type TestGateway, testGateway } from '../gateway.ts'

const upstream = startUpstream()
let gateway: TestGateway
afterEach(() => gateway.close())
afterAll(() => upstream.stop())

interface Chunk {
  readonly choices: readonly { readonly finish_reason: string | null }[]
  readonly gateway?: Record<string, unknown>
}
const ask = { model: 'small', stream: true, messages: [{ role: 'user', content: 'hi' }] }

/** The last chunk of the answer, which has its finish reason, and all that were sent. */
const streamed = async (body: Record<string, unknown>, headers: Record<string, string> = {}) => {
  gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
  upstream.behave({ text: '{"a":1}', chunks: 3 })
  const chunks = (await framesOf(await gateway.chat({ ...ask, ...body }, headers))).slice(0, -1) as Chunk[]
  return { last: chunks.at(-1)!, chunks }
}

test('a stream without usage tells the verdict on its format in its last chunk, and who answered does not stand there', async () => {
  const { last } = await streamed({ response_format: { type: 'json_object' } })
  expect(last.choices[0]?.finish_reason).toBe('stop')
  expect(last.gateway).toMatchObject({ routed_model: 'small', structured: { requested: 'json_object', valid: true } })
  expect(last.gateway).not.toHaveProperty('provider')
})

test('a stream without usage shows the internals in its last chunk to those who asked for them', async () => {
  const { last } = await streamed({}, { 'x-gateway-debug': 'true' })
  expect(last.gateway).toMatchObject({ provider: 'alpha', attempts: [{ provider: 'alpha', outcome: 'success' }] })
})

// docs/behaviour.md: "The gateway block", "Streams"
test('any other stream without usage has the block in its first chunk only', async () => {
  const { chunks } = await streamed({})
  expect(chunks.map(({ gateway }) => gateway !== undefined)).toEqual(chunks.map((_, i) => i === 0))
})

test('with usage the block stands on the usage chunk only', async () => {
  const { chunks } = await streamed({
    stream_options: { include_usage: true },
    response_format: { type: 'json_object' },
  })
  expect(chunks.at(-2)!.gateway).toBeUndefined()
  expect(chunks.at(-1)!.gateway).toMatchObject({ provider: 'alpha', structured: { valid: true } })
})

const refused: [name: string, body: Record<string, unknown>, headers: Record<string, string>][] = [
  ['a bad field', { top_k: 0 }, {}],
  ['two ways to say it', { prompt: 'hi' }, {}],
  ['a bad header', {}, { 'x-gateway-batch': 'yes' }],
]
test.each(refused)(
  'a refusal for %s names the model, and has the internals for those who asked',
  async (_, body, headers) => {
    gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
    const response = await gateway.chat({ ...ask, ...body }, { ...headers, 'x-gateway-debug': 'true' })
    expect(response.status).toBe(400)
    const { gateway: block } = (await response.json()) as { gateway: Record<string, unknown> }
    expect(block).toMatchObject({ requested_model: 'small', attempts: [], trace_id: expect.any(String) })
  },
)
