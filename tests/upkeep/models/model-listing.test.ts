import { describe, expect, test } from 'bun:test'
import type { ProviderRow } from '../../../src/domain/registry/provider.ts'
import { DialFailure, type DialRequest } from '../../../src/lib/http-client/dial.ts'
import { KINDS, kindOf } from '../../../src/providers/kinds.ts'
import type { ListedModel } from '../../../src/providers/port.ts'
import { SANDBOX_MODELS } from '../../../src/providers/sandbox/kind.ts'
import { cataloguePrice, modelFacts } from '../../../src/upkeep/models/model-facts.ts'
import { modelCatalogue } from '../../../src/upkeep/models/model-listing.ts'
import { GatewayError } from '../../../src/wire/errors.ts'
import { newWorld, providerCreated } from '../../domain/world.ts'

const NOW = Date.UTC(2026, 10, 20)

const providerRow = (kind: string, more: Partial<ProviderRow> = {}): ProviderRow => {
  const { state } = newWorld([providerCreated('prov_a', kind)])
  return { ...state.table('providers').get('prov_a')!, kind, base_url: 'https://up.example/v1', ...more }
}

/** A catalogue whose upstream answers as told, and remembers what it was asked. */
const asking = (answer: { status?: number; body?: unknown } | DialFailure, secret: string | null = 'sk-1') => {
  const asked: DialRequest[] = []
  const at = { nowMs: NOW }
  const catalogue = modelCatalogue({
    async dial(request) {
      asked.push(request)
      if (answer instanceof DialFailure) throw answer
      const text = JSON.stringify(answer.body ?? {})
      return { status: answer.status ?? 200, headers: new Headers(), body: null, text: async () => text }
    },
    kindTable: { resolve: kindOf, names: [...KINDS.keys()] },
    secretOf: () => secret,
    nowMs: () => at.nowMs,
  })
  return { catalogue, asked, at }
}
const listing = { body: { object: 'list', data: [{ id: 'gpt-4o-mini', object: 'model', created: 1, owned_by: 'x' }] } }

describe('listing', () => {
  test('asks the provider with its secret and reads what it serves', async () => {
    const { catalogue, asked } = asking(listing)
    const models = await catalogue.list(providerRow('openai'))
    expect(models.map(({ name }) => name)).toEqual(['gpt-4o-mini'])
    expect(asked).toMatchObject([{ method: 'GET', url: 'https://up.example/v1/models' }])
    expect(JSON.stringify(asked[0]!.headers)).toContain('sk-1')
  })

  test.each([
    ['a kind that needs a secret and has none', asking(listing, null), 'provider_unavailable'],
    ['an unreachable provider', asking(new DialFailure('connect', 'refused')), 'upstream_error'],
    ['a refusal', asking({ status: 401, body: { error: { message: 'no' } } }), 'authentication_error'],
  ])('%s is told as it is', async (_, { catalogue }, code) => {
    const failure = await catalogue.list(providerRow('openai')).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(GatewayError)
    expect((failure as GatewayError).code as string).toBe(code)
  })

  test('lists that are asked for besides are joined, each model once', async () => {
    const asked: string[] = []
    const catalogue = modelCatalogue({
      async dial({ url }) {
        asked.push(new URL(url).pathname)
        const body = url.includes('/inference-profiles')
          ? { inferenceProfileSummaries: [{ inferenceProfileId: 'us.a' }, { inferenceProfileId: 'b' }] }
          : { modelSummaries: [{ modelId: 'b', inputModalities: ['TEXT'] }] }
        return { status: 200, headers: new Headers(), body: null, text: async () => JSON.stringify(body) }
      },
      kindTable: { resolve: kindOf, names: [...KINDS.keys()] },
      secretOf: () => 'a-bearer',
      nowMs: () => NOW,
    })
    const models = await catalogue.list(providerRow('bedrock'))
    expect(asked).toEqual(['/foundation-models', '/inference-profiles'])
    expect(models.map(({ name, capabilities }) => [name, capabilities !== null])).toEqual([
      ['b', true],
      ['us.a', false],
    ])
  })

  test('the sandbox lists what it can do, offline and free', async () => {
    const { catalogue, asked } = asking(new DialFailure('connect', 'offline'), null)
    const sandbox = providerRow('sandbox', { base_url: null })
    const models = await catalogue.list(sandbox)
    expect(models.map(({ name }) => name)).toEqual([...SANDBOX_MODELS])
    expect(await catalogue.factsOfListed(sandbox, models[0]!)).toMatchObject({
      input_cost_per_million: 0,
      output_cost_per_million: 0,
    })
    expect(asked).toEqual([])
  })
})

describe('facts', () => {
  test('a listing answers the models of a minute, also when it failed', async () => {
    for (const answer of [listing, new DialFailure('connect', 'refused')]) {
      const { catalogue, asked, at } = asking(answer)
      const row = providerRow('openai')
      for (const name of ['gpt-4o-mini', 'gpt-4o']) await catalogue.factsOf(row, name)
      expect(asked).toHaveLength(1)
      at.nowMs += 61_000
      await catalogue.factsOf(row, 'gpt-4o-mini')
      expect(asked).toHaveLength(2)
      await catalogue.factsOf({ ...row, revision: 'changed since' }, 'gpt-4o-mini')
      expect(asked).toHaveLength(3)
    }
  })

  test('prices come from the catalogue of the kind, and are null for what it does not know', async () => {
    expect(await cataloguePrice(providerRow('openai'), 'gpt-4o-mini', NOW)).toEqual({
      contextWindow: 128_000,
      input: 0.15,
      output: 0.6,
      cachedInput: 0.075,
    })
    const nothing = { contextWindow: null, input: null, output: null, cachedInput: null }
    expect(await cataloguePrice(providerRow('openai'), 'no-such-model', NOW)).toEqual(nothing)
    expect(await cataloguePrice(providerRow('openai_compatible'), 'gpt-4o-mini', NOW)).toEqual(nothing)
    const known = { kind: 'openai_compatible', base_url: 'https://api.groq.com/openai/v1' }
    expect((await cataloguePrice(known, 'llama-3.3-70b-versatile', NOW)).input).toBeGreaterThan(0)
  })

  test('a price with tiers counts as its first', async () => {
    expect(await cataloguePrice(providerRow('anthropic'), 'claude-sonnet-4-5', NOW)).toMatchObject({
      input: 3,
      output: 15,
    })
  })

  test('a listed price comes before that of the snapshot, with all that belongs to it', () => {
    const tier = {
      above_prompt_tokens: 9,
      input_cost_per_million: 3,
      output_cost_per_million: 4,
      cached_input_cost_per_million: null,
    }
    const price = { contextWindow: 5, input: 1, output: 2, cachedInput: 0.1, tiers: [tier] }
    const listed = { name: 'x', contextWindow: null, maxOutputTokens: null, capabilities: null }
    expect(modelFacts(listed, price, [])).toMatchObject({
      input_cost_per_million: 1,
      cached_input_cost_per_million: 0.1,
      price_tiers: [tier],
    })
    const facts = modelFacts({ ...listed, inputCostPerMillion: 7, outputCostPerMillion: 8 }, price, [])
    expect(facts).toMatchObject({
      input_cost_per_million: 7,
      output_cost_per_million: 8,
      cached_input_cost_per_million: null,
    })
    expect(facts).not.toHaveProperty('price_tiers')
  })

  test('each fact comes from the first source that has it, and says who said what it can do', () => {
    const price = { contextWindow: 5, input: 1, output: 2, cachedInput: null }
    const listed = { name: 'x', contextWindow: null, maxOutputTokens: 7, capabilities: ['vision' as const] }
    expect(modelFacts(listed, price, ['chat'])).toEqual({
      context_window: 5,
      max_output_tokens: 7,
      input_cost_per_million: 1,
      output_cost_per_million: 2,
      cached_input_cost_per_million: null,
      capabilities: ['vision'],
      capability_source: 'provider',
    })
    expect(modelFacts(null, price, ['chat'])).toMatchObject({ capabilities: ['chat'], capability_source: 'kind' })
  })

  test('a number of tokens that no row may hold says nothing: the next source does', () => {
    const price = { contextWindow: 5, input: null, output: null, cachedInput: null }
    const counts = (contextWindow: number, maxOutputTokens: number) => {
      const facts = modelFacts({ name: 'x', contextWindow, maxOutputTokens, capabilities: null }, price, [])
      return [facts.context_window, facts.max_output_tokens]
    }
    expect(counts(1, 1_000_000_000)).toEqual([1, 1_000_000_000])
    expect(counts(0, 0)).toEqual([5, null])
    expect(counts(1_000_000_001, 10_000_000_000)).toEqual([5, null])
  })

  test('prices of the listing go before those of the catalogue, all of them or none', () => {
    const catalogue = { contextWindow: null, input: 1, output: 2, cachedInput: 0.5 }
    const listed = { name: 'x', contextWindow: null, maxOutputTokens: null, capabilities: null }
    const prices = (more: Partial<ListedModel>) => {
      const facts = modelFacts({ ...listed, ...more }, catalogue, [])
      return [facts.input_cost_per_million, facts.output_cost_per_million, facts.cached_input_cost_per_million]
    }
    expect(prices({ inputCostPerMillion: 3, outputCostPerMillion: 4, cachedInputCostPerMillion: 0.1 })).toEqual([
      3, 4, 0.1,
    ])
    expect(prices({ inputCostPerMillion: 0, outputCostPerMillion: 0 })).toEqual([0, 0, null])
    expect(prices({ inputCostPerMillion: 3, outputCostPerMillion: null })).toEqual([1, 2, 0.5])
    expect(prices({ inputCostPerMillion: null, outputCostPerMillion: null })).toEqual([1, 2, 0.5])
  })
})
