// What the log grants to a request that has ended meanwhile: it goes straight back.
import { expect, test } from 'bun:test'
import { budgetRow, TENANT } from './world.ts'
import { worldsClosedAfterEach } from './worlds.ts'

const worldOf = worldsClosedAfterEach()

test.each([100, 1_000_000])('an extension of %d that is granted behind the settlement is not held', async (more) => {
  const world = worldOf(budgetRow({ limit_nano_usd: 2_000_000 }))
  const answered = Promise.withResolvers<void>()
  let holds = false
  const view = world.log.view({
    afterAppend: () => (holds ? answered.promise : undefined),
  })
  const budgets = world.open('i', view)
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await request.reserve('prov_1', 'm', { nanoUsd: 100, tokens: 1 })).toBeNull()
  const [open] = budgets.leases.opens.values()
  holds = true
  const extension = request.extend({ nanoUsd: more, tokens: 0 })
  request.endAttempt({ nanoUsd: 40, tokens: 1, exact: true })
  expect(request.settle()).toMatchObject([{ nano_usd: 40 }])
  request.outcomeWas('recorded')
  answered.resolve()
  await extension
  expect([open!.lease.reserved.nano_usd, open!.lease.spent.nano_usd, open!.users]).toEqual([0, 40, 0])
  expect(open!.lease.granted.nano_usd).toBeGreaterThanOrEqual(40)
})
