// `/system`: it answers whichever dependency is away, names it, and shows no secret.
import { expect, test } from 'bun:test'
import { loadConfig, redacted } from '../../../../src/config/schema.ts'
import { closed } from '../../../../src/domain/kernel/fields.ts'
import { providerHealth } from '../../../../src/http/admin/answers/health-view.ts'
import { type SystemRouteDeps, systemRoutes } from '../../../../src/http/admin/reads/system.ts'
import type { CheckResult } from '../../../../src/http/operations.ts'
import { Value } from '../../../../src/lib/schema/schema.ts'
import { openHealth } from '../../../../src/state/health/book.ts'
import { providerCreated } from '../../../domain/world.ts'
import { startGateway } from '../world/gateway.ts'
import { QUIET_STATUS, quietSystem } from '../world/quiet-system.ts'

const shown = async (more: Partial<SystemRouteDeps> = {}) => {
  const live = { control: null as never, status: () => QUIET_STATUS as never }
  const catalogue = { all: () => [], resolve: () => [] }
  const nowMs = () => Date.UTC(2026, 10, 20)
  const book = openHealth({ catalogue, nowMs, monotonicMs: () => 0, emit: () => {} })
  const routes = systemRoutes({
    ...quietSystem,
    live: live as never,
    healthOf: (id) => providerHealth(book, id, []),
    adapterReady: () => false,
    nowMs,
    ...more,
  })
  const gateway = startGateway(routes)
  Object.assign(live, { control: gateway.state })
  gateway.apply([providerCreated('prov_1', 'Vendor')])
  const { status, body } = await gateway.call('GET', '/system', { key: gateway.keyWith(['usage:read']) })
  expect([status, body.error ?? null]).toEqual([200, null])
  const flaws = [...Value.Errors(closed(routes[0]!.answer!), body)]
  expect(flaws.map(({ path, message }) => `${path} ${message}`)).toEqual([])
  return body
}

test('what runs, what it depends on, the providers', async () => {
  expect(await shown()).toMatchObject({
    build: { name: 'gatelog', version: '0.0.0' },
    instance: 'ins_1',
    started_at: '2026-11-20T00:00:00.000Z',
    runtime: { name: 'bun', version: Bun.version },
    status: 'ok',
    checks: { control: 'ok', database: 'ok' },
    dependencies: {
      log: { kind: 'embedded', status: 'ok', detail: null },
      database: { kind: 'postgres', status: 'ok', detail: null },
      redis: { kind: 'none', status: null },
      worker: {
        status: 'ok',
        read_models: [{ name: 'requests', lag_ms: 12, behind_records: 3, reported_ms_ago: 250 }],
      },
    },
    control: { phase: 'live', offset: 7 },
    instances: { live: 2 },
    providers: [{ provider: 'Vendor', status: 'unknown', adapter_ready: false }],
    config: { 'server.port': 8080 },
  })
})

test('with Postgres away and the log degraded it says so, and goes on', async () => {
  const checks = new Map<string, CheckResult>([
    ['log', { text: 'degraded: the brokers do not answer', ready: true }],
    ['database', { text: 'degraded: Postgres does not answer', ready: false }],
    ['worker', { text: 'degraded: it cannot be asked', ready: true }],
  ])
  const body = await shown({
    checkReadiness: async () => ({ status: 'unavailable', checks }),
    projections: () => Promise.reject(new Error('postgres://user:password@host')),
  })
  expect(body).toMatchObject({
    status: 'unavailable',
    dependencies: {
      log: { status: 'degraded', detail: 'the brokers do not answer' },
      database: { status: 'unavailable', detail: 'Postgres does not answer' },
      worker: { status: 'degraded', detail: 'it cannot be asked', read_models: null },
    },
  })
  expect(JSON.stringify(body)).not.toContain('password@')
})

test('the settings in force, by path, without their secrets', async () => {
  const canary = 'canary-4711'
  const masterKey = Buffer.alloc(32, canary).toString('base64')
  const env = {
    GATEWAY_DATABASE_URL: `postgres://user:${canary}@db.example/gatelog`,
    GATEWAY_REDIS_URL: `redis://:${canary}@cache.example:6379`,
    GATEWAY_SECURITY_MASTER_KEY: masterKey,
  }
  const file = { name: 'gateway.yaml', text: JSON.stringify({ bootstrap: { keys: [{ name: 'k', secret: canary }] } }) }
  const body = await shown({ settings: redacted(loadConfig({ file, env }).config) })
  expect(body.config).toMatchObject({ 'security.master_key': '[redacted]', 'admin.enabled': true, bootstrap: ['keys'] })
  expect((body.config as Record<string, string>)['database.url']).toContain('db.example')
  const text = JSON.stringify(body)
  for (const secret of [canary, masterKey]) expect(text).not.toContain(secret)
})
