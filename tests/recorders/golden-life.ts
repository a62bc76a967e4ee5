// The traffic that a golden log records: every write route of the administration, and every other source of control
// events. `recorders/record-log.ts` runs it.
import { LIMITS, PARAMETERS } from './golden-settings.ts'

export interface Answer {
  readonly id: string
  readonly operator_id?: string
  /** What `X-Gateway-Revision` names. */
  readonly revision: string
  /** The cookie that it sets, or ''. */
  readonly cookie: string
  readonly [member: string]: unknown
}

export type Call = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Readonly<Record<string, string>>,
) => Promise<Answer>

const PASSWORD = 'a password of many words'
const OTHER_PASSWORD = 'another one of many words'
/** The cookie of the operator that stays logged in. */
const people = async (call: Call): Promise<string> => {
  const ada = { username: 'ada', password: PASSWORD }
  const { cookie, operator_id } = await call('POST', '/auth/setup', { ...ada, confirm: PASSWORD })
  const further = await call('POST', '/auth/login', ada)
  await call('POST', '/auth/logout', {}, { cookie: further.cookie })
  await call('POST', '/auth/login', ada)
  const password = { current_password: PASSWORD, password: OTHER_PASSWORD, confirm: OTHER_PASSWORD }
  await call('PUT', `/operators/${operator_id}/password`, password, { cookie, 'sec-fetch-site': 'same-origin' })
  const bob = { username: 'bob', password: PASSWORD }
  const { id } = await call('POST', '/operators', { ...bob, confirm: PASSWORD })
  await call('PUT', `/operators/${id}/password`, { password: OTHER_PASSWORD, confirm: OTHER_PASSWORD })
  await call('POST', '/auth/login', { ...bob, password: OTHER_PASSWORD })
  await call('DELETE', `/operators/${id}`)
  return cookie
}

const keys = async (call: Call, tenantId: string, policyId: string): Promise<string> => {
  const issue = (name: string, more: object = {}, headers = {}) =>
    call('POST', '/keys', { tenant_id: tenantId, name, scopes: ['inference'], ...more }, headers)
  const kept = await issue('kept', { rate_limits: LIMITS, expires_in_hours: 720, routing_policy_id: policyId })
  const changes = { name: 'renamed', scopes: ['inference', 'usage:read'], expires_at: '2027-01-31T12:00:00Z' }
  const changed = await call('PATCH', `/keys/${kept.id}`, { ...changes, routing_policy_id: null, rate_limits: null })
  await call('POST', `/log/${changed.revision}/revert`)
  const rotated = await issue('rotated', {}, { 'Idempotency-Key': `golden-${tenantId}` })
  await call('POST', `/keys/${rotated.id}/rotate`)
  await call('DELETE', `/keys/${(await issue('revoked')).id}`)
  return kept.id
}

interface Routed {
  readonly provider: string
  readonly model: string
}

const providerOf = async (call: Call, n: number, baseUrl: string): Promise<Routed> => {
  const upstream = {
    name: `upstream-${n}`,
    kind: 'openai_compatible',
    base_url: baseUrl,
    api_key_env: 'OPENAI_API_KEY',
  }
  const sizes = { timeout_ms: 5_000, max_concurrency: 9, weight: 1.5 }
  const provider = await call('POST', '/providers', {
    ...upstream,
    ...sizes,
    region: 'eu',
    options: { forward: ['a'] },
  })
  const path = `/providers/${provider.id}`
  await call('PUT', path, {
    kind: 'vllm',
    base_url: baseUrl,
    timeout_ms: 6_000,
    max_concurrency: 8,
    weight: 1,
    usage_on_stream: true,
  })
  await call('PATCH', path, {
    status: 'disabled',
    region: 'us',
    options: { drop: ['b'] },
    api_key_env: 'PROVIDER_OTHER',
  })
  await call('PATCH', path, {
    status: 'active',
    kind: 'openai_compatible',
    base_url: baseUrl.replace('127.0.0.1', 'localhost'),
  })
  await call('PUT', `${path}/credential`, { secret: 'not a secret at all', name: 'first' })
  await call('PUT', `${path}/credential`, { secret: 'not a secret either', name: 'second', sync_models: n > 0 })
  if (n % 2 === 1) await call('DELETE', `${path}/credential`)
  if (n === 2) await movedSecrets(call, path, baseUrl)
  return { provider: provider.id, model: await modelOf(call, n, provider.id) }
}

/** Secrets that stay behind when the address changes, are given again, and are taken along. */
const movedSecrets = async (call: Call, path: string, baseUrl: string): Promise<void> => {
  await call('PATCH', path, { base_url: baseUrl })
  await call('PATCH', path, { api_key_env: 'PROVIDER_OTHER' })
  const kept = await call('PATCH', path, {}, { 'X-Gateway-Keep-Credential': 'true' })
  await call('POST', `/log/${kept.revision}/revert`)
  const left = { name: 'left', kind: 'openai_compatible', base_url: baseUrl, api_key_env: 'PROVIDER_LEFT' }
  const { id } = await call('POST', '/providers', left)
  await call('PATCH', `/providers/${id}`, { base_url: baseUrl.replace('127.0.0.1', 'localhost') })
  const gone = await call('DELETE', `/providers/${id}`)
  await call('POST', `/log/${gone.revision}/revert`)
}

const modelOf = async (call: Call, n: number, providerId: string): Promise<string> => {
  const tier = { above_prompt_tokens: 1_000, input_cost_per_million: 3, output_cost_per_million: 4 }
  const price_tiers = [{ ...tier, cached_input_cost_per_million: null }]
  const wanted = { name: `model-${n}`, provider_id: providerId, priority: n, capabilities: ['chat', 'vision'] }
  const sizes = { context_window: 8_192, max_output_tokens: 1_024 }
  const { id } = await call('POST', '/models', { ...wanted, ...(n % 2 === 0 ? sizes : { price_tiers }) })
  const prices = { input_cost_per_million: 1.5, output_cost_per_million: 2.5, cached_input_cost_per_million: 0.5 }
  const other = { context_window: 4_096, max_output_tokens: 512, upstream_model: `other-${n}` }
  const tiers = { price_tiers: n % 2 === 0 ? price_tiers : null }
  await call('PUT', `/models/${id}`, { aliases: [`fast-${n}`], ...prices, ...other, ...tiers })
  await call('PATCH', `/models/${id}`, { enabled: false, capabilities: ['chat'], priority: 50 })
  await call('PATCH', `/models/${id}`, { enabled: true })
  return id
}

const steering = async (
  call: Call,
  n: number,
  tenantId: string,
  keyId: string,
  { provider }: Routed,
): Promise<void> => {
  const overrides = {
    forced_model: `model-${n}`,
    preferred_models: [`model-${n}`],
    preferred_providers: [`upstream-${n}`],
  }
  const owner = n % 2 === 0 ? { tenant_id: tenantId } : {}
  const scope = await call('PUT', '/endpoints', {
    slug: `scope-${n}`,
    name: `Scope ${n}`,
    description: 'One',
    overrides,
    ...owner,
  })
  const limits = { strategy: 'lowest_cost', max_cost_usd: 0.1, latency_target_ms: 900, no_fallback: true }
  const named = {
    slug: `scope-${n}`,
    name: 'Another name',
    description: 'It is one',
    aliases: [`scoped-${n}`],
    ...owner,
  }
  await call('PUT', '/endpoints', { ...named, overrides: { ...overrides, ...limits }, enabled: false })
  await call('POST', '/overrides', { kind: 'block', target: `model:model-${n}`, reason: 'golden' })
  await call('POST', '/overrides', { kind: 'block', target: `key:${keyId}`, tenant_id: tenantId })
  await call('POST', '/overrides', { kind: 'block', target: `key:${keyId}`, tenant_id: tenantId, enabled: false })
  const until = { expires_at: '2099-01-01T00:00:00Z' }
  const cap = await call('POST', '/overrides', {
    kind: 'cap',
    target: `model:model-${n}`,
    value: { max_cost_usd: 1 },
    ...until,
  })
  await call('POST', `/log/${cap.revision}/revert`)
  await call('POST', '/overrides', { kind: 'force', target: `endpoint:scope-${n}`, value: { model: `model-${n}` } })
  await call('POST', '/overrides', { kind: 'disable', tenant_id: tenantId, value: { features: ['cache'] } })
  await call('POST', `/providers/${provider}/kill`, { kill: true, reason: 'golden' })
  if (n % 2 === 0) await call('POST', `/providers/${provider}/kill`, { kill: false })
  if (n % 2 === 1) await call('DELETE', `/endpoints/${scope.id}`)
}

const policies = async (call: Call, n: number, tenantId: string): Promise<string> => {
  const named = { name: `policy-${n}`, tenant_id: tenantId }
  const { id } = await call('POST', '/policies', {
    ...named,
    max_cost_usd: 0.5 + n,
    latency_target_ms: 700,
    rate_limits: LIMITS,
  })
  const sets = {
    models: ['seeded'],
    providers: { only: ['seeded'] },
    regions: ['eu'],
    sensitivity: { pii: { providers: ['seeded'] } },
  }
  const tries = {
    fallback: { enabled: true, max_attempts: 3 },
    retry: { attempts: 1 },
    breaker: { failure_threshold: 3 },
  }
  const rest = {
    latency_target_ms: 800,
    allow_region_override: false,
    timeouts: { total_ms: 9_000 },
    cache: { mode: 'exact' },
  }
  const fields = { strategy: 'balanced', strategy_params: { weights: { cost: 0.5 } }, ...sets, ...tries, ...rest }
  await call('PUT', '/policies', { ...named, ...fields, rate_limits: { rpm: 5 }, enabled: false })
  const other = await call('POST', '/policies', { name: `gone-${n}`, tenant_id: null })
  const gone = await call('DELETE', `/policies/${other.id}`)
  if (n === 0) await call('POST', `/log/${gone.revision}/revert`)
  return id
}

const limits = async (call: Call, n: number, tenantId: string, keyId: string): Promise<void> => {
  const owner = { tenant_id: tenantId }
  const budget = { ...owner, window: 'day', limit_usd: 10 + n, alert_thresholds: [0.5, 1] }
  const { id } = await call('PUT', '/budgets', budget)
  await call('POST', `/budgets/${id}/verify`)
  const amounts = { limit_usd: 11, soft_limit_usd: 9, hard_cap_usd: 0.5, limit_tokens: 1_000 }
  const rest = { calendar_aligned: false, timezone: 'Europe/Berlin', alert_thresholds: [0.8], enforcement: 'soft' }
  await call('PUT', '/budgets', { ...budget, ...amounts, ...rest, enabled: false })
  const scope = { type: 'model', id: `model-${n}` }
  const scoped = await call('PUT', '/budgets', { ...owner, scope, ...amounts })
  const gone = await call('DELETE', `/budgets/${scoped.id}`)
  if (n === 0) await call('POST', `/log/${gone.revision}/revert`)
  const rule = { ...owner, name: `rule-${n}`, ttl_seconds: 60 }
  const made = await call('PUT', '/cache/policies', rule)
  const semantic = { mode: 'semantic', similarity_threshold: 0.95, scopes: [`key:${keyId}`] }
  await call('PUT', '/cache/policies', { ...rule, ...semantic, ttl_seconds: 90, enabled: false })
  if (n % 2 === 1) await call('DELETE', `/cache/policies/${made.id}`)
  await call('PUT', '/cache/policies', { ...rule, ...semantic, name: `near-${n}` })
  const tool = await call('POST', '/tools', { name: `tool-${n}`, ...owner, parameters: PARAMETERS })
  const { required: _, ...looser } = PARAMETERS
  await call('PUT', `/tools/${tool.id}`, { description: 'It is one', safety: 'sensitive', parameters: looser })
  await call('POST', `/tools/${tool.id}/enabled`, { enabled: false })
  await call('POST', `/tools/${tool.id}/enabled`, { enabled: true })
  if (n % 2 === 1) await call('DELETE', `/tools/${tool.id}`)
  const bounds = { name: `tools-${n}`, ...owner }
  const policy = await call('PUT', '/tool-policies', { ...bounds, mode: 'automatic', max_steps: 3 + n })
  const changed = { mode: 'manual', max_steps: 1, max_tool_calls: 2, max_run_seconds: 30, enabled: false }
  await call('PUT', '/tool-policies', { ...bounds, ...changed })
  if (n % 2 === 1) await call('DELETE', `/tool-policies/${policy.id}`)
}

const providerWork = async (call: Call, { provider, model }: Routed): Promise<void> => {
  const path = `/providers/${provider}`
  await call('POST', `${path}/probe`)
  await call('POST', `${path}/test`, { checks: ['connectivity', 'models'] })
  await call('POST', `${path}/test`, { checks: ['sample'], model: 'model-0' })
  const synced = await call('POST', `${path}/sync-models`)
  await call('POST', `${path}/detect-capabilities`, { models: [model] })
  await call('POST', `/log/${(synced.revisions as string[])[0]}/revert`)
}

const prices = async (call: Call): Promise<void> => {
  const about = {
    provider: 'upstream-0',
    model: 'model-0',
    from: '2026-10-01',
    to: '2026-11-01T12:30:00Z',
    reason: 'contract',
  }
  const usd = { input_cost_per_million: 0.12, output_cost_per_million: 0.6, cached_input_cost_per_million: 0.06 }
  const corrected = await call('POST', '/prices/corrections', { ...about, ...usd })
  await call('POST', '/prices/corrections', { ...about, ...usd, to: '2026-10-02' })
  const withdrawn = await call('POST', `/log/${corrected.revision}/revert`)
  await call('POST', `/log/${withdrawn.revision}/revert`)
}

/** All of it except what needs another time or another instance. Returns the cookie of a logged-in operator. */
export const live = async (call: Call, baseUrl: string): Promise<string> => {
  const cookie = await people(call)
  for (let n = 0; n < 4; n++) {
    const tenant = await call('POST', '/tenants', { slug: `tenant-${n}`, name: `Tenant ${n}` })
    const renaming = { name: `Renamed ${n}`, plan: n % 2 === 0 ? 'gold' : null, rate_limits: LIMITS }
    const renamed = await call('PUT', `/tenants/${tenant.id}`, renaming)
    if (n === 1) await call('POST', `/log/${renamed.revision}/revert`)
    const policy = await policies(call, n, tenant.id)
    const key = await keys(call, tenant.id, policy)
    const routed = await providerOf(call, n, baseUrl)
    if (n === 0) await providerWork(call, routed)
    if (n === 0) await prices(call)
    await steering(call, n, tenant.id, key, routed)
    await limits(call, n, tenant.id, key)
    const again = { 'Idempotency-Key': `again-${n}` }
    const same = await call('PUT', `/tenants/${tenant.id}`, { name: `Last ${n}` })
    await call('PUT', `/tenants/${tenant.id}`, { name: `Last ${n}` }, again)
    if (n === 2) await call('POST', `/log/${same.revision}/revert`)
    await call('DELETE', `/tenants/${tenant.id}/content`)
    if (n !== 2) continue
    // All of it falls with its tenant and its provider.
    await call('POST', `/providers/${routed.provider}/test`, { checks: ['connectivity'] })
    await call('PUT', '/budgets', { scope: { type: 'provider', id: routed.provider }, limit_usd: 3 })
    await call('DELETE', `/models/${routed.model}`)
    await call('DELETE', `/providers/${routed.provider}`)
    await call('DELETE', `/tenants/${tenant.id}?force=true`)
  }
  await call('POST', '/policies/reload')
  await call('POST', '/overrides', { kind: 'freeze', reason: 'golden' })
  await call('POST', '/overrides', { kind: 'freeze', enabled: false })
  return cookie
}

interface Listed {
  readonly id: string
  readonly name?: string
  readonly tenant_id?: string
}

/** What the settings made, edited through the API, which owns it from then on. */
export const takeOver = async (call: Call): Promise<void> => {
  const listed = async (path: string, noun: string) => (await call('GET', path))[noun] as readonly Listed[]
  const idOf = async (path: string, noun: string, name = 'seeded') =>
    (await listed(path, noun)).find((row) => row.name === name)!.id
  const tenantId = (await listed('/tenants', 'tenants')).find(({ name }) => name === 'Seeded')!.id
  const owner = { name: 'seeded', tenant_id: tenantId }
  await call('PUT', `/tenants/${tenantId}`, { name: 'Taken over' })
  await call('PATCH', `/keys/${await idOf(`/keys?tenant_id=${tenantId}`, 'keys')}`, { name: 'taken over' })
  await call('PATCH', `/providers/${await idOf('/providers', 'providers')}`, { region: 'eu', status: 'disabled' })
  await call('PATCH', `/providers/${await idOf('/providers', 'providers', 'off')}`, { status: 'active' })
  const sealed = await idOf('/providers', 'providers', 'sealed')
  await call('PUT', `/providers/${sealed}/credential`, { secret: 'not a secret of the settings' })
  await call('PATCH', `/models/${await idOf('/models', 'models')}`, { priority: 1, enabled: false })
  await call('PATCH', `/models/${await idOf('/models', 'models', 'off')}`, { enabled: true })
  await call('PUT', '/policies', { ...owner, strategy: 'weighted' })
  await call('PUT', '/endpoints', { slug: 'seeded', tenant_id: tenantId, description: 'taken over' })
  const scope = { type: 'provider', id: 'seeded' }
  await call('PUT', '/budgets', { tenant_id: tenantId, scope, limit_usd: 7 })
  await call('PUT', '/cache/policies', { ...owner, ttl_seconds: 90 })
  const tool = `/tools/${await idOf('/tools', 'tools')}`
  await call('PUT', tool, { description: 'taken over', enabled: false })
  await call('POST', `/tools/${await idOf('/tools', 'tools', 'off')}/enabled`, { enabled: true })
  await call('PUT', '/tool-policies', { ...owner, max_steps: 9 })
}
