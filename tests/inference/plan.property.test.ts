// Promises of every plan, whatever it is made from.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { type PolicyRow, STRATEGIES } from '../../src/domain/policy.ts'
import { candidateList, decisionOf } from '../../src/inference/decision.ts'
import { outputBound, priceOf, promptTokensEstimate } from '../../src/inference/estimate.ts'
import { makePlan, type Plan, type PlanInput } from '../../src/inference/plan.ts'
import { effectivePolicy, withScope } from '../../src/inference/policies.ts'
import { REJECTED_REASONS } from '../../src/inference/rejections.ts'
import { type RecordedPlan, recordedInput } from '../../src/inference/replay.ts'
import type { CatalogueEntry } from '../../src/state/port.ts'
import { catalogueOf, entry, policyRow } from './gateway.ts'
import { frameOf, intentOf, overridesOf, planInput, scopeOf } from './plans.ts'

const PROVIDERS = ['alpha', 'beta', 'gamma', 'delta']
const CAPABILITIES = ['chat', 'streaming', 'tools', 'seed', 'vision']
const MODELS = ['small', 'large']
const someProviders = fc.subarray(PROVIDERS)

const anyEntries = fc
  .uniqueArray(
    fc.record({
      provider: fc.constantFrom(...PROVIDERS),
      kind: fc.constantFrom('plain', 'vllm', 'llamacpp', 'cohere'),
      name: fc.constantFrom(...MODELS),
      priority: fc.integer({ min: 0, max: 3 }),
      capabilities: fc.oneof(fc.constant(CAPABILITIES), fc.subarray(CAPABILITIES)),
      unroutable: fc.constantFrom(null, null, null, 'disabled' as const, 'no_adapter' as const),
      inputCostPerMillion: fc.constantFrom(null, 0, 1, 1_000_000),
      region: fc.constantFrom(null, 'eu', 'us'),
      contextWindow: fc.constantFrom(null, 1, 20, 100_000),
      weight: fc.constantFrom(0, 1, 5),
    }),
    { selector: ({ provider, name }) => `${provider}/${name}`, minLength: 1, maxLength: 8 },
  )
  .map((rows) => rows.map((row) => entry(row)))

const anyRow = fc.record({
  strategy: fc.constantFrom(null, ...STRATEGIES),
  models: fc.oneof(fc.constant<string[]>([]), fc.subarray(['small', 'LARGE', 'mod_alpha_small'])),
  providers: fc.record({
    only: fc.oneof(fc.constant<string[]>([]), someProviders),
    ignore: fc.subarray(['alpha']),
    order: someProviders,
  }),
  regions: fc.oneof(fc.constant<string[]>([]), fc.subarray(['eu', 'us'])),
  max_cost_usd: fc.constantFrom(null, null, 0.001, 10),
  latency_target_ms: fc.constantFrom(null, null, 500),
  sensitivity: fc.constantFrom<PolicyRow['sensitivity']>({}, { phi: { providers: ['beta', 'gamma'] } }),
  fallback: fc.record({
    models: fc.subarray(['large']),
    context_window_models: fc.subarray(['large']),
    enabled: fc.constantFrom(true, true, false),
  }),
})
const anyScope = fc.record({
  forcedModel: fc.constantFrom(null, null, 'large'),
  preferredModels: fc.subarray(['large']),
  preferredProviders: someProviders,
  strategy: fc.constantFrom(null, ...STRATEGIES),
  maxCostUsd: fc.constantFrom(null, 0.01),
  noFallback: fc.boolean(),
})
/** A global policy, one that is the tenant's or that a header picked, and a scope: each may be there or not. */
const anyPolicy = fc
  .tuple(
    fc.option(anyRow),
    fc.option(anyRow),
    fc.constantFrom('header' as const, 'tenant' as const),
    fc.option(anyScope),
  )
  .map(([global, own, source, scope]) => {
    const policy = effectivePolicy([
      ...(own === null ? [] : [{ source, row: policyRow({ name: 'own', ...own }) }]),
      ...(global === null ? [] : [{ source: 'global' as const, row: policyRow(global) }]),
    ])
    return scope === null ? policy : withScope(policy, scopeOf(scope))
  })

const IMAGE = { type: 'image_url', image_url: { url: 'https://example.com/x.png' } }
const anyIntent = fc
  .record({
    stream: fc.boolean(),
    seed: fc.boolean(),
    size: fc.constantFrom(1, 50, 400),
    max_tokens: fc.constantFrom(undefined, 10, 50_000),
    n: fc.constantFrom(undefined, 3),
    own: fc.constantFrom({}, {}, { best_of: 9 }, { n_predict: -1 }, { thinking: { token_budget: 40_000 } }),
    image: fc.boolean(),
    headers: fc.record(
      {
        'x-gateway-no-fallback': fc.constant('true'),
        'x-gateway-max-cost-usd': fc.constant('0.5'),
        'x-gateway-region': fc.constant('EU'),
        'x-gateway-latency-target-ms': fc.constant('300'),
        'x-gateway-sensitivity': fc.constant('phi'),
        'x-gateway-batch': fc.constant('true'),
      },
      { requiredKeys: [] },
    ),
  })
  .map(({ stream, seed, size, max_tokens, n, own, image, headers }) =>
    intentOf(
      {
        stream,
        ...own,
        messages: [{ role: 'user', content: [{ type: 'text', text: 'x'.repeat(size) }, ...(image ? [IMAGE] : [])] }],
        ...(n === undefined ? {} : { n }),
        ...(seed ? { seed: 1 } : {}),
        ...(max_tokens === undefined ? {} : { max_tokens }),
      },
      headers as Record<string, string>,
    ),
  )

const anyOverrides = fc
  .record({
    killedProviderIds: fc.subarray(PROVIDERS.slice(0, 2)).map((names) => new Set(names.map((name) => `prov_${name}`))),
    blockedModels: fc.constantFrom(new Set<string>(), new Set<string>(), new Set(['large'])),
    maxCostUsd: fc.constantFrom(null, 1),
    maxCostUsdOf: fc.constantFrom(
      new Map(),
      new Map([['provider:prov_beta', 0.000_001]]),
      new Map([['key:key_1', 0.1]]),
    ),
    forcedModels: fc.constantFrom(new Map(), new Map(), new Map([['small', 'large']]), new Map([['*', 'large']])),
    disabled: fc.constantFrom(new Set<never>(), new Set(['fallback' as const])),
    hardCaps: fc.option(
      fc.record({
        budgetIds: fc.constant(['bud_1']),
        all: fc.constantFrom(null, null, 1_000),
        of: fc.constantFrom(
          new Map<string, number>(),
          new Map([['provider:prov_gamma', 1_000]]),
          new Map([['key:key_1', 1e8]]),
          new Map([['endpoint:app', 1_000]]),
          new Map([['model:large', 1_000]]),
        ),
      }),
    ),
  })
  .map((fields) => overridesOf(fields))

const anyFrame = fc
  .dictionary(
    fc.constantFrom(...PROVIDERS.flatMap((provider) => MODELS.map((model) => `mod_${provider}_${model}`))),
    fc.record({
      breaker: fc.constantFrom('closed' as const, 'closed' as const, 'half_open' as const, 'open' as const),
      ejected: fc.constantFrom(false, false, true),
      coolingDown: fc.constantFrom(false, false, true),
      health: fc.constantFrom(0, 0.5, 1),
      ttftMs: fc.constantFrom(null, 50, 400, 900),
      e2eMs: fc.constantFrom(null, 100, 800, 2_000),
      tokensPerSecond: fc.constantFrom(null, 10, 90),
      inFlight: fc.integer({ min: 0, max: 4 }),
      headroom: fc.constantFrom(null, 0.1, 0.9),
      feedback: fc.constantFrom(null, -1, 1),
    }),
  )
  .map((seen) => frameOf(seen))

interface Made {
  readonly input: PlanInput
  readonly entries: readonly CatalogueEntry[]
  readonly plan: Plan
}
const anyInput = fc
  .record({
    entries: anyEntries,
    policy: anyPolicy,
    intent: anyIntent,
    overrides: fc.option(anyOverrides, { nil: undefined }),
    frame: fc.option(anyFrame, { nil: undefined }),
    seed: fc.nat(),
    turn: fc.nat(),
    sticky: fc.nat(),
    isScopeAlias: fc.constantFrom(false, false, true),
  })
  .map(({ overrides, frame, ...given }) => {
    const fields = { ...(overrides && { overrides }), ...(frame && { frame }), ...given }
    return { input: planInput(fields), entries: given.entries }
  })

const holds = (promise: (made: Made) => void, numRuns = 400): void => {
  fc.assert(
    fc.property(anyInput, ({ input, entries }) => promise({ input, entries, plan: makePlan(input) })),
    { numRuns },
  )
}

const shown = ({ input: _, ...plan }: Plan) => plan

test('the same inputs give the same plan, whatever the order of the registry', () => {
  holds(({ input, entries, plan }) => {
    const again = makePlan({ ...input, catalogue: catalogueOf([...entries].reverse()) })
    expect(shown(again)).toEqual(shown(plan))
  })
})

test('what the records say makes the same plan again', () => {
  holds(({ input, plan }) => {
    const record: RecordedPlan = JSON.parse(
      JSON.stringify({
        requested_model: input.intent.model,
        key_id: input.keyId,
        stream: input.intent.stream,
        seed: input.seed,
        candidates: candidateList(plan),
        decision: decisionOf(plan),
      }),
    )
    const { policy, catalogue, overrides, frame } = input
    const again = makePlan(recordedInput(record, { policy, catalogue, overrides, frame }))
    expect(shown(again)).toEqual(shown(plan))
    expect(candidateList(again)).toEqual(candidateList(plan))
  })
})

test('who had no adapter when the plan was made has none when it is made again, and the other way round', () => {
  const rows = [entry({ provider: 'alpha', unroutable: 'no_adapter' }), entry({ provider: 'beta' })]
  const input = planInput({ entries: rows })
  const plan = makePlan(input)
  const record: RecordedPlan = {
    requested_model: 'small',
    key_id: 'key_1',
    stream: false,
    seed: input.seed,
    candidates: candidateList(plan),
    decision: decisionOf(plan),
  }
  // The credentials of whoever asks later are others: `api_key_env` is read where the gateway runs.
  const catalogue = catalogueOf([entry({ provider: 'alpha' }), entry({ provider: 'beta', unroutable: 'no_adapter' })])
  const { policy, overrides, frame } = input
  const again = makePlan(recordedInput(record, { policy, catalogue, overrides, frame }))
  expect(candidateList(again)).toEqual(record.candidates as never)
  expect(again.ordered.map(({ provider }) => provider)).toEqual(['beta'])
})

test('nobody is called whom the policy, the request, an operator or the registry excludes', () => {
  holds(({ input: { intent, policy, overrides }, plan }) => {
    for (const candidate of [...plan.ordered, ...plan.forLongContext]) {
      expect(candidate.unroutable).toBeNull()
      for (const { capability } of intent.requirements) expect(candidate.capabilities).toContain(capability)
      for (const allowed of policy.providersOnly) expect(allowed.has(candidate.provider)).toBe(true)
      expect(policy.providersIgnored.has(candidate.provider)).toBe(false)
      for (const allowed of policy.models) {
        expect(allowed.has(candidate.name) || allowed.has(candidate.modelId)).toBe(true)
      }
      for (const allowed of policy.regions) expect(allowed.has(candidate.region ?? '')).toBe(true)
      if (intent.headers.region !== null) expect(candidate.region).toBe('eu')
      if (intent.headers.sensitivity.length > 0)
        for (const allowed of policy.sensitiveTo.phi ?? []) expect(allowed.has(candidate.provider)).toBe(true)
      expect(overrides.killedProviderIds.has(candidate.providerId)).toBe(false)
      expect(overrides.blockedModels.has(candidate.name)).toBe(false)
    }
  })
})

test('a cap of any level never admits what it forbids', () => {
  holds(({ input: { intent, policy, overrides, keyId }, plan }) => {
    for (const candidate of [...plan.ordered, ...plan.forLongContext]) {
      const capsUsd = [
        intent.headers.maxCostUsd,
        policy.maxCostNanoUsd === null ? null : policy.maxCostNanoUsd / 1e9,
        overrides.maxCostUsd,
        overrides.maxCostUsdOf.get(`key:${keyId}`) ?? null,
        overrides.maxCostUsdOf.get(`provider:${candidate.providerId}`) ?? null,
        ...[`key:${keyId}`, `provider:${candidate.providerId}`, `model:${candidate.name}`]
          .concat(policy.scope === null ? [] : [`endpoint:${policy.scope.slug}`])
          .map((subject) => overrides.hardCaps?.of.get(subject))
          .concat(overrides.hardCaps?.all ?? undefined)
          .map((nanoUsd) => (nanoUsd === undefined ? null : nanoUsd / 1e9)),
      ]
      for (const capUsd of capsUsd) {
        if (capUsd === null) continue
        const completion = outputBound(intent, candidate)
        const projected = priceOf(candidate, promptTokensEstimate(intent), completion)
        expect(projected).not.toBeNull()
        expect(projected!).toBeLessThanOrEqual(Math.round(capUsd * 1e9))
      }
    }
  })
})

test('a latency target never admits who is known to be slower', () => {
  holds(({ input: { intent, policy, frame }, plan }) => {
    const targets = [intent.headers.latencyTargetMs, policy.latencyTargetMs].filter((ms) => ms !== null)
    for (const { modelId } of plan.ordered) {
      const { ttftMs, e2eMs } = frame.signals(modelId)
      for (const ms of targets) expect((intent.stream ? ttftMs : e2eMs) ?? 0).toBeLessThanOrEqual(ms)
    }
  })
})

test('every candidate is either called in its turn or has a ruled reason, and the order is a permutation of the eligible', () => {
  holds(({ plan }) => {
    expect(plan.reasons).toHaveLength(plan.candidates.length)
    for (const reason of plan.reasons) if (reason !== null) expect(REJECTED_REASONS).toContain(reason)
    const called = plan.order.map((place) => plan.candidates[place]!)
    expect(new Set(called).size).toBe(called.length)
    plan.reasons.forEach((reason, place) => {
      const isHealth = reason === 'breaker_open' || reason === 'rate_limited'
      expect(plan.order.includes(place)).toBe(reason === null || isHealth)
    })
    expect(plan.primary).toBe(called[0] ?? null)
    const awake = called.filter((candidate) => plan.reasons[plan.candidates.indexOf(candidate)] === null)
    if (plan.refused !== null) {
      expect(plan.ordered).toEqual([])
      return
    }
    expect(plan.ordered.length).toBeGreaterThan(0)
    expect(awake.slice(0, plan.ordered.length)).toEqual([...plan.ordered])
  })
})

test('who may not fail over calls the primary or nobody; who may calls all who are well', () => {
  holds(({ input: { intent, policy, overrides, frame }, plan }) => {
    if (plan.primary === null) return
    if (!policy.fallbackEnabled || intent.headers.noFallback || overrides.disabled.has('fallback')) {
      if (plan.refused === null) expect(plan.ordered).toEqual([plan.primary])
      else expect(plan.refused).toMatchObject({ code: 'provider_unavailable', status: 502 })
      return
    }
    const well = plan.order
      .map((place) => plan.candidates[place]!)
      .filter(({ modelId }) => {
        const { breaker, ejected, coolingDown } = frame.signals(modelId)
        return breaker !== 'open' && !ejected && !coolingDown
      })
    expect(plan.ordered).toEqual(well.length === 0 ? [plan.primary] : well)
  })
})

test('a refusal names the reason of the candidate that came nearest', () => {
  holds(({ plan }) => {
    if (plan.refused === null || plan.primary !== null || plan.candidates.length === 0) return
    const { rejected_reason } = plan.refused.details as { rejected_reason: (typeof REJECTED_REASONS)[number] }
    const nearest = Math.max(...plan.reasons.map((reason) => REJECTED_REASONS.indexOf(reason!)))
    expect(REJECTED_REASONS.indexOf(rejected_reason)).toBe(nearest)
  })
})
