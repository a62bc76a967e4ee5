// The fake vendors themselves: what they must not let pass, they refuse, and remember.
import { afterAll, expect, test } from 'bun:test'
import { kindOf } from '../../src/providers/kinds.ts'
import { startVendors } from './vendors/vendors.ts'

const vendors = startVendors()
afterAll(async () => {
  await Promise.all(vendors.map(({ stop }) => stop()))
})

const USER = { role: 'user', content: 'Hello' }
const CALL = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }

/** What the kind itself would send for this conversation, with a change to it. */
const send = async (
  name: string,
  messages: readonly unknown[],
  change: (body: Record<string, unknown>) => unknown = (body) => body,
  headers: Record<string, string> = {},
) => {
  const vendor = vendors.find((one) => one.name === name)!
  const body = { model: name, messages, max_tokens: 5 }
  const request = kindOf(vendor.kind)!.request(
    { raw: JSON.stringify(body), body, stream: false, capabilities: [] },
    {
      baseUrl: vendor.baseUrl,
      secret: vendor.secret,
      upstreamModel: vendor.model,
      options: vendor.options,
      maxOutputTokens: null,
      usageOnStream: false,
      atMs: Date.now(),
    },
  )
  const changed = change(JSON.parse(request.body!) as Record<string, unknown>)
  const { status } = await fetch(request.url, {
    method: 'POST',
    headers: { ...request.headers, ...headers },
    body: JSON.stringify(changed),
  })
  return { status, refused: vendor.refused.at(-1)?.split(' (')[0] ?? null }
}

for (const { name, kind } of vendors)
  test(`${name} answers what is right, refuses a wrong key and results that nobody called for`, async () => {
    expect(await send(name, [USER])).toMatchObject({ status: 200, refused: null })
    const keys = { authorization: 'Bearer wrong', 'api-key': 'wrong', 'x-api-key': 'wrong', 'x-goog-api-key': 'wrong' }
    const { status } = await send(name, [USER], undefined, keys)
    expect(status).toBe(kind === 'gemini' ? 400 : kind === 'bedrock' ? 403 : 401)
    const orphan = { role: 'tool', tool_call_id: 'call_1', name: 'f', content: '1' }
    expect((await send(name, [USER, { role: 'assistant', content: 'x' }, orphan])).status).toBe(400)
    expect((await send(name, [USER, { role: 'assistant', content: null, tool_calls: [CALL] }, USER])).status).toBe(400)
  })

const extra = (body: object) => ({ ...body, surprise: 1 })
const model = (body: object) => ({ ...body, model: 'another' })
const cases: readonly [
  what: string,
  name: string,
  change: (body: Record<string, unknown>) => unknown,
  status: number,
][] = [
  ['an unknown field', 'openai', extra, 400],
  ['an unknown field', 'mistral', extra, 400],
  ['an unknown field', 'anthropic', extra, 400],
  ['an unknown field', 'gemini', extra, 400],
  ['an unknown field', 'cohere', extra, 422],
  ['a field that would be ignored', 'ollama', extra, 400],
  ['a body that was not signed', 'bedrock', extra, 403],
  ['an unknown field', 'bedrock_api_key', extra, 400],
  ['another model', 'openai', model, 404],
  ['another model', 'anthropic', model, 404],
  ['a field of the gateway', 'vllm', (body) => ({ ...body, tool_execution: { mode: 'manual' } }), 400],
  ['a second limit', 'openai_reasoning', (body) => ({ ...body, max_tokens: 5 }), 400],
  ['no limit', 'anthropic', ({ max_tokens: _, ...body }) => body, 400],
  [
    'an empty text',
    'anthropic',
    (body) => ({ ...body, messages: [{ role: 'user', content: [{ type: 'text', text: '' }] }] }),
    400,
  ],
  ['two turns of the user', 'gemini', (body) => ({ ...body, contents: [body.contents, body.contents].flat() }), 400],
  [
    'two turns of the user',
    'bedrock_api_key',
    (body) => ({ ...body, messages: [body.messages, body.messages].flat() }),
    400,
  ],
  ['two turns of the user', 'perplexity', (body) => ({ ...body, messages: [USER, USER] }), 400],
  [
    'an id of another form',
    'mistral',
    (body) => ({ ...body, messages: [USER, { role: 'assistant', tool_calls: [CALL] }] }),
    400,
  ],
  ['stop as text', 'tgi', (body) => ({ ...body, stop: 'END' }), 400],
  [
    'an address as an image',
    'ollama',
    (body) => ({ ...body, messages: [{ ...USER, images: ['https://example.org/a.png'] }] }),
    400,
  ],
  ['no word about streaming', 'ollama', ({ stream: _, ...body }) => body, 400],
]
for (const [what, name, change, status] of cases)
  test(`${name} refuses ${what}`, async () => {
    expect((await send(name, [USER], change)).status).toBe(status)
  })
