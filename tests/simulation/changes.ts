// Operators that change a budget while it is spent from: its mode, its time zone, its limits, and whether it exists.
import { decideBudget } from '../../src/domain/budgets/budget.ts'
import { decideRetirement } from '../../src/domain/budgets/retirement.ts'
import type { Machine } from './machine.ts'
import type { Run } from './run.ts'
import { CHANGING, changingBudget, holds, type Kind, type Terms, termsOf, ZONES } from './scenario/widening.ts'
import { NOBODY } from './scheduler.ts'

export class Changes {
  #terms: Terms
  /** Null: it is deleted. */
  #id: string | null = CHANGING.budget
  #made = 1
  #isBusy = false
  /** Budgets whose holders are closed with what they published: their spending is no longer reported. */
  readonly deleted = new Set<string>()

  constructor(
    private readonly run: Run,
    private readonly kind: Kind,
    private readonly calm: boolean,
  ) {
    this.#terms = termsOf(kind)
  }

  change(machine: Machine): void {
    const { run } = this
    // In a run without faults, decisions count in the order of their commands.
    if (machine.gateway === null || this.#isBusy || this.kind === 'retired') return
    this.#isBusy = this.calm
    const answered = () => {
      this.#isBusy = false
    }
    const { random } = run
    const id = this.#id
    if (this.kind === 'remade' && id !== null && random.chance(0.5)) {
      this.#id = null
      this.deleted.add(id)
      run.operators.issue(machine, (state) => decideBudget(state, { do: 'delete', id }), answered)
      return
    }
    const before = this.#terms
    const next = this.#next()
    if (this.kind === 'modes' && holds(next) && !holds(before)) this.#beginsToHold(next, answered)
    else this.#decide(machine, next, answered)
  }

  /**
   * A limit near the spent amount begins to hold while much is counted and not yet published, and all machines get
   * requests at once.
   */
  #beginsToHold(next: Terms, answered: () => void): void {
    const { random, scheduler, machines, clients, spending } = this.run
    const burst = (machine: Machine, times: number, withinMs: number) => {
      for (let i = 0; i < times; i++) scheduler.after(random.next() * withinMs, NOBODY, () => clients.ask(machine, 1))
    }
    const counts = random.pick(machines)
    burst(counts, 10, 400)
    scheduler.after(1_200, NOBODY, () => {
      const limitNanoUsd = spending!.totalOf(CHANGING.budget) + random.int(40_000, 150_000)
      this.#decide(random.pick(machines), { ...next, limitNanoUsd }, answered)
      // A machine that requests a lease publishes its counts as well.
      for (const machine of machines) if (machine !== counts) burst(machine, 8, 30)
    })
  }

  #decide(machine: Machine, terms: Terms, answered: () => void): void {
    this.#terms = terms
    this.#id ??= `bud_c${++this.#made}`
    const command = changingBudget(this.#id, terms)
    this.run.spending!.decides(this.#id, terms)
    this.run.operators.issue(machine, (state) => decideBudget(state, command), answered)
  }

  /** An instance is gone, and will not come back: so its operator believes. */
  giveUp(machine: Machine, instance: string): void {
    const command = { id: instance, reason: null, holds: true, isLive: false, lastRecordAgoS: null }
    this.run.operators.issue(
      machine,
      (state) => decideRetirement(state, command),
      () => {},
    )
  }

  #next(): Terms {
    const { random } = this.run
    const terms = this.#terms
    if (this.kind === 'modes' && random.chance(0.8)) {
      if (random.chance(0.2)) return { ...terms, enabled: !terms.enabled }
      return { ...terms, enforcement: terms.enforcement === 'hard' ? random.pick(['soft', 'shadow'] as const) : 'hard' }
    }
    if (this.kind === 'zones' && random.chance(0.8)) return { ...terms, timezone: random.pick(ZONES) }
    if (this.kind === 'remade' && this.#id === null)
      return { ...terms, window: random.pick(['day', 'lifetime'] as const) }
    // Below what is spent, too.
    if (terms.limitTokens !== null) return { ...terms, limitTokens: random.int(500, 6_000) }
    return { ...terms, limitNanoUsd: random.int(50_000, 700_000) }
  }
}
