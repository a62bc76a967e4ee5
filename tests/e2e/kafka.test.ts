// Two gateways on a real broker and one Postgres, as several machines run it: what one is told the other knows, and every outcome is in the tables once.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kafka, startKafka } from '../../infra/kafka/kafka.ts'
import { settledRows } from '../faults/oracle.ts'
import { initTopics, kafkaSettings } from '../services/cluster.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'
import { sharedPostgres, type TestDatabase } from '../services/postgres.ts'

let folder: string
let kafka: Kafka
let database: TestDatabase
let first: GatewayProcess
let second: GatewayProcess
const since = new Date(Date.now() - 1_000)

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gatelog-cluster-'))
  kafka = await startKafka({ brokers: 1, dataDir: join(folder, 'kafka') })
  database = await sharedPostgres()
  const settings = { ...kafkaSettings(kafka.bootstrap), database: { url: database.url } }
  await initTopics(settings, folder)
  first = startGateway({ settings })
  await first.until('ready', 60_000)
  second = startGateway({ settings })
  await second.until('ready', 60_000)
}, 180_000)

afterAll(async () => {
  await first?.remove()
  await second?.remove()
  await database?.remove()
  await kafka?.stop()
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
}, 60_000)

const ask = (gateway: GatewayProcess, id: string) =>
  gateway.request('/v1/chat/completions', {
    body: { model: 'sandbox-echo', messages: [{ role: 'user', content: 'Hello' }] },
    headers: { 'X-Request-ID': id },
  })

test('a change on one instance acts on the other as soon as its record arrives', async () => {
  const tenant = await first.request('/admin/v1/tenants', { body: { slug: 'acme', name: 'Acme' } })
  expect(tenant.status).toBe(201)
  const { id: tenantId } = (await tenant.json()) as { id: string }
  const made = await first.request('/admin/v1/keys', {
    body: { tenant_id: tenantId, name: 'app', scopes: ['inference'] },
  })
  const { id, plaintext } = (await made.json()) as { id: string; plaintext: string }
  const madeAt = { 'X-Gateway-Min-Revision': made.headers.get('X-Gateway-Revision')! }
  expect((await second.request('/v1/models', { key: plaintext, headers: madeAt })).status).toBe(200)
  const revoked = await first.request(`/admin/v1/keys/${id}`, { method: 'DELETE' })
  const revision = revoked.headers.get('X-Gateway-Revision')!
  expect(revoked.headers.get('X-Gateway-Applied-By')).toBe('2/2')
  const after = await second.request('/v1/models', { key: plaintext, headers: { 'X-Gateway-Min-Revision': revision } })
  expect(after.status).toBe(401)
}, 30_000)

test('outcomes of both instances are in the tables once, also after a kill -9', async () => {
  const ids = Array.from({ length: 60 }, (_, n) => `cluster-${n}`)
  for (const [n, id] of ids.entries()) {
    const answer = await ask(n % 2 === 0 ? first : second, id)
    expect(answer.status).toBe(200)
    await answer.text()
  }
  await first.end('SIGKILL')
  first.start()
  await first.until('ready', 60_000)
  const rows = await settledRows(second, since, ids.length)
  const seen = rows.filter(({ request_id }) => request_id.startsWith('cluster-')).map(({ request_id }) => request_id)
  expect(seen.sort()).toEqual([...ids].sort())
  const audit = (await (await first.request('/admin/v1/audit?resource=api_key')).json()) as {
    events: { action: string }[]
  }
  expect(audit.events.map(({ action }) => action)).toContain('revoke')
}, 120_000)
