// Records one answer of each route from a running gateway, as the examples of the OpenAPI document, into
// `src/http/docs/recorded-answers.json`. Run `bun tests/recorders/record-answers.ts` after a change of a route or its
// answer.
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AdminRoute } from '../../src/http/admin/route.ts'
import { EXAMPLES } from '../../src/http/docs/examples.ts'
import { furnish, nounOf } from '../http/admin/world/furnished.ts'
import { eventually } from '../services/eventually.ts'
import { ADMIN_KEY, startGateway } from '../services/gateway.ts'
import { startUpstream } from '../services/upstream.ts'
import { stableAnswers } from './stable-answers.ts'

const FILE = join(import.meta.dir, '../../src/http/docs/recorded-answers.json')
const ADMIN = '/admin/v1'
const MODEL = 'gpt-4o-mini'
const LISTED_S = 60
const DAY_MS = 86_400_000

const startedMs = Date.now()
const furnished = await furnish()
const { table } = furnished
const upstream = startUpstream()
const gateway = startGateway({ settings: { health: { probe_interval: '5s' } } })
const recorded = new Map<string, unknown>()
/** Ids by the noun of a path, as they are made. */
const ids = new Map<string, string>()

const template = (path: string): string => path.replaceAll(/:(\w+)/g, '{$1}')

interface Asked {
  readonly body?: unknown
  readonly query?: string
  readonly key?: string | null
  readonly headers?: Record<string, string>
}

const call = async (method: string, path: string, { body, query = '', ...rest }: Asked = {}): Promise<Response> => {
  const answer = await gateway.request(`${path}${query}`, { method, body, ...rest })
  if (answer.status >= 400 && path !== '/ready')
    throw new Error(`${method} ${path}${query}: ${answer.status} ${await answer.text()}`)
  return answer
}

/** Records a route of `/admin/v1` by its name in the table; its body is the example of the document. */
const ask = async (name: string, asked: Asked = {}): Promise<Record<string, unknown>> => {
  const [method, path] = name.split(' ') as [string, string]
  const route = table.find((each) => each.method === method && each.path === path)
  if (route === undefined) throw new Error(`${name} is no route`)
  const noun = nounOf(path)
  const query = asked.query ?? (route.rows !== null && !route.whole ? '?limit=1' : '')
  const body = asked.body ?? (route.bodySchema === null ? undefined : (EXAMPLES[name] ?? {}))
  const real = `${ADMIN}${path.replace(':id', encodeURIComponent(ids.get(noun) ?? 'none'))}`
  const answer = (await (await call(method, real, { ...asked, body, query })).json()) as Record<string, unknown>
  recorded.set(`${method} ${ADMIN}${template(path)}`, answer)
  if (method !== 'GET' && typeof answer.id === 'string' && !path.includes(':id')) ids.set(noun, answer.id)
  return answer
}

const askAll = async (...names: string[]): Promise<void> => {
  for (const name of names) await ask(name)
}

/** Records a route outside of the table. */
const note = async (method: string, path: string, asked: Asked = {}): Promise<Response> => {
  const answer = await call(method, path, asked)
  recorded.set(`${method} ${path.replace(MODEL, '{model}')}`, await answer.clone().json())
  return answer
}

const door = async (): Promise<void> => {
  const origin = { origin: gateway.url }
  await note('GET', `${ADMIN}/auth/state`, { key: null })
  await note('POST', `${ADMIN}/auth/setup`, { key: null, body: EXAMPLES['POST /auth/setup'], headers: origin })
  const entered = await note('POST', `${ADMIN}/auth/login`, { key: null, body: EXAMPLES['POST /auth/login'] })
  const cookie = entered.headers.get('set-cookie')!.split(';')[0]!
  await note('GET', `${ADMIN}/auth/me`, { key: null, headers: { cookie } })
}

const registry = async (): Promise<void> => {
  await ask('POST /providers', { body: { ...EXAMPLES['POST /providers'], base_url: upstream.baseUrl } })
  await ask('PUT /providers/:id/credential')
  await ask('GET /providers/:id/credential')
  const { models } = (await (await call('GET', `${ADMIN}/models`)).json()) as { models: { id: string; name: string }[] }
  // What the listing of the provider brought is removed: the example makes it again.
  for (const { id, name } of models) if (name === MODEL) await call('DELETE', `${ADMIN}/models/${id}`)
  await ask('POST /models', { body: { ...EXAMPLES['POST /models'], provider_id: ids.get('providers') } })
  await askAll('GET /models/:id', 'PUT /models/:id', 'PATCH /models/:id')
  await call('PATCH', `${ADMIN}/models/${ids.get('models')}`, { body: { enabled: true } })
  await ask('PUT /providers/:id', {
    body: { ...EXAMPLES['PUT /providers/:id'], base_url: upstream.baseUrl, timeout_ms: 60_000 },
  })
  await ask('PATCH /providers/:id')
  await call('PATCH', `${ADMIN}/providers/${ids.get('providers')}`, { body: { status: 'active' } })
  await askAll('GET /providers/:id', 'POST /providers/:id/test', 'POST /providers/:id/probe')
  await askAll('POST /providers/:id/sync-models', 'POST /providers/:id/detect-capabilities', 'GET /providers/:id/tests')
}

const tenants = async (): Promise<void> => {
  await askAll('POST /tenants', 'GET /tenants', 'GET /tenants/:id', 'PUT /tenants/:id')
  const tenant_id = ids.get('tenants')
  await ask('POST /keys', { body: { ...EXAMPLES['POST /keys'], tenant_id } })
  await ask('GET /keys', { query: `?limit=1&tenant_id=${tenant_id}` })
  await askAll('GET /keys/:id', 'PATCH /keys/:id', 'POST /keys/:id/rotate')
  await ask('PUT /budgets', { body: { ...EXAMPLES['PUT /budgets'], tenant_id } })
  await askAll('GET /budgets', 'GET /budgets/:id', 'POST /budgets/:id/verify')
}

const steering = async (): Promise<void> => {
  await askAll('POST /policies', 'PUT /policies', 'GET /policies', 'GET /policies/:id', 'POST /policies/reload')
  await askAll('PUT /endpoints', 'GET /endpoints', 'GET /endpoints/:id')
  await askAll('PUT /cache/policies', 'GET /cache/policies', 'GET /cache/policies/:id')
  await askAll('POST /tools', 'GET /tools', 'GET /tools/:id', 'PUT /tools/:id', 'POST /tools/:id/enabled')
  await askAll('PUT /tool-policies', 'GET /tool-policies', 'GET /tool-policies/:id')
  await askAll('POST /prices/corrections', 'GET /prices/corrections')
}

const inference = async (): Promise<void> => {
  const question = EXAMPLES['POST /v1/chat/completions']
  upstream.behave({ text: 'Paris.' })
  // The route is compiled by now and the provider known: an answer like later ones.
  await note('POST', '/v1/chat/completions', { body: question })
  const { gateway: block } = recorded.get('POST /v1/chat/completions') as { gateway: { request_id: string } }
  await note('POST', '/v1/feedback', { body: { ...EXAMPLES['POST /v1/feedback'], request_id: block.request_id } })
  await note('GET', '/v1/models')
  await note('GET', `/v1/models/${MODEL}`)
  upstream.next({ status: 400 })
  await gateway.request('/v1/chat/completions', { body: question })
}

/** What `/ready` answers while the read store is not there yet. */
const notReady = async (): Promise<void> => {
  const checks = await eventually(
    'it serves without Postgres',
    async () => {
      const answer = await gateway.request('/ready').catch(() => null)
      const body = (await answer?.json()) as { checks: Record<string, string> } | undefined
      return answer?.status === 503 && body!.checks.database?.startsWith('degraded') === true && body
    },
    { limitMs: 30_000 },
  )
  recorded.set('GET /ready 503', checks)
}

const operations = async (): Promise<void> => {
  for (const path of ['/', '/health', '/healthz', '/ready', '/readiness', '/version', '/schemas'])
    await note('GET', path, { key: null })
}

const reads = async (): Promise<void> => {
  const listed = await eventually(
    'the requests are in the read model',
    async () => {
      const answer = await gateway.request(`${ADMIN}/requests?outcome=success`)
      const { requests = [] } = (await answer.json()) as { requests?: { id: string; purpose: string | null }[] }
      return requests.find(({ purpose }) => purpose === null) ?? false
    },
    { limitMs: LISTED_S * 1_000 },
  )
  ids.set('requests', listed.id)
  await eventually(
    'feedback and failures are there too',
    async () => {
      const [given, failed] = await Promise.all(
        ['feedback', 'errors'].map(async (noun) => (await gateway.request(`${ADMIN}/${noun}`)).json()),
      )
      return (given as { total?: number }).total === 1 && ((failed as { total?: number }).total ?? 0) > 0
    },
    { limitMs: LISTED_S * 1_000 },
  )
  await ask('GET /requests', { query: '?limit=1&outcome=success' })
  await askAll('GET /requests/:id', 'GET /requests/:id/explain', 'GET /errors', 'GET /audit', 'GET /feedback')
  await askAll('GET /overview', 'GET /usage/summary', 'GET /usage/series', 'GET /scores', 'GET /providers/health')
  await askAll('GET /providers', 'GET /models', 'GET /instances', 'GET /log')
  await ask('GET /system')
}

const ends = async (): Promise<void> => {
  const renamed = await call('PUT', `${ADMIN}/tenants/${ids.get('tenants')}`, { body: EXAMPLES['PUT /tenants/:id'] })
  await renamed.text()
  const changed = await call('PATCH', `${ADMIN}/keys/${ids.get('keys')}`, { body: { name: 'worker' } })
  ids.set('log', changed.headers.get('x-gateway-revision')!)
  await askAll('GET /log/:id', 'POST /log/:id/revert')
  await askAll('POST /overrides', 'GET /overrides', 'GET /guardrails', 'POST /providers/:id/kill')
  await ask('POST /operators', { body: { ...EXAMPLES['POST /operators'], username: 'grace' } })
  await askAll('GET /operators', 'GET /operators/:id')
  await ask('PUT /operators/:id/password', { body: { password: 'another one of many words' } })
  await askAll('DELETE /operators/:id', 'DELETE /tool-policies/:id', 'DELETE /tools/:id', 'DELETE /cache/policies/:id')
  await askAll('DELETE /endpoints/:id', 'DELETE /policies/:id', 'DELETE /budgets/:id', 'DELETE /keys/:id')
  await askAll('DELETE /models/:id', 'DELETE /providers/:id/credential', 'DELETE /providers/:id')
  await askAll('DELETE /tenants/:id/content', 'DELETE /tenants/:id')
  // An instance that is dead and holds something of a budget: there is none beside a gateway of its own.
  const body = EXAMPLES['POST /instances/:id/retire']
  const retired = await furnished.gateway.call('POST', '/instances/ins_dead/retire', { body })
  const last_seen_at = new Date(startedMs - DAY_MS).toISOString()
  const row = { ...retired.body, last_seen_at, retired_at: new Date(startedMs).toISOString() }
  recorded.set(`POST ${ADMIN}/instances/{id}/retire`, row)
  const page = recorded.get(`GET ${ADMIN}/instances`) as { instances: unknown[] }
  if (page.instances.length === 0) recorded.set(`GET ${ADMIN}/instances`, { ...page, instances: [row], total: 1 })
}

const isShown = ({ events }: AdminRoute): boolean => !events

try {
  await notReady()
  await gateway.until('ready', 60_000)
  for (const step of [door, registry, tenants, inference, operations, reads, steering, ends]) await step()
  const missing = table
    .filter(isShown)
    .map(({ method, path }) => `${method} ${ADMIN}${template(path)}`)
    .filter((name) => !recorded.has(name))
  if (missing.length > 0) throw new Error(`not recorded: add a step for ${missing.join(', ')}`)
  const sorted = Object.fromEntries([...recorded].toSorted(([a], [b]) => (a < b ? -1 : 1)))
  const texts = [
    [upstream.baseUrl, 'https://api.openai.com/v1'],
    [new URL(upstream.baseUrl).host, 'api.openai.com'],
    [gateway.url, 'http://127.0.0.1:8080'],
    [join(gateway.folder, 'data'), '.gateway'],
    [ADMIN_KEY, `gw_live_${'x'.repeat(43)}`],
    ['ins_dead', `ins_${crypto.randomUUID()}`],
    ['chatcmpl-fake', 'chatcmpl-CaZ1PqLwXe7hR2sT9uVb3nKd4MfGy'],
  ] as const
  const port = Number(new URL(gateway.url).port)
  const text = JSON.stringify(
    stableAnswers(sorted, { startedMs, texts }),
    (_, value) => (value === port ? 8080 : value),
    2,
  )
  writeFileSync(FILE, `${text}\n`)
  console.log(`recorded ${recorded.size} answers`)
} finally {
  await gateway.remove()
  await upstream.stop()
  rmSync(gateway.folder, { recursive: true, force: true })
}
process.exit()
