// Some vendors report the usage of a stream in the last chunk of the answer. A client that requested usage still gets a
// separate usage chunk, with all reported values.
import { afterEach, expect, test } from 'bun:test'
import { kindOf } from '../../../src/providers/kinds.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, framesOf, testGateway } from '../gateway.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

const COUNTS = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 }
const TOLD: readonly (readonly [kind: string, last: object, shown: object, recorded: object])[] = [
  [
    'mistral',
    { usage: { ...COUNTS, num_cached_tokens: 40 } },
    { ...COUNTS, num_cached_tokens: 40 },
    { cached_prompt_tokens: 40, cost_nano_usd: 60_000 + 4_000 + 40_000 },
  ],
  [
    'mistral',
    { usage: { ...COUNTS, num_cached_tokens: 0, prompt_tokens_details: { cached_tokens: 64 } } },
    { ...COUNTS, num_cached_tokens: 0, prompt_tokens_details: { cached_tokens: 64 } },
    { cached_prompt_tokens: 64 },
  ],
  [
    'groq',
    { x_groq: { usage: { ...COUNTS, completion_tokens_details: { reasoning_tokens: 15 } } } },
    { ...COUNTS, completion_tokens_details: { reasoning_tokens: 15 } },
    { reasoning_tokens: 15 },
  ],
  [
    'xai',
    { usage: { ...COUNTS, completion_tokens_details: { reasoning_tokens: 15 } } },
    {
      prompt_tokens: 100,
      completion_tokens: 35,
      total_tokens: 135,
      completion_tokens_details: { reasoning_tokens: 15 },
    },
    { completion_tokens: 35, reasoning_tokens: 15 },
  ],
  [
    'perplexity',
    { usage: { ...COUNTS, cost: { total_cost: 0.0052 } } },
    { ...COUNTS, cost: { total_cost: 0.0052 } },
    { cost_nano_usd: 5_200_000, cost_basis: 'provider_reported' },
  ],
  ['openai_compatible', { usage: { ...COUNTS, prompt_tokens_details: { cached_tokens: -1 } } }, COUNTS, {}],
]

test.each(TOLD)('%s: %j', async (kind, last, shown, recorded) => {
  const chunk = (choice: object) => ({
    ...{ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' },
    choices: [{ index: 0, ...choice }],
  })
  const chunks = [
    chunk({ delta: { role: 'assistant', content: 'hi' }, finish_reason: null }),
    { ...chunk({ delta: {}, finish_reason: 'stop' }), ...last },
  ]
  const upstream = startUpstream()
  upstream.behave({ body: `${chunks.map((one) => `data: ${JSON.stringify(one)}\n\n`).join('')}data: [DONE]\n\n` })
  const row = { kind, baseUrl: upstream.baseUrl, secret: 'sk-test', cachedInputCostPerMillion: 0.1 }
  const gateway = testGateway({ entries: [entry(row)], kinds: [kindOf(kind)!] })
  closing.push(
    () => gateway.close(),
    () => upstream.stop(),
  )
  const ask = { model: 'small', stream: true, messages: [{ role: 'user', content: 'hi' }] }
  const response = await gateway.chat({ ...ask, stream_options: { include_usage: true } })
  const { choices, usage } = (await framesOf(response)).at(-2) as { choices: unknown; usage: object }
  expect(choices).toEqual([])
  const { prompt_tokens_details: details, ...others } = usage as Record<string, object>
  const filled = details !== undefined && Object.keys(details).length > 0 ? usage : others
  expect(filled).toEqual(shown)
  await gateway.spool.untilSettled()
  expect(gateway.spool.settled()[0]).toMatchObject(recorded)
})
