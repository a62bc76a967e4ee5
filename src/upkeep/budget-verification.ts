// Recomputes what a budget's present window has cost: from the outcomes in the requests topic, and the account once more from its partition. Compares.
import { committed, overrunOf, spentOf } from '../domain/account.ts'
import { AccountBook } from '../domain/account-book.ts'
import { type Amount, isEqual, minus, NO_AMOUNT, plus } from '../domain/amount.ts'
import type { BudgetRow } from '../domain/budget.ts'
import type { BudgetCharge, BudgetEvent } from '../domain/budget-events.ts'
import { pause } from '../lib/pause.ts'
import { readEnvelope } from '../log/envelope.ts'
import type { EventLog, LogRecord } from '../log/port.ts'
import { TOPICS } from '../log/topics.ts'
import type { OpenBudgets } from '../state/budgets.ts'

export interface BudgetVerdict {
  readonly account: string
  /** By the account: what instances have told, and this one has not told yet. Without what was carried over from another cut of windows. */
  readonly spent: Amount
  /** By the outcomes. */
  readonly recomputed: Amount
  readonly carried: Amount
  readonly reserved: Amount
  readonly overrunNanoUsd: number
  readonly outcomes: number
  /** The log still holds all outcomes since this window began. */
  readonly complete: boolean
  /** The account, folded anew from its partition, is the one that is served. */
  readonly foldsAlike: boolean
  readonly matches: boolean
}

export interface VerificationDeps {
  readonly log: EventLog
  readonly budgets: OpenBudgets
}

/** Other instances tell what they spent within seconds: so long it is looked again. */
const SETTLES_MS = 12_000
const LOOK_MS = 500

/** Null: nothing is counted of it, or the log cannot be read now. */
export const verifyBudget = async (
  row: BudgetRow,
  { log, budgets }: VerificationDeps,
  signal: AbortSignal,
): Promise<BudgetVerdict | null> => {
  if (!(await budgets.caughtUp(row.tenant_id, SETTLES_MS))) return null
  const outcomes = new Outcomes(log)
  const untilMs = performance.now() + SETTLES_MS
  for (;;) {
    const standing = budgets.standing(row)
    if (standing === null) return null
    const open = budgets.leases.opens.get(standing.account)
    if (open !== undefined) budgets.leases.tell(open)
    const { sum, count } = await outcomes.of(standing.account, signal)
    const again = budgets.standing(row) ?? standing
    const account = budgets.leases.ledger.account(row.tenant_id, standing.account)
    const carried = account?.carried ?? NO_AMOUNT
    const spent = minus(again.spent, carried)
    const foldsAlike = await foldedAlike(row.tenant_id, standing.account, { log, budgets }, signal)
    const matches = isEqual(spent, sum) && foldsAlike
    if (matches || signal.aborted || performance.now() >= untilMs) {
      const { reserved, overrunNanoUsd } = again
      const { account: name } = standing
      return {
        account: name,
        spent,
        recomputed: sum,
        carried,
        reserved,
        overrunNanoUsd,
        outcomes: count,
        complete: outcomes.reachBackTo(Math.max(again.startMs, Date.parse(row.created_at))),
        foldsAlike,
        matches,
      }
    }
    await pause(LOOK_MS, signal)
  }
}

/** Reads on where it stopped: what stands in the log stays there. */
class Outcomes {
  readonly #next = new Map<number, number>()
  /** The first settlement of an admission is the outcome. */
  readonly #settled = new Set<string>()
  #sum = NO_AMOUNT
  /** Log time of the newest first record of a partition that has lost older ones. */
  #keptFromMs = Number.NEGATIVE_INFINITY

  constructor(private readonly log: EventLog) {}

  async of(account: string, signal: AbortSignal): Promise<{ sum: Amount; count: number }> {
    const needle = Buffer.from(`"account":${JSON.stringify(account)}`)
    for (const partition of await this.log.partitions(TOPICS.requests.name)) {
      const from = this.#next.get(partition) ?? 0
      const isFirst = from === 0
      let met = false
      const next = await readTo(this.log, TOPICS.requests.name, partition, from, signal, ({ offset, atMs, value }) => {
        if (isFirst && !met && offset > 0) this.#keptFromMs = Math.max(this.#keptFromMs, atMs)
        met = true
        if (value !== null && Buffer.from(value.buffer, value.byteOffset, value.length).includes(needle))
          this.#take(value, account)
      })
      this.#next.set(partition, next)
    }
    return { sum: this.#sum, count: this.#settled.size }
  }

  reachBackTo(atMs: number): boolean {
    return this.#keptFromMs <= atMs
  }

  #take(value: Uint8Array, account: string): void {
    const envelope = readEnvelope(value)
    if (envelope?.type !== 'request.settled') return
    const {
      id,
      admission,
      budget = [],
    } = envelope.data as {
      id: string
      admission: string | null
      budget?: readonly BudgetCharge[]
    }
    const charges = budget.filter((each) => each.account === account)
    const name = admission ?? id
    if (charges.length === 0 || this.#settled.has(name)) return
    this.#settled.add(name)
    for (const { nano_usd, tokens, overrun_nano_usd = 0 } of charges)
      this.#sum = plus(this.#sum, { nano_usd: nano_usd + overrun_nano_usd, tokens })
  }
}

/** Calls `take` for every record up to the present end; answers where to go on. */
const readTo = async (
  log: EventLog,
  topic: string,
  partition: number,
  from: number,
  signal: AbortSignal,
  take: (record: LogRecord) => void,
): Promise<number> => {
  const end = await log.end(topic, partition)
  let next = from
  if (end <= from) return next
  const reading = new AbortController()
  // Where all has expired nothing comes: it is not waited for.
  const late = AbortSignal.any([signal, reading.signal, AbortSignal.timeout(SETTLES_MS)])
  for await (const batch of log.read(topic, partition, from, late)) {
    for (const record of batch) if (record.offset < end) take(record)
    next = batch.at(-1)!.offset + 1
    if (next >= end) break
    await new Promise<void>((resolve) => setImmediate(resolve))
  }
  reading.abort()
  return next
}

const foldedAlike = async (
  tenantId: string,
  id: string,
  { log, budgets }: VerificationDeps,
  signal: AbortSignal,
): Promise<boolean> => {
  const { ledger } = budgets.leases
  const partition = ledger.partitionOf(tenantId)
  const start = await log.since(TOPICS.budgets.name, partition, 0)
  const book = new AccountBook(start === 0, start)
  let logAtMs = 0
  await readTo(log, TOPICS.budgets.name, partition, 0, signal, ({ offset, atMs, value }) => {
    logAtMs = Math.max(logAtMs, atMs)
    const envelope = value === null ? null : readEnvelope(value)
    if (envelope === null || envelope.subject !== tenantId) return
    const { type, data, instance, epoch } = envelope
    book.take(offset, { type, data } as BudgetEvent, logAtMs, `${instance}.${epoch}`)
  })
  // Older records have expired, and no statement stands in what is kept: there is nothing to compare with.
  if (!book.known) return true
  const [folded, served] = [book.get(id), ledger.account(tenantId, id)]
  if (folded === undefined || served === undefined) return folded === served
  return (
    isEqual(committed(folded), committed(served)) &&
    isEqual(spentOf(folded), spentOf(served)) &&
    overrunOf(folded) === overrunOf(served)
  )
}
