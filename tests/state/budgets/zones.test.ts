// A budget whose time zone is changed while it is spent from: whichever way its day is cut, it is one day's limit.
import { expect, test } from 'bun:test'
import { eventually } from '../../services/eventually.ts'
import { budgetRow, budgetWorld, TENANT } from './world.ts'

test('a window that nobody has spent from yet shows what was spent in those that it overlaps', async () => {
  const row = (timezone: string, height: number) =>
    budgetRow({ limit_nano_usd: 100, height, window: 'day', calendar_aligned: true, timezone })
  const world = budgetWorld(row('UTC', 1))
  const budgets = world.open('i')
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await request.reserve('prov_1', 'm', { nanoUsd: 7, tokens: 1 })).toBeNull()
  request.endAttempt({ nanoUsd: 7, tokens: 1, exact: true })
  request.settle()
  request.outcomeWas('recorded')
  const moved = row('Asia/Tokyo', 2)
  world.put(moved)
  await eventually('what was leased ahead is given back', async () => budgets.standing(moved)?.spent.nano_usd === 7)
  expect(budgets.standing(moved)).toMatchObject({ spent: { nano_usd: 7 }, reserved: { nano_usd: 0 } })
  await world.close()
})

test('changing the time zone, and back, gives nothing away', async () => {
  const zones = ['UTC', 'Europe/Berlin', 'Asia/Tokyo', 'America/New_York', 'Asia/Kolkata', 'Australia/Sydney']
  let height = 1
  const row = (timezone: string) =>
    budgetRow({ limit_nano_usd: 100, height: height++, window: 'day', calendar_aligned: true, timezone })
  const world = budgetWorld(row('UTC'))
  const budgets = world.open('i')
  const spend = async (nanoUsd: number): Promise<number> => {
    const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
    if ((await request.reserve('prov_1', 'm', { nanoUsd, tokens: 1 })) !== null) return 0
    request.endAttempt({ nanoUsd, tokens: 1, exact: true })
    request.settle()
    request.outcomeWas('recorded')
    return nanoUsd
  }
  let spent = 0
  for (const share of [1, 5, 100]) {
    for (const zone of zones) {
      world.put(row(zone))
      for (let i = 0; i < share; i++) spent += await spend(1)
    }
  }
  expect(spent).toBe(100)
  await world.close()
})
