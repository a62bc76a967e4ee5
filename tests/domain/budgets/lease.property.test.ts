// Any interleaving of grants, spending, returns, crashes, returns of spools, late and repeated records, expiry and
// retirement: a hard limit is never overspent. Once everything is reported, the account matches the outcomes to the
// nano-USD.
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { accountId, committed, spentOf } from '../../../src/domain/budgets/account.ts'
import { AccountBook } from '../../../src/domain/budgets/account-book.ts'
import { type Amount, minus, plus } from '../../../src/domain/budgets/amount.ts'
import type { BudgetEvent } from '../../../src/domain/budgets/budget-events.ts'
import { Lease } from '../../../src/domain/budgets/lease.ts'

const LIMIT = 1_000
const LEASE_MS = 60
const ACCOUNT = accountId('bud_1', 0, null)
const INSTANCES = 3
const NOTHING = {
  ...{ spentNanoUsd: 0, spentTokens: 0, countedNanoUsd: 0, countedTokens: 0, overrunNanoUsd: 0, overrunTokens: 0 },
}
const usd = (nano_usd: number): Amount => ({ nano_usd, tokens: 0 })

interface Step {
  readonly instance: number
  readonly act:
    | 'ask'
    | 'take'
    | 'settle'
    | 'tell'
    | 'give'
    | 'crash'
    | 'recover'
    | 'deliver'
    | 'late'
    | 'wait'
    | 'retire'
  readonly n: number
}

interface Process {
  lease: Lease
  epoch: number
  sequence: number
  /** Reserved by requests under way. */
  readonly open: number[]
  dead: boolean
  /** The last of its requests that it has seen in the log, and when each was sent. */
  seen: number
  readonly sentAtMs: number[]
}

interface Dead {
  readonly holder: string
  readonly instance: string
  readonly spent: Amount
  readonly orphaned: number
}

class World {
  readonly book = new AccountBook(true, 0)
  readonly log: BudgetEvent[] = []
  /** Sent and not yet in the log: may come late, twice, or never. */
  readonly underWay: BudgetEvent[] = []
  readonly processes: Process[]
  readonly dead: Dead[] = []
  nowMs = 1
  /** What outcomes say. */
  spent = 0

  constructor() {
    this.append({
      type: 'account.opened',
      data: {
        ...{ account: ACCOUNT, budget_id: 'bud_1', window_start_ms: 0, window_end_ms: null, height: 1 },
        ...{ limit_nano_usd: LIMIT, limit_tokens: null, enforcement: 'hard' },
      },
    })
    this.processes = Array.from({ length: INSTANCES }, (_, i) => ({
      ...{ lease: new Lease(ACCOUNT, `i${i}.0`), epoch: 0, sequence: 0, open: [], dead: false, seen: 0, sentAtMs: [] },
    }))
  }

  append(event: BudgetEvent): void {
    this.book.take(this.log.length, event, this.nowMs, 'writer')
    this.log.push(event)
  }

  /** The process folds what it has not read. */
  read(process: Process): void {
    const own = this.book.get(ACCOUNT)!.holders.get(process.lease.holder)
    if (own === undefined) return
    process.lease.granted = own.granted
    if (own.closed) process.lease.usableUntilMs = 0
    else if (own.sequence > process.seen) {
      process.lease.usableUntilMs = process.sentAtMs[own.sequence]! + LEASE_MS
      process.seen = own.sequence
    }
  }

  step({ instance, act, n }: Step): void {
    const process = this.processes[instance]!
    this.nowMs += 1
    if (act === 'deliver' || act === 'late') {
      const at = act === 'late' ? n % Math.max(1, this.underWay.length) : 0
      const event = this.underWay[at]
      if (event === undefined) return
      if (n % 3 !== 0) this.underWay.splice(at, 1) // else it comes again
      this.append(event)
    } else if (act === 'wait') this.nowMs += n
    else if (act === 'retire') this.retire(`i${instance}`, n)
    else if (process.dead) {
      if (act === 'recover') this.restart(process)
    } else this.work(process, instance, act, n)
    this.check()
  }

  work(process: Process, instance: number, act: Step['act'], n: number): void {
    const { lease, open } = process
    const who = { holder: lease.holder, instance: `i${instance}` }
    if (act !== 'take') this.read(process) // a spender may not have read its retirement yet
    if (act === 'ask') {
      const ask = { account: ACCOUNT, height: 1, need: usd(n), want: usd(2 * n) }
      this.underWay.push({ type: 'lease.requested', data: { ...who, sequence: ++process.sequence, accounts: [ask] } })
      process.sentAtMs[process.sequence] = this.nowMs
    } else if (act === 'take') {
      if (lease.take(n, 0, this.nowMs)) open.push(n)
    } else if (act === 'settle') {
      const reserved = open.shift()
      if (reserved === undefined) return
      const cost = Math.min(reserved, n)
      lease.release(reserved, 0)
      lease.record(lease.charge({ ...NOTHING, spentNanoUsd: cost }), this.nowMs)
      this.spent += cost
    } else if (act === 'give') lease.giveBack(lease.free(), this.nowMs)
    else if (act === 'tell') this.underWay.push({ type: 'lease.settled', data: { ...who, accounts: [lease.tally()] } })
    else if (act === 'crash') this.crash(process, instance)
  }

  crash(process: Process, instance: number): void {
    const { lease, open } = process
    const orphaned = open.reduce((sum, each) => sum + each, 0)
    this.dead.push({ holder: lease.holder, instance: `i${instance}`, spent: lease.spent, orphaned })
    open.length = 0
    this.spent += orphaned // settled at their worst case, once the spool comes back
    process.dead = true
    process.epoch += 1
  }

  restart(process: Process): void {
    process.dead = false
    const instance = this.processes.indexOf(process)
    process.lease = new Lease(ACCOUNT, `i${instance}.${process.epoch}`)
    process.sequence = 0
    process.seen = 0
    for (const dead of this.dead.filter(({ instance: name }) => name === `i${instance}`)) this.close(dead)
  }

  close({ holder, instance, spent, orphaned }: Dead): void {
    const closed = { account: ACCOUNT, spent: plus(spent, usd(orphaned)), counted: usd(0), overrun_nano_usd: 0 }
    this.append({ type: 'lease.closed', data: { holder, instance, accounts: [closed] } })
  }

  /**
   * Retires a dead instance, with what it left open. Also retires a live instance that has reported everything and is
   * silent for longer than any lease and any request lasts.
   */
  retire(instance: string, silentMs: number): void {
    const process = this.processes[Number(instance.slice(1))]!
    const { lease, open, dead } = process
    const told = this.book.get(ACCOUNT)!.holders.get(lease.holder)?.spent.nano_usd ?? 0
    if (!dead && (open.length > 0 || lease.isUsable(this.nowMs) || told < lease.spent.nano_usd)) return
    const gone = this.dead.filter((each) => each.instance === instance)
    const before = this.book.get(ACCOUNT)!
    const orphaned = gone.flatMap(({ holder, spent, orphaned: open }) => {
      const told = before.holders.get(holder)
      const untold = told === undefined ? spent : minus(spent, told.spent)
      return [{ account: ACCOUNT, holder, spent: plus(untold, usd(open)) }]
    })
    this.append({
      type: 'instance.retired',
      data: { instance, before_ms: this.nowMs - silentMs, reason: 'silence', orphaned },
    })
  }

  /** What outcomes cost and what requests under way may still cost stays within the limit; so does what was granted. */
  check(): void {
    const underWay = this.processes.reduce((sum, { open }) => sum + open.reduce((all, each) => all + each, 0), 0)
    expect(this.spent + underWay).toBeLessThanOrEqual(LIMIT)
    expect(committed(this.book.get(ACCOUNT)!).nano_usd).toBeLessThanOrEqual(LIMIT)
  }
}

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    instance: fc.integer({ min: 0, max: INSTANCES - 1 }),
    act: fc.constantFrom<Step['act'][]>(
      ...(['ask', 'ask', 'take', 'take', 'take', 'settle', 'settle', 'tell', 'give', 'crash'] as const),
      ...(['recover', 'recover', 'deliver', 'deliver', 'deliver', 'late', 'wait', 'retire'] as const),
    ),
    n: fc.integer({ min: 0, max: 250 }),
  }),
  { minLength: 30, maxLength: 150, size: 'max' },
)

describe('leases', () => {
  test('never overspend, and tell the truth in the end', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const world = new World()
        for (const step of all) world.step(step)
        // Each process restarts, ends its requests under way, and reports everything.
        for (const [instance, process] of world.processes.entries()) {
          if (process.dead) world.restart(process)
          for (const reserved of [...process.open]) world.step({ instance, act: 'settle', n: reserved })
          const { lease } = process
          world.append({
            type: 'lease.settled',
            data: { holder: lease.holder, instance: `i${instance}`, accounts: [lease.tally()] },
          })
        }
        for (const dead of world.dead) world.close(dead)
        expect(spentOf(world.book.get(ACCOUNT)!).nano_usd).toBe(world.spent)
      }),
      { numRuns: 1_000 },
    )
  })
})
