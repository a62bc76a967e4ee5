// A control state for tests of aggregates: it folds decisions one after the other, as a reader of the log does, without
// a log.
import { ControlState, eventIsValid, foldDecision } from '../../src/domain/control.ts'
import type { Actor, EventRecord } from '../../src/domain/kernel/decision.ts'
import { Rejection } from '../../src/domain/kernel/rejection.ts'
import type { RowChange } from '../../src/domain/kernel/tables.ts'
import { PROVIDER_DEFAULTS } from '../../src/domain/registry/provider.ts'
import { sha256Hex } from '../../src/lib/crypto/digest.ts'

const TEST: Actor = { type: 'system', id: 'test' }

export interface World {
  readonly state: ControlState
  /** Folds the events as one decision; throws when one is not what its schema says. */
  apply(events: readonly EventRecord[], actor?: Actor): readonly RowChange[]
}

export const newWorld = (events: readonly EventRecord[] = []): World => {
  const state = new ControlState()
  let height = 0
  const apply = (more: readonly EventRecord[], actor: Actor = TEST): readonly RowChange[] => {
    if (more.length === 0) return []
    for (const event of more) if (!eventIsValid(event)) throw new Error(`${event.type} does not match its schema`)
    height++
    const at = new Date(Date.UTC(2026, 0, 1) + height).toISOString()
    const decision = { parent: '', at, actor, cause: null, v: 1, events: more } as const
    return foldDecision(state, decision, sha256Hex(`decision ${height}`), height).changes
  }
  apply(events)
  return { state, apply }
}

export const tenantCreated = (id: string, slug = id): EventRecord => ({
  type: 'tenant.created',
  data: { id, slug, name: slug, plan: null, rate_limits: null, managed_by: 'api' },
})

export const providerCreated = (id: string, name = id, more: Record<string, unknown> = {}): EventRecord => ({
  type: 'provider.created',
  data: {
    id,
    name,
    kind: 'openai',
    status: 'active',
    managed_by: 'api',
    base_url: 'https://api.example/v1',
    ...PROVIDER_DEFAULTS,
    ...more,
  },
})

export const keyIssued = (id: string, tenantId: string, more: Record<string, unknown> = {}): EventRecord => ({
  type: 'api_key.issued',
  data: {
    id,
    tenant_id: tenantId,
    name: id,
    scopes: ['inference'],
    digest: sha256Hex(id),
    expires_at: null,
    routing_policy_id: null,
    rate_limits: null,
    managed_by: 'api',
    ...more,
  },
})

export const modelCreated = (id: string, providerId: string, more: Record<string, unknown> = {}): EventRecord => ({
  type: 'model.created',
  data: {
    id,
    name: id,
    provider_id: providerId,
    status: 'active',
    managed_by: 'api',
    upstream_model: id,
    priority: 100,
    aliases: [],
    context_window: null,
    max_output_tokens: null,
    input_cost_per_million: null,
    output_cost_per_million: null,
    cached_input_cost_per_million: null,
    capabilities: ['chat'],
    capability_source: 'kind',
    ...more,
  },
})

/** Why a command is refused: reason and field. Throws when it is not. */
export const refusal = (decide: () => unknown): [reason: string, param: string | null] => {
  try {
    decide()
  } catch (error) {
    if (error instanceof Rejection) return [error.reason, error.param]
    throw error
  }
  throw new Error('the command was not refused')
}

export const endpointCreated = (id: string, slug: string, tenant_id: string | null): EventRecord => ({
  type: 'endpoint.created',
  data: {
    ...{ id, slug, tenant_id, name: slug, description: null, enabled: true, aliases: [] },
    overrides: {
      ...{ forced_model: null, preferred_models: [], preferred_providers: [], strategy: null },
      ...{ max_cost_usd: null, latency_target_ms: null, no_fallback: false },
    },
  },
})
