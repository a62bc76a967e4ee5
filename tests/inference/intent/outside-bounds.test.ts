// Content that a request only refers to, outside of its body: the whole context window of the model is reserved, for
// each kind that gets the field. Also services with a higher price than the price row.
import { describe, expect, test } from 'bun:test'
import { readIntent } from '../../../src/inference/intent/intent.ts'
import { promptBound } from '../../../src/inference/money/estimate.ts'
import { premiumField } from '../../../src/inference/money/premium-fields.ts'
import { kindOf } from '../../../src/providers/kinds.ts'
import { entry } from '../gateway.ts'

const MESSAGES = [{ role: 'user', content: 'hi' }]
const WINDOW = 100_000
const asked = (more: object) => {
  const body = { model: 'm', messages: MESSAGES, ...more }
  return readIntent(JSON.stringify(body), body, new Headers())
}
const bound = (kind: string, more: object, upstreamModel = 'm') =>
  promptBound(asked(more), entry({ kind, upstreamModel, contextWindow: WINDOW }))
const forwarded = (kind: string, more: object) => {
  const body = { model: 'm', messages: MESSAGES, ...more }
  const target = {
    ...{
      baseUrl: 'https://h/v1',
      secret: 'AKIDEXAMPLE:secretsecret',
      region: 'us-east-1',
      upstreamModel: 'm',
      options: {},
    },
    ...{ maxOutputTokens: 10, usageOnStream: false, atMs: 0 },
  }
  const call = { raw: JSON.stringify(body), body, stream: false, capabilities: ['tools'] }
  return kindOf(kind)!.request(call, target).body!
}

const REFERS: readonly (readonly [kind: string, more: object])[] = [
  ['gemini', { cached_content: 'cachedContents/abc' }],
  ['gemini', { cachedContent: 'cachedContents/abc' }],
  ['gemini', { extra_body: { google: { cached_content: 'cachedContents/abc' } } }],
  ['azure_openai', { data_sources: [{ type: 'azure_search' }] }],
  ['openai', { web_search_options: {} }],
  ['azure_openai', { web_search_options: {} }],
  ['perplexity', { web_search_options: { search_context_size: 'high' } }],
  ['openrouter', { web_search_options: {} }],
  ['openrouter', { preset: '@preset/x' }],
  ['openrouter', { plugins: [{ id: 'web' }] }],
  ['groq', { compound_custom: { tools: { enabled_tools: ['web_search'] } } }],
  ['groq', { search_settings: { country: 'us' } }],
  ['xai', { search_parameters: { mode: 'on' } }],
  ['anthropic', { container: 'container_1' }],
  ['bedrock', { additionalModelRequestFields: { container: 'container_1' } }],
  ['cohere', { connectors: [{ id: 'web-search' }] }],
  ['vllm', { chat_template: '{% for i in range(9999) %}x{% endfor %}' }],
  ['openai_compatible', { cached_content: 'x' }],
  ['openai_compatible', { previous_response_id: 'resp_1' }],
  ['openai', { tools: [{ type: 'web_search' }] }],
  ['openrouter', { tools: [{ type: 'openrouter:web_search' }] }],
]

describe('the bound of a prompt that refers to what is elsewhere', () => {
  test.each(REFERS)('%s %j is forwarded, and bound by the window', (kind, more) => {
    const [field] = Object.keys(more) as [string]
    expect(forwarded(kind, more).replaceAll('_', '').toLowerCase()).toContain(
      (field === 'extra_body' ? 'cachedcontent' : field.replaceAll('_', '')).toLowerCase(),
    )
    expect(bound(kind, more)).toBe(WINDOW)
    // Where the window is not known, as much as any model takes.
    expect(promptBound(asked(more), entry({ kind, contextWindow: null }))).toBeGreaterThan(1_000_000)
  })

  test('speech of an earlier answer is referred to by its id', () => {
    const messages = [...MESSAGES, { role: 'assistant', audio: { id: 'audio_abc' } }]
    expect(bound('openai', { messages })).toBe(WINDOW)
  })

  test('models that search by themselves', () => {
    for (const name of ['groq/compound-mini', 'o4-mini-deep-research', 'gpt-4o-search-preview', 'openai/gpt-4o:online'])
      expect([name, bound('openrouter', {}, name)]).toEqual([name, WINDOW])
  })

  test('is that of its body where a field says nothing, or that it is off', () => {
    for (const more of [
      { plugins: [] },
      { files: [] },
      { attachments: [] },
      { previous_response_id: '' },
      { conversation: '' },
      { preset: '' },
      { retrieval: {} },
      { extra_body: { knowledge: '' } },
      { web_search: { enable: false } },
      { search_parameters: { mode: 'off' } },
    ])
      expect([more, bound('openai_compatible', more) < 1_000]).toEqual([more, true])
    for (const more of [{ web_search_options: {} }, { web_search: {} }, { search_parameters: {} }, { plugins: [{}] }])
      expect([more, bound('openai_compatible', more)]).toEqual([more, WINDOW])
  })

  test('is that of its body where the upstream does not get the field, or nothing is sent under it', () => {
    for (const [kind, more] of [
      ['anthropic', { web_search_options: {} }],
      ['mistral', { web_search_options: {} }],
      ['openai', { search_parameters: null }],
      ['xai', { search_parameters: null }],
      ['openai', { metadata: { files: 'x' } }],
      [
        'openai',
        { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { properties: { files: {} } } } } },
      ],
      ['openai', { tools: [{ type: 'function', function: { name: 'files' } }] }],
    ] as const)
      expect([kind, more, bound(kind, more) < 3_000]).toEqual([kind, more, true])
  })
})

test('fields that ask for a dearer service, by the kinds that get them', () => {
  const cases: readonly (readonly [string, object, string | null])[] = [
    ['openai', { service_tier: 'priority' }, 'service_tier'],
    ['openai', { service_tier: 'scale' }, 'service_tier'],
    ['gemini', { serviceTier: 'priority' }, 'serviceTier'],
    ['gemini', { extra_body: { google: { service_tier: 'priority' } } }, 'extra_body.google.service_tier'],
    ['bedrock', { serviceTier: { type: 'priority' } }, 'serviceTier'],
    ['bedrock', { performanceConfig: { latency: 'optimized' } }, 'performanceConfig'],
    ['anthropic', { speed: 'fast' }, 'speed'],
    ['anthropic', { inference_geo: 'us' }, 'inference_geo'],
    ['anthropic', { service_tier: 'priority' }, null],
    ['mistral', { service_tier: 'priority' }, null],
    ['openai', { speed: 'fast' }, null],
    ['openai_compatible', { speed: 1 }, null],
    ['openai_compatible', { speed: 'fast' }, 'speed'],
    ['gemini', { service_tier: 2 }, 'service_tier'],
    ...[
      { sort: 'throughput' },
      { sort: { by: 'latency', partition: 'none' } },
      { order: ['dear'] },
      { only: ['dear'] },
      { ignore: ['cheap'] },
      { quantizations: ['bf16'] },
      { preferred_min_throughput: 90 },
    ].map((provider) => ['openrouter', { provider }, `provider.${Object.keys(provider)[0]}`] as const),
    ['openrouter', { extra_body: { provider: { sort: 'latency' } } }, 'extra_body.provider.sort'],
    ['openrouter', { provider: { sort: 'price', order: [], allow_fallbacks: true, data_collection: 'deny' } }, null],
    ['openrouter', { provider: { sort: { by: 'price', partition: 'none' } } }, null],
    ['openai', { provider: { sort: 'throughput' } }, null],
    ['openai_compatible', { guided_json: { properties: { speed: { type: 'number' } } } }, null],
    ...['auto', 'default', 'flex', null].map((tier) => ['openai', { service_tier: tier }, null] as const),
  ]
  for (const [kind, body, field] of cases)
    expect([kind, body, premiumField({ ...body }, kind, undefined)]).toEqual([kind, body, field])
  expect(premiumField({ service_tier: 'priority' }, 'openai', ['service_tier'])).toBeNull()
  expect(premiumField({ provider: { sort: 'latency' } }, 'openrouter', ['provider'])).toBeNull()
})
