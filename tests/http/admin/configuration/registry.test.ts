// Providers, credentials and models.
import { describe, expect, test } from 'bun:test'
import { CommitFailure } from '../../../../src/state/port.ts'
import { GatewayError } from '../../../../src/wire/errors.ts'
import { startGateway } from '../world/gateway.ts'

const SECRET = 'sk-this-is-the-secret-abcd'

const withProvider = async (more: Record<string, unknown> = {}) => {
  const gateway = startGateway()
  const { body } = await gateway.call('POST', '/providers', { body: { name: 'oa', kind: 'openai', ...more } })
  return { gateway, id: body.id as string, provider: body }
}

// docs/behaviour.md: "Providers and secrets"
describe('providers', () => {
  test('are made with the defaults of their kind, and go back as they came without a change', async () => {
    const { gateway, id, provider } = await withProvider({ kind: 'OpenAI', api_key: SECRET })
    expect(provider).toMatchObject({
      name: 'oa',
      kind: 'openai',
      base_url: 'https://api.openai.com/v1',
      status: 'active',
      managed_by: 'api',
      has_credential: false,
      adapter_ready: false,
      health: { status: 'unknown' },
      usage_on_stream: false,
      options: {},
    })
    expect(JSON.stringify([provider, gateway.events])).not.toContain(SECRET)
    const same = await gateway.call('PUT', `/providers/${id}`, { body: provider })
    expect([same.status, same.body]).toEqual([200, provider])
  })

  test('an unknown kind is 400 with the list; a kind without an address of its own needs one', async () => {
    const gateway = startGateway()
    const unknown = await gateway.call('POST', '/providers', { body: { name: 'x', kind: 'magic' } })
    expect([unknown.status, unknown.body.error]).toMatchObject([400, { param: 'kind' }])
    expect((unknown.body.error as { message: string }).message).toContain('openai_compatible')
    const bare = await gateway.call('POST', '/providers', { body: { name: 'x', kind: 'openai-compatible' } })
    expect([bare.status, bare.body.error]).toMatchObject([400, { param: 'base_url' }])
  })

  test('an option that the kind does not have is refused and named, a secret among them: it would stand in the log for ever', async () => {
    const { gateway, id } = await withProvider({ options: { organization: 'org-1' } })
    const made = await gateway.call('POST', '/providers', {
      body: { name: 'x', kind: 'openai', options: { api_key: SECRET } },
    })
    expect([made.status, made.body.error]).toMatchObject([400, { param: 'options.api_key' }])
    expect((made.body.error as { message: string }).message).toContain('it has organization')
    const changed = await gateway.call('PATCH', `/providers/${id}`, { body: { options: { organisation: 'org-1' } } })
    expect([changed.status, changed.body.error]).toMatchObject([400, { param: 'options.organisation' }])
    const moved = await gateway.call('PATCH', `/providers/${id}`, { body: { kind: 'silent' } })
    expect([moved.status, moved.body.error]).toMatchObject([400, { param: 'options.organization' }])
    expect((await gateway.call('PATCH', `/providers/${id}`, { body: { weight: 2 } })).status).toBe(200)
    expect(JSON.stringify(gateway.events)).not.toContain(SECRET)
  })

  test('an address that is never connected to is refused when it is written, and named', async () => {
    const { gateway, id } = await withProvider()
    const refused = {
      'http://127.0.0.1:11434/v1': 'egress.allow_private',
      'http://0x7f.1/v1': 'egress.allow_private',
      'http://[::ffff:10.0.0.1]/v1': 'egress.allow_private',
      'http://169.254.169.254/latest': 'instance-metadata',
      'http://metadata.google.internal/v1': 'instance-metadata',
      'https://api.example.com#.vendor.com/v1': 'fragment',
      'https://user:pw@api.example.com/v1': 'user',
      'https://api.example.com/v1?api-version=1&Api_Key=sk-1': 'query string',
      'http://api.example.com:25/v1': 'port',
    }
    for (const [base_url, reason] of Object.entries(refused)) {
      const created = { name: 'x', kind: 'openai_compatible', base_url }
      for (const { status, body } of [
        await gateway.call('POST', '/providers', { body: created }),
        await gateway.call('PATCH', `/providers/${id}`, { body: { base_url } }),
        await gateway.call('PUT', `/providers/${id}`, { body: { kind: 'openai', base_url } }),
      ]) {
        expect([base_url, status, body.error]).toMatchObject([base_url, 400, { param: 'base_url' }])
        expect((body.error as { message: string }).message).toContain(reason)
      }
    }
  })

  test('PATCH changes what it names, PUT all; the name never; both hold the address rule', async () => {
    const { gateway, id } = await withProvider({ region: 'eu', weight: 3 })
    const patched = await gateway.call('PATCH', `/providers/${id}`, { body: { timeout_ms: 9, enabled: false } })
    expect(patched.body).toMatchObject({ timeout_ms: 9, region: 'eu', weight: 3, status: 'disabled' })
    const put = await gateway.call('PUT', `/providers/${id}`, { body: { kind: 'openai', region: 'us' } })
    expect(put.body).toMatchObject({ timeout_ms: null, region: 'us', weight: null, status: 'active' })
    const renamed = await gateway.call('PATCH', `/providers/${id}`, { body: { name: 'other' } })
    expect([renamed.status, renamed.body.error]).toMatchObject([400, { param: 'name' }])
    const unaddressed = { kind: 'openai_compatible', base_url: null }
    expect((await gateway.call('PATCH', `/providers/${id}`, { body: unaddressed })).body.error).toMatchObject({
      param: 'base_url',
    })
    expect((await gateway.call('POST', '/providers', { body: { name: 'OA', kind: 'openai' } })).status).toBe(409)
  })

  test('their models and their data key go with them', async () => {
    const { gateway, id } = await withProvider()
    for (const name of ['a', 'b']) await gateway.call('POST', '/models', { body: { name, provider_id: id } })
    await gateway.call('PUT', `/providers/${id}/credential`, { body: { secret: SECRET } })
    expect((await gateway.call('DELETE', `/providers/${id}`)).body).toEqual({
      deleted: true,
      id,
      models_removed: 2,
      budgets_removed: 0,
    })
    expect([gateway.state.table('models').size, gateway.vault.size]).toEqual([0, 0])
  })
})

// docs/behaviour.md: "Providers and secrets"
describe('credentials', () => {
  test('are sealed, shown by name and end only, rotated, removed; every key that is not needed is erased', async () => {
    const { gateway, id } = await withProvider()
    const put = (secret: string) =>
      gateway.call('PUT', `/providers/${id}/credential`, { body: { secret, name: 'main' } })
    const first = await put(SECRET)
    expect(first.body).toMatchObject({
      provider_id: id,
      has_credential: true,
      credential: { name: 'main', hint: 'abcd' },
    })
    await put('short')
    expect([...gateway.vault.values()]).toEqual(['short'])
    const { body } = await gateway.call('GET', `/providers/${id}/credential`)
    expect(body.credential).toMatchObject({ hint: null })
    const detail = await gateway.call('GET', `/providers/${id}`)
    expect(detail.body).toMatchObject({ has_credential: true, managed_by: 'api', adapter_ready: true })
    expect(JSON.stringify(detail.body)).not.toContain('sealed')
    expect(JSON.stringify(gateway.events)).not.toContain(SECRET)
    await gateway.call('DELETE', `/providers/${id}/credential`)
    expect(gateway.vault.size).toBe(0)
    expect((await gateway.call('GET', `/providers/${id}/credential`)).body).toEqual({
      provider_id: id,
      has_credential: false,
    })
  })

  test('a repeat and a refusal leave no data key behind; an unknown outcome keeps it', async () => {
    const { gateway, id } = await withProvider()
    const options = { body: { secret: SECRET }, headers: { 'idempotency-key': '1' } }
    await gateway.call('PUT', `/providers/${id}/credential`, options)
    await gateway.call('PUT', `/providers/${id}/credential`, options)
    expect(gateway.vault.size).toBe(1)
    const stale = { body: { secret: 'another-secret' }, headers: { 'if-match': 'stale' } }
    expect((await gateway.call('PUT', `/providers/${id}/credential`, stale)).status).toBe(409)
    expect([...gateway.vault.values()]).toEqual([SECRET])
    gateway.failure = new CommitFailure('unknown', 'no answer')
    expect((await gateway.call('PUT', `/providers/${id}/credential`, { body: { secret: 'x' } })).status).toBe(504)
    expect(gateway.vault.size).toBe(2)
  })

  test('sync_models adds what is missing and leaves what is there; a failing listing keeps the credential', async () => {
    const { gateway, id } = await withProvider()
    await gateway.call('POST', '/models', { body: { name: 'a', provider_id: id, priority: 7, aliases: ['c'] } })
    const more = { contextWindow: 8, maxOutputTokens: null }
    gateway.listed = [
      { name: 'A', ...more, capabilities: null },
      { name: 'b', ...more, capabilities: ['chat', 'tools'] },
      { name: 'b', ...more, capabilities: null },
      { name: 'c', ...more, capabilities: null },
      { name: ' bad', ...more, capabilities: null },
    ]
    const body = { secret: SECRET, sync_models: true }
    const synced = await gateway.call('PUT', `/providers/${id}/credential`, { body })
    const counts = { created: 1, skipped: 4, total: 5, capabilities_filled: 1 }
    const leftOut = [
      { name: 'c', reason: expect.stringContaining('"c" is an alias of the model "a"') },
      { name: null, reason: '1 are no names that a model may have' },
    ]
    const summary = { ...counts, left_out: leftOut, capability_source: 'provider', revisions: [expect.any(String)] }
    expect(synced.body.sync as object).toEqual(summary)
    const { body: list } = await gateway.call('GET', '/models?provider=OA')
    expect(list.models).toMatchObject([
      { name: 'a', priority: 7 },
      { name: 'b', status: 'active', managed_by: 'api', context_window: 8, capabilities: ['chat', 'tools'] },
    ])
    gateway.listed = new GatewayError('upstream_error', 'the provider said no')
    const failed = await gateway.call('PUT', `/providers/${id}/credential`, { body })
    expect(failed.body).toMatchObject({ has_credential: true, sync_error: 'the provider said no' })
    expect((await gateway.call('POST', `/providers/${id}/sync-models`)).status).toBe(502)
  })

  test('many models come in decisions that one record can hold', async () => {
    const { gateway, id } = await withProvider()
    const name = (i: number) => `${i}`.padEnd(256, 'm')
    gateway.listed = Array.from({ length: 100 }, (_, i) => ({
      name: name(i),
      contextWindow: 1,
      maxOutputTokens: 1,
      capabilities: ['chat' as const],
    }))
    const { body } = await gateway.call('POST', `/providers/${id}/sync-models`)
    expect(body).toMatchObject({ created: 100, total: 100 })
    const revisions = Map.groupBy([...gateway.state.table('models').rows()], ([, { revision }]) => revision)
    for (const rows of revisions.values()) expect(JSON.stringify(rows).length).toBeLessThan(64_000)
  })

  test('a kind that cannot list is 501', async () => {
    const { gateway, id } = await withProvider({ kind: 'silent' })
    const { status, body } = await gateway.call('POST', `/providers/${id}/sync-models`)
    expect([status, body.error]).toMatchObject([501, { code: 'not_implemented' }])
  })
})

// docs/behaviour.md: "Capabilities"
describe('models', () => {
  test('what is left out is filled and says by whom; what is said stays the operator’s', async () => {
    const { gateway, id } = await withProvider()
    const filled = await gateway.call('POST', '/models', { body: { name: 'a', provider_id: id } })
    expect(filled.status).toBe(201)
    expect(filled.body).toMatchObject({
      upstream_model: 'a',
      priority: 100,
      status: 'active',
      context_window: 1000,
      input_cost_per_million: 1.5,
      output_cost_per_million: null,
      capabilities: ['chat', 'streaming'],
      capability_source: 'kind',
      provider: 'oa',
    })
    const said = { name: 'b', provider_id: id, capabilities: ['chat'], input_cost_per_million: null }
    expect((await gateway.call('POST', '/models', { body: said })).body).toMatchObject({
      capabilities: ['chat'],
      capability_source: 'operator',
      input_cost_per_million: null,
    })
  })

  test('a GET goes back as PUT and changes nothing, not even who said what it can do', async () => {
    const { gateway, id } = await withProvider()
    const { body: made } = await gateway.call('POST', '/models', {
      body: { name: 'a', provider_id: id, aliases: ['x'] },
    })
    const same = await gateway.call('PUT', `/models/${made.id}`, { body: made })
    expect([same.status, same.body]).toEqual([200, made])
    const fewer = await gateway.call('PATCH', `/models/${made.id}`, { body: { capabilities: ['chat'] } })
    expect(fewer.body.capability_source as string).toBe('operator')
    const put = await gateway.call('PUT', `/models/${made.id}`, { body: { priority: 5 } })
    expect(put.body).toMatchObject({
      priority: 5,
      aliases: [],
      capabilities: ['chat', 'streaming'],
      capability_source: 'kind',
    })
  })

  test('another input price takes the price of cached tokens with it: they cost what others do', async () => {
    const { gateway, id } = await withProvider()
    const prices = { input_cost_per_million: 3, output_cost_per_million: 15, cached_input_cost_per_million: 0.3 }
    const { body: made } = await gateway.call('POST', '/models', { body: { name: 'a', provider_id: id, ...prices } })
    expect(made.cached_input_cost_per_million).toBe(0.3)
    const patch = (body: Record<string, unknown>) => gateway.call('PATCH', `/models/${made.id}`, { body })
    const free = await patch({ input_cost_per_million: 0 })
    expect(free.body).toMatchObject({ input_cost_per_million: 0, cached_input_cost_per_million: null })
    const both = await patch({ input_cost_per_million: 1, cached_input_cost_per_million: 0.5 })
    expect(both.body).toMatchObject({ input_cost_per_million: 1, cached_input_cost_per_million: 0.5 })
    expect((await patch({ output_cost_per_million: 9 })).body.cached_input_cost_per_million).toBe(0.5)
  })

  test('prices of long prompts come back as sent, and go with the price that they belong to', async () => {
    const { gateway, id } = await withProvider()
    const tier = {
      above_prompt_tokens: 200_000,
      input_cost_per_million: 6,
      output_cost_per_million: 22.5,
      cached_input_cost_per_million: 0.6,
    }
    const sent = { name: 'a', provider_id: id, input_cost_per_million: 3, output_cost_per_million: 15 }
    const { body: made } = await gateway.call('POST', '/models', { body: { ...sent, price_tiers: [tier] } })
    expect(made.price_tiers).toEqual([tier])
    const same = await gateway.call('PUT', `/models/${made.id}`, { body: made })
    expect(same.body).toEqual(made)
    const { body: dearer } = await gateway.call('PATCH', `/models/${made.id}`, { body: { input_cost_per_million: 4 } })
    expect(dearer.price_tiers).toBeNull()
    for (const [wrong, param] of [
      [{ ...tier, from: 1 }, 'price_tiers.0.from'],
      [{ ...tier, above_prompt_tokens: 0 }, 'price_tiers.0.above_prompt_tokens'],
    ] as const) {
      const refused = await gateway.call('PATCH', `/models/${made.id}`, { body: { price_tiers: [wrong] } })
      expect([refused.status, (refused.body.error as { param: string }).param]).toEqual([400, param])
    }
  })

  test('name and provider are immutable; enabled switches; a deleted one is gone', async () => {
    const { gateway, id } = await withProvider()
    const { body: made } = await gateway.call('POST', '/models', { body: { name: 'a', provider_id: id } })
    for (const [field, value] of [
      ['name', 'b'],
      ['provider_id', 'prov_x'],
    ] as const) {
      const refused = await gateway.call('PATCH', `/models/${made.id}`, { body: { [field]: value } })
      expect([refused.status, refused.body.error]).toMatchObject([400, { param: field }])
    }
    await gateway.call('PATCH', `/models/${made.id}`, { body: { enabled: false } })
    expect(gateway.events.at(-1)?.type).toBe('model.disabled')
    expect((await gateway.call('GET', '/models')).body.models).toMatchObject([{ name: 'a', status: 'disabled' }])
    expect((await gateway.call('DELETE', `/models/${made.id}`)).body).toEqual({ deleted: true, id: made.id })
    expect((await gateway.call('GET', `/models/${made.id}`)).status).toBe(404)
  })

  test.each([
    [{ provider_id: 'prov_none' }, 404, 'provider_id'],
    [{ capabilities: ['tool'] }, 400, 'capabilities'],
    [{ input_cost_per_million: -1 }, 400, 'input_cost_per_million'],
    [{ name: '' }, 400, 'name'],
    [{ context_window: 1.5 }, 400, 'context_window'],
  ])('%j is refused', async (fields, status, param) => {
    const { gateway, id } = await withProvider()
    const answer = await gateway.call('POST', '/models', { body: { name: 'a', provider_id: id, ...fields } })
    expect([answer.status, answer.body.error]).toMatchObject([status, { param }])
  })
})
