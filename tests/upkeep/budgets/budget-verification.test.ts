// Verification of a budget against a log that is long, slow, cut or growing: it compares where the whole log was read,
// and reports where it was not.
import { afterEach, expect, test } from 'bun:test'
import { writeEnvelope } from '../../../src/log/envelope.ts'
import type { MemoryFaults } from '../../../src/log/memory.ts'
import { EarlierRecords, type EventLog } from '../../../src/log/port.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import type { OpenBudgets } from '../../../src/state/budgets/budgets.ts'
import { budgetVerifier, type VerificationDeps } from '../../../src/upkeep/budgets/budget-verification.ts'
import { type BudgetWorld, budgetRow, budgetWorld, NOON_MS, TENANT } from '../../state/budgets/world.ts'

const REQUESTS = TOPICS.requests.name
const DAY_MS = 86_400_000
const ROW = budgetRow({ limit_nano_usd: 100_000 })
const encoder = new TextEncoder()
let worlds: BudgetWorld[] = []
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close()
  worlds = []
})

const worldOf = () => {
  const world = budgetWorld(ROW)
  worlds.push(world)
  return { world, budgets: world.open('i') }
}

let outcomes = 0
const append = (world: BudgetWorld, budget: readonly unknown[], more: object = {}) => {
  const [origin, data] = [
    { instance: 'i', epoch: 'e', sequence: outcomes },
    { id: `req_${outcomes}`, admission: `i.e.x${outcomes++}`, budget, ...more },
  ]
  const text = writeEnvelope(origin, 'request.settled', `${TENANT}/i`, world.nowMs, JSON.stringify(data))
  return world.log.append(REQUESTS, 0, [{ key: `${TENANT}/i`, value: encoder.encode(text) }])
}

/** A request of 10, with its outcome in the log. */
const spend = async (world: BudgetWorld, budgets: OpenBudgets) => {
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await request.reserve('prov_1', 'm', { nanoUsd: 10, tokens: 1 })).toBeNull()
  request.endAttempt({ nanoUsd: 10, tokens: 1, exact: true })
  const charges = request.settle()
  request.outcomeWas('recorded')
  await append(world, charges)
}

const verifier = (
  { world, budgets }: ReturnType<typeof worldOf>,
  beforeDeliver?: MemoryFaults['beforeDeliver'],
  more: Partial<VerificationDeps> = {},
) => {
  const faults: MemoryFaults = {
    beforeDeliver: (call) => (call.topic === REQUESTS ? (beforeDeliver?.(call) ?? 1_000) : 1_000),
  }
  const verify = budgetVerifier({ log: world.log.view(faults), budgets, ...more })
  return async (signal = new AbortController().signal) => (await verify(ROW, signal))!
}

test('what was not read in time is said to be unread, and is gone on with', async () => {
  const own = worldOf()
  for (let n = 0; n < 100; n++) await spend(own.world, own.budgets)
  const late = new AbortController()
  let delivered = 0
  const verify = verifier(own, () => {
    if (++delivered === 40) late.abort()
    return 1
  })
  const first = await verify(late.signal)
  expect(first).toMatchObject({ complete: false, matches: null })
  expect(first.unread).toBeGreaterThanOrEqual(60)
  expect(first.outcomes + first.unread).toBe(100)
  const second = await verify()
  expect(second).toMatchObject({ matches: true, complete: true, foldsAlike: true, unread: 0, outcomes: 100 })
  expect(second.recomputed).toEqual({ nano_usd: 1_000, tokens: 100 })
  // None was read twice, but for what the first was in the midst of.
  expect(delivered).toBeLessThanOrEqual(102)
})

test('reading begins where the window does', async () => {
  const own = worldOf()
  own.world.nowMs = NOON_MS - 2 * DAY_MS
  for (let n = 0; n < 50; n++) await append(own.world, [])
  own.world.nowMs = NOON_MS
  for (let n = 0; n < 3; n++) await spend(own.world, own.budgets)
  const from: number[] = []
  const verdict = await verifier(own, (call) => from.push(call.from) && 1_000)()
  expect(verdict).toMatchObject({ matches: true, complete: true, outcomes: 3 })
  expect(from[0]).toBe(50)
})

test('outcomes that come while it reads are read too', async () => {
  const own = worldOf()
  for (let n = 0; n < 3; n++) await spend(own.world, own.budgets)
  let more = 3
  const end: EventLog['end'] = async (topic, partition) => {
    const before = await own.world.log.end(topic, partition)
    if (topic === REQUESTS && more-- > 0) await spend(own.world, own.budgets)
    return before
  }
  const verify = verifier(own, undefined, { log: { ...own.world.log, end } })
  expect(await verify()).toMatchObject({ matches: true, complete: true, unread: 0 })
})

test('an outcome that the account was not told of is a difference once nothing moves any more, and no verdict before', async () => {
  const own = worldOf()
  await spend(own.world, own.budgets)
  const account = [...own.budgets.leases.opens.keys()][0]!
  await append(own.world, [{ account, holder: 'j.0', leased: true, nano_usd: 7, tokens: 0 }])
  const found = { complete: true, foldsAlike: true, recomputed: { nano_usd: 17, tokens: 1 } }
  expect(await verifier(own, undefined, { stillMs: 0 })()).toMatchObject({ ...found, matches: false })
  expect(await verifier(own, undefined, { limitMs: 300 })()).toMatchObject({ ...found, matches: null })
})

test('where outcomes have expired no difference is claimed', async () => {
  const own = worldOf()
  for (let n = 0; n < 3; n++) await spend(own.world, own.budgets)
  own.world.log.trim(REQUESTS, 0, 1)
  const verdict = await verifier(own, undefined, { stillMs: 0 })()
  expect(verdict).toMatchObject({ matches: null, complete: false, unread: 0, outcomes: 2 })
})

// docs/behaviour.md: "Outcomes"
test('an outcome of an earlier build is refused with its place, not summed', async () => {
  const own = worldOf()
  await spend(own.world, own.budgets)
  const account = [...own.budgets.leases.opens.keys()][0]!
  const charge = { account, holder: 'j.0', leased: true, nano_usd: 7, tokens: 0 }
  await append(own.world, [charge], { cache_hit: false })
  await expect(verifier(own)()).rejects.toThrow(EarlierRecords)
  await expect(verifier(own)()).rejects.toThrow(/gateway\.requests\.v1\/0 .*earlier build \(offset 1\)/)
})
