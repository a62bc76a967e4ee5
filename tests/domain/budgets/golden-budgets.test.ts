// Budget records of earlier builds give the same result in this build: instances of several builds and logs that are
// kept must always lead to the same grants.
import { expect, test } from 'bun:test'
import { BUDGET_EVENTS } from '../../../src/domain/budgets/budget-events.ts'
import { budgetEventsIn, budgetLogNames, foldBudgetLog, readBudgetLog } from '../../fixtures/golden-budgets.ts'

const names = budgetLogNames()

test.each(names)('%s folds to the verdicts and the accounts that are recorded', (name) => {
  const { header, records } = readBudgetLog(name)
  const { recorded_by: _, ...recorded } = header
  // Another fold grants otherwise than builds that serve beside this one: record 32 says how such a change is gated.
  expect(foldBudgetLog(records)).toEqual(recorded)
})

test.each(names)('whoever begins in the middle of %s, at a statement of all accounts, comes to the same', (name) => {
  const { header, records } = readBudgetLog(name)
  const events = budgetEventsIn(records)
  const statements = events.flatMap(({ type, data }, at) =>
    type === 'account.stated' && data.offset === at ? [data.offset] : [],
  )
  expect(statements.length).toBeGreaterThan(0)
  for (const from of statements) {
    const { verdicts, standings } = foldBudgetLog(records, from)
    const later = header.verdicts.filter((verdict) => Number.parseInt(verdict, 10) >= from)
    expect([from, standings, verdicts]).toEqual([from, [...header.standings], later])
  }
})

/** Every type, `type.field` of each field that says something, and of what stands in lists and objects below. */
const said = (type: string, data: unknown, seen: Set<string>): void => {
  seen.add(type)
  for (const [field, value] of Object.entries(data as object)) {
    if (value === null) continue
    seen.add(`${type}.${field}`)
    if (!Array.isArray(value)) continue
    for (const item of value) if (typeof item === 'object') said(`${type}.${field}`, item, seen)
  }
}

interface Described {
  readonly type?: string
  readonly properties?: Readonly<Record<string, Described>>
  readonly items?: Described
}

const fieldsOf = (type: string, { properties = {} }: Described): string[] => [
  type,
  ...Object.entries(properties).flatMap(([field, schema]) => {
    const name = `${type}.${field}`
    return schema.items?.properties === undefined ? [name] : fieldsOf(name, schema.items)
  }),
]

test('every record of budgets stands in a golden log, with each of its fields and every verdict', () => {
  const seen = new Set<string>()
  const verdicts = new Set<string>()
  for (const name of names) {
    const { header, records } = readBudgetLog(name)
    for (const { type, data } of budgetEventsIn(records)) said(type, data, seen)
    for (const verdict of header.verdicts) verdicts.add(verdict.split(' ', 3).slice(1).join(' ').replace(/ \d.*/, ''))
  }
  const wanted = Object.entries(BUDGET_EVENTS).flatMap(([type, schema]) => fieldsOf(type, schema as Described))
  // On a failure, extend `recorders/budget-life.ts` or `recorders/budget-edges.ts`, and record a new golden log: `bun
  // tests/recorders/record-budget-log.ts`.
  expect(wanted.filter((name) => !seen.has(name))).toEqual([])
  const refusals = ['spent', 'overrun', 'forgotten', 'ended', 'early', 'height', 'unknown', 'closed']
  expect([...verdicts].sort()).toEqual(['granted', ...refusals.map((reason) => `refused ${reason}`), 'repeat'].sort())
})
