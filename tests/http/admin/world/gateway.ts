// The admin surface as a client sees it, over a control state in memory: a commit that folds at once, without log and
// clock.
import { Elysia } from 'elysia'
import { CHAIN_ROW } from '../../../../src/domain/chain.ts'
import { type ControlState, EVENT_VERSION } from '../../../../src/domain/control.ts'
import type { EventRecord } from '../../../../src/domain/kernel/decision.ts'
import { providerHealth } from '../../../../src/http/admin/answers/health-view.ts'
import type { AdminRoute } from '../../../../src/http/admin/route.ts'
import { type AdminDeps, adminRoutes } from '../../../../src/http/admin/runner.ts'
import { notePeer } from '../../../../src/http/clients.ts'
import { type AuthEvent, consoleAuthRoutes } from '../../../../src/http/console-auth.ts'
import { errorResponse } from '../../../../src/http/envelope.ts'
import { contextOf } from '../../../../src/http/request-context.ts'
import { sha256Hex } from '../../../../src/lib/crypto/digest.ts'
import { newApiKey, newId } from '../../../../src/lib/crypto/ids.ts'
import { kindOf } from '../../../../src/providers/kinds.ts'
import type { ListedModel, ProviderKind } from '../../../../src/providers/port.ts'
import { NO_BUDGETS } from '../../../../src/state/budgets/budgets.ts'
import { openHealth } from '../../../../src/state/health/book.ts'
import { lastUses } from '../../../../src/state/indexes/last-uses.ts'
import { createSteering } from '../../../../src/state/indexes/live-steering.ts'
import type { Commit, KeyEntry } from '../../../../src/state/port.ts'
import type { InstanceStanding } from '../../../../src/upkeep/instances/instances.ts'
import { modelFacts } from '../../../../src/upkeep/models/model-facts.ts'
import type { ProviderWork } from '../../../../src/upkeep/models/provider-work.ts'
import { GatewayError } from '../../../../src/wire/errors.ts'
import { type TestDoor, testDoor } from './console.ts'
import { foldingCommit } from './folding-commit.ts'
import { NO_WORK } from './no-work.ts'
import { type KnownRecord, presentHistory } from './present-history.ts'

export const ADMIN_KEY = 'gw_live_admin_of_the_default_tenant'
export const BASE = 'http://gateway.test/admin/v1'

const NO_PRICE = { contextWindow: null, input: null, output: null, cachedInput: null }

/** A kind that is never called here. */
const kind = (name: string, more: Partial<ProviderKind> = {}): ProviderKind => ({
  kind: name,
  needsCredential: true,
  capabilities: ['chat', 'streaming'],
  defaultBaseUrl: null,
  usualEnv: null,
  request: () => ({ method: 'POST', url: '', headers: {}, body: null, shaping: [] }),
  response: () => ({ json: '{}', usage: null, finishReason: null, content: null, refusal: false, toolNames: [] }),
  stream: () => {
    throw new Error('nothing is streamed here')
  },
  failure: () => new GatewayError('upstream_error', 'failed'),
  ...more,
})

const listing: NonNullable<ProviderKind['listing']> = {
  request: () => ({ method: 'GET', url: '', headers: {}, body: null, shaping: [] }),
  read: () => [],
}

export const KINDS: readonly ProviderKind[] = [
  kind('openai', {
    ...{ defaultBaseUrl: 'https://api.openai.com/v1', usualEnv: 'OPENAI_API_KEY' },
    ...{ listing, options: kindOf('openai')!.options! },
  }),
  kind('openai_compatible', { needsCredential: false, listing }),
  kind('silent', { defaultBaseUrl: 'https://silent.example' }),
]

const NOTHING = { nano_usd: 0, tokens: 0 }
const VERIFIED = {
  ...{ account: 'bud_1/0-', spent: NOTHING, recomputed: NOTHING, carried: NOTHING, reserved: NOTHING },
  ...{ overrunNanoUsd: 0, outcomes: 0, unread: 0, complete: true, foldsAlike: true, matches: true },
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Record<string, unknown>
}

export interface Gateway {
  readonly state: ControlState
  /** Secrets that were sealed, by data key id; erased ones are gone. */
  readonly vault: Map<string, string>
  /** What `modelCatalogue.list` answers, or throws. */
  listed: readonly ListedModel[] | GatewayError
  /** Makes the next commits fail. */
  failure: Error | null
  readonly events: EventRecord[]
  breakersCleared: number
  /** Ids of instances that announce themselves. */
  liveInstances: readonly string[]
  standings: readonly InstanceStanding[]
  nowMs: number
  apply(events: readonly EventRecord[]): void
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
  /** A key of its own with these scopes, straight into the state. */
  keyWith(scopes: readonly string[], tenantId?: string): string
  readonly deps: AdminDeps
  readonly door: TestDoor
  /** What the metrics counted at the door of the console. */
  readonly counted: AuthEvent[]
}

export interface CallOptions {
  readonly key?: string | null
  readonly body?: unknown
  readonly raw?: string
  readonly headers?: Record<string, string>
  /** The other end of the connection; this machine when not given. */
  readonly from?: string
  /** `http` when not given. */
  readonly scheme?: 'http' | 'https'
}

/**
 * `further`: routes of read models, mounted in the same table. `work`: what calls providers; only listings when absent.
 */
export const startGateway = (
  further: readonly AdminRoute[] = [],
  settings: {
    readonly trustedProxies?: readonly string[]
    readonly cookieSecure?: boolean
    setupOff?: boolean
    record?: KnownRecord
  } = {},
  work: Partial<ProviderWork> = {},
): Gateway => {
  const vault = new Map<string, string>()
  const { state, live, events, apply, ...folding } = foldingCommit(() => gateway.nowMs)
  const commit: Commit = async (request) => {
    if (gateway.failure !== null) throw gateway.failure
    return folding.commit(request)
  }

  const lookup = (digest: string): KeyEntry | null => {
    const [id] = state.table('keys').find('digest', digest)
    const row = id === undefined ? undefined : state.table('keys').get(id)
    if (row === undefined || row.status !== 'active') return null
    const expiresAtMs = row.expires_at === null ? null : Date.parse(row.expires_at)
    const { tenant_id: tenantId, scopes, routing_policy_id: routingPolicyId } = row
    return { id: row.id, tenantId, scopes, expiresAtMs, routingPolicyId }
  }

  const list = async (): Promise<readonly ListedModel[]> => {
    if (gateway.listed instanceof GatewayError) throw gateway.listed
    return gateway.listed
  }
  const catalogue = { all: () => [], resolve: () => [] }
  const book = openHealth({ catalogue, nowMs: () => gateway.nowMs, monotonicMs: () => 0, emit: () => {} })
  const dataKeys = {
    async seal(_subject: string, secret: string) {
      const keyId = newId('dek')
      vault.set(keyId, secret)
      return { keyId, sealed: `sealed ${secret.length}` }
    },
    open: (_subject: string, keyId: string) => vault.get(keyId) ?? null,
    async erase(keyId: string) {
      vault.delete(keyId)
    },
    subscribe: () => () => {},
    get ids(): ReadonlySet<string> {
      return new Set(vault.keys())
    },
  }
  const nowMs = () => gateway.nowMs
  const door = testDoor({ live, commit, dataKeys, nowMs, ...settings })
  const counted: AuthEvent[] = []
  const deps: AdminDeps = {
    ...door.deps,
    live,
    keys: { lookup, knows: () => false },
    inference: { authHeader: 'authorization', minKeyLength: 20, maxStalenessMs: null },
    commit,
    nowMs: () => gateway.nowMs,
    newId,
    newApiKey,
    causeKey: new Uint8Array(32),
    appliedBy: async () => ({ applied: 1, instances: 1 }),
    lastUses: lastUses(),
    // One that is dead holds something of a budget.
    budgets: {
      ...NO_BUDGETS,
      instances: () => [{ id: 'ins_dead', held: { nano_usd: 5_000, tokens: 3 }, accounts: 2, lastAtMs: 0 }],
    },
    liveInstances: () => gateway.liveInstances,
    instanceStandings: () => gateway.standings,
    verifyBudget: async () => VERIFIED,
    dataKeys,
    content: { erase: async () => 0 },
    history: presentHistory(live, settings.record),
    kindTable: {
      resolve: (text) => KINDS.find((known) => known.kind === text.toLowerCase().replaceAll('-', '_')) ?? null,
      names: KINDS.map((known) => known.kind),
    },
    healthOf: (id) => providerHealth(book, id, []),
    adapterReady: (row) => row.credential !== null,
    hasVariable: () => false,
    modelCatalogue: {
      list,
      factsOfListed: async (_provider, listed) => modelFacts(listed, NO_PRICE, ['chat', 'streaming']),
      factsOf: async () => modelFacts(null, { ...NO_PRICE, input: 1.5, contextWindow: 1000 }, ['chat', 'streaming']),
    },
    providerWork: { ...NO_WORK, list, ...work },
    allowPrivate: false,
    clearBreakers: async () => {
      gateway.breakersCleared += 1
      return { applied: 2, instances: 3 }
    },
    steering: createSteering(live),
    furtherRoutes: further,
  }

  const app = new Elysia()
    .onError({ as: 'global' }, ({ error, request }) => errorResponse(error, contextOf(request)) as never)
    .use(consoleAuthRoutes({ ...deps, ...door.deps }, (event) => void counted.push(event)))
    .use(adminRoutes(deps))

  const gateway: Gateway = {
    state,
    vault,
    listed: [],
    failure: null,
    events,
    breakersCleared: 0,
    liveInstances: [],
    standings: [],
    nowMs: Date.UTC(2026, 10, 20),
    deps,
    door,
    counted,
    apply,
    keyWith(scopes, tenantId = 'ten_default') {
      const key = newApiKey()
      const data = {
        id: newId('key'),
        tenant_id: tenantId,
        name: 'test',
        scopes,
        digest: sha256Hex(key),
        expires_at: null,
      }
      const rest = { routing_policy_id: null, rate_limits: null, managed_by: 'api' }
      gateway.apply([{ type: 'api_key.issued', data: { ...data, ...rest } }])
      return key
    },
    async call(method, path, { key = ADMIN_KEY, body, raw, headers = {}, from = '127.0.0.1', scheme = 'http' } = {}) {
      const text = raw ?? (body === undefined ? undefined : JSON.stringify(body))
      const request = new Request(`${BASE.replace('http:', `${scheme}:`)}${path}`, {
        method,
        headers: {
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...(text === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        body: text,
      })
      notePeer(request, { requestIP: () => ({ address: from }) })
      const response = await app.handle(request)
      const answered = await response.text()
      const isJson = response.headers.get('content-type')?.startsWith('application/json') === true
      return {
        status: response.status,
        headers: response.headers,
        body: (isJson ? JSON.parse(answered) : answered === '' ? null : { text: answered }) as Record<string, unknown>,
      }
    },
  }
  const started = { chain_id: 'chain_test', partitions: {}, schema_version: EVENT_VERSION }
  const stamps = { created_at: '', updated_at: '', revision: '' }
  state.apply([{ table: 'chain', id: CHAIN_ROW, before: null, after: { ...started, ...stamps } }])
  const tenant = { plan: null, rate_limits: null, managed_by: 'api' }
  const issued = { routing_policy_id: null, rate_limits: null, managed_by: 'api', expires_at: null }
  gateway.apply([
    { type: 'tenant.created', data: { id: 'ten_default', slug: 'default', name: 'Default', ...tenant } },
    { type: 'tenant.created', data: { id: 'ten_other', slug: 'other', name: 'Other', ...tenant } },
    {
      type: 'api_key.issued',
      data: {
        id: 'key_admin',
        tenant_id: 'ten_default',
        name: 'admin',
        scopes: ['*'],
        digest: sha256Hex(ADMIN_KEY),
        ...issued,
      },
    },
  ])
  return gateway
}
