// Nearly valid bodies, with one or more fields replaced by any value, sent through every kind to its fake vendor: the
// result is an answer or the envelope.
import { afterAll, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Value } from '../../src/lib/schema/schema.ts'
import { KINDS } from '../../src/providers/kinds.ts'
import { ALL_CAPABILITIES } from '../../src/providers/port.ts'
import { ErrorEnvelope } from '../../src/wire/answer-schemas.ts'
import { entry, testGateway } from '../inference/gateway.ts'
import { startVendors } from '../services/vendors/vendors.ts'

const vendors = startVendors()
const gateway = testGateway({
  kinds: [...KINDS.values()],
  entries: [
    ...vendors.map(({ name, kind, model, baseUrl, secret, options }) =>
      entry({
        name,
        provider: name,
        kind,
        upstreamModel: model,
        baseUrl,
        secret,
        options,
        capabilities: ALL_CAPABILITIES,
      }),
    ),
    entry({ name: 'sandbox-echo', provider: 'sandbox', kind: 'sandbox', capabilities: ALL_CAPABILITIES }),
  ],
})
afterAll(async () => {
  gateway.close()
  await Promise.all(vendors.map(({ stop }) => stop()))
})

const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }
const BASES: readonly Record<string, unknown>[] = [
  { messages: [{ role: 'user', content: 'x' }], stream: false, max_tokens: 5 },
  { prompt: 'x', system: 'y', tool_execution: { mode: 'manual' }, metadata: { user_id: 'u' }, user: 'u' },
  {
    messages: [
      { role: 'system', content: [{ type: 'text', text: 's' }] },
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }] },
      {
        role: 'assistant',
        content: null,
        tool_calls: [call],
        reasoning_details: [{ type: 'thinking', thinking: 'a', signature: 'b' }],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'r' },
    ],
    tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { a: {} } } } }],
    tool_choice: 'auto',
    parallel_tool_calls: false,
  },
  {
    messages: [
      {
        role: 'user',
        content: [{ type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERi0=', filename: 'a.pdf' } }],
      },
    ],
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'n', schema: { type: 'object', properties: { a: { const: 1 } } } },
    },
    reasoning_effort: 'low',
    seed: 1,
    stop: ['a'],
    temperature: 0.5,
    top_k: 1,
    logprobs: true,
    top_logprobs: 1,
    stream_options: { include_usage: true },
    stream: true,
  },
]

type Tree = Record<string, unknown> | unknown[]
const isTree = (value: unknown): value is Tree => typeof value === 'object' && value !== null

/** Every place in the tree: its holder and its name there. */
const placesOf = (tree: Tree): { holder: Record<string, unknown>; name: string }[] =>
  Object.entries(tree).flatMap(([name, value]) => [
    { holder: tree as Record<string, unknown>, name },
    ...(isTree(value) ? placesOf(value) : []),
  ])

const change = fc.record({
  place: fc.nat(),
  how: fc.constantFrom('replace', 'replace', 'remove', 'add'),
  value: fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom('', 'data:', 'data:;base64,', '{', '[]', 'a\nb', 1e300, -1),
  ),
  name: fc.oneof(
    fc.string(),
    fc.constantFrom('type', 'function', 'arguments', 'a\nb', '__proto__', 'toJSON', 'cache_control'),
  ),
})

const changed = (
  base: Record<string, unknown>,
  changes: readonly { place: number; how: string; value: unknown; name: string }[],
) => {
  const body = structuredClone(base)
  for (const { place, how, value, name } of changes) {
    const places = placesOf(body)
    const at = places[place % Math.max(1, places.length)]
    if (at === undefined) continue
    if (how === 'remove') delete at.holder[at.name]
    else if (how === 'add' && Array.isArray(at.holder))
      at.holder.push(value) // a member `length` of a list cannot be
    else if (how === 'add')
      Object.defineProperty(at.holder, name, { value, enumerable: true, configurable: true, writable: true })
    else at.holder[at.name] = value
  }
  return body
}

const expectAnswer = async (response: Response, expected: readonly number[]): Promise<void> => {
  const text = await response.text()
  expect([response.status, text, expected]).toEqual([
    expected.find((status) => status === response.status)!,
    text,
    expected as number[],
  ])
  if (response.status < 400) return
  expect([...Value.Errors(ErrorEnvelope, JSON.parse(text))]).toEqual([])
}

// 502 only where a vendor was called: its answer may have been unusable.
const POSSIBLE = [200, 400, 401, 402, 403, 404, 502]
const MODELS = [...vendors.map(({ name }) => name), 'sandbox-echo']

test('no body makes the gateway fail by itself', async () => {
  const given = fc.tuple(
    fc.constantFrom(...MODELS),
    fc.constantFrom(...BASES),
    fc.array(change, { minLength: 1, maxLength: 3 }),
  )
  await fc.assert(
    fc.asyncProperty(given, async ([model, base, changes]) => {
      await expectAnswer(await gateway.chat({ model, ...changed(base, changes) }), POSSIBLE)
    }),
    { numRuns: 1_500 },
  )
}, 60_000)

test('nor does one that is cut', async () => {
  const given = fc.tuple(
    fc.constantFrom(...BASES),
    fc.double({ min: 0, max: 1, noNaN: true }),
    fc.uint8Array({ maxLength: 4 }),
  )
  await fc.assert(
    fc.asyncProperty(given, async ([base, where, more]) => {
      const whole = Buffer.from(JSON.stringify({ model: 'sandbox-echo', ...base }))
      const raw = Buffer.concat([whole.subarray(0, Math.floor(where * whole.length)), more])
      await expectAnswer(await gateway.send('/v1/chat/completions', { method: 'POST', raw }), [200, 400])
    }),
    { numRuns: 300 },
  )
}, 60_000)
