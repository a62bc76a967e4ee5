// Admissions that are written over earlier ones of the same candidates are equal to the text that the runtime would
// write for the same plan.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { BudgetPart } from '../../../src/domain/budgets/budget-events.ts'
import type { Plan } from '../../../src/inference/plan/plan.ts'
import { admittedJson } from '../../../src/inference/records/admission-text.ts'
import { candidateList, decisionOf } from '../../../src/inference/records/decision.ts'
import { wholeText } from '../../../src/lib/text/text-pieces.ts'
import { FilledText } from '../../../src/lib/text/text-template.ts'
import type { CatalogueEntry } from '../../../src/state/port.ts'

const CANDIDATES = ['alpha', 'beta', 'gamma'].map(
  (provider) =>
    ({ provider, providerId: `prov_${provider}`, name: 'model', modelId: 'mod_1' }) as unknown as CatalogueEntry,
)
const CAPS = [null, { budgetIds: ['bud_1'] }, { budgetIds: ['bud_1', 'bud_2'] }]
const NO_HEADERS = { policy: null, maxCostUsd: null, latencyTargetMs: null, region: null, sensitivity: [] }
const HEADERS = { ...NO_HEADERS, batch: false, noFallback: false }

const mostly = <T, U>(usual: T, ...others: U[]) =>
  fc.oneof<{ weight: number; arbitrary: fc.Arbitrary<T | U> }[]>(
    { weight: 8, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  )
const count = fc.oneof(fc.nat({ max: 20 }), fc.nat(), fc.maxSafeNat())
const orNull = fc.option(count, { nil: null })

const drawn = fc.record({
  called: mostly(0, 1, 2),
  source: mostly('global', 'key', 'tenant'),
  scores: mostly<readonly number[] | null, readonly number[] | null>([0.9, 0.8, 0.7], [0.9, 0.8, 0.6], null),
  order: mostly([0, 1, 2], [1, 0, 2]),
  ceiling: fc.oneof(fc.constant(null), count),
  caps: mostly(CAPS[0]!, CAPS[1]!, CAPS[2]!),
  choices: mostly(1, 2),
  turn: mostly(0, 3),
  overrides: mostly<string[], string[]>([], ['ovr_1']),
  reason: mostly<string | null, string>(null, 'no_price'),
  region: mostly<string | null, string>(null, 'eu'),
  numbers: fc.tuple(count, count, count, count, orNull, orNull, orNull, orNull),
  budget: mostly<BudgetPart[] | undefined, BudgetPart[]>(undefined, [
    { account: 'bud_1/0-1', holder: 'ins_1.e1', leased: true, nano_usd: 7, tokens: 8 },
  ]),
})

test('admissions one after the other, each as if it were the first', () => {
  let filled = 0
  fc.assert(
    fc.property(fc.array(drawn, { minLength: 1, maxLength: 12 }), (all) => {
      for (const each of all) {
        const [textBytes, messageCount, promptBytes, promptTokens, reserved, ...projectedNanoUsd] = each.numbers
        const headers = { ...HEADERS, region: each.region }
        const intent = { textBytes, messageCount, promptBytes, maxTokens: each.ceiling, choices: each.choices, headers }
        const overrides = { ids: each.overrides, hardCaps: each.caps }
        const plan = {
          input: {
            intent: { ...intent, requirements: [], mediaParts: 0, vendorFields: null },
            ...{ overrides, turn: each.turn, sticky: 0, isScopeAlias: false },
          },
          policy: { source: each.source },
          candidates: CANDIDATES,
          reasons: [each.reason, null, null],
          scores: each.scores,
          order: each.order,
          projectedNanoUsd,
        } as unknown as Plan
        const entry = CANDIDATES[each.called]!
        const admission = { plan, entry, promptTokens, reservedNanoUsd: reserved }
        const pieces = admittedJson('{"id":"req_1"', admission, each.budget)
        if (typeof pieces !== 'string' && pieces[1] instanceof FilledText) filled++
        const { provider, providerId: provider_id, name: model, modelId: model_id } = entry
        const expected = {
          id: 'req_1',
          decision: decisionOf(plan),
          candidates: candidateList(plan),
          ...{ provider, provider_id, model, model_id },
          prompt_tokens_estimate: promptTokens,
          reserved_nano_usd: reserved,
          budget: each.budget,
        }
        expect(JSON.parse(wholeText(pieces))).toEqual(JSON.parse(JSON.stringify(expected)))
      }
    }),
    { numRuns: 1_000 },
  )
  expect(filled).toBeGreaterThan(20)
})
