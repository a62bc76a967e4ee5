// A gateway with every route of the surface and one row of everything, and for each route the request that succeeds.
// Used by the tests that run over the whole route table.
import type { ControlState } from '../../../../src/domain/control.ts'
import { providerHealth } from '../../../../src/http/admin/answers/health-view.ts'
import { auditRoutes } from '../../../../src/http/admin/reads/audit.ts'
import { errorRoutes } from '../../../../src/http/admin/reads/errors.ts'
import { explainRoutes } from '../../../../src/http/admin/reads/explain.ts'
import { feedbackRoutes } from '../../../../src/http/admin/reads/feedback.ts'
import { healthRoutes } from '../../../../src/http/admin/reads/health.ts'
import { overviewRoutes } from '../../../../src/http/admin/reads/overview.ts'
import { requestRoutes } from '../../../../src/http/admin/reads/requests.ts'
import { systemRoutes } from '../../../../src/http/admin/reads/system.ts'
import { tailRoutes } from '../../../../src/http/admin/reads/tail.ts'
import { usageRoutes } from '../../../../src/http/admin/reads/usage.ts'
import type { AdminRoute } from '../../../../src/http/admin/route.ts'
import { adminTable } from '../../../../src/http/admin/runner.ts'
import { EXAMPLES } from '../../../../src/http/docs/examples.ts'
import { type HealthBook, openHealth } from '../../../../src/state/health/book.ts'
import type { LogDetail } from '../../../../src/state/history/history-port.ts'
import type { LiveStatus } from '../../../../src/state/port.ts'
import type { ModelDetection } from '../../../../src/upkeep/models/detect.ts'
import type { Checked } from '../../../../src/upkeep/models/provider-checks.ts'
import type { ProviderWork } from '../../../../src/upkeep/models/provider-work.ts'
import { entry } from '../../../inference/gateway.ts'
import { type Gateway, startGateway } from './gateway.ts'
import { QUIET_SEARCH } from './quiet-search.ts'
import { QUIET_STATUS, quietSystem } from './quiet-system.ts'
import { emptyUsage } from './usage-figures.ts'

export const OWN = 'ten_default'
export const OTHER = 'ten_other'
export const PASSWORD = 'correct horse battery'

/** Noun of a path (`cache/policies`) -> id of the one that there is. */
export type Ids = Readonly<Record<string, string>>

export interface Furnished {
  readonly gateway: Gateway
  readonly table: readonly AdminRoute[]
  /** Rows of `OWN`, and rows of `OTHER`; shared rows stand in both. */
  readonly own: Ids
  readonly other: Ids
  /** Of `grace`, who is logged in. */
  readonly cookie: string
  /** The tenants whose rows were read; null: all tenants. */
  readonly tenantsRead: (string | null)[]
  /** What must not change when a request is refused. */
  fingerprint(): string
}

const NOW_MS = Date.UTC(2026, 10, 20)

const REQUESTS: ReadonlyMap<string, string> = new Map([
  ['req_own', OWN],
  ['req_other', OTHER],
])

/** Read models that hold one request of each tenant, and keep the tenants of their queries. */
const readModels = (
  asked: (string | null)[],
  nowMs: () => number,
  live: { control: ControlState },
  book: HealthBook,
) => {
  const list = (noun: string) => async (filter: { readonly tenantId: string | null }) => {
    asked.push(filter.tenantId)
    return { [noun]: [], total: 0 }
  }
  const one = async (id: string, tenantId: string | null) => {
    if (id.includes('\u0000')) throw new Error('no database takes this')
    const owner = REQUESTS.get(id)
    const isSeen = owner !== undefined && (tenantId === null || tenantId === owner)
    // Refused before there was a plan: nothing is computed of it.
    const unplanned = { plan: null, first: null, wasAdmitted: false, purpose: null, shaping: [], attempt_list: [] }
    return isSeen ? { id, chosen: null, process: 'ins_1.e1', ...unplanned } : null
  }
  const searched = async (filter: { readonly tenantId: string | null; readonly fromMs: number }) => {
    asked.push(filter.tenantId)
    return { requests: [], byCode: {}, total: 0, searchedFromMs: filter.fromMs }
  }
  const place = async () => new Map([[0, 1]])
  const since = async (reached: unknown, filter: { readonly tenantId: string | null }) => {
    asked.push(filter.tenantId)
    return { rows: [], reached, isBehind: false }
  }
  const requests = { list: searched, failures: searched, one, place, since }
  const ofRequests = { requests: requests as never, ...QUIET_SEARCH, live, nowMs, userDigest: () => 'digest' }
  const ofUsage = { usage: emptyUsage((tenantId) => void asked.push(tenantId)), live, nowMs }
  const audit = { list: list('events'), shows: async () => true }
  const feedback = { list: list('feedback') }
  return [
    ...requestRoutes(ofRequests as never),
    ...tailRoutes({ ...ofRequests, timing: { lifetimeMs: 1, pollMs: 1 } }),
    ...errorRoutes(ofRequests),
    ...usageRoutes(ofUsage),
    ...overviewRoutes({ ...ofUsage, healthOf: () => providerHealth(book, '', []), adapterReady: () => true }),
    ...explainRoutes(ofRequests as never),
    ...auditRoutes({ audit: audit as never, live, nowMs }),
    ...feedbackRoutes({ feedback: feedback as never, live, nowMs }),
  ]
}

const passed = (check: string): Checked => {
  const result = { check, status: 'passed' as const, latency_ms: 5, detail: 'fine' }
  return { shown: result, recorded: result }
}
const detected = (one: ReturnType<typeof entry>): ModelDetection => ({
  entry: one,
  attempted: true,
  verdicts: [{ capability: 'chat', verdict: 'proven', detail: 'it answered', latencyMs: 3 }],
  latencyMs: 3,
  costNanoUsd: null,
})

/** A decision that made a tenant, as the history shows it. */
const recordOf = (control: ControlState, id: string, revision: string): LogDetail => ({
  entry: { offset: 1, id: revision, verdict: 'counted', reason: null, logAtMs: NOW_MS, decision: null },
  events: [],
  changes: [{ table: 'tenants', id, before: null, after: control.table('tenants').get(id) }],
  changesTotal: 1,
})

const made = async (gateway: Gateway, method: string, path: string, body: object): Promise<string> => {
  const answer = await gateway.call(method, path, { body })
  if (typeof answer.body.id !== 'string') throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`)
  return answer.body.id
}

const belongings = async (gateway: Gateway, tenant_id: string): Promise<Ids> => ({
  keys: await made(gateway, 'POST', '/keys', { tenant_id, name: 'resident', scopes: ['keys:admin'] }),
  policies: await made(gateway, 'POST', '/policies', { tenant_id, name: 'resident' }),
  endpoints: await made(gateway, 'PUT', '/endpoints', { tenant_id, slug: 'resident' }),
  budgets: await made(gateway, 'PUT', '/budgets', { tenant_id, window: 'day', limit_usd: 1 }),
  'cache/policies': await made(gateway, 'PUT', '/cache/policies', { tenant_id, name: 'resident', ttl_seconds: 60 }),
  tools: await made(gateway, 'POST', '/tools', { tenant_id, owner: 'tenant', name: 'resident' }),
  'tool-policies': await made(gateway, 'PUT', '/tool-policies', { tenant_id, name: 'resident' }),
})

const commons = async (gateway: Gateway): Promise<Ids> => {
  const provider_id = await made(gateway, 'POST', '/providers', { name: 'vendor', kind: 'openai' })
  await gateway.call('PUT', `/providers/${provider_id}/credential`, { body: { secret: 'sk-resident-secret' } })
  return {
    providers: provider_id,
    models: await made(gateway, 'POST', '/models', { name: 'resident', provider_id }),
    operators: await made(gateway, 'POST', '/operators', { username: 'alan', password: PASSWORD }),
    tenants: await made(gateway, 'POST', '/tenants', { slug: 'empty', name: 'Empty' }),
    instances: 'ins_dead',
  }
}

export const furnish = async (): Promise<Furnished> => {
  const tenantsRead: (string | null)[] = []
  // The routes of read models are made before the gateway whose state they show.
  const live = {
    control: null as unknown as ControlState,
    status: () => ({ ...QUIET_STATUS, tip: 'f'.repeat(64) }) as LiveStatus,
  }
  const catalogue = { all: () => [], resolve: () => [] }
  const probed = {
    atMs: NOW_MS,
    trigger: 'manual',
    ok: true,
    latencyMs: 1,
    errorCode: null,
    upstreamStatus: null,
  } as const
  const book = openHealth({ catalogue, nowMs: () => NOW_MS, monotonicMs: () => 0, emit: () => {} })
  const health = healthRoutes({
    live,
    catalogue,
    book,
    commit: (request) => gateway.deps.commit(request),
    newId: (prefix) => gateway.deps.newId(prefix),
    probes: { probe: async () => ({ ...probed, models: null, message: null }) as never },
    probeQueries: { recent: async () => [] },
    adapterReady: () => true,
  })
  const system = systemRoutes({
    ...quietSystem,
    live: live as never,
    healthOf: () => providerHealth(book, '', []),
    adapterReady: () => true,
    nowMs: () => NOW_MS,
  })
  const further = [...health, ...system, ...readModels(tenantsRead, () => NOW_MS, live, book)]
  const records = new Map<string, LogDetail>()
  const work: Partial<ProviderWork> = {
    entriesOf: (providerId) =>
      live.control
        .table('models')
        .find('provider', providerId)
        .map((modelId) => entry({ providerId, modelId, name: 'resident' })),
    test: async (_, { checks }) => checks.map(passed),
    detect: async (entries) => entries.map(detected),
  }
  const gateway = startGateway(further, { record: (id) => records.get(String(id)) ?? null }, work)
  live.control = gateway.state
  const own = await belongings(gateway, OWN)
  const other = await belongings(gateway, OTHER)
  const shared = await commons(gateway)
  const revision = gateway.state.table('tenants').get(shared.tenants!)!.revision
  records.set(revision, recordOf(gateway.state, shared.tenants!, revision))
  await made(gateway, 'POST', '/operators', { username: 'grace', password: PASSWORD })
  const login = { key: null, body: { username: 'grace', password: PASSWORD } }
  const { headers } = await gateway.call('POST', '/auth/login', login)
  return {
    gateway,
    table: adminTable(gateway.deps),
    own: { ...own, ...shared, log: revision, requests: 'req_own' },
    other: { ...other, ...shared, log: revision, requests: 'req_other', tenants: OTHER },
    cookie: headers.get('set-cookie')!.split(';')[0]!,
    tenantsRead,
    fingerprint: () =>
      `${gateway.state.digest()} ${gateway.events.length} ${gateway.vault.size} ${gateway.breakersCleared}`,
  }
}

/** `/cache/policies/:id` -> `cache/policies` */
export const nounOf = (path: string): string => path.slice(1).split('/:')[0]!

/** The path with the ids of one side. */
export const pathOf = (path: string, ids: Ids): string => path.replace(':id', ids[nounOf(path)] ?? 'none')

/** Bodies that name what there is, where the example of the document cannot. */
const bodies = (ids: Ids, tenant_id: string): Readonly<Record<string, object>> => ({
  'PUT /tenants/:id': { name: 'another', plan: 'team' },
  'POST /keys': { tenant_id, name: 'another', scopes: ['keys:admin'] },
  'POST /policies': { tenant_id, name: 'another' },
  'PUT /policies': { tenant_id, name: 'another' },
  'PUT /endpoints': { tenant_id, slug: 'another' },
  'PUT /budgets': { tenant_id, window: 'month', limit_usd: 100 },
  'PUT /cache/policies': { tenant_id, name: 'another', ttl_seconds: 60 },
  'POST /tools': { tenant_id, owner: 'tenant', name: 'another' },
  'PUT /tool-policies': { tenant_id, name: 'another' },
  'POST /overrides': { tenant_id, kind: 'block', target: 'model:resident' },
  'POST /models': { name: 'another', provider_id: ids.providers },
  'POST /prices/corrections': {
    ...{ provider: 'vendor', model: 'resident', from: '2026-10-01', to: '2026-11-01' },
    ...{ input_cost_per_million: 1, output_cost_per_million: 2 },
  },
  'POST /providers/:id/detect-capabilities': {},
})

/** The body of the request that succeeds; undefined for a route that takes none. */
export const bodyOf = (route: AdminRoute, ids: Ids, tenantId: string): object | undefined => {
  if (route.bodySchema === null) return undefined
  const name = `${route.method} ${route.path}`
  return bodies(ids, tenantId)[name] ?? EXAMPLES[name]
}
