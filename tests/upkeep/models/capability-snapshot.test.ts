// The vendored capabilities: valid and dated, found by exact name, and ranked between the listing and the kind.
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { snapshotOf, snapshotText } from '../../../infra/capabilities.ts'
import { KINDS, kindOf } from '../../../src/providers/kinds.ts'
import {
  type CapabilitySnapshot,
  type CatalogueFacts,
  capabilitiesOf,
  capabilityCatalogue,
  indexed,
} from '../../../src/upkeep/models/capability-snapshot.ts'
import { modelFacts } from '../../../src/upkeep/models/model-facts.ts'
import { modelCatalogue } from '../../../src/upkeep/models/model-listing.ts'
import { newWorld, providerCreated } from '../../domain/world.ts'

const FILE = join(import.meta.dir, '../../../src/upkeep/models/capabilities/snapshot.json')
const text = readFileSync(FILE, 'utf8')
const snapshot = JSON.parse(text) as CapabilitySnapshot
const catalogue = await capabilityCatalogue()
const NO_PRICE = { contextWindow: null, input: null, output: null, cachedInput: null }

describe('the capability snapshot', () => {
  test('says where it is from, of which day, and under which licence', () => {
    expect(snapshot).toMatchObject({ source: 'litellm', licence: 'MIT' })
    expect(snapshot.version).toMatch(/^\d+\.\d+\.\d+$/)
    expect(new Date(`${snapshot.taken}T00:00:00Z`).toISOString().slice(0, 10)).toBe(snapshot.taken)
    expect(readFileSync(join(FILE, '../LICENSE'), 'utf8')).toContain('MIT License')
  })

  test('has rows of the known form only, each name once, in order', () => {
    expect(text.length).toBeLessThan(300_000)
    expect(text).toBe(snapshotText(snapshot))
    for (const rows of Object.values(snapshot.providers)) {
      const names = rows.map(([name]) => name)
      expect(names.length).toBeGreaterThan(0)
      expect(names).toEqual([...new Set(names)].sort())
      for (const [, input, output, says] of rows) {
        for (const count of [input, output]) expect(Number.isInteger(count) && count >= 0 && count <= 1e9).toBe(true)
        expect(says).toMatch(/^[yn-]{4}$/)
      }
    }
  })

  test('finds every one of its own models by its own name', () => {
    const kinds = [...KINDS.keys()]
    const reached = new Set<string>()
    for (const [provider, rows] of Object.entries(snapshot.providers)) {
      for (const kind of kinds) {
        if (capabilitiesOf(catalogue, kind, rows[0]![0]) === null) continue
        if (rows.every(([name]) => capabilitiesOf(catalogue, kind, name) !== null)) reached.add(provider)
      }
    }
    expect([...reached]).toEqual(Object.keys(snapshot.providers))
  })
})

describe('a look-up', () => {
  const gpt4o: CatalogueFacts = {
    maxInputTokens: 128_000,
    maxOutputTokens: 16_384,
    says: { tools: true, parallel_tool: true, json_schema: true, vision: true },
  }

  test.each([
    ['its name', 'openai', 'gpt-4o', gpt4o],
    ['capitals', 'openai', 'GPT-4o', gpt4o],
    ['a day that is not listed', 'openai', 'gpt-4o-2031-01-31', gpt4o],
    ['a day that is listed', 'openai', 'gpt-4o-2024-05-13', { maxOutputTokens: 4_096 }],
    ['a region', 'bedrock', 'apac.anthropic.claude-3-5-sonnet-20240620-v1:0', { maxOutputTokens: 4_096 }],
    ['capitals and a region', 'bedrock', 'US.DeepSeek.v3.2', { maxInputTokens: 163_840 }],
    ['a region that differs', 'bedrock', 'us.deepseek.v3.2', { maxInputTokens: 163_840 }],
    ['no region', 'bedrock', 'deepseek.v3.2', { maxInputTokens: 164_000 }],
    ['a no', 'openai', 'o3', { says: { tools: true, parallel_tool: false } }],
  ] as const)('by %s', (_, kind, model, expected) => {
    expect(capabilitiesOf(catalogue, kind, model)).toMatchObject(expected)
  })

  test('says nothing where the row is silent', () => {
    expect(capabilitiesOf(catalogue, 'openai', 'gpt-4')!.says).toEqual({ tools: true })
  })

  test('a name without its day is known when all days say the same', () => {
    expect(capabilitiesOf(catalogue, 'openai', 'gpt-4o-audio-preview')).toMatchObject({ maxOutputTokens: 16_384 })
  })

  test('a region is left out before a day is', () => {
    const providers = {
      bedrock: [
        ['a.b-20250101-v1:0', 1, 0, 'yyyy'],
        ['a.b-20250201-v1:0', 2, 0, 'yyyy'],
      ] as const,
    }
    const found = capabilitiesOf(indexed({ ...snapshot, providers }), 'bedrock', 'us-gov.a.b-20250201-v1:0')
    expect(found?.maxInputTokens).toBe(2)
  })

  test('a name that stands for models that differ is nobody', () => {
    const twins = indexed({
      ...snapshot,
      providers: {
        openai: [
          ['A', 1, 0, 'yyyy'],
          ['a', 2, 0, 'yyyy'],
          ['b-20250101', 1, 0, 'yyyy'],
          ['b-2025-02-01', 1, 0, 'nyyy'],
        ],
      },
    })
    const found = (name: string) => capabilitiesOf(twins, 'openai', name)?.maxInputTokens ?? null
    expect(['A', 'a', 'b', 'b-20250101', 'b-20250301'].map(found)).toEqual([1, 2, null, 1, null])
    expect(found('a-2025-01-01')).toBeNull()
  })

  test.each([
    ['openai', 'no-such-model'],
    ['openai', 'gpt-4o-mini-of-mine'],
    ['openai', 'constructor'],
    ['constructor', 'gpt-4o'],
    ['ollama', 'llama3'],
    ['openai_compatible', 'gpt-4o'],
    ['sandbox', 'gpt-4o'],
  ])('at %s, %s is not known', (kind, model) => {
    expect(capabilitiesOf(catalogue, kind, model)).toBeNull()
  })
})

describe('the facts of a model', () => {
  const listed = { name: 'x', contextWindow: null, maxOutputTokens: null, capabilities: null }
  const known = (says: CatalogueFacts['says']): CatalogueFacts => ({ maxInputTokens: 100, maxOutputTokens: 10, says })
  const facts = (says: CatalogueFacts['says'], claims: readonly string[]) =>
    modelFacts(listed, NO_PRICE, claims, known(says))

  test('a no takes a claim away, a yes adds what a model has by itself, and silence keeps the claim', () => {
    expect(facts({ vision: false }, ['chat', 'vision', 'seed'])).toMatchObject({
      capabilities: ['chat', 'seed'],
      capability_source: 'catalogue',
    })
    expect(facts({ vision: true, tools: true }, ['chat']).capabilities).toEqual(['chat', 'tools', 'vision'])
    expect(facts({ tools: true }, ['chat', 'json_schema', 'vision']).capabilities).toEqual([
      'chat',
      'tools',
      'json_schema',
      'vision',
    ])
  })

  test('what the API of a kind does not take, no model makes it take', () => {
    expect(facts({ json_schema: true, parallel_tool: true }, ['chat']).capabilities).toEqual(['chat'])
  })

  test('without tools there are no parallel ones', () => {
    expect(facts({ tools: false }, ['chat', 'tools', 'parallel_tool']).capabilities).toEqual(['chat'])
  })

  test('the listing goes before the catalogue, field by field', () => {
    const says = known({ tools: true })
    expect(modelFacts({ ...listed, capabilities: ['vision'] }, NO_PRICE, ['chat'], says)).toMatchObject({
      context_window: 100,
      max_output_tokens: 10,
      capabilities: ['vision'],
      capability_source: 'provider',
    })
    expect(modelFacts({ ...listed, contextWindow: 7, maxOutputTokens: 3 }, NO_PRICE, ['chat'], says)).toMatchObject({
      context_window: 7,
      max_output_tokens: 3,
      capabilities: ['chat', 'tools'],
      capability_source: 'catalogue',
    })
  })

  test('of two windows the larger counts', () => {
    for (const [contextWindow, expected] of [
      [99, 100],
      [101, 101],
      [null, 100],
    ] as const) {
      expect(modelFacts(null, { ...NO_PRICE, contextWindow }, [], known({})).context_window).toBe(expected)
    }
  })

  test('a row that says nothing of capabilities has decided nothing', () => {
    expect(facts({}, ['chat'])).toMatchObject({
      capabilities: ['chat'],
      capability_source: 'kind',
      context_window: 100,
    })
  })

  test('reach what is written and synchronised; the unknown has what its kind claims', async () => {
    const { state } = newWorld([providerCreated('prov_a', 'openai')])
    const row = { ...state.table('providers').get('prov_a')!, base_url: 'https://up.example/v1' }
    const models = modelCatalogue({
      dial: async () => ({ status: 503, headers: new Headers(), body: null, text: async () => '{}' }),
      kindTable: { resolve: kindOf, names: [...KINDS.keys()] },
      secretOf: () => 'sk-1',
      nowMs: () => Date.UTC(2026, 10, 21),
    })
    const o3 = {
      context_window: 200_000,
      max_output_tokens: 100_000,
      capabilities: ['chat', 'streaming', 'tools', 'json_mode', 'json_schema', 'seed', 'vision'],
      capability_source: 'catalogue',
    }
    expect(await models.factsOf(row, 'o3')).toMatchObject(o3)
    expect(await models.factsOfListed(row, { ...listed, name: 'o3' })).toMatchObject(o3)
    const claimed = [...KINDS.get('openai')!.capabilities]
    expect(await models.factsOf(row, 'mine')).toMatchObject({ capabilities: claimed, capability_source: 'kind' })
  })
})

describe('the script', () => {
  const row = (litellm_provider: string, more: object) => ({ mode: 'chat', litellm_provider, ...more })
  const made = snapshotOf(
    {
      'azure/eu/one': row('azure', { max_input_tokens: 5 }),
      'azure/one': row('azure', { max_input_tokens: 6, supports_function_calling: true }),
      'azure/one-2025-01-31': row('azure', { max_input_tokens: 6, supports_function_calling: true }),
      'azure/one-2025-02-28': row('azure', { max_input_tokens: 7 }),
      'us.two': row('bedrock', { supports_vision: false }),
      two: row('bedrock_converse', { supports_vision: false }),
      'groq/org/three': row('groq', { supported_modalities: ['text', 'image'], max_output_tokens: 'many' }),
      'groq/silent': row('groq', {}),
      'groq/vectors': { ...row('groq', { max_input_tokens: 9 }), mode: 'embedding' },
      'elsewhere/four': row('elsewhere', { max_input_tokens: 9 }),
    },
    '1.2.3',
    '2026-11-21',
  )

  test('takes chat models of our kinds, by their own names, once, without what the look-up finds anyhow', () => {
    const { azure, bedrock, groq, ...others } = made.providers
    expect({ azure, bedrock, groq }).toEqual({
      azure: [
        ['one', 6, 0, 'y---'],
        ['one-2025-02-28', 7, 0, '----'],
      ],
      bedrock: [['two', 0, 0, '---n']],
      groq: [['org/three', 0, 0, '---y']],
    })
    expect(Object.values(others).flat()).toEqual([])
  })
})
