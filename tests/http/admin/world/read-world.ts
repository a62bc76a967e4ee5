// Read models with a few requests and decisions, and a gateway that answers from them.
import { beforeAll } from 'bun:test'
import { auditQueries } from '../../../../projections/audit/query.ts'
import { openDatabase, type Sql } from '../../../../projections/database.ts'
import { requestQueries } from '../../../../projections/requests/query.ts'
import { usageQueries } from '../../../../projections/usage/query.ts'
import type { Settlement } from '../../../../src/domain/events/request-reading.ts'
import { type EventRecord, GENESIS, writeDecision } from '../../../../src/domain/kernel/decision.ts'
import { closed } from '../../../../src/domain/kernel/fields.ts'
import { auditRoutes } from '../../../../src/http/admin/reads/audit.ts'
import { errorRoutes } from '../../../../src/http/admin/reads/errors.ts'
import { explainRoutes } from '../../../../src/http/admin/reads/explain.ts'
import { requestRoutes } from '../../../../src/http/admin/reads/requests.ts'
import { usageRoutes } from '../../../../src/http/admin/reads/usage.ts'
import { type TSchema, Value } from '../../../../src/lib/schema/schema.ts'
import { TOPICS } from '../../../../src/log/topics.ts'
import { type History, HistoryUnavailable } from '../../../../src/state/history/history-port.ts'
import { keyIssued, providerCreated, tenantCreated } from '../../../domain/world.ts'
import { testStore } from '../../../projections/store.ts'
import { MAC_KEY, plan, REQUESTS, sender, settled, testLog } from '../../../projections/support.ts'
import { type Gateway, startGateway } from './gateway.ts'
import { QUIET_SEARCH } from './quiet-search.ts'

export const HOUR_MS = 3_600_000
export const NOW_MS = Date.UTC(2026, 10, 20)

/** A gateway whose read models are behind this connection. */
export const gatewayOn = (connection: Sql): Gateway => {
  const nowMs = () => made.nowMs
  const live = { control: null as never }
  const userDigest = (tenantId: string, user: string) => `${tenantId} ${user}`
  const ofRequests = { requests: requestQueries(connection), ...QUIET_SEARCH, live, nowMs, userDigest }
  const history: History = { query: () => Promise.reject(new HistoryUnavailable('it is away')) }
  const ofPlans = { ...ofRequests, frames: null as never, history, adapterReady: () => true }
  const routes = [
    ...requestRoutes(ofPlans),
    ...explainRoutes(ofPlans),
    ...errorRoutes(ofRequests),
    ...usageRoutes({ usage: usageQueries(connection), live, nowMs }),
    ...auditRoutes({ audit: auditQueries(connection), live, nowMs }),
  ]
  const made: Gateway = startGateway(routes)
  Object.assign(live, { control: made.state })
  made.nowMs = NOW_MS
  return made
}

/** A connection as a gateway's: no statement takes long. */
export const databaseAt = (url: string): Sql =>
  openDatabase({ url, name: 'gatelog-test', maxConnections: 2, statementTimeoutMs: 2_000 })

/** Where an answer deviates from its schema, or has further members. */
export const flawsOf = (schema: TSchema, value: unknown): string[] =>
  [...Value.Errors(closed(schema), value)].map(({ path, message }) => `${path} ${message}`)

const ROWS: readonly Partial<Settlement>[] = [
  {
    id: 'req_1',
    tenant_id: 'ten_default',
    at_ms: NOW_MS - 1 * HOUR_MS,
    request_id: 'label-1',
    user: 'ten_default ada',
    policy_id: 'pol_careful',
  },
  { id: 'req_2', tenant_id: 'ten_default', at_ms: NOW_MS - 2 * HOUR_MS, request_id: 'label-1', latency_ms: 99 },
  {
    id: 'req_3',
    tenant_id: 'ten_other',
    at_ms: NOW_MS - 3 * HOUR_MS,
    request_id: 'label-1',
    outcome: 'error',
    status: 502,
    error_code: 'upstream_error',
    provider: 'Backup',
    provider_id: 'prov_2',
    routed_model: 'other/model',
    cost_nano_usd: null,
    cost_basis: 'none',
  },
  {
    id: 'req_4',
    tenant_id: 'ten_other',
    at_ms: NOW_MS - 4 * HOUR_MS,
    plan: { ...plan, rejected: { cost_cap: 1 } },
    outcome: 'denied',
    status: 429,
    error_code: 'rate_limited',
    provider: null,
    provider_id: null,
    user: '100%_user',
    key_id: 'key_2',
    policy_id: 'pol_gone',
    endpoint: 'support',
  },
  { id: 'req_5', tenant_id: 'ten_default', at_ms: NOW_MS - 30 * HOUR_MS },
]

/** The log that the read models are made of, and its newest decision. */
const filledLog = async () => {
  const log = testLog()
  const { record } = sender()
  const one = sender('ins_2')
  await log.append(REQUESTS, 0, one.both('req_with_plan', { tenant_id: 'ten_default', at_ms: NOW_MS - 40 * HOUR_MS }))
  await log.append(
    REQUESTS,
    0,
    ROWS.map((row) => record('request.settled', settled(row.id!, { request_id: row.id!, ...row }))),
  )
  let tip = GENESIS
  const decide = (events: readonly EventRecord[], atMs: number) => {
    const actor = { type: 'key', id: 'key_admin' } as const
    const made = writeDecision(
      { parent: tip, at: new Date(atMs).toISOString(), actor, cause: null, v: 1, events },
      MAC_KEY,
    )
    tip = made.id
    return { key: null, value: made.bytes }
  }
  await log.append(TOPICS.control.name, 0, [
    decide([tenantCreated('ten_default'), tenantCreated('ten_other')], NOW_MS - 90 * HOUR_MS),
    decide([keyIssued('key_a', 'ten_default'), keyIssued('key_b', 'ten_other')], NOW_MS - 2 * HOUR_MS),
    decide([providerCreated('prov_1')], NOW_MS - HOUR_MS),
  ])
  return { log, tip }
}

export interface Reads {
  readonly gateway: Gateway
  /** The newest decision in the audit. */
  readonly tip: string
  /** Reads what is of its tenant, ten_default. */
  readonly ownKey: string
  readonly sql: Sql
}

/** Call it once, at the top of a test file: the read models are there before its tests. */
export const readWorld = (): Reads => {
  const store = testStore({ kept: true })
  const made = {} as { gateway: Gateway; tip: string; ownKey: string }
  beforeAll(async () => {
    const { log, tip } = await filledLog()
    store.follow(log)
    await store.applied('requests', ROWS.length + 2)
    await store.applied('audit', 3)
    const gateway = gatewayOn(store.sql)
    Object.assign(made, { gateway, tip, ownKey: gateway.keyWith(['usage:read']) })
  }, 60_000)
  return {
    get gateway() {
      return made.gateway
    },
    get tip() {
      return made.tip
    },
    get ownKey() {
      return made.ownKey
    },
    get sql() {
      return store.sql
    },
  }
}
