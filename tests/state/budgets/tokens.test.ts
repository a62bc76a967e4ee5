// A budget of tokens and providers that count more tokens than were reserved: the excess is booked, and it closes the
// account as with money.
import { expect, test } from 'bun:test'
import { eventually } from '../../services/eventually.ts'
import { budgetRow, budgetWorld, TENANT } from './world.ts'

test('tokens beyond the reservation close the account until its limits are set again', async () => {
  const row = budgetRow({ limit_nano_usd: null, limit_tokens: 1_000 })
  const world = budgetWorld(row)
  const budgets = world.open('i')
  const reserve = async (tokens = 10) => {
    const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
    const refused = await request.reserve('prov_1', 'm', { nanoUsd: 0, tokens })
    return refused === null ? request : refused.reason
  }
  const spend = async (tokens: number, exact: boolean) => {
    const request = await reserve()
    if (typeof request === 'string') return request
    request.recorded()
    request.endAttempt({ nanoUsd: 0, tokens, exact })
    const charges = request.settle()
    request.outcomeWas('recorded')
    return charges
  }
  expect(await spend(10, true)).toMatchObject([{ tokens: 10, total: { overrun_nano_usd: 0 } }])
  expect(await spend(50, false)).toMatchObject([{ tokens: 10 }]) // an estimate never is an overrun
  expect(await spend(50, true)).toMatchObject([{ tokens: 50, total: { overrun_tokens: 40 } }])
  await eventually('the account is closed', () => (budgets.standing(row)!.closed ? true : null))
  expect(await reserve(900)).toBe('overrun') // more than is leased
  const raised = { ...row, height: row.height + 1, limit_tokens: 2_000 }
  world.put(raised)
  expect(typeof (await reserve(900))).toBe('object')
  expect(budgets.standing(raised)!.spent.tokens).toBe(70)
  await world.close()
})
