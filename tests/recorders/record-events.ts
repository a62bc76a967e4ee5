// Records one line of each event type that has none yet in `tests/fixtures/events/`, as a real gateway writes it, under
// a master key for tests only.
// Run `bun tests/recorders/record-events.ts` after adding a type. Existing files are never touched.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BudgetEvent } from '../../src/domain/budgets/budget-events.ts'
import { type Actor, decisionMacKey, writeDecision } from '../../src/domain/kernel/decision.ts'
import { embeddedLog } from '../../src/log/embedded/log.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { BudgetWriter } from '../../src/state/budgets/writer.ts'
import { startFaultServer } from '../faults/matrix/fault-server.ts'
import { DONE, delta, FINISH, open, ROLE } from '../faults/matrix/row.ts'
import { NOON_MS, REQUESTS, sender, settled, startWorker, testLog } from '../projections/support.ts'
import { MASTER_KEY } from '../services/cluster.ts'
import { eventually } from '../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'
import { sharedPostgres } from '../services/postgres.ts'
import { budgetRow, budgetWorld, TENANT } from '../state/budgets/world.ts'

const DAY_MS = 86_400_000
const FOLDER = join(import.meta.dir, '../fixtures/events')

/** Each file is one record as it stands in the log. */
const keep = (type: string, line: string): void => {
  const path = join(FOLDER, `${type}.json`)
  if (existsSync(path)) return
  writeFileSync(path, `${line}\n`)
  console.log(`recorded ${type}`)
}

const call = async (
  gateway: GatewayProcess,
  method: string,
  path: string,
  body?: unknown,
): Promise<{ id: string; revision?: string }> => {
  const answer = await gateway.request(`/admin/v1${path}`, { method, body })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
  return JSON.parse(text)
}

/** Makes a gateway write every event that clients can cause. */
const useEverything = async (gateway: GatewayProcess): Promise<void> => {
  const tenant = await call(gateway, 'POST', '/tenants', { slug: 'acme', name: 'Acme' })
  const renamed = await call(gateway, 'PUT', `/tenants/${tenant.id}`, { name: 'Acme Ltd', plan: 'gold' })
  await call(gateway, 'POST', `/log/${renamed.revision}/revert`)
  const again = { method: 'PUT', body: { name: 'Acme' }, headers: { 'idempotency-key': 'again' } }
  await (await gateway.request(`/admin/v1/tenants/${tenant.id}`, again)).text()
  const policy = await call(gateway, 'POST', '/policies', { name: 'careful', tenant_id: tenant.id, max_cost_usd: 0.5 })
  await call(gateway, 'PUT', '/policies', { name: 'careful', tenant_id: tenant.id, max_cost_usd: 0.25 })
  const key = await call(gateway, 'POST', '/keys', { tenant_id: tenant.id, name: 'app', scopes: ['inference'] })
  await call(gateway, 'PATCH', `/keys/${key.id}`, { name: 'application', routing_policy_id: policy.id })
  await call(gateway, 'POST', `/keys/${key.id}/rotate`)
  await call(gateway, 'DELETE', `/keys/${key.id}`)
  const wanted = { name: 'upstream', kind: 'openai_compatible', base_url: 'http://127.0.0.1:9/v1' }
  const provider = await call(gateway, 'POST', '/providers', wanted)
  await call(gateway, 'PATCH', `/providers/${provider.id}`, { region: 'eu' })
  await call(gateway, 'PATCH', `/providers/${provider.id}`, { status: 'disabled' })
  await call(gateway, 'PATCH', `/providers/${provider.id}`, { status: 'active' })
  await call(gateway, 'PUT', `/providers/${provider.id}/credential`, { secret: 'not a secret', name: 'first' })
  const other = await call(gateway, 'POST', '/providers', { ...wanted, name: 'other' })
  // The data key of this credential stays.
  await call(gateway, 'PUT', `/providers/${other.id}/credential`, { secret: 'not a secret either' })
  const model = await call(gateway, 'POST', '/models', { name: 'm-1', provider_id: provider.id, priority: 1 })
  await call(gateway, 'POST', '/models', { name: 'm-1', provider_id: (await sandbox(gateway)).id, priority: 2 })
  await call(gateway, 'PATCH', `/models/${model.id}`, { aliases: ['fast'], input_cost_per_million: 1.5 })
  await call(gateway, 'PATCH', `/models/${model.id}`, { status: 'disabled' })
  await call(gateway, 'PATCH', `/models/${model.id}`, { status: 'active' })
  const scope = await call(gateway, 'PUT', '/endpoints', {
    slug: 'support',
    aliases: ['helpdesk'],
    forced_model: 'm-1',
  })
  await call(gateway, 'PUT', '/endpoints', { slug: 'support', strategy: 'lowest_cost', max_cost_usd: 0.1 })
  await call(gateway, 'DELETE', `/endpoints/${scope.id}`)
  await useLimitsAndTools(gateway, tenant.id)
  // The first candidate refuses the connection, so that a second attempt is recorded.
  const body = { model: 'm-1', messages: [{ role: 'user', content: 'Hello' }] }
  const breaker = { failure_threshold: 1, cooldown_ms: 300 }
  await call(gateway, 'POST', '/policies', { name: 'default', tenant_id: null, strategy: 'priority', breaker })
  for (let i = 0; i < 2; i++) {
    const answer = await gateway.request('/v1/chat/completions', { body })
    await answer.text()
    const request_id = answer.headers.get('x-request-id')
    const given = { request_id, score: 0.5, comment: 'short', tags: { from: 'fixture' } }
    await (await gateway.request('/v1/feedback', { body: given })).text()
    await Bun.sleep(1_200) // the cooldown, and a frame
  }
  await call(gateway, 'POST', `/providers/${provider.id}/probe`)
  await call(gateway, 'POST', `/providers/${(await sandbox(gateway)).id}/test`, { model: 'sandbox-echo' })
  await call(gateway, 'POST', '/policies/reload')
  // Not before: the model that fails has no price.
  const until = new Date(Date.now() + 3_600_000).toISOString()
  const cap = { kind: 'cap', target: 'model:m-1', value: { max_cost_usd: 0.5 }, reason: 'careful', expires_at: until }
  await call(gateway, 'POST', '/overrides', cap)
  const correction = { provider: 'upstream', model: 'm-1', from: '2026-10-01', to: '2026-11-01T12:30:00Z' }
  const prices = { input_cost_per_million: 0.12, output_cost_per_million: 0.6, cached_input_cost_per_million: 0.06 }
  const corrected = await call(gateway, 'POST', '/prices/corrections', { ...correction, ...prices, reason: 'contract' })
  await call(gateway, 'POST', `/log/${corrected.revision}/revert`)
  await call(gateway, 'DELETE', `/models/${model.id}`)
  await call(gateway, 'DELETE', `/providers/${provider.id}/credential`)
  await call(gateway, 'DELETE', `/providers/${provider.id}`)
  await call(gateway, 'DELETE', `/policies/${policy.id}`)
  await call(gateway, 'DELETE', `/tenants/${tenant.id}/content`)
  await call(gateway, 'DELETE', `/tenants/${tenant.id}?force=true`)
}

const useLimitsAndTools = async (gateway: GatewayProcess, tenantId: string): Promise<void> => {
  const limits = { tenant_id: tenantId, limit_usd: 100, soft_limit_usd: 80, alert_thresholds: [0.5, 0.9] }
  const budget = await call(gateway, 'PUT', '/budgets', { ...limits, timezone: 'Europe/Berlin', hard_cap_usd: 0.5 })
  await call(gateway, 'PUT', '/budgets', { ...limits, limit_usd: 200, enforcement: 'soft' })
  await call(gateway, 'DELETE', `/budgets/${budget.id}`)
  const wanted = { name: 'short', ttl_seconds: 60, tenant_id: tenantId }
  const rule = await call(gateway, 'PUT', '/cache/policies', wanted)
  await call(gateway, 'PUT', '/cache/policies', { ...wanted, mode: 'semantic', similarity_threshold: 0.95 })
  await call(gateway, 'DELETE', `/cache/policies/${rule.id}`)
  const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
  const tool = await call(gateway, 'POST', '/tools', { name: 'weather', tenant_id: tenantId, parameters })
  await call(gateway, 'PUT', `/tools/${tool.id}`, { description: 'The weather of a city', safety: 'sensitive' })
  await call(gateway, 'POST', `/tools/${tool.id}/enabled`, { enabled: false })
  await call(gateway, 'POST', `/tools/${tool.id}/enabled`, { enabled: true })
  await call(gateway, 'DELETE', `/tools/${tool.id}`)
  const bounds = { name: 'default', tenant_id: tenantId, mode: 'automatic', max_steps: 3 }
  const policy = await call(gateway, 'PUT', '/tool-policies', bounds)
  await call(gateway, 'PUT', '/tool-policies', { ...bounds, max_steps: 99, enabled: false })
  await call(gateway, 'DELETE', `/tool-policies/${policy.id}`)
}

/** A stream of a provider that minds no limit goes on beyond what is reserved of a hard budget. */
const useMore = async (gateway: GatewayProcess): Promise<void> => {
  const server = startFaultServer(async (request) => {
    open(request, ROLE, delta({ content: 'word '.repeat(200) }))
    await Bun.sleep(500)
    request.chunk(FINISH + DONE)
    request.last()
  })
  const base_url = `http://127.0.0.1:${server.port}/v1`
  const provider = await call(gateway, 'POST', '/providers', { name: 'endless', kind: 'openai_compatible', base_url })
  const prices = { input_cost_per_million: 1, output_cost_per_million: 10 }
  await call(gateway, 'POST', '/models', { name: 'endless-1', provider_id: provider.id, ...prices })
  await call(gateway, 'PUT', '/budgets', { limit_usd: 1, scope: { type: 'model', id: 'endless-1' } })
  const body = { model: 'endless-1', max_tokens: 100, stream: true, messages: [{ role: 'user', content: 'Hello' }] }
  await (await gateway.request('/v1/chat/completions', { body })).text()
  await server.stop()
}

/** Set-up, logins that fail, a changed password, a deleted operator. */
const useConsole = async (gateway: GatewayProcess): Promise<void> => {
  const [username, password] = ['ada', 'correct horse battery staple']
  const post = (path: string, body: unknown, cookie?: string) =>
    gateway.request(`/admin/v1${path}`, { body, key: null, headers: cookie === undefined ? {} : { cookie } })
  const made = await post('/auth/setup', { username, password, confirm: password })
  if (made.status !== 201) throw new Error(`set-up: ${made.status} ${await made.text()}`)
  const { operator_id } = (await made.json()) as { operator_id: string }
  const [cookie] = made.headers.get('set-cookie')!.split(';')
  const changed = await gateway.request(`/admin/v1/operators/${operator_id}/password`, {
    method: 'PUT',
    key: null,
    body: { current_password: password, password: 'battery staple correct horse' },
    headers: { cookie: cookie!, 'sec-fetch-site': 'same-origin' },
  })
  if (!changed.ok) throw new Error(`password: ${changed.status} ${await changed.text()}`)
  await post('/auth/logout', {}, cookie)
  for (let i = 0; i < 5; i++) await post('/auth/login', { username: 'nobody', password })
  const operator = await call(gateway, 'POST', '/operators', { username: 'grace', password })
  await call(gateway, 'DELETE', `/operators/${operator.id}`)
}

const sandbox = async (gateway: GatewayProcess): Promise<{ id: string }> => {
  const answer = await gateway.request('/admin/v1/providers')
  const { providers } = (await answer.json()) as { providers: { id: string; name: string }[] }
  return providers.find(({ name }) => name === 'sandbox')!
}

/**
 * What a worker writes when a day is over, for one request in a separate log: a gateway that has just started has no
 * finished day.
 */
const recordClosedDay = async (): Promise<void> => {
  const database = await sharedPostgres()
  const log = testLog()
  await log.append(REQUESTS, 0, [sender().record('request.settled', settled('req_1', { at_ms: NOON_MS - DAY_MS }))])
  const worker = startWorker({ log, databaseUrl: database.url, tuning: { closeMs: 20 } })
  const topic = TOPICS.usage.name
  await eventually('the day is closed', async () => log.records(topic).length > 0)
  keep('usage.closed', new TextDecoder().decode(log.records(topic)[0]!.value!))
  await worker.stop()
  await database.remove()
}

/**
 * What instances write about budgets, a day of silence and an hour's statement included, in a separate log whose clock
 * the recorder sets.
 */
const recordBudgets = async (): Promise<void> => {
  const world = budgetWorld(budgetRow({ alert_thresholds: [0.1] }))
  const seen = (type: string) =>
    eventually(type, async () => (world.log.records(TOPICS.budgets.name).some(has(type)) ? true : null))
  const has =
    (type: string) =>
    ({ value }: { value: Uint8Array | null }) =>
      (JSON.parse(new TextDecoder().decode(value!)) as { type: string }).type === type
  const gone = world.open('ins_gone')
  await gone.of(TENANT, 'key_1', null, world.nowMs)!.reserve('prov_1', 'm', { nanoUsd: 300, tokens: 30 })
  const lives = world.open('ins_lives')
  const request = lives.of(TENANT, 'key_1', null, world.nowMs)!
  await request.reserve('prov_1', 'm', { nanoUsd: 400, tokens: 40 })
  request.endAttempt({ nanoUsd: 200, tokens: 20, exact: true })
  request.settle()
  request.outcomeWas('recorded')
  for (const open of lives.leases.opens.values()) lives.leases.report(open)
  await seen('lease.settled')
  await lives.close(1_000)
  const watches = world.open('ins_watches')
  await watches.caughtUp(TENANT, 1_000)
  await seen('account.alerted')
  world.put(budgetRow({ limit_nano_usd: 2_000, height: 2, alert_thresholds: [0.1] }))
  await watches.of(TENANT, 'key_1', null, world.nowMs)!.reserve('prov_1', 'm', { nanoUsd: 100, tokens: 10 })
  world.nowMs += 2 * DAY_MS
  const later = watches.of(TENANT, 'key_1', null, world.nowMs)!
  await later.reserve('prov_1', 'm', { nanoUsd: 100, tokens: 10 })
  await seen('account.stated')
  const closed = [{ account: 'bud_1/1763596800000-1763683200000', spent: { nano_usd: 250, tokens: 25 } }]
  const accounts = closed.map((each) => ({ ...each, counted: { nano_usd: 0, tokens: 0 }, overrun_nano_usd: 0 }))
  const scribe = new BudgetWriter({ log: world.log, instance: 'ins_gone', nowMs: () => world.nowMs }, 'again')
  const event = { type: 'lease.closed', data: { holder: 'ins_gone.0', instance: 'ins_gone', accounts } } as const
  const silent = { instance: 'ins_gone', before_ms: world.nowMs - DAY_MS, reason: 'silence', orphaned: [] } as const
  const retired: BudgetEvent = { type: 'instance.retired', data: { ...silent, orphaned: [] } }
  await scribe.append(TENANT, [event, retired], watches.leases.ledger)
  for (const { value } of world.log.records(TOPICS.budgets.name)) {
    const line = new TextDecoder().decode(value!)
    keep((JSON.parse(line) as { type: string }).type, line)
  }
  await world.close()
}

/** Every record that a topic holds now, as text. */
const linesOf = async (dataDir: string, topic: string): Promise<string[]> => {
  const log = embeddedLog({ dataDir, nowMs: Date.now })
  const lines: string[] = []
  for (const partition of await log.partitions(topic)) {
    const end = await log.end(topic, partition)
    if (end === 0) continue
    for await (const batch of log.read(topic, partition, 0, new AbortController().signal)) {
      for (const { value } of batch) if (value !== null) lines.push(new TextDecoder().decode(value))
      if (batch.at(-1)!.offset + 1 >= end) break
    }
  }
  await log.close()
  return lines
}

mkdirSync(FOLDER, { recursive: true })
await recordClosedDay()
await recordBudgets()
const gateway = startGateway({ settings: { security: { master_key: MASTER_KEY } } })
try {
  await gateway.until('ready')
  await useEverything(gateway)
  await useMore(gateway)
  await useConsole(gateway)
  await Bun.sleep(3_000) // announcements and the audit follow within moments
  const dataDir = join(gateway.folder, 'data')
  for (const line of await linesOf(dataDir, TOPICS.control.name)) {
    const { events } = JSON.parse(line) as { events?: { type: string }[] }
    for (const { type } of events ?? []) keep(type, line)
  }
  for (const topic of [TOPICS.keys, TOPICS.requests, TOPICS.operations, TOPICS.instances, TOPICS.audit]) {
    for (const line of await linesOf(dataDir, topic.name)) keep((JSON.parse(line) as { type: string }).type, line)
  }
} finally {
  await gateway.remove()
}

// Events that no gateway writes by itself within moments: another version, and a session that was used a quarter of an
// hour later.
const macKey = decisionMacKey(Buffer.from(MASTER_KEY, 'base64'))
const written = (type: string, actor: Actor, data: Record<string, unknown>): void => {
  const shared = { parent: '0'.repeat(64), at: '2026-11-20T13:00:00.000Z', cause: null, v: 1 } as const
  const { bytes } = writeDecision({ ...shared, actor, events: [{ type, data }] }, macKey)
  keep(type, new TextDecoder().decode(bytes))
}
written('schema.activated', { type: 'system', id: 'schema' }, { version: 2 })
const ids = { operator: 'op_019aa1c2-0000-7000-8000-000000000001', session: 'ses_019aa1c2-0000-7000-8000-000000000002' }
const gone = { id: 'ins_019aa1c2-0000-7000-8000-000000000003', reason: 'its disk is lost' }
written('instance.given_up', { type: 'operator', id: ids.operator }, gone)
written('session.seen', { type: 'operator', id: ids.operator }, { id: ids.session })
