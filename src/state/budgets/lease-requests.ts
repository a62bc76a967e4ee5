// Requests that wait for a lease, and their order: requests of one set of accounts share one lease request.

import type { LeaseRefusal } from '../../domain/budgets/account.ts'
import type { Amount } from '../../domain/budgets/amount.ts'
import type { OpenAccount } from './open-account.ts'

/** The result of a wait. `unreachable`: the log did not respond in time. */
export type Taken =
  | { readonly kind: 'taken' }
  | { readonly kind: 'refused'; readonly reason: LeaseRefusal; readonly open: OpenAccount }
  | { readonly kind: 'unreachable'; readonly open: OpenAccount }

export const TAKEN: Taken = { kind: 'taken' }

/** The account that lacks room, and until when other holders may give back to it (monotonic). */
export interface Parked {
  readonly open: OpenAccount
  readonly untilMs: number
}

/** The amount that a request takes of one account. */
export interface Draw {
  readonly open: OpenAccount
  /** It takes it of a lease. */
  readonly isDrawing: boolean
  readonly drawNanoUsd: number
  readonly drawTokens: number
}

/** Whether all of it can be taken now, and no earlier request waits for it. */
export const canDraw = (draws: readonly Draw[], nowMs: number): boolean => {
  for (let i = 0; i < draws.length; i++) {
    const { open, isDrawing, drawNanoUsd, drawTokens } = draws[i]!
    if (isDrawing && (open.waiting > 0 || !open.has(drawNanoUsd, drawTokens, nowMs))) return false
  }
  return true
}

/** The accounts that are drawn from, and the amounts. */
export const drawn = (draws: readonly Draw[]): [OpenAccount[], Amount[]] => {
  const drawing = draws.filter(({ isDrawing }) => isDrawing)
  return [
    drawing.map(({ open }) => open),
    drawing.map(({ drawNanoUsd, drawTokens }) => ({ nano_usd: drawNanoUsd, tokens: drawTokens })),
  ]
}

/** One request that waits for all of its accounts. */
export interface Waiter {
  readonly opens: readonly OpenAccount[]
  readonly amounts: readonly Amount[]
  readonly resolve: (taken: Taken) => void
  timer: ReturnType<typeof setTimeout>
  done: boolean
  /** It was refused, and waits for other holders to give back. Null: it was not. */
  parked: Parked | null
}

/** A set of accounts that is requested in one record. */
export class LeaseRequestGroup {
  readonly waiters: Waiter[] = []
  /** The number of its lease request under way; null: there is none. */
  sequence: number | null = null
  /** When the lease request was sent (monotonic). */
  sentAtMs = 0
  /** A lease request is to be sent. */
  due = false
  /** The request is delayed until other holders have reported what they counted. */
  delayed = false

  constructor(
    readonly key: string,
    readonly opens: readonly OpenAccount[],
  ) {}

  /** A lease request is under way or is about to be sent. */
  get isRequesting(): boolean {
    return this.sequence !== null || this.due
  }

  get tenantId(): string {
    return this.opens[0]!.tenantId
  }

  /** Drops those that were served or gave up, and returns the first that still waits. */
  first(): Waiter | undefined {
    while (this.waiters[0]?.done === true) this.waiters.shift()
    return this.waiters[0]
  }
}

export const groupKey = (opens: readonly OpenAccount[]): string =>
  opens.length === 1 ? opens[0]!.account : opens.map(({ account }) => account).join(' ')
