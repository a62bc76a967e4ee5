// What the golden logs hold: C5 folds them, and can tell a changed `evolve` only of what stands in one of them.
import { expect, test } from 'bun:test'
import { CONTROL_EVENTS } from '../../src/domain/control.ts'
import type { Decision } from '../../src/domain/kernel/decision.ts'
import { goldenNames, readGolden } from '../fixtures/golden-log.ts'

/** Every event type that was recorded, and `type.field` of each of its fields that says something. */
const recorded = (): ReadonlySet<string> => {
  const seen = new Set<string>()
  for (const name of goldenNames())
    for (const { value } of readGolden(name).records) {
      const { events = [] } = JSON.parse(Buffer.from(value, 'base64').toString('utf8')) as Partial<Decision>
      for (const { type, data } of events) {
        seen.add(type)
        for (const [field, said] of Object.entries(data)) if (said !== null) seen.add(`${type}.${field}`)
      }
    }
  return seen
}

test('every control event type stands in a golden log, with each of its fields', () => {
  const wanted = Object.entries(CONTROL_EVENTS).flatMap(([type, { schema }]) => [
    type,
    ...Object.keys(schema.properties as object).map((field) => `${type}.${field}`),
  ])
  const seen = recorded()
  // On a failure, extend `recorders/golden-life.ts` and record a new golden log: `bun tests/recorders/record-log.ts
  // <commit>`.
  expect(wanted.filter((name) => !seen.has(name))).toEqual([])
})
