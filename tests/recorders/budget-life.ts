// The traffic that a golden budget log records: what instances write into the partition of a tenant in two days.
// `recorders/record-budget-log.ts` runs it, with this build or another one.
import type { BudgetEvent } from '../../src/domain/budgets/budget-events.ts'
import { writeEnvelope } from '../../src/log/envelope.ts'
import { TOPICS } from '../../src/log/topics.ts'
import type { OpenBudgets } from '../../src/state/budgets/budgets.ts'
import type { BudgetWriter, statementOf } from '../../src/state/budgets/writer.ts'
import type { startRetirement } from '../../src/upkeep/budgets/retirement.ts'
import { eventually } from '../services/eventually.ts'
import type { BudgetWorld, budgetRow, budgetWorld, TENANT } from '../state/budgets/world.ts'
import { quiet } from '../state/support.ts'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000

/** Of the build that lives it. */
export interface BudgetBuild {
  readonly budgetRow: typeof budgetRow
  readonly budgetWorld: typeof budgetWorld
  readonly TENANT: typeof TENANT
  readonly BudgetWriter: typeof BudgetWriter
  readonly statementOf: typeof statementOf
  readonly startRetirement: typeof startRetirement
}

interface Spending {
  readonly key?: string
  readonly nanoUsd: number
  /** Of what was reserved; left out: all of it. More is an overrun. */
  readonly costs?: number
  readonly tokens?: number
}

class Life {
  readonly world: BudgetWorld
  readonly rows: Readonly<Record<'day' | 'soft' | 'lifetime' | 'zoned', ReturnType<typeof budgetRow>>>

  constructor(readonly build: BudgetBuild) {
    const ofKey = (id: string) => ({ id: `bud_${id}`, scope: { type: 'key' as const, id: `key_${id}` } })
    const { budgetRow } = build
    this.rows = {
      day: budgetRow({
        limit_nano_usd: 100_000,
        limit_tokens: 5_000,
        soft_limit_nano_usd: 5_000,
        alert_thresholds: [0.1],
      }),
      soft: budgetRow({ ...ofKey('soft'), window: 'lifetime', enforcement: 'soft' }),
      lifetime: budgetRow({ ...ofKey('lifetime'), window: 'lifetime', limit_nano_usd: 50_000, limit_tokens: 500 }),
      zoned: budgetRow({ ...ofKey('zoned'), limit_nano_usd: 9_000, timezone: 'UTC' }),
    }
    this.world = build.budgetWorld(...Object.values(this.rows))
  }

  async spend(budgets: OpenBudgets, { key = 'key_1', nanoUsd, costs = nanoUsd, tokens = 10 }: Spending): Promise<void> {
    const request = budgets.of(this.build.TENANT, key, null, this.world.nowMs)!
    if ((await request.reserve('prov_1', 'm', { nanoUsd, tokens })) !== null) return
    request.endAttempt({ nanoUsd: costs, tokens: Math.ceil((tokens * costs) / nanoUsd), exact: true })
    request.settle()
    request.outcomeWas('recorded')
  }

  records(): { type: string; data: unknown }[] {
    const records = this.world.log.records(TOPICS.budgets.name)
    return records.map(({ value }) => JSON.parse(new TextDecoder().decode(value!)) as { type: string; data: unknown })
  }

  async told(...from: OpenBudgets[]): Promise<void> {
    const count = () => this.records().filter(({ type }) => type === 'lease.settled').length
    const before = count()
    for (const { leases } of from) for (const open of leases.opens.values()) leases.report(open)
    await eventually('told', () => count() > before)
  }

  /** All accounts as they are, at one offset. */
  async state(by: OpenBudgets): Promise<void> {
    const { BudgetWriter, statementOf, TENANT } = this.build
    const { ledger } = by.leases
    const end = this.records().length
    await eventually('all is read', () => ledger.place(TENANT).next >= end)
    await this.append('states', statementOf(ledger, TENANT), by, BudgetWriter)
  }

  async append(
    instance: string,
    events: readonly BudgetEvent[],
    by: OpenBudgets,
    Scribe = this.build.BudgetWriter,
  ): Promise<void> {
    const scribe = new Scribe(
      { log: this.world.log, instance, nowMs: () => this.world.nowMs },
      `at-${this.records().length}`,
    )
    await scribe.append(this.build.TENANT, events, by.leases.ledger)
  }
}

/** An instance that dies with a request open, of which the requests topic knows, and is retired a day later. */
const retired = async (life: Life, watches: OpenBudgets): Promise<void> => {
  const { world, build } = life
  const silence = { isOn: false }
  const gone = world.open('gone', world.log.view({ beforeAppend: () => (silence.isOn ? 'unavailable' : 'none') }))
  await life.spend(gone, { nanoUsd: 700, costs: 300 })
  const open = gone.of(build.TENANT, 'key_lifetime', null, world.nowMs)!
  await open.reserve('prov_1', 'm', { nanoUsd: 2_000, tokens: 20 })
  const subject = `${build.TENANT}/gone`
  const admitted = JSON.stringify({ id: 'req_1', budget: open.parts() })
  const text = writeEnvelope(
    { instance: 'gone', epoch: '0', sequence: 0 },
    'request.admitted',
    subject,
    world.nowMs,
    admitted,
  )
  await world.log.append(TOPICS.requests.name, 0, [{ key: subject, value: new TextEncoder().encode(text) }])
  await life.told(gone)
  silence.isOn = true
  world.nowMs += 25 * HOUR_MS
  await life.spend(watches, { nanoUsd: 10 }) // log time goes on
  const { ledger } = watches.leases
  const retirement = build.startRetirement({
    ...{ log: world.log, ledger, instance: 'watches', retirements: () => [], inParts: () => true, random: () => 0 },
    ...{ nowMs: () => world.nowMs, newEpoch: () => 'retires', diagnostics: quiet, everyMs: 1e9 },
  })
  await retirement.look()
  await eventually('retired', () => life.records().some(({ type }) => type === 'instance.retired'))
  await retirement.stop()
}

/** All of it. Close the world that it answers. */
export const liveOnBudgets = async (build: BudgetBuild): Promise<BudgetWorld> => {
  const life = new Life(build)
  const { world, rows } = life
  const [one, other] = [world.open('one'), world.open('other')]
  for (const budgets of [one, other]) await budgets.caughtUp(build.TENANT, 5_000)
  await Promise.all([life.spend(one, { nanoUsd: 4_000 }), life.spend(other, { nanoUsd: 9_000, costs: 6_000 })])
  await life.spend(one, { key: 'key_soft', nanoUsd: 3_000 })
  await life.told(one, other)
  await eventually('alerted', () => life.records().filter(({ type }) => type === 'account.alerted').length >= 2)
  world.put({ ...rows.day, limit_nano_usd: 120_000, height: 2, limits_height: 2 })
  await life.spend(one, { nanoUsd: 5_000 })
  // The way its windows are cut is changed: both count each other.
  await life.spend(other, { key: 'key_zoned', nanoUsd: 1_000 })
  world.put({ ...rows.zoned, timezone: 'Asia/Tokyo', height: 2 })
  await life.spend(other, { key: 'key_zoned', nanoUsd: 2_000 })
  // A provider bills more than was reserved, of money and of tokens; its limits are set again.
  await life.spend(one, { key: 'key_lifetime', nanoUsd: 1_000, costs: 1_700 })
  await life.told(one)
  await life.spend(other, { key: 'key_lifetime', nanoUsd: 100 })
  world.put({ ...rows.lifetime, alert_thresholds: [0.9], height: 2, limits_height: 1 })
  await life.spend(other, { key: 'key_lifetime', nanoUsd: 100 })
  world.put({ ...rows.lifetime, alert_thresholds: [0.9], height: 3, limits_height: 3 })
  world.put({ ...rows.day, limit_nano_usd: 130_000, height: 3, limits_height: 3 })
  await life.spend(other, { key: 'key_lifetime', nanoUsd: 100 })
  await life.state(other)
  await one.close(2_000)
  world.nowMs += MINUTE_MS
  await retired(life, other)
  await life.spend(other, { nanoUsd: 2_000 }) // a window later
  await life.state(other)
  const last = world.open('last')
  await last.caughtUp(build.TENANT, 5_000)
  await life.spend(last, { nanoUsd: 1_000 })
  await other.close(2_000)
  await last.close(2_000)
  return world
}
