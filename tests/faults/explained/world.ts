// A random world for requests: providers that fail, slow down and report limits, models, policies of every strategy,
// scopes, overrides, budgets, keys of two tenants; and one random change of it at a time. All through the admin API of
// a real gateway.
import { STRATEGIES } from '../../../src/domain/steering/policy.ts'
import { drawing } from '../../../src/inference/plan/strategies.ts'
import type { GatewayProcess } from '../../services/gateway.ts'
import type { Behaviour, Upstream } from '../../services/upstream.ts'

export interface Dice {
  /** In [0, 1). */
  readonly draw: () => number
  below(limit: number): number
  one<Value>(of: readonly Value[]): Value
  some<Value>(of: readonly Value[], share?: number): Value[]
  chance(share: number): boolean
}

export const dice = (seed: number): Dice => {
  const draw = drawing(seed)
  const below = (limit: number) => Math.floor(draw() * limit)
  return {
    draw,
    below,
    one: (of) => of[below(of.length)]!,
    some: (of, share = 0.5) => of.filter(() => draw() < share),
    chance: (share) => draw() < share,
  }
}

export const PROVIDERS = ['alpha', 'beta', 'gamma', 'delta', 'keyless'] as const
export const MODELS = ['small', 'large', 'tiny'] as const
const SLUGS = ['support', 'batchwork', 'chat'] as const
const ALIASES = { small: 'mini', large: 'maxi', tiny: 'nano' } as const
const REGIONS = ['eu', 'us']
const CAPABILITIES = ['chat', 'streaming', 'tools', 'json_mode', 'seed', 'vision']

export interface World {
  /** Keys of both tenants. */
  readonly keys: readonly string[]
  readonly policies: readonly string[]
  /** Makes one random change; what the gateway refuses is no change. */
  change(): Promise<void>
}

type Body = Record<string, unknown>
export type Call = (method: string, path: string, body?: unknown) => Promise<{ status: number; body: Body }>

export const adminOf =
  (gateway: GatewayProcess): Call =>
  async (method, path, body) => {
    const answer = await gateway.request(`/admin/v1${path}`, { method, ...(body === undefined ? {} : { body }) })
    return { status: answer.status, body: (await answer.json()) as Body }
  }

const made = async (call: Call, method: string, path: string, body: unknown): Promise<Body> => {
  const answer = await call(method, path, body)
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  return answer.body
}

/** Most rules of most policies are left out: else hardly a request would be served. */
export const policyOf = ({ one, some, chance, below }: Dice) => ({
  strategy: chance(0.85) ? one(STRATEGIES) : null,
  strategy_params: {
    ...(chance(0.3) ? { latency_metric: one(['ttft', 'e2e']) } : {}),
    ...(chance(0.5) ? { hash_on: one(['user', 'key', 'header:X-Session']) } : {}),
    ...(chance(0.3) ? { weights: { cost: below(3), latency: 1, health: below(4), priority: 0, feedback: 0 } } : {}),
  },
  models: chance(0.06) ? some([...MODELS, 'mini']) : [],
  providers: {
    ...(chance(0.08) ? { only: some(PROVIDERS, 0.8) } : {}),
    ...(chance(0.3) ? { order: some(PROVIDERS) } : {}),
    ...(chance(0.2) ? { ignore: some(PROVIDERS, 0.2) } : {}),
  },
  max_cost_usd: chance(0.1) ? one([0.000_05, 0.01, 0.1]) : null,
  latency_target_ms: chance(0.1) ? one([5, 20, 200]) : null,
  regions: chance(0.05) ? some(REGIONS) : [],
  allow_region_override: chance(0.9),
  sensitivity: chance(0.3) ? { phi: { providers: some(PROVIDERS) } } : {},
  fallback: {
    ...(chance(0.2) ? { enabled: chance(0.5) } : {}),
    ...(chance(0.4) ? { models: some(MODELS) } : {}),
    ...(chance(0.3) ? { context_window_models: ['large'] } : {}),
  },
  retry: { attempts: below(2), backoff_initial_ms: 1, backoff_max_ms: 2 },
  breaker: { failure_threshold: 1 + below(4), cooldown_ms: one([50, 400, 3_000]) },
})

export const modelOf = ({ one, some, chance, below }: Dice) => ({
  priority: one([10, 100, 100, 200]),
  capabilities: chance(0.85) ? CAPABILITIES : ['chat', ...some(CAPABILITIES.slice(1))],
  context_window: one([null, null, 60, 8_000]),
  max_output_tokens: one([null, 50, 4_000]),
  input_cost_per_million: one([chance(0.3) ? null : 1, 0, below(5), 30]),
  output_cost_per_million: one([0, below(9), 60]),
})

export const scopeOf = ({ one, some, chance }: Dice, slug: string) => ({
  slug,
  aliases: [`${slug}-model`],
  enabled: chance(0.9),
  overrides: {
    ...(chance(0.2) ? { forced_model: one([...MODELS, 'mini']) } : {}),
    ...(chance(0.3) ? { preferred_models: some(MODELS) } : {}),
    ...(chance(0.3) ? { preferred_providers: some(PROVIDERS) } : {}),
    ...(chance(0.5) ? { strategy: one(STRATEGIES) } : {}),
    ...(chance(0.2) ? { max_cost_usd: 0.001 } : {}),
    ...(chance(0.2) ? { no_fallback: true } : {}),
  },
})

const overrideOf = ({ one, chance }: Dice, providers: readonly string[]) => {
  const kind = one(['kill', 'block', 'cap', 'force', 'disable'])
  const model = one(MODELS)
  const target = {
    kill: `provider:${one(providers)}`,
    block: `model:${model}`,
    cap: one(['*', `model:${model}`, `provider:${one(providers)}`, 'endpoint:support']),
    force: one(['*', `model:${model}`, 'endpoint:chat']),
    disable: one(['*', `model:${model}`, 'endpoint:chat']),
  }[kind]!
  const value = { cap: { max_cost_usd: 0.0005 }, force: { model: one(MODELS) }, disable: { features: ['fallback'] } }
  // Most end by themselves in the middle of the run, the others with the next one of the same kind and target.
  return {
    kind,
    target,
    ...(kind in value ? { value: value[kind as keyof typeof value] } : {}),
    enabled: chance(0.35),
    reason: 'a test',
    ...(chance(0.8) ? { expires_at: new Date(Date.now() + 1_500).toISOString() } : {}),
  }
}

/** Makes the world. `upstream` serves all providers; which of them fails is drawn anew with the changes. */
export const makeWorld = async (call: Call, upstream: Upstream, roll: Dice): Promise<World> => {
  const failing = new Map<string, number>()
  upstream.behave(({ body }) => behaviourOf(roll, failing.get(String(body?.model).split(':')[0]!) ?? 0))
  const providers: string[] = []
  const models: string[] = []
  for (const name of PROVIDERS) {
    const isKeyless = name === 'keyless'
    const base = isKeyless ? { kind: 'openai' } : { kind: 'openai_compatible', base_url: upstream.baseUrl }
    const limits = { region: roll.one([null, ...REGIONS]), weight: roll.one([null, 0, 1, 5]) }
    const { id } = await made(call, 'POST', '/providers', { name, ...base, ...limits })
    providers.push(String(id))
    for (const model of roll.some(MODELS, 0.85)) {
      const fields = { name: model, provider_id: id, aliases: [ALIASES[model]], upstream_model: `${name}:${model}` }
      models.push(String((await made(call, 'POST', '/models', { ...fields, ...modelOf(roll) })).id))
    }
  }
  const tenants: string[] = []
  for (const slug of ['one', 'two'])
    tenants.push(String((await made(call, 'POST', '/tenants', { slug, name: slug })).id))
  const policies: string[] = []
  for (let n = 0; n < 8; n++)
    policies.push(String((await made(call, 'POST', '/policies', { name: `policy-${n}`, ...policyOf(roll) })).id))
  const keys: string[] = []
  for (let n = 0; n < 8; n++) {
    const routing = roll.chance(0.4) ? { routing_policy_id: roll.one(policies) } : {}
    const fields = { tenant_id: tenants[n % 2], name: `key-${n}`, scopes: ['inference'], ...routing }
    keys.push(String((await made(call, 'POST', '/keys', fields)).plaintext))
  }
  for (const slug of SLUGS) await made(call, 'PUT', '/endpoints', scopeOf(roll, slug))
  const changes: readonly (() => Promise<unknown>)[] = [
    async () => failing.set(roll.one(PROVIDERS), roll.one([0, 0.1, 0.4, 1])),
    () => call('PUT', '/policies', { name: `policy-${roll.below(8)}`, ...policyOf(roll) }),
    () => call('PUT', '/policies', { name: 'default', tenant_id: roll.one([null, ...tenants]), ...policyOf(roll) }),
    () => call('PATCH', `/models/${roll.one(models)}`, modelOf(roll)),
    () => call('PATCH', `/models/${roll.one(models)}`, { status: roll.chance(0.85) ? 'active' : 'disabled' }),
    () => call('PATCH', `/providers/${roll.one(providers)}`, { weight: roll.below(5), region: roll.one(REGIONS) }),
    () => call('PUT', '/endpoints', scopeOf(roll, roll.one(SLUGS))),
    () => call('POST', '/overrides', overrideOf(roll, providers)),
    () => call('POST', '/overrides', overrideOf(roll, providers)),
    () =>
      call('PUT', '/budgets', {
        tenant_id: roll.one(tenants),
        window: 'day',
        limit_usd: 1_000,
        hard_cap_usd: roll.one([0.0002, 0.1, 1]),
        enabled: roll.chance(0.3),
      }),
    () => call('POST', '/policies/reload'),
  ]
  return {
    keys,
    policies,
    async change() {
      await roll.one(changes)()
    },
  }
}

const behaviourOf = ({ chance, below, one }: Dice, failureRate: number): Behaviour => ({
  ...(chance(failureRate) ? { status: one([429, 500, 503]) } : {}),
  delayMs: below(4),
  text: 'an answer',
  chunks: 2,
  headers: { 'x-ratelimit-limit-requests': '100', 'x-ratelimit-remaining-requests': String(below(100)) },
})
