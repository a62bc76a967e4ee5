// What each strategy goes by, and what stands above all of them.
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type PolicyRow, STRATEGIES } from '../../../src/domain/steering/policy.ts'
import { makePlan, type PlanInput } from '../../../src/inference/plan/plan.ts'
import { recordedInput } from '../../../src/inference/plan/replay.ts'
import { planRecord } from '../../../src/inference/records/plan-record.ts'
import type { Signals } from '../../../src/state/health/frame.ts'
import { NO_OVERRIDES } from '../../../src/state/indexes/steering.ts'
import type { CatalogueEntry } from '../../../src/state/port.ts'
import { entry } from '../gateway.ts'
import { frameOf, intentOf, overridesOf, planInput, policyOf } from './plans.ts'

const NAMES = ['alpha', 'beta', 'gamma', 'delta', 'epsilon']

/** Names of the providers in the order in which they are called. */
const orderOf = (input: PlanInput): string[] => makePlan(input).ordered.map(({ provider }) => provider)
const byName = (name: string, strategyParams: PolicyRow['strategy_params'] = {}) =>
  policyOf({ strategy: name, strategy_params: strategyParams })
const entriesOf = (fields: readonly Partial<CatalogueEntry>[]): CatalogueEntry[] =>
  fields.map((own, i) => entry({ provider: NAMES[i]!, ...own }))
const seen = (...signals: Partial<Signals>[]) =>
  frameOf(Object.fromEntries(signals.map((own, i) => [`mod_${NAMES[i]}_small`, own])))

// docs/behaviour.md: "Strategies"
test('priority goes by priority, then by the name of the provider; the policy puts its own order in front', () => {
  const entries = [
    entry({ provider: 'gamma', priority: 1 }),
    entry({ provider: 'beta', priority: 2 }),
    entry({ provider: 'alpha', priority: 2 }),
  ]
  expect(orderOf(planInput({ entries, policy: byName('priority') }))).toEqual(['gamma', 'alpha', 'beta'])
  const policy = policyOf({ strategy: 'priority', providers: { order: ['Beta', 'prov_alpha'] } })
  expect(orderOf(planInput({ entries, policy }))).toEqual(['beta', 'alpha', 'gamma'])
})

/** Strategy, what it goes by in three candidates, and the order that follows. */
const BY_SIGNAL: readonly [strategy: string, signals: readonly Partial<Signals>[], order: string[]][] = [
  [
    'lowest_latency',
    [
      { ttftMs: 300, e2eMs: 900 },
      { ttftMs: 100, e2eMs: 950 },
      { ttftMs: 200, e2eMs: 800 },
    ],
    ['gamma', 'alpha', 'beta'],
  ],
  [
    'highest_throughput',
    [{ tokensPerSecond: 10 }, { tokensPerSecond: 90 }, { tokensPerSecond: 50 }],
    ['beta', 'gamma', 'alpha'],
  ],
  ['least_busy', [{ inFlight: 2 }, { inFlight: 0 }, { inFlight: 1 }], ['beta', 'gamma', 'alpha']],
  ['usage_based', [{ headroom: 0.2 }, { headroom: 0.9 }, { headroom: 0.5 }], ['beta', 'gamma', 'alpha']],
]
describe('goes by what the frame shows', () => {
  for (const [strategy, signals, order] of BY_SIGNAL) {
    test(strategy, () => {
      expect(
        orderOf(planInput({ entries: entriesOf([{}, {}, {}]), policy: byName(strategy), frame: seen(...signals) })),
      ).toEqual(order)
    })
  }

  test('lowest_latency goes by the first token for streams, and by what the policy names', () => {
    const frame = seen(...BY_SIGNAL[0]![1])
    const entries = entriesOf([{}, {}, {}])
    const stream = intentOf({ stream: true })
    expect(orderOf(planInput({ entries, policy: byName('lowest_latency'), frame, intent: stream }))).toEqual([
      'beta',
      'gamma',
      'alpha',
    ])
    const policy = byName('lowest_latency', { latency_metric: 'e2e' })
    expect(orderOf(planInput({ entries, policy, frame, intent: stream }))).toEqual(['gamma', 'alpha', 'beta'])
  })

  test('who was never measured goes first, and is so measured', () => {
    const frame = seen({ e2eMs: 10, tokensPerSecond: 500 }, {})
    for (const strategy of ['lowest_latency', 'highest_throughput']) {
      expect(orderOf(planInput({ entries: entriesOf([{}, {}]), policy: byName(strategy), frame }))).toEqual([
        'beta',
        'alpha',
      ])
    }
  })
})

test('what a frame said is asked of that frame only, whichever comes after it, and of the candidates that are left', () => {
  const input = planInput({ entries: entriesOf([{}, {}, {}]), policy: byName('balanced') })
  const frames = [
    seen({ e2eMs: 900 }, { e2eMs: 100 }, { e2eMs: 300 }),
    seen({ e2eMs: 100 }, { e2eMs: 900, breaker: 'open' }, { e2eMs: 300 }),
    seen({ e2eMs: 100 }, { e2eMs: 300 }, { e2eMs: 900 }),
  ]
  const orders = [
    ['beta', 'gamma', 'alpha'],
    ['alpha', 'gamma'],
    ['alpha', 'beta', 'gamma'],
  ]
  for (const i of [0, 1, 0, 2, 1, 2]) expect(orderOf({ ...input, frame: frames[i]! })).toEqual(orders[i]!)
  // Without the fastest, the next one is what the others are compared with.
  const killed = overridesOf({ killedProviderIds: new Set(['prov_beta']) })
  const [without, all] = [killed, NO_OVERRIDES].map((overrides) => makePlan({ ...input, frame: frames[0]!, overrides }))
  expect(without!.scores).toEqual([expect.any(Number), null, expect.any(Number)])
  expect(without!.scores![2]).toBeGreaterThan(all!.scores![2]!)
})

test('a list that nobody asks for again keeps no frame of then', async () => {
  const policy = byName('balanced')
  const inputs = Array.from({ length: 20 }, () =>
    planInput({ entries: entriesOf([{}, {}, {}]), policy: { ...policy } }),
  )
  const frames = inputs.map((input, i) => {
    const frame = seen({ e2eMs: 100 + i }, { e2eMs: 200 }, { e2eMs: 300 })
    expect(orderOf({ ...input, frame })).toEqual(['alpha', 'beta', 'gamma'])
    return new WeakRef(frame)
  })
  await Promise.resolve() // what a turn dereferences lives as long as the turn
  Bun.gc(true)
  expect(frames.filter((frame) => frame.deref() !== undefined).length).toBeLessThan(5)
  for (const input of inputs) expect(orderOf(input)).toEqual(['alpha', 'beta', 'gamma']) // their lists live
})

test('each ordering strategy never puts the worse before the better', () => {
  const any = fc.record({
    tokensPerSecond: fc.nat(3),
    inFlight: fc.nat(3),
    headroom: fc.double({ min: 0, max: 1, noNaN: true }),
    e2eMs: fc.nat(3),
    cost: fc.nat(3),
  })
  const KEYS: Readonly<
    Record<
      string,
      (one: { tokensPerSecond: number; inFlight: number; headroom: number; e2eMs: number; cost: number }) => number
    >
  > = {
    lowest_latency: ({ e2eMs }) => e2eMs,
    highest_throughput: ({ tokensPerSecond }) => -tokensPerSecond,
    least_busy: ({ inFlight }) => inFlight,
    usage_based: ({ headroom }) => -headroom,
    lowest_cost: ({ cost }) => cost,
  }
  fc.assert(
    fc.property(
      fc.array(any, { minLength: 2, maxLength: 5 }),
      fc.constantFrom(...Object.keys(KEYS)),
      fc.nat(),
      (signals, strategy, seed) => {
        const entries = entriesOf(
          signals.map(({ cost }) => ({ inputCostPerMillion: cost, outputCostPerMillion: cost })),
        )
        const order = orderOf(planInput({ entries, policy: byName(strategy), frame: seen(...signals), seed }))
        expect(order).toHaveLength(signals.length)
        const keys = order.map((name) => KEYS[strategy]!(signals[NAMES.indexOf(name)]!))
        for (let i = 1; i < keys.length; i++) expect(keys[i - 1]!).toBeLessThanOrEqual(keys[i]!)
      },
    ),
    { numRuns: 300 },
  )
})

describe('lowest_cost', () => {
  const entries = entriesOf([
    { inputCostPerMillion: null },
    { inputCostPerMillion: 3, outputCostPerMillion: 15 },
    { inputCostPerMillion: 1, outputCostPerMillion: 60, maxOutputTokens: 10_000 },
  ])

  test('goes by what the request is projected to cost; without a price last', () => {
    expect(orderOf(planInput({ entries, policy: byName('lowest_cost') }))).toEqual(['beta', 'gamma', 'alpha'])
    const long = intentOf({ messages: [{ role: 'user', content: 'x'.repeat(100_000) }], max_tokens: 1 })
    expect(orderOf(planInput({ entries, policy: byName('lowest_cost'), intent: long }))).toEqual([
      'gamma',
      'beta',
      'alpha',
    ])
  })

  test('is what batch traffic means, unless the policy has a strategy of its own', () => {
    const batch = intentOf({}, { 'x-gateway-batch': 'true' })
    expect(makePlan(planInput({ entries, intent: batch })).strategy).toBe('lowest_cost')
    expect(makePlan(planInput({ entries, intent: batch, policy: byName('priority') })).strategy).toBe('priority')
    expect(makePlan(planInput({ entries })).strategy).toBe('balanced')
  })
})

describe('random choices', () => {
  const entries = entriesOf([{ weight: 1 }, { weight: 3 }, { weight: 0 }])

  test('weighted draws in proportion, never first who weighs nothing, and always the same from one seed', () => {
    const first = new Map<string, number>()
    const draws = 4_000
    for (let seed = 0; seed < draws; seed++) {
      const order = orderOf(planInput({ entries, policy: byName('weighted'), seed }))
      expect(order[2]).toBe('gamma')
      first.set(order[0]!, (first.get(order[0]!) ?? 0) + 1)
    }
    expect(first.get('beta')! / draws).toBeGreaterThan(0.72)
    expect(first.get('beta')! / draws).toBeLessThan(0.78)
  })

  test('equal load is spread by the seed, within the same priority', () => {
    const even = entriesOf([{ priority: 2 }, { priority: 1 }, { priority: 1 }])
    const firsts = new Set<string>()
    for (let seed = 0; seed < 50; seed++) {
      const order = orderOf(planInput({ entries: even, policy: byName('least_busy'), seed }))
      firsts.add(order[0]!)
      expect(order[2]).toBe('alpha')
    }
    expect(firsts).toEqual(new Set(['beta', 'gamma']))
  })
})

test('round_robin starts one further with each turn, and keeps to its tier', () => {
  const entries = entriesOf([{}, {}, {}])
  const firsts = [0, 1, 2, 3].map((turn) => orderOf(planInput({ entries, policy: byName('round_robin'), turn })))
  expect(firsts).toEqual([
    ['alpha', 'beta', 'gamma'],
    ['beta', 'gamma', 'alpha'],
    ['gamma', 'alpha', 'beta'],
    ['alpha', 'beta', 'gamma'],
  ])
  const tiered = policyOf({ strategy: 'round_robin', providers: { order: ['gamma'] } })
  expect([0, 1, 2].map((turn) => orderOf(planInput({ entries, policy: tiered, turn })))).toEqual([
    ['gamma', 'alpha', 'beta'],
    ['gamma', 'beta', 'alpha'],
    ['gamma', 'alpha', 'beta'],
  ])
})

test('sticky keeps to one candidate; one that leaves moves only those that it served', () => {
  const entries = entriesOf([{}, {}, {}, {}])
  const served = new Map<string, number>()
  for (let sticky = 1; sticky <= 2_000; sticky++) {
    const hash = Math.imul(sticky, 2_654_435_761) >>> 0
    const order = orderOf(planInput({ entries, policy: byName('sticky'), sticky: hash, seed: sticky }))
    expect(orderOf(planInput({ entries, policy: byName('sticky'), sticky: hash, seed: 9 }))).toEqual(order)
    const without = orderOf(
      planInput({
        entries: entries.filter(({ provider }) => provider !== order[1]),
        policy: byName('sticky'),
        sticky: hash,
      }),
    )
    expect(without).toEqual(order.filter((name) => name !== order[1]))
    served.set(order[0]!, (served.get(order[0]!) ?? 0) + 1)
  }
  for (const name of NAMES.slice(0, 4)) expect(Math.abs(served.get(name)! - 500)).toBeLessThan(100)
})

describe('balanced', () => {
  test('blends cost, latency, health, priority and feedback by the weights of the policy', () => {
    const entries = entriesOf([
      { inputCostPerMillion: 9, outputCostPerMillion: 9 },
      { inputCostPerMillion: 1, outputCostPerMillion: 1 },
    ])
    const frame = seen({ e2eMs: 100 }, { e2eMs: 2_000 })
    const ranked = (weights: NonNullable<PolicyRow['strategy_params']['weights']>) =>
      orderOf(planInput({ entries, policy: byName('balanced', { weights }), frame }))
    expect(ranked({ cost: 1 })).toEqual(['beta', 'alpha'])
    expect(ranked({ latency: 1 })).toEqual(['alpha', 'beta'])
    expect(ranked({ latency: 1, cost: 20 })).toEqual(['beta', 'alpha'])
  })

  test('is recorded with the scores that it went by, the first one highest', () => {
    const { scores, order } = makePlan(
      planInput({ entries: entriesOf([{ inputCostPerMillion: 9 }, {}]), frame: seen({ health: 0.2 }) }),
    )
    expect(scores).toHaveLength(2)
    expect(scores![order[0]!]!).toBeGreaterThan(scores![order[1]!]!)
    for (const score of scores!) expect(score! >= 0 && score! <= 1).toBe(true)
  })
})

test('what is recorded of any strategy makes the same order again', () => {
  const entries = entriesOf([{}, {}, {}, {}, {}])
  for (const strategy of STRATEGIES) {
    const input = planInput({ entries, policy: byName(strategy), seed: 11, turn: 3, sticky: 0xdead_beef })
    const { policy, catalogue, overrides, frame } = input
    const plan = planRecord(makePlan(input), 'the revision')
    const record = { requested_model: 'small', key_id: 'key_1', stream: false, plan }
    expect(orderOf(recordedInput(record, { policy, catalogue, overrides, frame }))).toEqual(orderOf(input))
  }
})
