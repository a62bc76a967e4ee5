// What an operator switches off while a request is under way is not called any more.
import { afterAll, afterEach, beforeEach, expect, test } from 'bun:test'
import type { PolicyRow } from '../../../src/domain/steering/policy.ts'
import type { OverridesInForce } from '../../../src/state/indexes/steering.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, policyRow, type TestGateway, testGateway } from '../gateway.ts'
import { overridesOf, steeringOf } from './plans.ts'

const NAMES = ['alpha', 'beta', 'gamma']
const upstreams = NAMES.map(() => startUpstream())
let gateway: TestGateway
beforeEach(() => {
  for (const upstream of upstreams) {
    upstream.behave({})
    upstream.received.length = 0
  }
  upstreams[0]!.behave({ status: 500 })
})
afterEach(() => gateway.close())
afterAll(async () => {
  for (const upstream of upstreams) await upstream.stop()
})

/** A request whose first candidate fails. The overrides take effect between its admission and its second attempt. */
const failing = async (fields: Partial<OverridesInForce>, policy: Partial<PolicyRow> = {}) => {
  const steering = steeringOf()
  gateway = testGateway({
    entries: NAMES.map((provider, i) => entry({ provider, priority: i, baseUrl: upstreams[i]!.baseUrl })),
    policies: [policyRow({ strategy: 'priority', retry: { attempts: 0 }, ...policy })],
    steering,
  })
  gateway.spool.before = (type) => {
    if (type === 'request.admitted') steering.inForce = overridesOf(fields)
  }
  const response = await gateway.chat({ model: 'small', messages: [{ role: 'user', content: 'hi' }] })
  return {
    status: response.status,
    called: upstreams.map(({ received }) => received.length),
    attempts: gateway.spool.settled()[0]!.attempts.map(({ n, provider, outcome }) => `${n} ${provider} ${outcome}`),
    recorded: gateway.spool.attempted().map(({ n, provider }) => `${n} ${provider}`),
  }
}
const killed = (...providers: string[]) => ({
  killedProviderIds: new Set(providers.map((provider) => `prov_${provider}`)),
})

test('a provider that is killed meanwhile is passed over, and the record says so', async () => {
  expect(await failing(killed('beta'))).toEqual({
    status: 200,
    called: [1, 0, 1],
    attempts: ['1 alpha error', '2 beta skipped', '3 gamma success'],
    recorded: ['3 gamma'],
  })
})

test('who is killed meanwhile is listed when its turn would have come, and not before', async () => {
  expect(await failing(killed('gamma'))).toMatchObject({ attempts: ['1 alpha error', '2 beta success'] })
  upstreams[1]!.behave({ status: 500 })
  const { attempts } = await failing(killed('gamma'))
  upstreams[1]!.behave({})
  expect(attempts).toEqual(['1 alpha error', '2 beta error', '3 gamma skipped'])
})

test('with everybody else killed the failure stands', async () => {
  expect(await failing(killed('beta', 'gamma'))).toMatchObject({ status: 502, called: [1, 0, 0], recorded: [] })
})

test('who would be asked again and is killed is not', async () => {
  const retry = { attempts: 3, backoff_initial_ms: 1, backoff_max_ms: 1 }
  expect(await failing(killed('alpha'), { retry })).toMatchObject({ status: 200, called: [1, 1, 0] })
  expect(await failing(killed('alpha'), { retry, fallback: { on: ['timeout'] } })).toMatchObject({ status: 502 })
})

test('a block and a cap act at once too, and so does fallback that is switched off', async () => {
  expect(await failing({ blockedModels: new Set(['small']) })).toMatchObject({ status: 502, called: [1, 0, 0] })
  upstreams[0]!.received.length = 0
  expect(await failing({ maxCostUsdOf: new Map([['provider:prov_beta', 0]]) })).toMatchObject({ called: [1, 0, 1] })
  for (const { received } of upstreams) received.length = 0
  const hardCaps = { budgetIds: ['bud_1'], all: null, of: new Map([['provider:prov_beta', 0]]) }
  expect(await failing({ hardCaps })).toMatchObject({ called: [1, 0, 1] })
  for (const { received } of upstreams) received.length = 0
  expect(await failing({ disabled: new Set(['fallback']) })).toMatchObject({ status: 502, called: [1, 0, 0] })
})
