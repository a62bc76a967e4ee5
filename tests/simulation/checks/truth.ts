// What has been spent of hard budgets, from the view of an omniscient observer: each request counts with its upper
// bound until its outcome is known.

import type { Asked } from '../requests.ts'
import type { Run } from '../run.ts'
import { LIMITS } from '../scenario/beginning.ts'

const budgetOf = (account: string): string => account.slice(0, account.indexOf('/'))

export class Truth {
  /** The most that each hard budget ever allowed, nano-USD. */
  readonly limits = new Map<string, number>([
    ['bud_tenant', LIMITS.tenant],
    ['bud_key', LIMITS.key],
  ])
  /** Account -> request -> what it holds of it. */
  readonly #held = new Map<string, Map<string, number>>()

  constructor(private readonly run: Run) {}

  /** An operator is about to raise the limit of the tenant's budget by so much. */
  raised(moreNanoUsd: number): number {
    const limit = this.limits.get('bud_tenant')! + moreNanoUsd
    this.limits.set('bud_tenant', limit)
    return limit
  }

  /** Its record is acknowledged: from now on it may come to so much. */
  holds(asked: Asked, parts: Asked['parts']): void {
    asked.parts = parts
    for (const { account, leased, nano_usd } of parts) if (leased) this.#hold(asked, account, nano_usd)
  }

  /** Its outcome is about to be recorded. */
  settles(asked: Asked): void {
    for (const { account } of asked.parts) this.#held.get(account)?.set(asked.id, 0)
    for (const { account, leased, nano_usd } of asked.charges) if (leased) this.#hold(asked, account, nano_usd)
  }

  /** The process of the request died, and which of its records are on the disk is unknown: the log will show it. */
  forgets({ id }: Asked): void {
    for (const held of this.#held.values()) held.delete(id)
  }

  limitOf(account: string): number | null {
    return this.limits.get(budgetOf(account)) ?? null
  }

  #hold({ id }: Asked, account: string, nanoUsd: number): void {
    const limit = this.limitOf(account)
    if (limit === null) return
    const held = this.#held.get(account) ?? new Map<string, number>()
    this.#held.set(account, held)
    held.set(id, nanoUsd)
    let sum = 0
    for (const each of held.values()) sum += each
    if (sum > limit + this.run.tolerated)
      this.run.violated(`${account} is overspent: ${sum} of ${limit} nano-USD, by ${id}`)
  }
}
