// The routes that call a provider: what is refused before the call, what is recorded, what a repeat answers, and what
// is shown.
import { describe, expect, test } from 'bun:test'
import { CAPABILITIES } from '../../../../src/domain/registry/model.ts'
import { MOST_RESULTS } from '../../../../src/domain/registry/provider-test.ts'
import type { CatalogueEntry } from '../../../../src/state/port.ts'
import type { ModelDetection } from '../../../../src/upkeep/models/detect.ts'
import type { Checked, RequestedTest } from '../../../../src/upkeep/models/provider-checks.ts'
import type { ProviderWork } from '../../../../src/upkeep/models/provider-work.ts'
import { GatewayError } from '../../../../src/wire/errors.ts'
import { entry } from '../../../inference/gateway.ts'
import { type Gateway, startGateway } from '../world/gateway.ts'

const passed = (check: string): Checked => {
  const result = { check, status: 'passed' as const, latency_ms: 5, detail: 'fine' }
  const sample = { ...result, cost_nano_usd: 1_500, model: 'm' }
  return {
    shown: { ...(check === 'sample' ? sample : result), detail: 'shown' },
    recorded: check === 'sample' ? sample : result,
  }
}

/**
 * A gateway with the provider `alpha` and its models `a` (disabled), `b` and `c`, whose tests pass unless `answer`
 * returns otherwise.
 */
const withProvider = async (
  answer: (asked: RequestedTest) => readonly Checked[] = ({ checks }) => checks.map(passed),
) => {
  const asked: RequestedTest[] = []
  const detected: (readonly CatalogueEntry[])[] = []
  let gateway: Gateway
  const entriesOf = (providerId: string) =>
    [...gateway.state.table('models').rows()].map(([, { id: modelId, name }]) => entry({ providerId, modelId, name }))
  const detection = (one: CatalogueEntry): ModelDetection => ({
    entry: one,
    attempted: true,
    verdicts: [
      { capability: 'chat', verdict: 'proven', detail: 'it answered', latencyMs: 3 },
      { capability: 'tools', verdict: 'proven', detail: 'it called the tool', latencyMs: 3 },
      { capability: 'seed', verdict: 'disproved', detail: 'it refused the field', latencyMs: 3 },
      { capability: 'vision', verdict: 'indeterminate', detail: 'the question failed', latencyMs: 3 },
      { capability: 'json_mode', verdict: 'skipped', detail: 'it took too long', latencyMs: 0 },
    ],
    latencyMs: 9,
    costNanoUsd: 2_000,
  })
  const work: Partial<ProviderWork> = {
    entriesOf,
    test: async (_, test) => {
      asked.push(test)
      return answer(test)
    },
    detect: async (entries) => {
      detected.push(entries)
      return entries.map(detection)
    },
  }
  gateway = startGateway([], {}, work)
  const made = await gateway.call('POST', '/providers', { body: { name: 'alpha', kind: 'openai' } })
  const id = made.body.id as string
  const ids: Record<string, string> = {}
  for (const [name, more] of [
    ['a', { status: 'disabled' }],
    ['b', { aliases: ['bee'] }],
    ['c', { capabilities: ['chat', 'seed'] }],
  ] as const) {
    const model = await gateway.call('POST', '/models', { body: { name, provider_id: id, ...more } })
    ids[name] = model.body.id as string
  }
  return { gateway, id, ids, asked, detected }
}

describe('POST /providers/{id}/test', () => {
  test('all three checks unless some are named, without a body too; the sample by the first active model', async () => {
    const { gateway, id, ids, asked } = await withProvider()
    const { status, body, headers } = await gateway.call('POST', `/providers/${id}/test`)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      success: true,
      kind: 'test',
      provider_id: id,
      revision: headers.get('x-gateway-revision'),
    })
    expect((body.results as { check: string }[]).map(({ check }) => check)).toEqual([
      'connectivity',
      'models',
      'sample',
    ])
    expect((body.results as unknown[])[2]).toEqual({
      ...{ check: 'sample', status: 'passed', latency_ms: 5, detail: 'shown', model: 'm', cost_usd: 0.0000015 },
    })
    await gateway.call('POST', `/providers/${id}/test`, {
      body: { checks: ['sample', 'connectivity', 'sample'], model: 'BEE' },
    })
    expect(asked.map(({ checks, entry: one }) => [checks.length, one?.modelId])).toEqual([
      [3, ids.b!],
      [2, ids.b!],
    ])
    expect(asked[1]!.checks).toEqual(['connectivity', 'sample'])
  })

  test('a disabled model is asked when it is named; one of another provider is 404 and named', async () => {
    const { gateway, id, ids, asked } = await withProvider()
    await gateway.call('POST', `/providers/${id}/test`, { body: { model: 'a', prompt: 'Say hello' } })
    expect(asked[0]).toMatchObject({ entry: { modelId: ids.a! }, prompt: 'Say hello' })
    const { status, body } = await gateway.call('POST', `/providers/${id}/test`, { body: { model: 'nobody' } })
    expect([status, body.error]).toMatchObject([404, { param: 'model' }])
    expect(asked).toHaveLength(1)
  })

  test('an unknown check is 400 and named, and nothing is asked', async () => {
    const { gateway, id, asked } = await withProvider()
    const { status, body } = await gateway.call('POST', `/providers/${id}/test`, {
      body: { checks: ['sample', 'smell'] },
    })
    expect([status, body.error]).toMatchObject([400, { param: 'checks', message: expect.stringContaining('"smell"') }])
    expect(asked).toEqual([])
  })

  test('a failed check is an answer, not an error, and no success', async () => {
    const failing = { check: 'models', status: 'failed' as const, latency_ms: 1, detail: 'no', error_code: 'timeout' }
    const { gateway, id } = await withProvider(() => [passed('connectivity'), { shown: failing, recorded: failing }])
    const { status, body } = await gateway.call('POST', `/providers/${id}/test`)
    expect([status, body.success]).toEqual([200, false])
    const { body: shown } = await gateway.call('GET', `/providers/${id}`)
    expect(shown.last_test).toMatchObject({ success: false, results: [{ status: 'passed' }, { status: 'failed' }] })
  })

  test('what is thrown is an error, and nothing is recorded', async () => {
    const { gateway, id } = await withProvider(() => {
      throw new GatewayError('rate_limited', 'too many', { retryAfterS: 5 })
    })
    const { status, headers } = await gateway.call('POST', `/providers/${id}/test`)
    expect([status, headers.get('retry-after')]).toEqual([429, '5'])
    expect(gateway.state.table('tests').size).toBe(0)
  })

  test('a repeat with the same Idempotency-Key calls no provider and answers with the first result', async () => {
    const { gateway, id, asked } = await withProvider()
    const options = { body: { checks: ['sample'] }, headers: { 'idempotency-key': 'once' } }
    const first = await gateway.call('POST', `/providers/${id}/test`, options)
    const second = await gateway.call('POST', `/providers/${id}/test`, options)
    expect([second.status, second.body.id]).toEqual([200, first.body.id])
    expect(asked).toHaveLength(1)
    const other = { ...options, body: { checks: ['models'] } }
    expect((await gateway.call('POST', `/providers/${id}/test`, other)).status).toBe(409)
  })

  test('a stale If-Match is 409 before any provider is called', async () => {
    const { gateway, id, asked } = await withProvider()
    const headers = { 'if-match': 'stale' }
    expect((await gateway.call('POST', `/providers/${id}/test`, { headers })).status).toBe(409)
    expect(asked).toEqual([])
  })
})

describe('GET /providers/{id}/tests', () => {
  test('the newest first, paged; what was recorded and not what was shown', async () => {
    const { gateway, id } = await withProvider()
    const made: unknown[] = []
    for (let i = 0; i < 3; i++) made.push((await gateway.call('POST', `/providers/${id}/test`)).body.id)
    const { body } = await gateway.call('GET', `/providers/${id}/tests`)
    expect(body).toMatchObject({ total: 3, limit: 50, offset: 0 })
    expect((body.tests as { id: string }[]).map((row) => row.id as unknown)).toEqual(made.toReversed())
    expect(JSON.stringify(body)).not.toContain('shown')
    const page = await gateway.call('GET', `/providers/${id}/tests?limit=1&offset=1`)
    expect(page.body).toMatchObject({ tests: [{ id: made[1] }], total: 3 })
  })

  test('synchronisations and detections by their kind; an unknown kind is 400 and named', async () => {
    const { gateway, id } = await withProvider()
    await gateway.call('POST', `/providers/${id}/sync-models`)
    await gateway.call('POST', `/providers/${id}/detect-capabilities`)
    const kinds = async (query: string) =>
      ((await gateway.call('GET', `/providers/${id}/tests${query}`)).body.tests as { kind: string }[]).map(
        ({ kind }) => kind,
      )
    expect(await kinds('')).toEqual([])
    expect(await kinds('?kind=sync')).toEqual(['sync'])
    expect(await kinds('?kind=all')).toEqual(['detection', 'sync'])
    const { status, body } = await gateway.call('GET', `/providers/${id}/tests?kind=smell`)
    expect([status, body.error]).toMatchObject([400, { param: 'kind' }])
  })
})

describe('POST /providers/{id}/sync-models', () => {
  const listing = [{ name: 'x', contextWindow: null, maxOutputTokens: null, capabilities: null }]

  test('its counts are recorded, and what a repeat answers', async () => {
    const { gateway, id } = await withProvider()
    gateway.listed = listing
    const headers = { 'idempotency-key': 'once' }
    const first = await gateway.call('POST', `/providers/${id}/sync-models`, { headers })
    const revision = first.headers.get('x-gateway-revision')
    const counts = { created: 1, skipped: 0, total: 1, capability_source: 'kind', capabilities_filled: 1 }
    expect(first.body).toEqual({ ...counts, revisions: [revision] })
    const created = gateway.state.table('models').rows()
    expect([...created].find(([, { name }]) => name === 'x')![1].revision).toBe(revision!)
    const second = await gateway.call('POST', `/providers/${id}/sync-models`, { headers })
    expect([second.status, second.body, second.headers.get('x-gateway-revision')]).toEqual([200, first.body, revision])
    const { body } = await gateway.call('GET', `/providers/${id}/tests?kind=sync`)
    expect(body.tests).toMatchObject([{ success: true, results: [{ check: 'sync', sync: first.body }] }])
  })

  test('one model that is listed with numbers that no row may hold keeps no other out, nor itself', async () => {
    const { gateway, id } = await withProvider()
    gateway.listed = [{ ...listing[0]!, name: 'odd', contextWindow: 10_000_000_000, maxOutputTokens: 0 }, ...listing]
    const { status, body } = await gateway.call('POST', `/providers/${id}/sync-models`)
    expect([status, body]).toMatchObject([200, { created: 2, skipped: 0, total: 2 }])
    const [odd] = gateway.state.table('models').findRows('name', 'odd')
    expect(odd).toMatchObject({ context_window: null, max_output_tokens: null })
  })

  test('a failure is recorded, and a repeat tries again', async () => {
    const { gateway, id } = await withProvider()
    gateway.listed = new GatewayError('authentication_error', 'the key was refused')
    const headers = { 'idempotency-key': 'once' }
    expect((await gateway.call('POST', `/providers/${id}/sync-models`, { headers })).status).toBe(401)
    gateway.listed = listing
    expect((await gateway.call('POST', `/providers/${id}/sync-models`, { headers })).body).toMatchObject({ created: 1 })
    const { body } = await gateway.call('GET', `/providers/${id}/tests?kind=sync`)
    expect(body.tests).toMatchObject([
      { success: true },
      { success: false, results: [{ detail: 'the key was refused' }] },
    ])
  })

  test('a credential that is sent again with its Idempotency-Key answers with the first synchronisation', async () => {
    const { gateway, id } = await withProvider()
    gateway.listed = listing
    const options = {
      body: { secret: 'sk-secret-of-a-test', sync_models: true },
      headers: { 'idempotency-key': 'once' },
    }
    const first = await gateway.call('PUT', `/providers/${id}/credential`, options)
    const second = await gateway.call('PUT', `/providers/${id}/credential`, options)
    expect(second.body.sync).toEqual(first.body.sync)
    expect(first.body.sync).toMatchObject({ created: 1 })
  })
})

describe('POST /providers/{id}/detect-capabilities', () => {
  test('counts models and verdicts, and writes what is proven where no operator set the list', async () => {
    const { gateway, id, ids } = await withProvider()
    const { status, body } = await gateway.call('POST', `/providers/${id}/detect-capabilities`)
    expect(status).toBe(200)
    expect(body).toMatchObject({ attempted: 2, proven: 4, indeterminate: 2, skipped: 2, disproved: 2, models_left: 0 })
    expect(body.models).toMatchObject([
      {
        ...{ model: 'b', capabilities: ['chat', 'streaming', 'tools'], capability_source: 'detected' },
        verdicts: expect.arrayContaining([
          { capability: 'seed', verdict: 'disproved', detail: 'it refused the field', latency_ms: 3 },
        ]),
      },
      { model: 'c', capabilities: ['chat', 'seed'], capability_source: 'operator' },
    ])
    expect(gateway.state.table('models').get(ids.a!)!.capability_source).toBe('kind')
    expect(gateway.events.at(-1)!.type).toBe('model.changed')
  })

  test('those that are named, by name, id or alias, disabled ones too; an unknown one is 404 and named', async () => {
    const { gateway, id, ids, detected } = await withProvider()
    await gateway.call('POST', `/providers/${id}/detect-capabilities`, { body: { models: ['A', 'bee'] } })
    expect(detected[0]!.map(({ modelId }) => modelId)).toEqual([ids.a!, ids.b!])
    const { status, body } = await gateway.call('POST', `/providers/${id}/detect-capabilities`, {
      body: { models: ['z'] },
    })
    expect([status, body.error]).toMatchObject([404, { param: 'models' }])
  })

  test('a repeat calls no provider and has the same counts and verdicts', async () => {
    const { gateway, id, detected } = await withProvider()
    const headers = { 'idempotency-key': 'once' }
    const first = await gateway.call('POST', `/providers/${id}/detect-capabilities`, { headers })
    const second = await gateway.call('POST', `/providers/${id}/detect-capabilities`, { headers })
    expect(second.body).toEqual(first.body)
    expect((second.body.models as { verdicts: unknown[] }[])[0]!.verdicts).toHaveLength(5)
    expect(detected).toHaveLength(1)
  })

  test.each([
    ['long names, half of it proven', 'proven', 'é'],
    ['long names, nothing proven', 'indeterminate', '\u0001'],
  ] as const)('as many models as one detection takes fit into one decision: %s', async (_, best, character) => {
    let gateway: Gateway
    const entriesOf = (providerId: string) =>
      [...gateway.state.table('models').rows()].map(([, { id: modelId, name }]) => entry({ providerId, modelId, name }))
    const verdicts = CAPABILITIES.map((capability, i) => {
      const verdict = i % 2 === 0 ? best : ('indeterminate' as const)
      return { capability, verdict, detail: `\u0001${character}`.repeat(400), latencyMs: 20_000 }
    })
    const detect = async (entries: readonly CatalogueEntry[]) =>
      entries.map((one) => ({ entry: one, attempted: true, verdicts, latencyMs: 20_000, costNanoUsd: 2_000_000 }))
    gateway = startGateway([], {}, { entriesOf, detect })
    const { id } = (await gateway.call('POST', '/providers', { body: { name: 'alpha', kind: 'openai' } })).body
    for (let i = 0; i <= MOST_RESULTS; i++)
      await gateway.call('POST', '/models', { body: { name: `${'模'.repeat(250)}-${i}`, provider_id: id } })
    const { status, body } = await gateway.call('POST', `/providers/${id}/detect-capabilities`)
    expect([status, body]).toMatchObject([200, { attempted: MOST_RESULTS, models_left: 1 }])
  })

  test('a provider without an active model is 400 and says what to do', async () => {
    const gateway = startGateway()
    const made = await gateway.call('POST', '/providers', { body: { name: 'empty', kind: 'openai' } })
    const { status, body } = await gateway.call('POST', `/providers/${made.body.id}/detect-capabilities`)
    expect([status, body.error]).toMatchObject([
      400,
      { param: 'models', message: expect.stringContaining('sync-models') },
    ])
  })
})
