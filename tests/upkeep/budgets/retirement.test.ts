// Instances that are gone: their reservations are released after a day of silence or by an operator's command, and
// their known spending stays charged.
import { expect, test } from 'bun:test'
import { committed, spentOf } from '../../../src/domain/budgets/account.ts'
import type { InstanceRetired } from '../../../src/domain/budgets/budget-events.ts'
import { type BudgetCharge, type BudgetPart, recordedCharge } from '../../../src/domain/budgets/recorded-parts.ts'
import type { RetirementRow } from '../../../src/domain/budgets/retirement.ts'
import { readEnvelope, writeEnvelope } from '../../../src/log/envelope.ts'
import { EarlierRecords } from '../../../src/log/port.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import type { OpenBudgets } from '../../../src/state/budgets/budgets.ts'
import type { RequestBudgets } from '../../../src/state/budgets/request-budgets.ts'
import { BudgetWriter } from '../../../src/state/budgets/writer.ts'
import { startRetirement } from '../../../src/upkeep/budgets/retirement.ts'
import { unsettledOf } from '../../../src/upkeep/budgets/unsettled-spending.ts'
import { closedAfterEach } from '../../services/closing.ts'
import { eventually } from '../../services/eventually.ts'
import { type BudgetWorld, budgetRow, budgetWorld, TENANT } from '../../state/budgets/world.ts'
import { quiet } from '../../state/support.ts'

const DAY_MS = 86_400_000
const MINUTE_MS = 60_000
const BOUND = { nanoUsd: 1, tokens: 1 }
const closing = closedAfterEach()

const worldOf = (limit: number) => {
  const world = budgetWorld(budgetRow({ limit_nano_usd: limit, window: 'lifetime' }))
  closing.push(() => world.close())
  return world
}

const reserve = async (world: BudgetWorld, budgets: OpenBudgets, nanoUsd: number): Promise<RequestBudgets> => {
  const request = budgets.of(TENANT, 'key_1', null, world.nowMs)!
  expect(await request.reserve('prov_1', 'm', { nanoUsd, tokens: 1 })).toBeNull()
  return request
}

const charge = (request: RequestBudgets, nanoUsd: number): BudgetCharge[] => {
  request.endAttempt({ nanoUsd, tokens: 1, exact: true })
  const charges = request.settle()
  request.outcomeWas('recorded')
  return charges
}

/** What an instance ships of its requests. */
const shipped = (world: BudgetWorld, instance: string) => {
  let sequence = 0
  return async (
    type: string,
    id: string,
    parts: readonly BudgetCharge[] | undefined,
    more: object = {},
  ): Promise<void> => {
    const subject = `${TENANT}/${instance}`
    const origin = { instance, epoch: '0', sequence: sequence++ }
    const budget = parts?.map((part) => recordedCharge(part, `${instance}.0`))
    const text = writeEnvelope(origin, type, subject, world.nowMs, JSON.stringify({ id, budget, ...more }))
    await world.log.append(TOPICS.requests.name, 0, [{ key: subject, value: new TextEncoder().encode(text) }])
  }
}

const watching = (world: BudgetWorld, budgets: OpenBudgets, retirements: RetirementRow[] = [], inParts = true) => {
  const { ledger } = budgets.leases
  const retirement = startRetirement({
    ...{
      log: world.log.view(),
      ledger,
      instance: 'watches',
      retirements: () => retirements,
      random: () => 0,
      everyMs: 1e9,
    },
    ...{ nowMs: () => world.nowMs, newEpoch: () => 'watching', diagnostics: quiet },
    inParts: () => inParts,
  })
  closing.push(() => retirement.stop())
  return { retirement, account: () => [...(ledger.accounts(TENANT)?.all() ?? [])][0]! }
}

/** A dead instance that reported 100 of 1,000, shipped 50 more and left a request of 200 open; and one that watches. */
const orphaned = async (retirements: (world: BudgetWorld) => RetirementRow[], limit = 5_000) => {
  const world = worldOf(limit)
  // Once it is silent it writes nothing, although its own timers still fire.
  const silence = { isOn: false }
  const gone = world.open('gone', world.log.view({ beforeAppend: () => (silence.isOn ? 'unavailable' : 'none') }))
  const ship = shipped(world, 'gone')
  charge(await reserve(world, gone, 1_000), 100)
  const [lease] = gone.leases.opens.values()
  gone.leases.report(lease!)
  const watches = world.open('watches')
  await watches.caughtUp(TENANT, 5_000)
  const rows = retirements(world)
  const { retirement, account } = watching(world, watches, rows)
  await eventually('told', () => (account() !== undefined && spentOf(account()).nano_usd === 100 ? true : null))
  const untold = await reserve(world, gone, 50)
  await ship('request.admitted', 'req_1', untold.parts())
  await ship('request.settled', 'req_1', charge(untold, 50))
  const open = await reserve(world, gone, 200)
  await ship('request.admitted', 'req_2', open.parts())
  silence.isOn = true
  return { world, gone, watches, retirement, account, rows, open, ship, silence }
}

test('after a day of silence all is free but what it told, shipped and left open', async () => {
  const { world, retirement, watches, account } = await orphaned(() => [])
  await retirement.look()
  expect(committed(account()).nano_usd).toBeGreaterThanOrEqual(1_000)
  world.nowMs += DAY_MS + MINUTE_MS
  await reserve(world, watches, 10) // log time goes on
  await retirement.look()
  await eventually('retired', () => [...account().holders.values()].some(({ closed }) => closed))
  const records = world.log.records(TOPICS.budgets.name).map(({ value }) => readEnvelope(value!)!)
  expect(records.find(({ type }) => type === 'instance.retired')!.data).toMatchObject({
    ...{ instance: 'gone', reason: 'silence' },
    orphaned: [{ account: account().account, holder: expect.stringMatching(/^gone\./), spent: { nano_usd: 250 } }],
  })
})

test('a late copy of what it shipped does not open again what was settled behind it', async () => {
  const { world, retirement, watches, account } = await orphaned(() => [])
  const [admitted] = world.log.records(TOPICS.requests.name)
  await world.log.append(TOPICS.requests.name, 0, [{ key: admitted!.key, value: admitted!.value }])
  world.nowMs += DAY_MS + MINUTE_MS
  await reserve(world, watches, 10) // log time goes on
  await retirement.look()
  await eventually('retired', () => [...account().holders.values()].some(({ closed }) => closed))
  const records = world.log.records(TOPICS.budgets.name).map(({ value }) => readEnvelope(value!)!)
  const { data } = records.find(({ type }) => type === 'instance.retired')!
  expect(data).toMatchObject({ orphaned: [{ spent: { nano_usd: 250 } }] })
})

// docs/behaviour.md: "Outcomes"
test.each([{ cache_hit: false }, { candidates: [['prov_1', 'mod_1', '']] }])(
  'one that shipped a record of an earlier build, %j, is not retired by a wrong sum',
  async (more) => {
    const { world, retirement, watches, account, ship } = await orphaned(() => [])
    await ship('cache_hit' in more ? 'request.settled' : 'request.admitted', 'req_3', [], more)
    const known = unsettledOf(
      world.log,
      { tenantId: TENANT, instance: 'gone', sinceMs: 0 },
      new AbortController().signal,
    )
    await expect(known).rejects.toThrow(EarlierRecords)
    world.nowMs += DAY_MS + MINUTE_MS
    await reserve(world, watches, 10) // log time goes on
    await retirement.look()
    expect([...account().holders.values()].some(({ closed }) => closed)).toBe(false)
  },
)

test('one that an operator gave up is retired within the minute, though nobody writes; when it lives, what it spends then is booked', async () => {
  const { world, gone, retirement, account, rows, open, silence } = await orphaned(() => [])
  const row = { id: 'gone', reason: null, at_ms: world.nowMs + 1, created_at: '', updated_at: '', revision: '' }
  rows.push(row)
  await retirement.look()
  expect([...account().holders.values()].some(({ closed }) => closed)).toBe(false) // it spoke just now
  world.nowMs += 2 * MINUTE_MS
  const before = gone.leases.holder
  await eventually('retired', async () => {
    await retirement.look()
    return [...account().holders.values()].some(({ closed }) => closed) ? true : null
  })
  silence.isOn = false
  await eventually('it knows', () => gone.leases.holder !== before)
  charge(open, 120)
  await eventually('all is told', () => (spentOf(account()).nano_usd === 270 ? true : null))
  expect(committed(account()).nano_usd).toBe(270)
})

test('what it said after it was given up counts: it is back', async () => {
  const { world, gone, retirement, account, rows, silence } = await orphaned(() => [])
  silence.isOn = false
  rows.push({ id: 'gone', reason: null, at_ms: world.nowMs, created_at: '', updated_at: '', revision: '' })
  world.nowMs += 2 * MINUTE_MS
  world.skipMs += 2 * MINUTE_MS
  charge(await reserve(world, gone, 10), 10)
  for (const open of gone.leases.opens.values()) gone.leases.report(open)
  await eventually('told', () => (spentOf(account()).nano_usd === 160 ? true : null))
  await retirement.look()
  expect([...account().holders.values()].some(({ closed }) => closed)).toBe(false)
})

test('what one that was given up had spent and neither told nor shipped is booked above the limit when its spool comes back, and shows', async () => {
  const row = budgetRow({ limit_nano_usd: 1_000, window: 'lifetime' })
  const { world, watches, retirement, account, rows } = await orphaned(() => [], 1_000)
  rows.push({ id: 'gone', reason: null, at_ms: world.nowMs + 1, created_at: '', updated_at: '', revision: '' })
  world.nowMs += 2 * MINUTE_MS
  await eventually('retired', async () => {
    await retirement.look()
    return [...account().holders.values()].some(({ closed }) => closed) ? true : null
  })
  // 100 reported, 250 known from shipped records: that is all that the others cannot spend.
  charge(await reserve(world, watches, 650), 650)
  const { leases } = watches
  expect((await watches.of(TENANT, 'key_1', null, world.nowMs)!.reserve('prov_1', 'm', BOUND))?.reason).toBe('spent')
  // Its spool says 500 instead of those 350.
  const [holder] = [...account().holders.values()].filter(({ instance }) => instance === 'gone')
  const sums = { spent: { nano_usd: 500, tokens: 1 }, counted: { nano_usd: 0, tokens: 0 }, overrun_nano_usd: 0 }
  const accounts = [{ account: account().account, ...sums }]
  const event = { type: 'lease.closed', data: { holder: holder!.holder, instance: 'gone', accounts } } as const
  const writer = new BudgetWriter({ log: world.log, instance: 'gone', nowMs: () => world.nowMs }, 'again')
  await writer.append(TENANT, [event], leases.ledger)
  await eventually('booked', () => (watches.standing(row)?.spent.nano_usd === 1_150 ? true : null))
  expect(watches.standing(row)).toMatchObject({ spent: { nano_usd: 1_150 }, reserved: { nano_usd: 0 } })
  expect((await watches.of(TENANT, 'key_1', null, world.nowMs)!.reserve('prov_1', 'm', BOUND))?.reason).toBe('spent')
})

/**
 * A dead instance that left a request of 900 of 1,000 open on each of many budgets, and an instance that watches a day
 * later.
 */
const leftOpen = async (count: number, inParts: boolean) => {
  const scopeOf = (i: number) => ({ type: 'key', id: `key_${i}` })
  const rows = Array.from({ length: count }, (_, i) =>
    budgetRow({ id: `bud_${i}`, window: 'lifetime', scope: scopeOf(i) }),
  )
  const world = budgetWorld(...rows)
  closing.push(() => world.close())
  const silence = { isOn: false }
  const gone = world.open('gone', world.log.view({ beforeAppend: () => (silence.isOn ? 'unavailable' : 'none') }))
  await gone.caughtUp(TENANT, 5_000)
  const ship = shipped(world, 'gone')
  for (let i = 0; i < count; i++) {
    const request = gone.of(TENANT, `key_${i}`, null, world.nowMs)!
    expect(await request.reserve('prov_1', 'm', { nanoUsd: 900, tokens: 1 })).toBeNull()
    await ship('request.admitted', `req_${i}`, request.parts())
  }
  silence.isOn = true
  const watches = world.open('watches')
  await watches.caughtUp(TENANT, 5_000)
  const { retirement } = watching(world, watches, [], inParts)
  world.nowMs += DAY_MS + MINUTE_MS
  const other = watches.of(TENANT, 'key_0', null, world.nowMs)!
  expect(await other.reserve('prov_1', 'm', { nanoUsd: 10, tokens: 1 })).toBeNull() // log time goes on
  await retirement.look()
  const accounts = () => [...watches.leases.ledger.accounts(TENANT)!.all()]
  const holders = () =>
    accounts().flatMap((account) => [...account.holders.values()].filter((one) => one.instance === 'gone'))
  const records = () => world.log.records(TOPICS.budgets.name).map(({ value }) => readEnvelope(value!)!)
  return { watches, accounts, holders, retirements: () => records().filter(({ type }) => type === 'instance.retired') }
}

test('one that left more open than a record can say is retired in several, and all of it counts as taken', async () => {
  const { accounts, holders, retirements } = await leftOpen(201, true)
  await eventually('retired', () => holders().every(({ closed }) => closed))
  expect(retirements().length).toBeGreaterThan(1)
  expect(holders().map(({ orphaned }) => orphaned?.nano_usd)).toEqual(Array(201).fill(900))
  expect(Math.min(...accounts().map((account) => committed(account).nano_usd))).toBeGreaterThanOrEqual(900)
})

test('while an instance serves that would misread that, nothing is retired', async () => {
  const { watches, holders, retirements } = await leftOpen(201, false)
  await watches.caughtUp(TENANT, 5_000)
  expect(retirements()).toEqual([])
  expect(holders().every(({ closed }) => !closed)).toBe(true)
})

/**
 * An instance that crashed `starts` times, each time with a request of 1,000 open on the same account, and an instance
 * that watches a day later.
 */
const diedOften = async (starts: number, apartMs: number) => {
  const world = worldOf(10_000_000)
  const first = world.open('gone')
  const request = await reserve(world, first, 1_000)
  const [{ account }] = request.parts()! as [BudgetPart]
  await first.close(1_000)
  const ship = shipped(world, 'gone')
  const { ledger } = first.leases
  const writer = new BudgetWriter({ log: world.log, instance: 'gone', nowMs: () => world.nowMs }, 'starts')
  const amount = { nano_usd: 1_000, tokens: 1 }
  for (let n = 0; n < starts; n++) {
    world.nowMs += apartMs
    const who = { holder: `gone.start-${n}`, instance: 'gone' }
    const data = { ...who, sequence: 1, accounts: [{ account, height: 1, need: amount, want: amount }] }
    await writer.append(TENANT, [{ type: 'lease.requested', data }], ledger)
    await ship('request.admitted', `req_${n}`, [{ account, holder: who.holder, leased: true, ...amount }])
  }
  const watches = world.open('watches')
  await watches.caughtUp(TENANT, 5_000)
  const { retirement, account: now } = watching(world, watches)
  world.nowMs += DAY_MS + MINUTE_MS
  await reserve(world, watches, 10) // log time goes on
  const openStarts = () =>
    [...now().holders.values()].filter(({ holder, closed }) => holder.includes('start-') && !closed)
  expect(openStarts()).toHaveLength(starts)
  await retirement.look()
  const records = world.log.records(TOPICS.budgets.name).map(({ value }) => readEnvelope(value!)!)
  const retirements = records.filter(({ type }) => type === 'instance.retired')
  return { openStarts, retirements, committed: () => committed(now()).nano_usd }
}

test('one that left more holders of one account than a record can name is retired by how long they were silent, and all of it counts as taken', async () => {
  const { openStarts, retirements, committed } = await diedOften(450, 1)
  await eventually('retired', () => openStarts().length === 0)
  expect(retirements.map(({ data }) => (data as InstanceRetired).orphaned.length)).toEqual([200, 200, 50, 0])
  // All but what its first start held, of which no record shows that it was spent.
  expect([committed() >= 450_000, committed() < 451_000]).toEqual([true, true])
})

test('of more that were silent since the same moment nothing is said', async () => {
  const { openStarts, retirements } = await diedOften(201, 0)
  expect([openStarts().length, retirements]).toEqual([201, []])
})
