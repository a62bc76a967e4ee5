// What a dead instance may have spent of budgets and did not report, as far as the requests topic has it: outcomes that
// it shipped, and requests that it left open.
import { type Amount, minus, most, NO_AMOUNT, plus } from '../../domain/budgets/amount.ts'
import {
  type BudgetCharge,
  type BudgetPart,
  chargeOf,
  partOf,
  type RecordedCharge,
} from '../../domain/budgets/recorded-parts.ts'
import { isOfFirstVersion } from '../../domain/events/request-reading.ts'
import { envelopeOf } from '../../log/envelope.ts'
import { EarlierRecords, type EventLog, type LogRecord } from '../../log/port.ts'
import { TOPICS } from '../../log/topics.ts'

const REQUESTS = TOPICS.requests.name

/** What one holder may have spent in one account. */
export interface Unsettled {
  /** The sum of its outcomes since its start: a lower bound of what it has spent. */
  spent: Amount
  counted: Amount
  /** What the requests may cost that were admitted and not settled, or that were settled for it. */
  open: Amount
}
/** Unsettled spending by `<account> <holder>` (`sumKey`). */
export type UnsettledSums = ReadonlyMap<string, Unsettled>

export const sumKey = (account: string, holder: string): string => `${account} ${holder}`

/** What was spent beyond what the holder has reported. */
export const beyondReported = (
  { spent, counted, open }: Unsettled,
  reported: { spent: Amount; counted: Amount },
): Amount => plus(plus(minus(spent, reported.spent), minus(counted, reported.counted)), open)

/** Throws EarlierRecords for a record of the first version: its charges have another form, and must not be summed. */
export const refuseFirstVersion = (data: unknown, partition: number, offset: number): void => {
  if (!isOfFirstVersion(data as Readonly<Record<string, unknown>>)) return
  throw new EarlierRecords(
    `${REQUESTS}/${partition} holds records of an earlier build (offset ${offset}), which this one cannot read: make ` +
      'the topic anew',
  )
}

interface Spending {
  readonly id: string
  readonly budget?: readonly RecordedCharge[]
}

class Reading {
  readonly sums = new Map<string, Unsettled>()
  /** Requests that were admitted and not settled yet, with what they may come to. */
  readonly #open = new Map<string, readonly BudgetPart[]>()
  /**
   * By partition and start of the process, the highest sequence that was read: the sender ships each start in order, so
   * a record that is not above it is a repeat.
   */
  readonly #read = new Map<string, number>()

  /** Late copies are outdated: a copy may show a request as open that was settled meanwhile. */
  isRepeat(partition: number, epoch: string, sequence: number): boolean {
    const start = `${partition} ${epoch}`
    if (sequence <= (this.#read.get(start) ?? -1)) return true
    this.#read.set(start, sequence)
    return false
  }

  /** `writer`: instance and epoch of the record, `<instance>.<epoch>`. */
  take(type: string, { id, budget }: Spending, writer: string): void {
    if (type === 'request.settled') {
      this.#open.delete(id)
      for (const charge of budget ?? []) this.#charge(chargeOf(charge, writer))
    } else if (budget !== undefined) {
      const parts = budget.map((part) => partOf(part, writer))
      this.#open.set(id, parts)
    }
  }

  end(): UnsettledSums {
    for (const parts of this.#open.values())
      for (const part of parts) this.#of(part).open = plus(this.#of(part).open, part)
    return this.sums
  }

  #charge(charge: BudgetCharge): void {
    const sum = this.#of(charge)
    const { total } = charge
    if (total === undefined) sum.open = plus(sum.open, charge)
    else {
      sum.spent = most(sum.spent, total.spent)
      sum.counted = most(sum.counted, total.counted)
    }
  }

  #of({ account, holder }: BudgetPart): Unsettled {
    const key = sumKey(account, holder)
    const known = this.sums.get(key) ?? { spent: NO_AMOUNT, counted: NO_AMOUNT, open: NO_AMOUNT }
    this.sums.set(key, known)
    return known
  }
}

/**
 * Reads what an instance wrote of a tenant's requests since a moment, up to the present ends. Throws what the log
 * throws, EarlierRecords for a record of the first version, or the signal's reason.
 */
export const unsettledOf = async (
  log: EventLog,
  { tenantId, instance, sinceMs }: { readonly tenantId: string; readonly instance: string; readonly sinceMs: number },
  signal: AbortSignal,
): Promise<UnsettledSums> => {
  const subject = `${tenantId}/${instance}`
  const reading = new Reading()
  for (const partition of await log.partitions(REQUESTS)) {
    const [from, end] = [await log.since(REQUESTS, partition, sinceMs), await log.end(REQUESTS, partition)]
    if (from >= end) continue
    for await (const batch of log.read(REQUESTS, partition, from, signal)) {
      for (const record of batch) take(reading, partition, record, subject, instance)
      if (batch.at(-1)!.offset + 1 >= end) break
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
    signal.throwIfAborted()
  }
  return reading.end()
}

const take = (reading: Reading, partition: number, record: LogRecord, subject: string, instance: string): void => {
  if (record.key !== subject) return
  const envelope = envelopeOf(record)
  if (envelope?.instance !== instance || reading.isRepeat(partition, envelope.epoch, envelope.sequence)) return
  if (envelope.type.startsWith('request.')) {
    refuseFirstVersion(envelope.data, partition, record.offset)
    reading.take(envelope.type, envelope.data as Spending, `${envelope.instance}.${envelope.epoch}`)
  }
}
