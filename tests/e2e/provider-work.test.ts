// Provider work on a real gateway process: over its own log, through a kill, a switch, a crash, and a client that
// leaves.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { eventually } from '../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'
import { gatewayInFrontOf, startVendors } from '../services/vendors/vendors.ts'

const vendors = startVendors().filter(({ name }) => ['openai', 'anthropic', 'azure_openai'].includes(name))
let gateway: GatewayProcess

beforeAll(async () => {
  const { providers, env } = gatewayInFrontOf(vendors)
  const sandbox = { name: 'sandbox', kind: 'sandbox', models: [{ name: 'sandbox-hang' }] }
  const settings = { worker: { enabled: false }, health: { probe_interval: 'off' } }
  gateway = startGateway({ settings: { ...settings, bootstrap: { providers: [...providers, sandbox] } }, env })
  await gateway.until('serving', 120_000)
}, 150_000)
afterAll(async () => {
  await gateway?.remove()
  await Promise.all(vendors.map(({ stop }) => stop()))
}, 60_000)

type Body = Record<string, unknown>
const call = async (path: string, body?: unknown, method?: string): Promise<{ status: number; body: Body }> => {
  const answer = await gateway.request(`/admin/v1${path}`, { body, method })
  return { status: answer.status, body: (await answer.json()) as Body }
}
/** Keys are seeded before providers. */
const idOf = async (name: string): Promise<string> => {
  const row = await eventually(`the provider ${name}`, async () => {
    const { body } = await call('/providers')
    return (body.providers as { id: string; name: string }[]).find((one) => one.name === name) ?? null
  })
  return row.id
}

test('a provider that is killed and disabled is still tested, and its history outlives a crash', async () => {
  const id = await idOf('openai')
  await call(`/providers/${id}/kill`, { kill: true })
  await call(`/providers/${id}`, { status: 'disabled' }, 'PATCH')
  const { status, body } = await call(`/providers/${id}/test`, {})
  expect([status, body.success]).toEqual([200, true])
  await gateway.end('SIGKILL')
  gateway.start()
  await gateway.until('serving', 120_000)
  const { body: history } = await call(`/providers/${id}/tests`)
  expect(history.tests).toMatchObject([{ id: body.id, success: true }])
  expect((await call(`/providers/${id}`)).body.last_test).toMatchObject({ id: body.id })
}, 150_000)

test('what a detection finds is what routing goes by; a kind that cannot list is 501', async () => {
  const id = await idOf('anthropic')
  const { status, body } = await call(`/providers/${id}/detect-capabilities`, {})
  expect([status, body.attempted]).toEqual([200, 1])
  expect(body.models).toMatchObject([{ capability_source: 'detected', disproved: ['json_mode', 'seed'] }])
  const ask = { model: 'anthropic', messages: [{ role: 'user', content: 'Hello' }], seed: 1 }
  const refused = await gateway.request('/v1/chat/completions', { body: ask })
  expect([refused.status, ((await refused.json()) as Body).error]).toMatchObject([400, { param: 'seed' }])
  expect((await call(`/providers/${await idOf('azure_openai')}/sync-models`, {})).status).toBe(501)
}, 150_000)

test('under a hard budget a model without a price fails the sample alone, on record, and has nothing asked of it', async () => {
  const id = await idOf('openai')
  const prices = { input_cost_per_million: null, output_cost_per_million: null }
  const { body: model } = await call('/models', { name: 'unpriced', provider_id: id, ...prices })
  const { body: budget } = await call('/budgets', { window: 'day', limit_usd: 1 }, 'PUT')
  const { status, body } = await call(`/providers/${id}/test`, { model: 'unpriced' })
  const failed = { status: 'failed', error_code: 'quota_exceeded', detail: expect.stringContaining('has no price') }
  const results = [{ status: 'passed' }, { status: 'passed' }, failed]
  expect([status, body]).toMatchObject([200, { success: false, results }])
  expect((await call(`/providers/${id}/tests?limit=1`)).body.tests).toMatchObject([{ id: body.id, results }])
  const detected = await call(`/providers/${id}/detect-capabilities`, { models: ['unpriced'] })
  expect([detected.status, detected.body]).toMatchObject([
    200,
    { attempted: 0, proven: 0, indeterminate: 0, skipped: 8 },
  ])
  await call(`/budgets/${budget.id}`, undefined, 'DELETE')
  await call(`/models/${model.id}`, undefined, 'DELETE')
}, 150_000)

test('a client that leaves gives its place back; a stop does not wait for what hangs', async () => {
  const id = await idOf('sandbox')
  const leaving = Array.from({ length: 4 }, () => new AbortController())
  const connectivity = () => call(`/providers/${id}/test`, { checks: ['connectivity'] })
  const body = { checks: ['sample'] }
  const gone = leaving.map(({ signal }) =>
    gateway.request(`/admin/v1/providers/${id}/test`, { body, signal }).then(
      () => 'answered',
      () => 'gone',
    ),
  )
  await eventually('no more is taken', async () => (await connectivity()).status === 429)
  for (const client of leaving) client.abort()
  expect(await Promise.all(gone)).toEqual(['gone', 'gone', 'gone', 'gone'])
  await eventually('there is room again', async () => (await connectivity()).status !== 429)
  const hanging = leaving.map(() => call(`/providers/${id}/test`, body).then(({ status }) => status))
  await eventually('no more is taken', async () => (await connectivity()).status === 429)
  await gateway.end()
  expect(await Promise.all(hanging)).toEqual([503, 503, 503, 503])
}, 150_000)
