import { NO_OVERRIDES } from '../../../src/state/indexes/steering.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, policyRow, testGateway } from '../gateway.ts'
import { frameOf, scopeOf, steeringOf } from './plans.ts'

export const BOUND_KEY = 'gw_live_boundboundboundboundboundboundboundboundbo'
export const endpoint = (slug: string) => ({ 'x-gateway-endpoint': slug })

export interface Shown {
  status: number
  error?: { code: string; param: string | null; details: { rejected_reason?: string } | null }
  gateway: {
    provider: string | null
    routed_model: string | null
    strategy: string | null
    policy_id: string | null
    fallback_used: boolean
    endpoint?: string | null
    overrides_applied?: string[]
    required_capabilities?: string[]
    policy?: { source: string; verdict: string }
    candidates?: {
      provider: string
      model: string
      eligible: boolean
      rejected_reason: string | null
      score: number | null
      components: object | null
      projected_cost_usd: number | null
    }[]
    attempts?: { provider: string; outcome: string }[]
    route_reason?: string
  }
}

/** A gateway of its own, which a test file closes. */
export const startSteered = () => {
  const upstream = startUpstream()
  const dead = 'http://127.0.0.1:9/v1'
  const at = { baseUrl: upstream.baseUrl }

  const steering = steeringOf(
    [
      scopeOf({ slug: 'app', forcedModel: 'large' }),
      scopeOf({
        slug: 'soft',
        preferredModels: ['mod_beta_large'],
        preferredProviders: ['beta'],
        strategy: 'lowest_cost',
      }),
      scopeOf({ slug: 'beta-first', preferredProviders: ['BETA'] }),
      scopeOf({ slug: 'cheap', maxCostUsd: 0.000_001 }),
      scopeOf({ slug: 'fast', latencyTargetMs: 100 }),
      scopeOf({ slug: 'stay', noFallback: true }),
      scopeOf({ slug: 'off', enabled: false }),
      scopeOf({ slug: 'hollow' }),
      scopeOf({ slug: 'lost', forcedModel: 'nowhere' }),
    ],
    { assistant: 'app', helper: 'soft', empty: 'hollow', retired: 'off' },
  )
  let frame = frameOf({})
  const gateway = testGateway({
    entries: [
      entry({ ...at }),
      entry({ ...at, provider: 'beta', region: 'eu' }),
      entry({ ...at, provider: 'beta', name: 'large' }),
      entry({ ...at, provider: 'gamma', name: 'broken', baseUrl: dead, priority: 1 }),
      entry({ ...at, provider: 'beta', name: 'broken' }),
    ],
    aliases: { tiny: 'small' },
    policies: [
      policyRow({ strategy: 'priority', retry: { attempts: 0 } }),
      policyRow({ id: 'pol_own', name: 'default', tenant_id: 'ten_1', strategy: 'weighted', retry: { attempts: 0 } }),
      policyRow({ id: 'pol_key', name: 'bound', strategy: 'round_robin' }),
      policyRow({ id: 'pol_header', name: 'picked', strategy: 'usage_based' }),
      policyRow({ id: 'pol_plain', name: 'plain' }),
      policyRow({ id: 'pol_narrow', name: 'narrow', models: ['tiny'] }),
      policyRow({ id: 'pol_cap', name: 'capped', max_cost_usd: 0.000_001 }),
    ],
    keys: { [BOUND_KEY]: { routingPolicyId: 'pol_key' } },
    steering,
    frames: { current: () => frame },
  })

  const ask = async (
    model: string,
    headers: Record<string, string> = {},
    fields: Record<string, unknown> = {},
    key?: string,
  ): Promise<Shown> => {
    const response = await gateway.send('/v1/chat/completions', {
      body: { model, messages: [{ role: 'user', content: 'hi' }], max_tokens: 100, ...fields },
      headers: { 'x-gateway-debug': 'true', ...headers },
      ...(key && { key }),
    })
    return { status: response.status, ...((await response.json()) as Omit<Shown, 'status'>) }
  }
  const lastSettled = () => gateway.spool.settled().at(-1)!

  return {
    gateway,
    upstream,
    steering,
    ask,
    lastSettled,
    /** What is known of the candidates from now on. */
    setFrame(next: typeof frame) {
      frame = next
    },
    /** Nothing is overridden and nothing is known. */
    reset() {
      steering.inForce = NO_OVERRIDES
      frame = frameOf({})
    },
    async close() {
      gateway.close()
      await upstream.stop()
    },
  }
}
