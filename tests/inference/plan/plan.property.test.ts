// Promises of every plan, whatever it is made from.

import { expect, test } from 'bun:test'
import { PlanRecord } from '../../../src/domain/events/request.ts'
import { outputBound, promptTokensEstimate } from '../../../src/inference/money/estimate.ts'
import { priceOf } from '../../../src/inference/money/price.ts'
import { candidatesFor } from '../../../src/inference/plan/candidates.ts'
import { planDigest } from '../../../src/inference/plan/digest.ts'
import { makePlan, type Plan } from '../../../src/inference/plan/plan.ts'
import { REJECTED_REASONS } from '../../../src/inference/plan/rejections.ts'
import { type RecordedPlan, recordedInput } from '../../../src/inference/plan/replay.ts'
import { planRecord } from '../../../src/inference/records/plan-record.ts'
import { Value } from '../../../src/lib/schema/schema.ts'
import { catalogueOf, entry } from '../gateway.ts'
import { holds } from './any-plan.ts'
import { planInput } from './plans.ts'

const shown = ({ input: _, ...plan }: Plan) => plan

test('the same inputs give the same plan, whatever the order of the registry', () => {
  holds(({ input, entries, plan }) => {
    const again = makePlan({ ...input, catalogue: catalogueOf([...entries].reverse()) })
    expect(shown(again)).toEqual(shown(plan))
  })
})

test('no plan changes what the candidates of a name are to the next one', () => {
  holds(({ input, entries }) => {
    const { intent, policy, catalogue, isScopeAlias } = input
    const sets = (['alone', 'usual', 'long'] as const).map((reach) =>
      candidatesFor(intent.model, reach, policy, catalogue, isScopeAlias),
    )
    const before = structuredClone(
      sets.map(({ standing, places, ownPlaces, tiers }) => [standing, places, ownPlaces, tiers]),
    )
    makePlan(input)
    expect(sets.map(({ standing, places, ownPlaces, tiers }) => [standing, places, ownPlaces, tiers])).toEqual(before)
    for (const { places, ownPlaces, entries: all, ownCount } of sets) {
      expect(places).toEqual(all.map((_, place) => place))
      expect(ownPlaces).toEqual(places.slice(0, ownCount))
    }
    expect(entries.length).toBeGreaterThan(0)
  })
})

/** As it comes back from the log. */
const recordOf = ({ input }: Plan, plan: PlanRecord): RecordedPlan =>
  JSON.parse(
    JSON.stringify({ requested_model: input.intent.model, key_id: input.keyId, stream: input.intent.stream, plan }),
  )

test('what the records say makes the same plan again', () => {
  holds(({ input, plan }) => {
    const recorded = planRecord(plan, 'the revision')
    expect([...Value.Errors(PlanRecord, recorded)]).toEqual([])
    const { policy, catalogue, overrides, frame } = input
    const again = makePlan(recordedInput(recordOf(plan, recorded), { policy, catalogue, overrides, frame }))
    expect(shown(again)).toEqual(shown(plan))
    expect(planRecord(again, 'the revision')).toEqual(recorded)
  })
})

test('a plan with other candidates, reasons, another order or strategy has another digest', () => {
  holds(({ plan }) => {
    const { candidates, reasons, order, strategy } = plan
    const digest = planDigest(plan)
    const others: Plan[] = [{ ...plan, strategy: strategy === 'priority' ? 'weighted' : 'priority' }]
    if (order.length > 1) others.push({ ...plan, order: [...order].reverse() })
    if (candidates.length > 1) others.push({ ...plan, candidates: [...candidates].reverse() })
    for (const place of reasons.keys())
      for (const reason of [null, ...REJECTED_REASONS])
        if (reason !== reasons[place]) others.push({ ...plan, reasons: reasons.with(place, reason) })
    for (const other of others) expect(planDigest(other)).not.toBe(digest)
  })
})

test('who had no adapter when the plan was made has none when it is made again, and the other way round', () => {
  const rows = [entry({ provider: 'alpha', unroutable: 'no_adapter' }), entry({ provider: 'beta' })]
  const input = planInput({ entries: rows })
  const plan = makePlan(input)
  const recorded = planRecord(plan, 'the revision')
  expect(recorded.without_adapter).toEqual(['prov_alpha'])
  // The credentials of whoever asks later are others: `api_key_env` is read where the gateway runs.
  const catalogue = catalogueOf([entry({ provider: 'alpha' }), entry({ provider: 'beta', unroutable: 'no_adapter' })])
  const { policy, overrides, frame } = input
  const again = makePlan(recordedInput(recordOf(plan, recorded), { policy, catalogue, overrides, frame }))
  expect(planRecord(again, 'the revision')).toEqual(recorded)
  expect(again.reasons).toEqual(plan.reasons)
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

test('every candidate is called in its turn or has a reason of the list, and the order permutes the eligible', () => {
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

// docs/behaviour.md: "Rejected candidates"
test('a refusal names the reason of the candidate that came nearest', () => {
  holds(({ plan }) => {
    if (plan.refused === null || plan.primary !== null || plan.candidates.length === 0) return
    const { rejected_reason } = plan.refused.details as { rejected_reason: (typeof REJECTED_REASONS)[number] }
    const nearest = Math.max(...plan.reasons.map((reason) => REJECTED_REASONS.indexOf(reason!)))
    expect(REJECTED_REASONS.indexOf(rejected_reason)).toBe(nearest)
  })
})
