// Builds that run side by side compute the same grants: a record that an earlier build would read differently is
// written only once no earlier build runs.
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Account, type Accounts, decideLease, evolveAccounts } from '../../../src/domain/budgets/account.ts'
import { type BudgetEvent, LIMITS_HEIGHT_SINCE } from '../../../src/domain/budgets/budget-events.ts'
import type { OpenBudgets } from '../../../src/state/budgets/budgets.ts'
import { termsOf } from '../../../src/state/budgets/open-account.ts'
import type { RequestBudgets } from '../../../src/state/budgets/request-budgets.ts'
import { eventually } from '../../services/eventually.ts'
import { type BudgetWorld, budgetRow, TENANT } from './world.ts'
import { worldsClosedAfterEach } from './worlds.ts'

const worldOf = worldsClosedAfterEach()

const ID = 'bud_1/0-'
const of = (nano_usd: number) => ({ nano_usd, tokens: 0 })

/**
 * One account, in the fold of this build or of earlier builds. An earlier build takes a newer copy of the terms
 * unchanged, and so reopens an account that is closed.
 */
class Reader {
  #account: Account | undefined
  readonly #accounts: Accounts = {
    get: () => this.#account,
    ofBudget: () => this.all(),
    all: () => this.all(),
  }
  constructor(private readonly isEarlier: boolean) {}
  all(): Account[] {
    return this.#account === undefined ? [] : [this.#account]
  }
  take(event: BudgetEvent, atMs: number): unknown {
    const account = this.#account
    const verdict = event.type === 'lease.requested' ? decideLease(this.#accounts, event.data, atMs) : null
    if (this.isEarlier && event.type === 'account.limited') {
      if (account !== undefined && event.data.height > account.height) this.#account = { ...account, ...event.data }
    } else for (const changed of evolveAccounts(this.#accounts, event, atMs).accounts) this.#account = changed
    return verdict
  }
}

const act = fc.record({
  do: fc.constantFrom('edit', 'set', 'overrun', 'ask', 'ask'),
  who: fc.constantFrom('i', 'j'),
  n: fc.integer({ min: 1, max: 300 }),
})

/** The records of these acts, and what the one and the other fold grant by them. */
const grantsOf = (acts: readonly { do: string; who: string; n: number }[], hasLimitsHeight: boolean) => {
  const readers = [new Reader(false), new Reader(true)]
  const grants: unknown[][] = [[], []]
  let row = budgetRow({ limits_height: 1 })
  let atMs = 1
  const overruns = { i: 0, j: 0 } as Record<string, number>
  const write = (event: BudgetEvent) => {
    atMs++
    for (const [r, reader] of readers.entries()) grants[r]!.push(reader.take(event, atMs))
  }
  const opened = { account: ID, budget_id: row.id, window_start_ms: 0, window_end_ms: null }
  write({ type: 'account.opened', data: { ...opened, ...termsOf(row, hasLimitsHeight) } })
  for (const { do: what, who, n } of acts) {
    const named = { holder: `${who}.1`, instance: who }
    if (what === 'edit' || what === 'set') {
      const height = row.height + 1
      row = { ...row, height, ...(what === 'set' ? { limits_height: height } : {}) }
      write({ type: 'account.limited', data: { account: ID, ...termsOf(row, hasLimitsHeight) } })
    } else if (what === 'ask') {
      const accounts = [{ account: ID, height: row.height, need: of(n), want: of(2 * n) }]
      write({ type: 'lease.requested', data: { ...named, sequence: atMs, accounts } })
    } else {
      overruns[who] = overruns[who]! + n
      const sums = { returned: of(0), spent: of(0), counted: of(overruns[who]!), overrun_nano_usd: overruns[who]! }
      write({ type: 'lease.settled', data: { ...named, accounts: [{ account: ID, ...sums }] } })
    }
  }
  return grants
}

test('while a build before may serve, it grants what this one grants, whatever is decided and overrun', () => {
  fc.assert(
    fc.property(fc.array(act, { maxLength: 30 }), (acts) => {
      const [now, earlier] = grantsOf(acts, false)
      expect(now).toEqual(earlier!)
    }),
  )
  // Why it is not written before: the same decisions with it.
  const closing = [
    { do: 'overrun', who: 'i', n: 1 },
    { do: 'edit', who: 'i', n: 1 },
    { do: 'ask', who: 'j', n: 1 },
  ]
  const [now, earlier] = grantsOf(closing, true)
  expect(now!.at(-1)).toMatchObject({ kind: 'refused', reason: 'overrun' })
  expect(earlier!.at(-1)).toMatchObject({ kind: 'granted' })
})

const spend = async (world: BudgetWorld, budgets: OpenBudgets, nanoUsd: number, reserved = nanoUsd) => {
  const request: RequestBudgets = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  const refused = await request.reserve('prov_1', 'm', { nanoUsd: reserved, tokens: 1 })
  if (refused !== null) return refused.reason
  request.endAttempt({ nanoUsd, tokens: 1, exact: true })
  request.settle()
  request.outcomeWas('recorded')
  return 'spent it'
}
const accountOf = (budgets: OpenBudgets) => [...(budgets.leases.ledger.accounts(TENANT)?.all() ?? [])][0]

test('until the chain says that all understand it any edit opens a closed budget, from then on those of its limits alone', async () => {
  let row = budgetRow({ limits_height: 1 })
  const world = worldOf(row)
  world.understand(LIMITS_HEIGHT_SINCE - 1)
  const [i, j] = [world.open('i'), world.open('j')]
  const edit = () => {
    row = { ...row, height: row.height + 1 }
    world.put(row)
  }
  const closes = (budgets: OpenBudgets) =>
    eventually('read', () => (accountOf(budgets)?.overrun_height === row.height ? true : null))
  expect(await spend(world, i, 25, 5)).toBe('spent it')
  for (const each of [i, j]) {
    await closes(each)
    expect(each.standing(row)!.closed).toBe(true)
    expect(await spend(world, each, 1)).toBe('overrun')
  }
  edit()
  for (const each of [i, j]) {
    expect(each.standing(row)!.closed).toBe(false)
    expect(await spend(world, each, 1)).toBe('spent it')
  }
  world.understand(LIMITS_HEIGHT_SINCE)
  for (const each of [i, j]) expect(await spend(world, each, 1)).toBe('spent it')
  expect(await spend(world, i, 25, 5)).toBe('spent it')
  for (const each of [i, j]) await closes(each)
  edit()
  for (const each of [i, j]) {
    expect(each.standing(row)!.closed).toBe(true)
    expect(await spend(world, each, 1)).toBe('overrun')
  }
})
