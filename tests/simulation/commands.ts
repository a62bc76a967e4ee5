// Operators that change the configuration on any machine, sometimes the same row on two at once, and the answers that
// they got.

import { decideTenant } from '../../src/domain/access/tenant.ts'
import { decideBudget } from '../../src/domain/budgets/budget.ts'
import type { Cause, EventRecord } from '../../src/domain/kernel/decision.ts'
import { Rejection } from '../../src/domain/kernel/rejection.ts'
import { CommitFailure, type CommitRequest } from '../../src/state/port.ts'
import type { Gateway, Machine } from './machine.ts'
import type { Run } from './run.ts'
import { tenantBudget } from './scenario/beginning.ts'

export interface Commanded {
  /** Stands in the decision as its actor, so that it is found again. */
  readonly mark: string
  readonly process: string
  readonly cause: string | null
  /** How long the log was when the command came in. */
  readonly askedAt: number
  outcome: 'changed' | 'repeated' | 'unchanged' | 'refused' | CommitFailure['kind'] | 'failed' | null
  revision: string | null
  /** What was folded when it was answered. */
  answeredAt: number
}

const SLUGS = 4

export class Operators {
  readonly commanded: Commanded[] = []
  #number = 0
  readonly #causes: Cause[] = []

  constructor(private readonly run: Run) {}

  command(machine: Machine): void {
    const { gateway } = machine
    if (gateway === null) return
    const mark = this.#mark()
    const cause = this.#cause(mark)
    this.#commit(gateway, mark, cause, this.#decision(mark), () => {})
  }

  /** A certain decision. `answered`: whatever the answer is. */
  issue({ gateway }: Machine, decide: CommitRequest['decide'], answered: () => void): void {
    if (gateway !== null) this.#commit(gateway, this.#mark(), null, decide, answered)
  }

  #mark(): string {
    return `c${String(++this.#number).padStart(4, '0')}`
  }

  #commit(
    gateway: Gateway,
    mark: string,
    cause: Cause | null,
    decide: CommitRequest['decide'],
    answered: () => void,
  ): void {
    const { run } = this
    const request: CommitRequest = { actor: { type: 'system', id: mark }, cause, decide }
    const commanded: Commanded = {
      ...{ mark, process: gateway.process.name, cause: cause?.id ?? null, askedAt: run.controlEnd },
      ...{ outcome: null, revision: null, answeredAt: 0 },
    }
    this.commanded.push(commanded)
    run.scheduler.as(gateway.process, () => {
      gateway.commits.commit(request).then(
        ({ changed, repeated, revision }) => {
          answered()
          if (!gateway.process.alive) return
          commanded.outcome = repeated ? 'repeated' : changed ? 'changed' : 'unchanged'
          commanded.revision = revision
          commanded.answeredAt = gateway.live.next
          run.note(commanded.process, `${mark} is answered: ${commanded.outcome} ${revision.slice(0, 8)}`)
        },
        (error: unknown) => {
          answered()
          if (!gateway.process.alive) return
          commanded.outcome =
            error instanceof Rejection ? 'refused' : error instanceof CommitFailure ? error.kind : 'failed'
          commanded.answeredAt = gateway.live.next
          run.note(commanded.process, `${mark} is answered: ${commanded.outcome}`)
          if (commanded.outcome === 'failed') run.violated(`${mark} fails: ${String(error)}`)
        },
      )
    })
  }

  /** Some carry an Idempotency-Key, and some the one of an earlier command. */
  #cause(mark: string): Cause | null {
    const { random } = this.run
    if (!random.chance(0.5)) return null
    if (this.#causes.length > 0 && random.chance(0.4)) return random.pick(this.#causes)
    const cause = { id: `cause ${mark}`, body: 'body' }
    this.#causes.push(cause)
    return cause
  }

  #decision(mark: string): CommitRequest['decide'] {
    const { random, truth } = this.run
    const slug = `s${random.int(0, SLUGS - 1)}`
    if (random.chance(0.15)) {
      const limit = truth.raised(random.int(0, 200_000))
      return (state) => decideBudget(state, tenantBudget(limit))
    }
    const verb = random.pick(['create', 'create', 'rename', 'delete'] as const)
    return (state): readonly EventRecord[] => {
      const taken = state.table('tenants').find('slug', slug)[0]
      if (verb === 'create')
        return decideTenant(state, {
          ...{ do: 'create', id: `ten_${mark}`, slug, name: mark, plan: null, managed_by: 'api' },
        })
      if (taken === undefined) throw new Rejection('not_found', 'no such tenant')
      return verb === 'rename'
        ? decideTenant(state, { do: 'replace', id: taken, name: mark, plan: null, managed_by: 'api' })
        : decideTenant(state, { do: 'delete', id: taken, force: true, nowMs: 0 })
    }
  }
}
