// A provider is killed and revived over HTTP on a real gateway: requests, the lists, the metrics, and a restart from
// the log.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { eventually } from '../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'

let gateway: GatewayProcess
beforeAll(async () => {
  gateway = startGateway()
  await gateway.until('serving')
}, 60_000)
afterAll(() => gateway.remove(), 40_000)

interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
}
const ask = async (path: string, body?: unknown, method?: string, headers = {}): Promise<Answer> => {
  const answer = await gateway.request(path, { body, method, headers })
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
}
const chat = (model = 'sandbox-echo', headers = {}) =>
  ask('/v1/chat/completions', { model, messages: [{ role: 'user', content: 'Hello' }] }, 'POST', headers)
const listed = async () => ((await ask('/v1/models')).body.data as { id: string }[]).map(({ id }) => id)
const sandbox = async () => {
  const { providers } = (await ask('/admin/v1/providers')).body as { providers: { id: string; killed: boolean }[] }
  return providers[0]!
}

test('a killed provider serves no request from the answer of the kill on, also after a restart; a revived one serves again', async () => {
  const { id } = await sandbox()
  expect((await chat()).status).toBe(200)
  const killed = await ask(`/admin/v1/providers/${id}/kill`, { kill: true, reason: 'it lies' })
  expect([killed.status, killed.body]).toMatchObject([200, { killed: true }])
  expect(await chat()).toMatchObject({ status: 502, body: { error: { code: 'provider_unavailable' } } })
  expect(await listed()).not.toContain('sandbox-echo')
  expect((await ask('/v1/models/sandbox-echo')).status).toBe(200)
  expect((await sandbox()).killed).toBe(true)
  const ready = await gateway.request('/ready')
  expect([ready.status, await ready.json()]).toMatchObject([
    503,
    { checks: { providers: 'degraded: 0 configured, no provider can be called, 1 killed' } },
  ])
  const metrics = await (await gateway.request('/metrics')).text()
  expect(metrics).toContain('gateway_overrides_in_force{kind="kill"} 1')
  await gateway.end('SIGKILL')
  gateway.start()
  await eventually(
    'models are served',
    async () => (await gateway.request('/v1/models').catch(() => null))?.ok === true,
  )
  expect((await chat()).status).toBe(502)
  const revived = await ask('/admin/v1/overrides', { kind: 'kill', target: id, enabled: false })
  expect([revived.status, revived.body]).toMatchObject([201, { target: `provider:${id}`, in_force: false }])
  expect((await chat()).status).toBe(200)
  expect(await listed()).toContain('sandbox-echo')
}, 60_000)

test('a kill that expires ends by itself', async () => {
  const { id } = await sandbox()
  const expires_at = new Date(Date.now() + 4_000).toISOString()
  await ask('/admin/v1/overrides', { kind: 'kill', target: id, expires_at })
  expect((await chat()).status).toBe(502)
  await eventually('requests are let through again', async () => (await chat()).status === 200)
  expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(expires_at))
})

test('a blocked model is listed no more and refused; a repointed scope acts with the next request', async () => {
  const { id } = await sandbox()
  await ask('/admin/v1/models', { name: 'sandbox-second', provider_id: id, upstream_model: 'sandbox-echo' })
  const scope = (forced_model: string) =>
    ask('/admin/v1/endpoints', { slug: 'support', aliases: ['desk'], forced_model }, 'PUT')
  const routed = async (model: string, headers = {}) =>
    ((await chat(model, headers)).body.gateway as { routed_model: string }).routed_model
  expect((await scope('sandbox-second')).status).toBe(200)
  expect(await routed('desk')).toBe('sandbox-second')
  expect(await routed('sandbox-echo', { 'X-Gateway-Endpoint': 'SUPPORT' })).toBe('sandbox-second')
  await scope('sandbox-echo')
  expect(await routed('desk')).toBe('sandbox-echo')
  await ask('/admin/v1/overrides', { kind: 'block', target: 'model:Sandbox-Second' })
  expect(await listed()).not.toContain('sandbox-second')
  expect(await chat('sandbox-second')).toMatchObject({ status: 403, body: { error: { code: 'permission_error' } } })
  expect((await chat('sandbox-echo', { 'X-Gateway-Endpoint': 'none' })).status).toBe(404)
})
