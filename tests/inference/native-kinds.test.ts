// Kinds whose wire is their own, through the whole data plane: what their fixtures say is what a client gets.
import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { KINDS } from '../../src/providers/kinds.ts'
import { entry, framesOf, type TestGateway, testGateway } from './gateway.ts'

interface Call {
  readonly path: string
  readonly body: Record<string, unknown>
}
const FIXTURES = `${import.meta.dir}/../fixtures/providers`
const calls: Call[] = []
let answer = ''
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    calls.push({ path: new URL(request.url).pathname, body: (await request.json()) as Call['body'] })
    return new Response(answer)
  },
})
let gateway: TestGateway
afterEach(() => {
  gateway.close()
  calls.length = 0
})
afterAll(() => server.stop(true))

const open = (kind: string, path = '') => {
  const baseUrl = `http://127.0.0.1:${server.port}${path}`
  gateway = testGateway({
    kinds: [...KINDS.values()],
    entries: [entry({ kind, baseUrl, secret: 'sk-test', upstreamModel: 'upstream-name' })],
  })
}
const fixture = (name: string) => readFileSync(`${FIXTURES}/${name}`, 'utf8')
const firstAnswer = (kind: string): string =>
  (JSON.parse(fixture(`${kind}/answer.json`)) as { body: string }[])[0]!.body
const ask = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }
const contentOf = (frames: readonly unknown[]): string =>
  (frames as { choices?: { delta?: { content?: string } }[] }[])
    .map((frame) => frame.choices?.[0]?.delta?.content ?? '')
    .join('')

describe('cohere', () => {
  test('an answer is charged at what is billed, and says what was counted', async () => {
    open('cohere', '/v1')
    answer = firstAnswer('cohere')
    const response = await gateway.chat(ask)
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({
      model: 'upstream-name',
      usage: { prompt_tokens: 500, completion_tokens: 9 },
      gateway: { routed_model: 'small', estimated_cost_usd: (5 * 1 + 7 * 2) / 1e6 },
    })
    expect(calls).toMatchObject([{ path: '/v2/chat', body: { model: 'upstream-name' } }])
    expect(gateway.spool.settled()).toMatchObject([
      {
        prompt_tokens: 500,
        completion_tokens: 9,
        cached_prompt_tokens: 448,
        cost_nano_usd: 19_000,
        cost_basis: 'measured',
      },
    ])
  })

  test('a stream', async () => {
    open('cohere')
    answer = fixture('cohere/text.sse')
    const frames = await framesOf(await gateway.chat({ ...ask, stream: true, stream_options: { include_usage: true } }))
    expect(contentOf(frames)).toBe('Été 😀')
    expect(frames.at(-1)).toBe('[DONE]')
    expect(frames.at(-2)).toMatchObject({ choices: [], usage: { prompt_tokens: 1394, completion_tokens: 9 } })
    expect(gateway.spool.settled()).toMatchObject([{ outcome: 'success', cost_nano_usd: 8 * 1_000 + 5 * 2_000 }])
  })
})
