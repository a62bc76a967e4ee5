// Hard budgets between the attempts of a request, and when the outcome cannot be recorded: which providers are called,
// which are skipped, and what is reported when.
import { afterEach, describe, expect, test } from 'bun:test'
import type { BudgetRow } from '../../../src/domain/budgets/budget.ts'
import { SpoolClosed } from '../../../src/log/spool/port.ts'
import { kindOf } from '../../../src/providers/kinds.ts'
import { appended } from '../../log/appended.ts'
import { type Behaviour, startUpstream } from '../../services/upstream.ts'
import { budgetRow, budgetWorld, TENANT } from '../../state/budgets/world.ts'
import { entry, policyRow, testGateway } from '../gateway.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

const KIND = 'openai_compatible'
const ASK = { model: 'small', max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] }
const NOTHING = { nano_usd: 0, tokens: 0 }

interface Setup {
  readonly rows: readonly BudgetRow[]
  readonly alpha?: Parameters<typeof entry>[0]
  readonly beta?: Parameters<typeof entry>[0]
  readonly policy?: Parameters<typeof policyRow>[0]
  /** What the first provider does. */
  readonly behaviour?: Behaviour
}

/** A gateway before two providers, of which "alpha" is called first. */
const setUp = ({ rows, alpha, beta, policy, behaviour = {} }: Setup) => {
  const world = budgetWorld(...rows)
  world.nowMs = Date.now()
  const [first, second] = [startUpstream(), startUpstream()]
  first.behave(behaviour)
  const budgets = world.open('i')
  const gateway = testGateway({
    entries: [
      entry({ kind: KIND, baseUrl: first.baseUrl, provider: 'alpha', priority: 1, ...alpha }),
      entry({ kind: KIND, baseUrl: second.baseUrl, provider: 'beta', priority: 2, ...beta }),
    ],
    kinds: [kindOf(KIND)!],
    policies: [policyRow({ strategy: 'priority', retry: { attempts: 0 }, ...policy })],
    budgets,
  })
  closing.push(
    () => gateway.close(),
    () => first.stop(),
    () => second.stop(),
    () => world.close(),
  )
  return { gateway, budgets, first, second }
}

describe('a further attempt is made only when the budget has room for it beside what was billed', () => {
  /** The most that an attempt at beta may cost: without a price for the prompt, 100 tokens at 20,000 nano-USD. */
  const BETA_NANO = 2_000_000
  /**
   * The estimate for an attempt at alpha that may have been billed: a prompt of 5 tokens at 10,000 nano-USD. The budget
   * is charged the whole reservation.
   */
  const BILLED_NANO = 50_000
  const row = budgetRow({ limit_nano_usd: BETA_NANO })
  const setup = {
    rows: [row],
    alpha: { inputCostPerMillion: 10, outputCostPerMillion: 10 },
    beta: { inputCostPerMillion: 0, outputCostPerMillion: 20 },
  }

  test('it has not: the next provider is not called, and the client is told why the first failed', async () => {
    const { gateway, budgets, first, second } = setUp({ ...setup, behaviour: { body: '<html>' } })
    const response = await gateway.chat(ASK)
    const { error } = (await response.json()) as { error: { code: string } }
    const [settled] = gateway.spool.settled()
    expect([first.received.length, second.received.length]).toEqual([1, 0])
    expect(settled).toMatchObject({
      outcome: 'error',
      status: response.status,
      error_code: error.code,
      cost_nano_usd: BILLED_NANO,
      attempts: [
        { provider: 'alpha', outcome: 'error', error_code: error.code, cost_nano_usd: BILLED_NANO },
        { provider: 'beta', outcome: 'skipped', error_code: 'quota_exceeded' },
      ],
    })
    expect([response.status, error.code]).toEqual([502, 'upstream_error'])
    expect(budgets.standing(row)!.spent.nano_usd).toBe(gateway.spool.admitted()[0]!.reserved_nano_usd!)
    const [open] = budgets.leases.opens.values()
    expect([open!.lease.reserved, open!.users]).toEqual([NOTHING, 0])
  })

  test('it has, to the last nano-USD, when the first was not billed', async () => {
    const { gateway, budgets, second } = setUp({ ...setup, behaviour: { status: 503 } })
    expect((await gateway.chat(ASK)).status).toBe(200)
    expect(second.received).toHaveLength(1)
    expect(budgets.standing(row)!.spent.nano_usd).toBe(7 * 20_000)
  })
})

// docs/behaviour.md: "Budgets"
describe('a candidate whose own budget has nothing left is passed over before the admission', () => {
  const SKIPPED = [
    { n: 1, provider: 'alpha', outcome: 'skipped', error_code: 'quota_exceeded' },
    { n: 2, provider: 'beta', outcome: 'success' },
  ]
  const ofScope = (type: string, id: string, limits: Partial<BudgetRow> = {}) =>
    budgetRow({ id: `bud_${type}`, scope: { type, id }, limit_nano_usd: 0, ...limits })
  const scopes = {
    'its provider': { rows: [ofScope('provider', 'prov_alpha')] },
    'its model': {
      rows: [ofScope('model', 'small')],
      beta: { name: 'large' },
      policy: { fallback: { models: ['large'] } },
    },
  }

  for (const [name, setup] of Object.entries(scopes))
    test(`that of ${name}: both where a lease is waited for, and where it is known at once`, async () => {
      const { gateway, budgets, first, second } = setUp(setup)
      const reserve = () =>
        budgets.of(TENANT, 'key_1', null, Date.now())!.reserve('prov_alpha', 'small', { nanoUsd: 1, tokens: 1 })
      expect((await gateway.chat(ASK)).status).toBe(200)
      expect(reserve()).toMatchObject({ reason: 'spent' }) // no promise any more
      expect((await gateway.chat(ASK)).status).toBe(200)
      expect([first.received.length, second.received.length]).toEqual([0, 2])
      expect(gateway.spool.admitted()).toHaveLength(2)
      for (const settled of gateway.spool.settled())
        expect(settled).toMatchObject({ outcome: 'success', provider: 'beta', attempts: SKIPPED })
    })

  test('a candidate without a price under a budget of money: no lease is asked for', async () => {
    const rows = [ofScope('provider', 'prov_alpha', { limit_nano_usd: 1_000_000_000 })]
    const { gateway, first } = setUp({ rows, alpha: { inputCostPerMillion: null, outputCostPerMillion: null } })
    expect((await gateway.chat(ASK)).status).toBe(200)
    expect([first.received, gateway.spool.settled()]).toMatchObject([[], [{ attempts: SKIPPED }]])
  })

  test('the one that takes its place waits for a lease of its own', async () => {
    const other = ofScope('provider', 'prov_beta', { id: 'bud_beta', limit_nano_usd: 1_000_000_000 })
    const { gateway, budgets, first } = setUp({ rows: [ofScope('provider', 'prov_alpha'), other] })
    expect((await gateway.chat(ASK)).status).toBe(200)
    const [settled] = gateway.spool.settled()
    expect([first.received, settled]).toMatchObject([[], { attempts: SKIPPED }])
    expect(budgets.standing(other)!.spent.nano_usd).toBe(settled!.cost_nano_usd!)
  })

  test('nobody takes its place: the client is told of the budget, and nobody is called', async () => {
    const other = ofScope('provider', 'prov_beta', { id: 'bud_beta' })
    const { gateway, first, second } = setUp({ rows: [ofScope('provider', 'prov_alpha'), other] })
    const response = await gateway.chat(ASK)
    expect(response.status).toBe(402)
    expect(await response.json()).toMatchObject({ error: { code: 'quota_exceeded' } })
    expect([first.received, second.received, gateway.spool.admitted()]).toEqual([[], [], []])
  })
})

describe('an answer that cost something and whose outcome the spool does not take', () => {
  /** 7 tokens at 10,000 nano-USD. */
  const COST = { nano_usd: 70_000, tokens: 0 }
  const setup = {
    rows: [budgetRow({ limit_nano_usd: 1_000_000_000 })],
    alpha: { inputCostPerMillion: 0, outputCostPerMillion: 10, usageOnStream: true },
  }
  /** Sends a request whose outcome fails with this; the lease that it was reserved of, and how much of it was. */
  const failing = async (failure: Error, stream: boolean) => {
    const { gateway, budgets } = setUp(setup)
    gateway.spool.before = (type) => {
      if (type === 'request.settled') throw failure
    }
    const text = await (await gateway.chat({ ...ASK, stream })).text()
    const [open] = budgets.leases.opens.values()
    const [admitted] = gateway.spool.admitted()
    return { text, open: open!, reserved: { nano_usd: admitted!.reserved_nano_usd!, tokens: 0 } }
  }

  for (const stream of [false, true])
    describe(stream ? 'a stream' : 'a whole answer', () => {
      for (const failure of [new Error('the disk is gone'), new SpoolClosed('the disk is full')])
        test(`not written (${failure.name}): all of it stays reserved, and nothing is told`, async () => {
          const { text, open, reserved } = await failing(failure, stream)
          expect(text).toContain('internal_error')
          expect(open.lease.reserved).toEqual(reserved)
          expect([open.lease.spent, open.lease.counted, open.lease.tally().spent]).toEqual([NOTHING, NOTHING, NOTHING])
        })

      test('written, and not durable yet: what it cost is told, and the rest is free, only once it is', async () => {
        const durable = Promise.withResolvers<void>()
        const failure = new SpoolClosed('the disk is slow', appended('ins_test.e1.1'), durable.promise)
        const { text, open, reserved } = await failing(failure, stream)
        expect(text).toContain('internal_error')
        expect([open.lease.spent, open.lease.tally().spent, open.users]).toEqual([COST, NOTHING, 1])
        expect(open.lease.reserved.nano_usd).toBe(reserved.nano_usd - COST.nano_usd)
        durable.resolve()
        await durable.promise
        expect([open.lease.tally().spent, open.lease.reserved, open.users]).toEqual([COST, NOTHING, 0])
      })

      test('written, and not shipped in time: what it cost is told at once', async () => {
        const { open } = await failing(new SpoolClosed('not shipped in time', appended('ins_test.e1.1')), stream)
        expect([open.lease.tally().spent, open.lease.reserved, open.users]).toEqual([COST, NOTHING, 0])
      })
    })
})

test.each([
  ['the disk fails', new Error('the disk is gone'), 500],
  ['the disk is full', new SpoolClosed('the disk is full', null, null, 'disk'), 503],
  ['too much waits for the log', new SpoolClosed('too much waits'), 429],
] as const)(
  'neither an admission nor an outcome can be written (%s): nobody is called, and nothing stays reserved',
  async (_, failure, status) => {
    const row = budgetRow({ limit_nano_usd: 1_000_000_000 })
    const alpha = { inputCostPerMillion: 0, outputCostPerMillion: 10 }
    const { gateway, budgets, first } = setUp({ rows: [row], alpha })
    for (const stream of [false, true]) {
      expect((await gateway.chat(ASK)).status).toBe(200) // there is a lease
      gateway.spool.before = () => {
        throw failure
      }
      const response = await gateway.chat({ ...ASK, stream })
      await response.text()
      gateway.spool.before = null
      const [open] = budgets.leases.opens.values()
      expect([response.status, open!.lease.reserved, open!.users]).toEqual([status, NOTHING, 0])
    }
    expect(first.received).toHaveLength(2)
    expect(budgets.standing(row)!.spent.nano_usd).toBe(2 * 70_000)
  },
)
