// Plans of all kinds, for properties.
import { expect } from 'bun:test'
import fc from 'fast-check'
import { type PolicyRow, STRATEGIES } from '../../../src/domain/steering/policy.ts'
import { makePlan, type Plan, type PlanInput } from '../../../src/inference/plan/plan.ts'
import { effectivePolicy, withScope } from '../../../src/inference/plan/policies.ts'
import type { CatalogueEntry } from '../../../src/state/port.ts'
import { entry, policyRow } from '../gateway.ts'
import { frameOf, intentOf, overridesOf, planInput, scopeOf } from './plans.ts'

const PROVIDERS = ['alpha', 'beta', 'gamma', 'delta']
const CAPABILITIES = ['chat', 'streaming', 'tools', 'seed', 'vision']
const MODELS = ['small', 'large']
const someProviders = fc.subarray(PROVIDERS)

/** The first mostly: each of many bounds leaves nobody over, and where nobody is left there is little to see. */
const mostly = <Usual, Other>(usual: fc.Arbitrary<Usual>, other: fc.Arbitrary<Other>): fc.Arbitrary<Usual | Other> =>
  fc.oneof({ weight: 9, arbitrary: usual }, { weight: 1, arbitrary: other })
const mostlyNone = <Other>(other: fc.Arbitrary<Other>): fc.Arbitrary<Other | null> => mostly(fc.constant(null), other)
const noNames = fc.constant<string[]>([])

const anyRows = fc.uniqueArray(
  fc.record({
    provider: fc.constantFrom(...PROVIDERS),
    kind: fc.constantFrom('plain', 'vllm', 'llamacpp', 'cohere'),
    name: fc.constantFrom(...MODELS),
    priority: fc.integer({ min: 0, max: 3 }),
    capabilities: mostly(fc.constant(CAPABILITIES), fc.subarray(CAPABILITIES)),
    unroutable: mostlyNone(fc.constant('disabled' as const)),
    inputCostPerMillion: mostly(fc.constantFrom(0, 0.001, 2), fc.constantFrom(null, 1_000_000)),
    region: fc.constantFrom(null, 'eu', 'us'),
    contextWindow: mostly(fc.constantFrom(null, 100_000), fc.constantFrom(1, 20)),
    weight: fc.constantFrom(0, 1, 5),
  }),
  { selector: ({ provider, name }) => `${provider}/${name}`, minLength: 1, maxLength: 8 },
)
/** A provider without an adapter has none for any of its models. */
const anyEntries = fc
  .tuple(anyRows, mostly(noNames, someProviders))
  .map(([rows, without]) =>
    rows.map((row) =>
      entry(row.unroutable === null && without.includes(row.provider) ? { ...row, unroutable: 'no_adapter' } : row),
    ),
  )

const anyRow = fc.record({
  strategy: fc.constantFrom(null, ...STRATEGIES),
  models: mostly(noNames, fc.subarray(['small', 'LARGE', 'mod_alpha_small'])),
  providers: fc.record({
    only: mostly(noNames, someProviders),
    ignore: mostly(noNames, fc.subarray(['alpha'])),
    order: someProviders,
  }),
  regions: mostly(noNames, fc.subarray(['eu', 'us'])),
  max_cost_usd: mostlyNone(fc.constantFrom(0.001, 10)),
  latency_target_ms: mostlyNone(fc.constant(500)),
  sensitivity: mostly(
    fc.constant<PolicyRow['sensitivity']>({}),
    fc.constant<PolicyRow['sensitivity']>({ phi: { providers: ['beta', 'gamma'] } }),
  ),
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
  maxCostUsd: mostlyNone(fc.constant(0.01)),
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
    image: mostly(fc.constant(false), fc.constant(true)),
    headers: fc.record(
      {
        'x-gateway-no-fallback': fc.constant('true'),
        'x-gateway-max-cost-usd': fc.constantFrom('0.5', '100'),
        'x-gateway-latency-target-ms': fc.constant('300'),
        'x-gateway-sensitivity': fc.constant('phi'),
        'x-gateway-batch': fc.constant('true'),
      },
      { requiredKeys: [] },
    ),
    region: mostlyNone(fc.constant('EU')),
  })
  .map(({ stream, seed, size, max_tokens, n, own, image, headers, region }) =>
    intentOf(
      {
        stream,
        ...own,
        messages: [{ role: 'user', content: [{ type: 'text', text: 'x'.repeat(size) }, ...(image ? [IMAGE] : [])] }],
        ...(n === undefined ? {} : { n }),
        ...(seed ? { seed: 1 } : {}),
        ...(max_tokens === undefined ? {} : { max_tokens }),
      },
      { ...headers, ...(region !== null && { 'x-gateway-region': region }) } as Record<string, string>,
    ),
  )

const anyOverrides = fc
  .record({
    killedProviderIds: mostly(noNames, fc.subarray(PROVIDERS.slice(0, 2))).map(
      (names) => new Set(names.map((name) => `prov_${name}`)),
    ),
    blockedModels: mostly(fc.constant(new Set<string>()), fc.constant(new Set(['large']))),
    maxCostUsd: mostlyNone(fc.constant(1)),
    maxCostUsdOf: fc.constantFrom(
      new Map(),
      new Map(),
      new Map([['provider:prov_beta', 0.000_001]]),
      new Map([['key:key_1', 0.1]]),
    ),
    forcedModels: fc.constantFrom(new Map(), new Map(), new Map([['small', 'large']]), new Map([['*', 'large']])),
    disabled: fc.constantFrom(new Set<never>(), new Set(['fallback' as const])),
    hardCaps: fc.option(
      fc.record({
        budgetIds: fc.constant(['bud_1']),
        all: mostlyNone(fc.constant(1_000)),
        of: mostly(
          fc.constant(new Map<string, number>()),
          fc.constantFrom(
            new Map([['provider:prov_gamma', 1_000]]),
            new Map([['key:key_1', 1e8]]),
            new Map([['endpoint:app', 1_000]]),
            new Map([['model:large', 1_000]]),
          ),
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

export interface Made {
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

/** A promise about plans that nobody answers holds of few others: so many at least have somebody. */
const ANSWERED_SHARE = 0.2

/** Holds of so many plans, whatever they are made from. */
export const holds = (promise: (made: Made) => void, numRuns = 400): void => {
  let made = 0
  let answered = 0
  fc.assert(
    fc.property(anyInput, ({ input, entries }) => {
      const plan = makePlan(input)
      made++
      if (plan.primary !== null) answered++
      promise({ input, entries, plan })
    }),
    { numRuns },
  )
  expect(answered / made).toBeGreaterThan(ANSWERED_SHARE)
}
