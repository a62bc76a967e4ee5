import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import type { EventRecord } from '../../../src/domain/kernel/decision.ts'
import { type MemoryLog, memoryLog } from '../../../src/log/memory.ts'
import { openDataKeys } from '../../../src/state/data-keys/data-keys.ts'
import type { DataKeyStore } from '../../../src/state/data-keys/store.ts'
import { openCatalogue } from '../../../src/state/indexes/catalogue.ts'
import { modelCreated, providerCreated } from '../../domain/world.ts'
import { actor, begin, type Instance, nowMs, openInstance, quiet } from '../support.ts'

const kinds = new Map([
  ['openai', { needsCredential: true, defaultBaseUrl: 'https://api.openai.com/v1' }],
  ['vllm', { needsCredential: false, defaultBaseUrl: null }],
])
let log: MemoryLog
let instance: Instance
let dataKeys: DataKeyStore
let catalogue: ReturnType<typeof openCatalogue>
const env: Record<string, string | undefined> = {}

const does = (...events: EventRecord[]) => instance.queue.commit({ actor, decide: () => events })
const provider = (id: string, more: Record<string, unknown> = {}): EventRecord =>
  providerCreated(id, id, { base_url: null, api_key_env: `${id}_API_KEY`, ...more })
const model = (id: string, name: string, providerId: string, more: Record<string, unknown> = {}): EventRecord =>
  modelCreated(id, providerId, { name, upstream_model: name, capability_source: 'operator', ...more })
const ids = (name: string) => catalogue.resolve(name).map(({ modelId }) => modelId)

beforeEach(async () => {
  log = memoryLog({ nowMs })
  await begin(log)
  instance = await openInstance('a', log.view())
  await instance.live.ready()
  dataKeys = await openDataKeys({
    log: log.view(),
    masterKeys: () => [new Uint8Array(32)],
    instance: 'a',
    dataDir: null,
    nowMs,
    diagnostics: quiet,
  })
  for (const name of Object.keys(env)) delete env[name]
  catalogue = openCatalogue({ live: instance.live, dataKeys, env, kinds, diagnostics: quiet })
})
afterEach(async () => {
  catalogue.close()
  await dataKeys.close()
  await instance.close()
})

describe('the catalogue', () => {
  test('knows the prices of long prompts', async () => {
    const tier = {
      above_prompt_tokens: 5,
      input_cost_per_million: 1,
      output_cost_per_million: 2,
      cached_input_cost_per_million: null,
    }
    await does(provider('oa'), model('mod_1', 'long', 'oa', { price_tiers: [tier] }), model('mod_2', 'flat', 'oa'))
    expect(catalogue.resolve('long')[0]!.priceTiers).toEqual([
      { abovePromptTokens: 5, inputCostPerMillion: 1, outputCostPerMillion: 2, cachedInputCostPerMillion: null },
    ])
    expect(catalogue.resolve('flat')[0]).not.toHaveProperty('priceTiers')
  })

  test('finds by name, then by alias, whatever the case; lower priority first, then the provider', async () => {
    await does(
      provider('b'),
      provider('a'),
      provider('c'),
      model('m1', 'GPT', 'b'),
      model('m2', 'gpt', 'a'),
      model('m3', 'gpt', 'c', { priority: 1 }),
      model('m4', 'other', 'a', { aliases: ['Fast'] }),
    )
    expect(ids('gPt')).toEqual(['m3', 'm2', 'm1'])
    expect(ids('FAST')).toEqual(['m4'])
    expect(ids('nothing')).toEqual([])
    expect([...catalogue.aliases()]).toEqual([['Fast', 'other']])
    expect(catalogue.all().map(({ modelId }) => modelId)).toEqual(['m3', 'm2', 'm4', 'm1'])
  })

  test('follows each change of a model and of its provider', async () => {
    await does(provider('a'), model('m1', 'gpt', 'a', { aliases: ['x'] }))
    await does({ type: 'model.changed', data: { id: 'm1', aliases: ['y'], priority: 7 } })
    expect([ids('x'), ids('y')]).toEqual([[], ['m1']])
    expect(catalogue.resolve('gpt')[0]).toMatchObject({
      priority: 7,
      unroutable: 'no_adapter',
      baseUrl: 'https://api.openai.com/v1',
    })
    await does({ type: 'provider.disabled', data: { id: 'a' } })
    expect(catalogue.resolve('gpt')[0]?.unroutable).toBe('disabled')
    await does({ type: 'provider.deleted', data: { id: 'a' } })
    expect(ids('gpt')).toEqual([])
    expect(catalogue.all()).toEqual([])
  })

  test('the secret: api_key_env when set, else the credential, else none and no adapter', async () => {
    const { keyId, sealed } = await dataKeys.seal('a', 'stored')
    env.b_API_KEY = 'from env'
    env.c_API_KEY = ''
    await does(
      provider('a'),
      provider('b'),
      provider('c'),
      provider('d', { kind: 'vllm', base_url: 'http://d/v1' }),
      provider('e', { kind: 'unheard_of' }),
      {
        type: 'credential.sealed',
        data: { provider_id: 'a', key_id: keyId, sealed, name: null, hint: null, replaces: false },
      },
      ...['a', 'b', 'c', 'd', 'e'].map((id) => model(`m_${id}`, `model-${id}`, id)),
    )
    const of = (id: string) => catalogue.resolve(`model-${id}`).map(({ secret, unroutable }) => [secret, unroutable])[0]
    expect(of('a')).toEqual(['stored', null])
    expect(of('b')).toEqual(['from env', null])
    expect(of('c')).toEqual([null, 'no_adapter'])
    expect(of('d')).toEqual([null, null])
    expect(of('e')).toEqual([null, 'no_adapter'])
    expect(catalogue.usableProviders(new Set())).toBe(3)
    expect(catalogue.usableProviders(new Set(['a', 'c']))).toBe(2)
  })

  test('a secret that no header can carry is none, and the line break at the end of a file is no part of one', async () => {
    env.f_API_KEY = 'sk-of-a-file\n'
    env.g_API_KEY = 'sk-of\ntwo lines'
    env.h_API_KEY = ' \n'
    env.i_API_KEY = 'sk-clé'
    const all = ['f', 'g', 'h', 'i']
    await does(...all.map((id) => provider(id)), ...all.map((id) => model(`m_${id}`, `model-${id}`, id)))
    expect(all.map((id) => catalogue.resolve(`model-${id}`)[0]?.secret)).toEqual(['sk-of-a-file', null, null, null])
    expect(all.filter((id) => catalogue.adapterReady(id))).toEqual(['f'])
  })

  test('a data key that arrives after the decision that names it is used when it comes', async () => {
    const other = await openDataKeys({
      log: log.view({ beforeDeliver: () => held.promise.then(() => 256) }),
      masterKeys: () => [new Uint8Array(32)],
      instance: 'b',
      dataDir: null,
      nowMs,
      diagnostics: quiet,
    })
    const held = Promise.withResolvers<void>()
    const late = openCatalogue({ live: instance.live, dataKeys: other, env, kinds, diagnostics: quiet })
    const { keyId, sealed } = await dataKeys.seal('a', 'stored')
    await does(provider('a'), model('m1', 'gpt', 'a'), {
      type: 'credential.sealed',
      data: { provider_id: 'a', key_id: keyId, sealed, name: null, hint: null, replaces: false },
    })
    expect(late.resolve('gpt')[0]?.unroutable).toBe('no_adapter')
    const arrived = new Promise<void>((resolve) => void other.subscribe(() => resolve()))
    held.resolve()
    await arrived
    expect(late.resolve('gpt')[0]).toMatchObject({ unroutable: null, secret: 'stored' })
    late.close()
    await other.close()
  })

  test('a plan that holds a list keeps it when the registry changes', async () => {
    await does(provider('a'), model('m1', 'gpt', 'a'))
    const held = catalogue.resolve('gpt')
    const { version } = catalogue
    await does({ type: 'model.deleted', data: { id: 'm1' } })
    expect(catalogue.version).toBeGreaterThan(version)
    expect(held).toHaveLength(1)
    expect(ids('gpt')).toEqual([])
  })
})
