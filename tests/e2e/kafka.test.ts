// Two gateways on a real broker and one Postgres, as on several machines: a write to one reaches the other, and every
// outcome is in the tables once.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kafka, startKafka } from '../../infra/kafka/kafka.ts'
import { CONTROL } from '../../src/state/fold.ts'
import { settledRows } from '../faults/oracle.ts'
import { initTopics, kafkaSettings } from '../services/cluster.ts'
import { besideGateway, runCommand } from '../services/command.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'
import { testTopics } from '../services/kafka.ts'
import { sharedPostgres, type TestDatabase } from '../services/postgres.ts'
import { verified } from '../services/verified.ts'

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
}, 60_000)

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

interface LogPage {
  readonly decisions: readonly { offset: number; id: string; verdict: string; parent: string | null }[]
  readonly total: number
  readonly next_before: number | null
}

/** The whole control log, page by page, newest first. */
const logOf = async (gateway: GatewayProcess) => {
  const records: LogPage['decisions'][number][] = []
  for (let before = ''; ; ) {
    const answer = await gateway.request(`/admin/v1/log?limit=7${before}`)
    expect(answer.status).toBe(200)
    const { decisions, total, next_before } = (await answer.json()) as LogPage
    records.push(...decisions)
    if (next_before === null) return { records, total }
    before = `&before=${next_before}`
  }
}

test('every instance shows the whole log, and gateway verify finds the same', async () => {
  const made = await second.request('/admin/v1/tenants', { body: { slug: 'verified', name: 'Verified' } })
  const revision = made.headers.get('X-Gateway-Revision')!
  const [one, other] = [await logOf(first), await logOf(second)]
  expect(one).toEqual(other)
  expect(one.records.map(({ offset }) => offset)).toEqual(one.records.map((_, at) => one.total - 1 - at))
  expect(one.records[0]).toMatchObject({ id: revision, verdict: 'counted' })
  const counted = one.records.filter(({ verdict }) => verdict === 'counted')
  expect(counted.map(({ parent }) => parent).slice(0, -1)).toEqual(counted.slice(1).map(({ id }) => id))
  const single = await first.request(`/admin/v1/log/${revision}`)
  expect(await single.json()).toMatchObject({ id: revision, verdict: 'counted' })

  const report = await verified(first.folder)
  expect([report.code, report.lines]).toEqual([0, []])
  expect(report.value('tip')).toBe(revision)
  expect([report.value('records'), report.value('counted')]).toEqual([`${one.total}`, `${counted.length}`])
}, 120_000)

test('a control topic that was deleted is found missing, and comes back from what an instance keeps', async () => {
  const { total } = await logOf(first)
  const before = await verified(first.folder)
  await first.end()
  await second.end()
  const topics = testTopics(kafka.bootstrap)
  await topics.remove(CONTROL)
  topics.close()
  expect((await verified(first.folder)).code).toBe(1)
  const restored = await runCommand(['log', 'restore'], besideGateway(first.folder))
  expect([restored.code, restored.printed]).toEqual([0, expect.stringContaining(`lost ${total} records`)])
  expect((await verified(first.folder)).lines.filter((line) => !line.endsWith(': log_at_ms'))).toEqual([])
  expect(restored.printed).toContain('`gateway rebuild audit`')
  const rebuilt = await runCommand(['rebuild', 'audit'], besideGateway(first.folder))
  expect([rebuilt.code, rebuilt.code === 0 ? '' : rebuilt.printed]).toEqual([0, ''])
  const after = await verified(first.folder)
  expect([after.code, after.lines]).toEqual([0, []])
  for (const label of ['records', 'tip', 'counted']) expect(after.value(label)).toBe(before.value(label)!)
  for (const gateway of [first, second]) {
    gateway.start()
    await gateway.until('ready', 60_000)
  }
  expect((await logOf(second)).total).toBeGreaterThanOrEqual(total)
}, 240_000)
