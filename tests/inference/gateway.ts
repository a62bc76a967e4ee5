// The app on fakes at its ports: state in memory, a spool that keeps what it is given, real providers on loopback.
import { type App, type AppDeps, createApp } from '../../src/app.ts'
import { type ControlReader, ControlState } from '../../src/domain/control.ts'
import type { HealthEvent } from '../../src/domain/events/health.ts'
import { POLICY_DEFAULTS, type PolicyRow } from '../../src/domain/steering/policy.ts'
import type { Telemetry } from '../../src/http/metrics/telemetry.ts'
import type { OperationsDeps, ReadinessCheck } from '../../src/http/operations.ts'
import { processLimits } from '../../src/inference/limits/local.ts'
import type { Limits } from '../../src/inference/limits/port.ts'
import { INFERENCE_DEFAULTS, type InferenceDeps, type InferenceSettings } from '../../src/inference/request/deps.ts'
import type { Traces } from '../../src/inference/request/trace.ts'
import type { RequestLookup } from '../../src/inference/surface/request-search.ts'
import { sha256Hex } from '../../src/lib/crypto/digest.ts'
import type { LoadGate } from '../../src/lib/event-loop/load-gate.ts'
import type { Dial } from '../../src/lib/http-client/dial.ts'
import { createDialer } from '../../src/lib/http-client/dialer.ts'
import type { ProviderKind } from '../../src/providers/port.ts'
import { type Budgets, NO_BUDGETS } from '../../src/state/budgets/budgets.ts'
import { type HealthBook, openHealth } from '../../src/state/health/book.ts'
import { FeedbackMeans } from '../../src/state/health/feedback-means.ts'
import type { Frames } from '../../src/state/health/frame.ts'
import { lastUses } from '../../src/state/indexes/last-uses.ts'
import { RecentRequests } from '../../src/state/indexes/recent-requests.ts'
import { type Steering, UNSTEERED } from '../../src/state/indexes/steering.ts'
import type { Catalogue, CatalogueEntry, FoldedBatch, KeyEntry, LiveState } from '../../src/state/port.ts'
import { plainKind } from './plain-kind.ts'
import { type TestSpool, testSpool } from './test-spool.ts'

export const KEY = 'gw_live_inferenceinferenceinferenceinference'
export const ADMIN_KEY = 'gw_live_adminadminadminadminadminadminadminadmin'
export const READ_KEY = 'gw_live_readreadreadreadreadreadreadreadreadread'
export const TIP = 'a'.repeat(64)

/** A catalogue row; what is not said is what most tests want. */
export const entry = (fields: Partial<CatalogueEntry> = {}): CatalogueEntry => {
  const name = fields.name ?? 'small'
  const provider = fields.provider ?? 'alpha'
  return {
    modelId: `mod_${provider}_${name}`,
    providerId: `prov_${provider}`,
    name,
    provider,
    kind: 'plain',
    baseUrl: 'http://127.0.0.1:9/v1',
    upstreamModel: name,
    priority: 100,
    capabilities: plainKind.capabilities,
    contextWindow: 128_000,
    maxOutputTokens: 4_096,
    inputCostPerMillion: 1,
    outputCostPerMillion: 2,
    cachedInputCostPerMillion: null,
    region: null,
    timeoutMs: null,
    weight: 1,
    maxConcurrency: null,
    usageOnStream: false,
    options: {},
    unroutable: null,
    secret: null,
    revision: 'b'.repeat(64),
    createdAtMs: 1_760_000_000_000,
    ...fields,
  }
}

export const catalogueOf = (
  entries: readonly CatalogueEntry[],
  aliases: Readonly<Record<string, string>> = {},
): Catalogue => {
  const all = [...entries].sort((a, b) => a.priority - b.priority || (a.provider < b.provider ? -1 : 1))
  const names = new Map(Object.entries(aliases))
  const byAlias = new Map([...names].map(([alias, name]) => [alias.toLowerCase(), name.toLowerCase()]))
  return {
    version: 0,
    resolve(name) {
      const lower = name.toLowerCase()
      const exact = all.filter((row) => row.name.toLowerCase() === lower)
      return exact.length > 0 ? exact : all.filter((row) => row.name.toLowerCase() === byAlias.get(lower))
    },
    all: () => all,
    aliases: () => names,
    usableProviders: (killed) =>
      new Set(all.filter((row) => row.unroutable === null && !killed.has(row.providerId)).map((row) => row.providerId))
        .size,
  }
}

export const policyRow = (fields: Partial<PolicyRow>): PolicyRow => ({
  ...POLICY_DEFAULTS,
  id: `pol_${fields.name ?? 'default'}`,
  tenant_id: null,
  name: 'default',
  managed_by: 'api',
  created_at: '2026-01-01T00:00:00.000Z',
  updated_at: '2026-01-01T00:00:00.000Z',
  revision: TIP,
  ...fields,
})

export interface TestGateway {
  readonly app: App
  readonly spool: TestSpool
  readonly health: HealthBook
  /** What the book of health has said, oldest first. */
  readonly events: readonly HealthEvent[]
  setPolicy(row: PolicyRow): void
  /** Sends a request to the app; the inference key unless another (null: none) is given. */
  send(
    path: string,
    init?: {
      method?: string
      body?: unknown
      raw?: BodyInit
      key?: string | null
      headers?: Record<string, string>
      signal?: AbortSignal
    },
  ): Promise<Response>
  chat(body: Record<string, unknown>, headers?: Record<string, string>, signal?: AbortSignal): Promise<Response>
  close(): void
}

/** Postgres is away. */
const NO_LOOKUP: RequestLookup = {
  hasOthers: false,
  find: () => Promise.reject(new Error('no database')),
  isKnown: () => Promise.reject(new Error('no database')),
  behindMs: () => Promise.reject(new Error('no database')),
}

export const testGateway = (
  options: {
    entries?: readonly CatalogueEntry[]
    aliases?: Record<string, string>
    kinds?: readonly ProviderKind[]
    spool?: TestSpool
    steering?: Steering
    requestLookup?: RequestLookup
    frames?: Frames
    dial?: Dial
    policies?: readonly PolicyRow[]
    inference?: Partial<InferenceSettings>
    /** Since the end of the log was confirmed; 0 when not given. */
    staleMs?: () => number
    limits?: Limits
    budgets?: Budgets
    keys?: Readonly<Record<string, Partial<KeyEntry>>>
    /** Whether a key that was looked up is still one; true when not given. */
    standing?: (key: KeyEntry) => boolean
    providersUsable?: number
    readiness?: ReadinessCheck[]
    prometheusEnabled?: boolean
    docsEnabled?: boolean
    /** The clock of the book of health. */
    monotonicMs?: () => number
    telemetry?: Telemetry
    traces?: Traces
    gate?: LoadGate
    corsOrigins?: readonly string[]
    isWarm?: () => boolean
  } = {},
): TestGateway => {
  const state = new ControlState()
  const listeners = new Set<(batch: FoldedBatch) => void>()
  const setPolicy = (row: PolicyRow) => {
    const before = state.table('policies').get(row.id) ?? null
    const changes = [{ table: 'policies', id: row.id, before, after: row }]
    state.apply(changes)
    for (const listener of listeners) listener({ changes, refused: [] })
  }
  for (const row of options.policies ?? []) setPolicy(row)
  const live: LiveState = {
    control: state as ControlReader,
    status: () => ({
      offset: 7,
      tip: TIP,
      logAtMs: 0,
      chainId: 'chain_test',
      digest: '',
      phase: 'live',
      serves: true,
      degraded: null,
      degradation: null,
      staleMs: options.staleMs?.() ?? 0,
      counts: { counted: 0, lost: 0, unreadable: 0, forged: 0, malformed: 0 },
    }),
    reached: async (revision) => revision === TIP,
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    refused: new Set(),
    close: async () => {},
  }
  const keyEntry = (id: string, fields: Partial<KeyEntry>): KeyEntry => ({
    id,
    tenantId: 'ten_1',
    scopes: ['inference'],
    expiresAtMs: null,
    routingPolicyId: null,
    ...fields,
  })
  const known = new Map<string, KeyEntry>([
    [sha256Hex(KEY), keyEntry('key_1', {})],
    [sha256Hex(ADMIN_KEY), keyEntry('key_2', { scopes: ['*'] })],
    [sha256Hex(READ_KEY), keyEntry('key_3', { scopes: ['usage:read'] })],
  ])
  for (const [plain, fields] of Object.entries(options.keys ?? {}))
    known.set(sha256Hex(plain), keyEntry('key_x', fields))
  const spool = options.spool ?? testSpool()
  const dialer = createDialer({ allowPrivate: true })
  const catalogue = catalogueOf(options.entries ?? [entry()], options.aliases)
  const events: HealthEvent[] = []
  const kinds = new Map((options.kinds ?? [plainKind]).map((kind) => [kind.kind, kind]))
  const health = openHealth({
    catalogue,
    nowMs: Date.now,
    monotonicMs: options.monotonicMs ?? (() => performance.now()),
    emit: (event) => events.push(event),
  })
  const app = createApp({
    live,
    keys: {
      lookup: (digest) => known.get(digest) ?? null,
      knows: (digest) => known.has(digest),
      isValid: (key) => options.standing?.(key) ?? true,
    },
    lastUses: lastUses(),
    catalogue,
    steering: options.steering ?? UNSTEERED,
    frames: options.frames ?? health,
    health,
    recentRequests: new RecentRequests(),
    feedback: new FeedbackMeans(),
    requestLookup: options.requestLookup ?? NO_LOOKUP,
    nowMs: Date.now,
    kinds,
    budgets: options.budgets ?? NO_BUDGETS,
    limits: options.limits ?? processLimits(() => performance.now()),
    spool,
    dial: options.dial ?? dialer.dial,
    random: () => 0.5,
    userDigest: (tenant, user) => sha256Hex(`${tenant}/${user}`),
    inference: { ...INFERENCE_DEFAULTS, ...options.inference },
    ...operations(options),
    ...NO_ADMIN,
    corsOrigins: options.corsOrigins ?? [],
    telemetry: options.telemetry,
    traces: options.traces ?? null,
    ...(options.gate && { gate: options.gate }),
    ...(options.isWarm && { isWarm: options.isWarm }),
  })
  const send: TestGateway['send'] = async (path, init = {}) => {
    const { key = KEY, headers = {}, signal } = init
    const body = init.raw ?? (init.body === undefined ? null : JSON.stringify(init.body))
    return app.fetch(
      new Request(`http://gateway.test${path}`, {
        method: init.method ?? (body === null ? 'GET' : 'POST'),
        body,
        headers: {
          ...(body === null ? {} : { 'content-type': 'application/json' }),
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...headers,
        },
        ...(signal === undefined ? {} : { signal }),
      }),
    )
  }
  return {
    app,
    spool,
    health,
    events,
    setPolicy,
    send,
    chat: (body, headers, signal) =>
      send('/v1/chat/completions', { body, ...(headers && { headers }), ...(signal && { signal }) }),
    close: () => dialer.close(),
  }
}

const operations = (options: { readiness?: ReadinessCheck[]; prometheusEnabled?: boolean; docsEnabled?: boolean }) => ({
  build: { name: 'gatelog', version: '0.0.0', commit: null, environment: 'test' },
  components: { log: 'memory' },
  readiness: options.readiness ?? [],
  prometheusEnabled: options.prometheusEnabled ?? true,
  docsEnabled: options.docsEnabled ?? true,
  backgroundUnits: () => 3,
})

/** The admin surface is not mounted: it has tests of its own. */
const NO_ADMIN = {
  adminEnabled: false,
  instanceCounts: () => ({ live: 1, diverged: 0, behindRecords: 0, nameShared: 0, clockAheadMs: 0 }),
} as unknown as Omit<AppDeps, keyof InferenceDeps | keyof OperationsDeps>

/** The data of each frame of a stream, `[DONE]` included; `event: error` frames as `{ event, data }`. */
export const framesOf = async (response: Response): Promise<unknown[]> => {
  const text = await response.text()
  return text
    .split('\n\n')
    .filter((frame) => frame !== '')
    .map((frame) => {
      const event = /^event: (.*)$/m.exec(frame)?.[1]
      const data = /^data: (.*)$/m.exec(frame)![1]!
      const value: unknown = data === '[DONE]' ? data : JSON.parse(data)
      return event === undefined ? value : { event, data: value }
    })
}
