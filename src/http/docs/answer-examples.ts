// An example of each response, made from its schema. Equal names always have equal values: those of the example of the
// body where it has them.
import { type TSchema, Value } from '../../lib/schema/schema.ts'
import type { AdminRoute } from '../admin/route.ts'
import { EXAMPLES } from './examples.ts'

const UUID = '0199a0c4-7a10-7cc1-9d2e-3f5b8a6c1d20'
const AT = '2026-11-20T13:00:00.000Z'
const REVISION = '6f0c1d9e4b7a2835'.repeat(4)

/** Ids by the first segment of the path. */
const PREFIXES: Readonly<Record<string, string>> = {
  ...{
    tenants: 'ten',
    keys: 'key',
    providers: 'prov',
    models: 'mod',
    policies: 'pol',
    endpoints: 'end',
    tools: 'tool',
  },
  ...{
    budgets: 'bud',
    overrides: 'ovr',
    guardrails: 'ovr',
    cache: 'rule',
    operators: 'op',
    prices: 'pcor',
    instances: 'ins',
  },
  ...{ 'tool-policies': 'tpol', requests: 'req', errors: 'req', audit: 'dec', feedback: 'fb' },
}

const NAMED: Readonly<Record<string, unknown>> = {
  ...{ tenant_id: `ten_${UUID}`, key_id: `key_${UUID}`, provider_id: `prov_${UUID}`, model_id: `mod_${UUID}` },
  ...{ policy_id: `pol_${UUID}`, request_id: `req_${UUID}`, decision_id: REVISION, subject_id: `ten_${UUID}` },
  ...{ revision: REVISION, created_at: AT, updated_at: AT, at: AT, from: AT, to: '2026-11-21T13:00:00.000Z' },
  ...{ name: 'support', slug: 'support', plan: 'team', username: 'ada', scopes: ['inference'], status: 'active' },
  ...{
    model: 'gpt-4o-mini',
    requested_model: 'gpt-4o-mini',
    routed_model: 'gpt-4o-mini',
    upstream_model: 'gpt-4o-mini',
  },
  ...{ provider: 'openai', kind: 'openai', api_key_env: 'OPENAI_API_KEY', options: {}, weight: 1, priority: 10 },
  ...{ aliases: ['small'], capabilities: ['chat', 'streaming'], capability_source: 'catalogue', strategy: 'balanced' },
  ...{ plaintext: `gw_live_${'x'.repeat(43)}`, warning: 'It is shown this once.', target: 'model:gpt-4o-mini' },
  ...{ has_credential: false, killed: false, in_force: true, executable: false, usage_on_stream: false },
  ...{ outcome: 'success', stream: false, cache_hit: false, fallback_used: false, attempts: 1, latency_ms: 812 },
  ...{ ttft_ms: 240, prompt_tokens: 120, completion_tokens: 40, cost_usd: 0.0002, cost_basis: 'measured' },
  ...{
    window: 'month',
    window_start: AT,
    timezone: 'UTC',
    spent_usd: 12.5,
    actor: { type: 'operator', id: `op_${UUID}` },
  },
  ...{
    models: [],
    regions: [],
    preferred_models: ['small'],
    preferred_providers: [],
    no_fallback: false,
    task: 'chat',
  },
  ...{ overrides_applied: [], required_capabilities: ['chat'], trace_id: '4bf92f3577b34da6a3ce929d0e0e4736' },
  ...{ scope: { type: 'tenant', id: `ten_${UUID}` }, action: 'update', resource: 'tenant', event: 'tenant.replaced' },
}

const RECORD = {
  ...{ offset: 41, id: REVISION, verdict: 'counted', reason: null, at: AT, log_at: AT },
  ...{ actor: { type: 'operator', id: `op_${UUID}` }, instance: 'gateway-1', parent: '0'.repeat(64) },
  ...{ has_cause: false, event_types: ['tenant.replaced'], reverts: null },
}
/** Values where the schema alone would give a poor example. */
const WRITTEN: Readonly<Record<string, unknown>> = {
  'POST /providers/:id/sync-models': {
    ...{
      created: 2,
      skipped: 1,
      total: 3,
      capability_source: 'provider',
      capabilities_filled: 2,
      revisions: [REVISION],
    },
  },
  'POST /providers/:id/test': testExample('test', { check: 'connectivity', detail: 'it answers' }),
  'GET /providers/:id/tests': testExample('test', { check: 'connectivity', detail: 'it answers' }),
  'POST /providers/:id/detect-capabilities': {
    ...{ attempted: 1, proven: 1, indeterminate: 0, skipped: 0, disproved: 0, models_left: 0 },
    ...{ id: `test_${UUID}`, provider_id: `prov_${UUID}`, created_at: AT },
    models: [
      {
        ...{ model_id: `mod_${UUID}`, model: 'gpt-4o-mini', status: 'passed', latency_ms: 412, detail: 'proven: chat' },
        ...{ cost_usd: 0.000012, capabilities: ['chat'], capability_source: 'detected' },
        ...{ proven: ['chat'], disproved: [], indeterminate: [], skipped: [] },
        verdicts: [{ capability: 'chat', verdict: 'proven', detail: 'it answered', latency_ms: 398 }],
      },
    ],
  },
  'POST /policies/reload': { reloaded: true, revision: REVISION },
  'POST /budgets/:id/verify': {
    ...{
      id: `bud_${UUID}`,
      account: `bud_${UUID}/1795305600000-1795392000000`,
      matches: true,
      complete: true,
      folds_alike: true,
      unread_records: 0,
      outcomes: 18,
    },
    ...{ spent_usd: 0.01818, recomputed_usd: 0.01818, difference_usd: 0, spent_tokens: 1980, recomputed_tokens: 1980 },
    ...{ carried_usd: 0, reserved_usd: 0.00182, overrun_usd: 0 },
  },
  'GET /log': { decisions: [RECORD], total: 42, limit: 50, offset: 0, next_before: null },
  'GET /log/:id': {
    ...RECORD,
    events: [{ type: 'tenant.replaced', data: { id: `ten_${UUID}`, name: 'Acme Ltd', plan: 'team' } }],
    changes: [{ table: 'tenants', id: `ten_${UUID}`, before: { name: 'Acme' }, after: { name: 'Acme Ltd' } }],
    changes_total: 1,
  },
  'POST /log/:id/revert': {
    ...{ reverted: true, dry_run: false, reverts: REVISION },
    events: [{ type: 'tenant.replaced', data: { id: `ten_${UUID}`, name: 'Acme', plan: 'team' } }],
    rows: [{ table: 'tenants', id: `ten_${UUID}` }],
  },
}

function testExample(kind: string, result: object) {
  const results = [{ ...result, status: 'passed', latency_ms: 120 }]
  return {
    id: `test_${UUID}`,
    provider_id: `prov_${UUID}`,
    kind,
    success: true,
    results,
    created_at: AT,
    revision: REVISION,
  }
}

/** The example of a route's response; of a list, its page of one row. */
export const answerExample = (route: AdminRoute): unknown => {
  const name = `${route.method} ${route.path}`
  const subject = route.path.split('/')[1]!
  const id = `${PREFIXES[subject] ?? 'id'}_${UUID}`
  const sent = {
    ...EXAMPLES[`POST /${subject}`],
    ...EXAMPLES[`PUT ${route.path.replace('/:id', '')}`],
    ...EXAMPLES[name],
  }
  const one = WRITTEN[name] ?? madeOf(route, { ...NAMED, ...(route.answer && repeatedFields(sent, route.answer)), id })
  if (one === undefined) return undefined
  return route.rows === null || route.whole ? one : { [route.rows]: [one], total: 1, limit: 50, offset: 0 }
}

const madeOf = ({ method, answer }: AdminRoute, values: Values): unknown => {
  if (answer !== null) return exampleOf(answer, values)
  return method === 'DELETE' ? { deleted: true, id: values.id } : undefined
}

/** Fields of the example body that the response repeats. */
const repeatedFields = (body: Readonly<Record<string, unknown>>, answer: TSchema) => {
  const fields = (answer.properties ?? {}) as Readonly<Record<string, TSchema>>
  return Object.fromEntries(
    Object.entries(body).filter(([name, value]) => fields[name] !== undefined && Value.Check(fields[name], value)),
  )
}

type Values = Readonly<Record<string, unknown>>

const exampleOf = (schema: TSchema, values: Values): unknown => {
  if ('const' in schema) return schema.const
  if (Array.isArray(schema.enum)) return schema.enum[0]
  const members = schema.anyOf as TSchema[] | undefined
  if (members !== undefined) return exampleOf(members[0]!, values)
  if (schema.type === 'object') return objectOf(schema, values)
  if (schema.type === 'array') return [exampleOf(schema.items as TSchema, values)]
  if (schema.type === 'boolean') return true
  if (schema.type === 'integer' || schema.type === 'number') return Math.max(1, Number(schema.minimum ?? 1))
  if (schema.type === 'string') return 'text'
  return null
}

/** A field without a value is omitted where it is optional, and null where it is nullable. */
const objectOf = (schema: TSchema, values: Values): unknown => {
  const { id: _, ...inner } = values
  const required = (schema.required ?? []) as readonly string[]
  const members = Object.entries((schema.properties ?? {}) as Readonly<Record<string, TSchema>>).flatMap(
    ([name, member]) => {
      if (name in values && Value.Check(member, values[name])) return [[name, values[name]]]
      return required.includes(name) ? [[name, memberOf(name, member, inner)]] : []
    },
  )
  return Object.fromEntries(members)
}

const memberOf = (name: string, member: TSchema, values: Values): unknown => {
  if (Value.Check(member, null)) return null
  const made = name === 'id' ? UUID : exampleOf(member, values)
  return [made, AT, [], REVISION].find((each) => Value.Check(member, each)) ?? made
}
