// The folded state of the warm-up: one key, the sandbox, and a provider whose address is the warm-up's own port.
import { ControlState } from '../../domain/control.ts'
import { GENESIS } from '../../domain/kernel/decision.ts'
import { PROVIDER_DEFAULTS } from '../../domain/registry/provider.ts'
import { bindingOf } from '../../domain/registry/secret-binding.ts'
import { sha256Hex } from '../../lib/crypto/digest.ts'
import type { DataKeys, LiveState } from '../../state/port.ts'

/** A model that the sandbox answers. */
const NEAR_MODEL = 'sandbox-echo'
/** The same one, called through the HTTP client. */
export const FAR_MODEL = 'warm-up'
/** Where the key of the provider that is called over HTTP stands, in an environment of the warm-up's own. */
export const KEY_VARIABLE = 'WARM_UP_KEY'

const AT = '1970-01-01T00:00:00.000Z'
const STAMPS = { created_at: AT, updated_at: AT, revision: GENESIS }
const PART = { ...STAMPS, status: 'active', managed_by: 'bootstrap' }

const provider = (id: string, kind: string, baseUrl: string | null) => ({
  ...PART,
  ...PROVIDER_DEFAULTS,
  id,
  name: id,
  kind,
  base_url: baseUrl,
  api_key_env: baseUrl === null ? null : KEY_VARIABLE,
  env_bound_to: baseUrl === null ? null : bindingOf({ ...PROVIDER_DEFAULTS, kind, base_url: baseUrl }),
  credential: null,
})

const model = (name: string, providerId: string) => ({
  ...PART,
  id: `mod_${name}`,
  name,
  provider_id: providerId,
  upstream_model: NEAR_MODEL,
  priority: 100,
  aliases: [],
  context_window: 128_000,
  max_output_tokens: 4_096,
  input_cost_per_million: 1,
  output_cost_per_million: 2,
  cached_input_cost_per_million: null,
  capabilities: ['streaming'],
  capability_source: 'operator',
})

const key = (plaintext: string) => ({
  ...PART,
  id: 'key_warm-up',
  tenant_id: 'ten_warm-up',
  name: 'warm-up',
  scopes: ['inference'],
  digest: sha256Hex(plaintext),
  expires_at: null,
  routing_policy_id: null,
  rate_limits: null,
  revoked_at: null,
})

/** `baseUrl`: of the warm-up's own port. */
export const warmUpState = (plaintext: string, baseUrl: string): LiveState => {
  const control = new ControlState()
  const rows = {
    keys: [key(plaintext)],
    providers: [provider('prov_near', 'sandbox', null), provider('prov_far', 'openai_compatible', baseUrl)],
    models: [model(NEAR_MODEL, 'prov_near'), model(FAR_MODEL, 'prov_far')],
  }
  for (const [table, added] of Object.entries(rows))
    control.apply(added.map((after) => ({ table, id: after.id, before: null, after })))
  return {
    control,
    status: () => ({
      offset: 0,
      tip: GENESIS,
      logAtMs: 0,
      chainId: null,
      digest: '',
      phase: 'live',
      serves: true,
      degraded: null,
      degradation: null,
      staleMs: 0,
      counts: { counted: 0, lost: 0, unreadable: 0, forged: 0, malformed: 0 },
    }),
    refused: new Set(),
    reached: () => Promise.resolve(true),
    subscribe: () => () => undefined,
    close: () => Promise.resolve(),
  }
}

/** Nothing is sealed. */
export const NO_DATA_KEYS: Pick<DataKeys, 'open' | 'subscribe'> = { open: () => null, subscribe: () => () => undefined }
