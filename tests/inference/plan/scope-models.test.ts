// Aliases of endpoint scopes among the models: what a client may send as a model is what it is told of.
import { afterEach, expect, test } from 'bun:test'
import type { EndpointScope } from '../../../src/state/indexes/steering.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, type TestGateway, testGateway } from '../gateway.ts'
import { overridesOf, scopeOf, steeringOf } from './plans.ts'

const upstream = startUpstream()
let gateway: TestGateway | null = null
afterEach(async () => {
  gateway?.close()
})

const start = (scopes: readonly Partial<EndpointScope>[], aliases: Record<string, string>) => {
  const { baseUrl } = upstream
  const steering = steeringOf(scopes.map(scopeOf), aliases)
  gateway = testGateway({
    entries: [
      entry({ baseUrl, priority: 1 }),
      entry({ baseUrl, provider: 'beta', priority: 2, inputCostPerMillion: 7 }),
      entry({ baseUrl, name: 'large', contextWindow: 9, inputCostPerMillion: 3 }),
      entry({ name: 'off', unroutable: 'disabled' }),
    ],
    aliases: { quick: 'small' },
    steering,
  })
  return steering
}
interface Model {
  id: string
  gateway_provider: string
  gateway_context_window: number
  gateway_input_cost_per_million: number
}
const list = async () => ((await (await gateway!.send('/v1/models')).json()) as { data: Model[] }).data
const ids = async () => (await list()).map(({ id }) => id)

test('each alias is listed after the names, with the numbers of the model that it leads to', async () => {
  start(
    [
      { slug: 'desk', forcedModel: 'large' },
      { slug: 'pref', preferredModels: ['off', 'large'] },
    ],
    {
      desk: 'desk',
      able: 'pref',
    },
  )
  expect(await ids()).toEqual(['large', 'small', 'able', 'desk', 'quick'])
  for (const alias of ['desk', 'able'])
    expect((await list()).find(({ id }) => id === alias)).toMatchObject({
      gateway_context_window: 9,
      gateway_input_cost_per_million: 3,
    })
})

test('what is listed can be called, and answers as the provider that is listed', async () => {
  start([{ slug: 'desk', preferredModels: ['small'], preferredProviders: ['beta'] }], { desk: 'desk' })
  const desk = (await list()).find(({ id }) => id === 'desk')
  expect(desk).toMatchObject({ gateway_provider: 'beta', gateway_input_cost_per_million: 7 })
  const answer = await gateway!.chat({ model: 'desk', messages: [{ role: 'user', content: 'hi' }] })
  expect([answer.status, answer.headers.get('x-gateway-provider')]).toEqual([200, 'beta'])
})

// docs/behaviour.md: "Capabilities"
test('what cannot be called is not listed: disabled or blocked scopes, and those that lead nowhere or to nobody', async () => {
  const scopes = [
    { slug: 'closed', enabled: false, forcedModel: 'large' },
    { slug: 'nowhere' },
    { slug: 'gone', forcedModel: 'deleted' },
    { slug: 'resting', forcedModel: 'off' },
    { slug: 'blocked', forcedModel: 'large' },
    { slug: 'open', forcedModel: 'large' },
  ]
  const steering = start(scopes, Object.fromEntries(scopes.map(({ slug }) => [`${slug}-model`, slug])))
  steering.inForce = overridesOf({ blockedEndpoints: new Set(['blocked']) })
  expect(await ids()).toEqual(['large', 'small', 'open-model', 'quick'])
  steering.inForce = overridesOf({ blockedModels: new Set(['open-model']) })
  expect(await ids()).not.toContain('open-model')
  steering.inForce = overridesOf({ killedProviderIds: new Set(['prov_alpha']) })
  expect(await ids()).not.toContain('open-model')
})

test('one is shown by its alias, whatever its case, also when it cannot be routed now', async () => {
  start([{ slug: 'desk', forcedModel: 'off' }, { slug: 'nowhere' }], { desk: 'desk', lost: 'nowhere' })
  const shown = await gateway!.send('/v1/models/DESK')
  expect([shown.status, await shown.json()]).toMatchObject([200, { id: 'desk', object: 'model' }])
  const lost = await gateway!.send('/v1/models/lost')
  expect([lost.status, await lost.json()]).toMatchObject([404, { error: { code: 'not_found', param: 'model' } }])
})
