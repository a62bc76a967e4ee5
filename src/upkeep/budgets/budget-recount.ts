// Recounts one account from the log: what outcomes have charged, and the account folded once more from its partition.
// Both go on where they stopped.
import { committed, overrunOf, spentOf } from '../../domain/budgets/account.ts'
import { AccountBook } from '../../domain/budgets/account-book.ts'
import { isEqual, NO_AMOUNT, plus } from '../../domain/budgets/amount.ts'
import type { BudgetEvent } from '../../domain/budgets/budget-events.ts'
import { chargeOf } from '../../domain/budgets/recorded-parts.ts'
import type { RequestSettled } from '../../domain/events/request.ts'
import { admissionIdOf } from '../../domain/events/request-reading.ts'
import { sleep } from '../../lib/event-loop/sleep.ts'
import { yieldToEventLoop } from '../../lib/event-loop/yield-to-event-loop.ts'
import { readEnvelope } from '../../log/envelope.ts'
import type { EventLog, LogRecord, ReadOptions } from '../../log/port.ts'
import { TOPICS } from '../../log/topics.ts'
import type { BudgetLedger } from '../../state/budgets/budgets.ts'
import { refuseFirstVersion } from './unsettled-spending.ts'

const REQUESTS = TOPICS.requests.name
const BUDGETS = TOPICS.budgets.name
const SETTLED = 'request.settled'
/**
 * Outcomes of a window stand in the log from the window's beginning on; the clock of their writer may be ahead of the
 * log's by so much.
 */
const MARGIN_MS = 3_600_000
/** No record is of this time. */
const FAR_MS = 8_000_000_000_000
/**
 * A spool that holds no record any more delivers nothing when it is read from its first kept record: the reader waits
 * this long.
 */
const EMPTY_MS = 2_000
/** The served account may be a few records before or behind. */
const COMPARISONS = 20
const COMPARED_AGAIN_MS = 25

/** Passes on every record from an offset to the present end, or until the signal; returns how many are left. */
const readOn = async (
  log: EventLog,
  where: { readonly topic: string; readonly partition: number; readonly from: number; readonly how?: ReadOptions },
  signal: AbortSignal,
  take: (batch: readonly LogRecord[]) => void,
): Promise<number> => {
  const { topic, partition, from, how } = where
  const end = await log.end(topic, partition)
  let next = from
  if (next >= end || signal.aborted) return Math.max(0, end - next)
  const reading = new AbortController()
  for await (const batch of log.read(topic, partition, from, AbortSignal.any([signal, reading.signal]), how)) {
    take(batch)
    next = batch.at(-1)!.offset + 1
    if (next >= end) break
    await yieldToEventLoop()
  }
  reading.abort()
  return Math.max(0, end - next)
}

interface Place {
  next: number
  /** Whether records older than the first one may have expired although they were requested. */
  readonly isCut: boolean
  /** The log has no log times here: the partition is read from the first record that is kept, if there is any. */
  readonly isSpool: boolean
  met: boolean
}

/** What outcomes have charged to an account. */
export class Outcomes {
  readonly #places = new Map<number, Place>()
  /** The first settlement of an admission is the outcome. */
  readonly #settled = new Set<string>()
  readonly #needle: Buffer
  sum = NO_AMOUNT
  /** Log time of the newest first record of a partition that has lost older ones. */
  #keptFromMs = Number.NEGATIVE_INFINITY

  constructor(
    private readonly log: EventLog,
    private readonly account: string,
    /** The log time from which on there may be any. */
    private readonly sinceMs: number,
  ) {
    this.#needle = Buffer.from(`"account":${JSON.stringify(account)}`)
  }

  get count(): number {
    return this.#settled.size
  }

  /** The log still holds all of them. */
  get areKept(): boolean {
    return this.#keptFromMs <= this.sinceMs
  }

  /**
   * Reads on, until the signal; returns how many records are left. Throws EarlierRecords for one of the first version.
   */
  async read(signal: AbortSignal): Promise<number> {
    let unread = 0
    for (const partition of await this.log.partitions(REQUESTS)) {
      const place = this.#places.get(partition) ?? (await this.#begin(partition))
      this.#places.set(partition, place)
      unread += await this.#readPartition(partition, place, signal)
    }
    return unread
  }

  async #begin(partition: number): Promise<Place> {
    const since = (atMs: number) => this.log.since(REQUESTS, partition, atMs)
    const [kept, next] = [await since(0), await since(this.sinceMs - MARGIN_MS)]
    const hasRecords = (await this.log.end(REQUESTS, partition)) > 0
    const isSpool = hasRecords && next === 0 && (await since(FAR_MS)) === 0
    return { next, isCut: next <= kept, isSpool, met: false }
  }

  async #readPartition(partition: number, place: Place, signal: AbortSignal): Promise<number> {
    const empty = new AbortController()
    const timer = place.isSpool && !place.met ? setTimeout(() => empty.abort(), EMPTY_MS) : undefined
    const either = AbortSignal.any([signal, empty.signal])
    const where = { topic: REQUESTS, partition, from: place.next, how: { passing: true, only: SETTLED } }
    const unread = await readOn(this.log, where, either, (batch) => {
      clearTimeout(timer)
      this.#met(place, batch[0]!)
      for (const { value, offset } of batch) if (value !== null) this.#take(value, partition, offset)
      place.next = batch.at(-1)!.offset + 1
    }).finally(() => clearTimeout(timer))
    if (!empty.signal.aborted || signal.aborted) return unread
    place.met = true
    place.next += unread
    return 0
  }

  #met(place: Place, { offset, atMs }: LogRecord): void {
    if (!place.met && place.isCut && offset > 0) this.#keptFromMs = Math.max(this.#keptFromMs, atMs)
    place.met = true
  }

  #take(value: Uint8Array, partition: number, offset: number): void {
    if (!Buffer.from(value.buffer, value.byteOffset, value.length).includes(this.#needle)) return
    const envelope = readEnvelope(value)
    if (envelope?.type !== SETTLED) return
    refuseFirstVersion(envelope.data, partition, offset)
    const { id, admission, budget = [] } = envelope.data as Pick<RequestSettled, 'id' | 'admission' | 'budget'>
    const writer = `${envelope.instance}.${envelope.epoch}`
    const charges = budget.filter((each) => each.account === this.account).map((each) => chargeOf(each, writer))
    const name = admissionIdOf(admission, writer) ?? id
    if (charges.length === 0 || this.#settled.has(name)) return
    this.#settled.add(name)
    for (const { nano_usd, tokens, overrun_nano_usd = 0 } of charges)
      this.sum = plus(this.sum, { nano_usd: nano_usd + overrun_nano_usd, tokens })
  }
}

/** An account, folded anew from its partition. */
export class Refold {
  #book: AccountBook | null = null
  #next = 0
  #logAtMs = 0
  readonly #partition: number

  constructor(
    private readonly log: EventLog,
    private readonly ledger: BudgetLedger,
    private readonly tenantId: string,
    private readonly account: string,
  ) {
    this.#partition = ledger.partitionOf(tenantId)
  }

  /**
   * Whether it equals the account that is served, at the same offset. Null: it was not read so far, or they were never
   * at the same offset.
   */
  async isAlike(signal: AbortSignal): Promise<boolean | null> {
    if (this.#book === null) {
      this.#next = await this.log.since(BUDGETS, this.#partition, 0)
      this.#book = new AccountBook(this.#next === 0, this.#next)
    }
    const book = this.#book
    for (let comparison = 0; comparison < COMPARISONS; comparison++) {
      const where = { topic: BUDGETS, partition: this.#partition, from: this.#next }
      if ((await readOn(this.log, where, signal, (batch) => this.#fold(book, batch))) > 0) return null
      if (this.ledger.place(this.tenantId).next === this.#next) return this.#compared(book)
      await sleep(COMPARED_AGAIN_MS, signal)
    }
    return null
  }

  #fold(book: AccountBook, batch: readonly LogRecord[]): void {
    for (const { offset, atMs, value } of batch) {
      this.#next = offset + 1
      this.#logAtMs = Math.max(this.#logAtMs, atMs)
      const envelope = value === null ? null : readEnvelope(value)
      if (envelope === null || envelope.subject !== this.tenantId) continue
      const { type, data, instance, epoch } = envelope
      book.take(offset, { type, data } as BudgetEvent, this.#logAtMs, `${instance}.${epoch}`)
    }
  }

  #compared(book: AccountBook): boolean {
    // Older records have expired, and no statement stands in what is kept: there is nothing to compare with.
    if (!book.isComplete) return true
    const [folded, served] = [book.get(this.account), this.ledger.account(this.tenantId, this.account)]
    if (folded === undefined || served === undefined) return folded === served
    return (
      isEqual(committed(folded), committed(served)) &&
      isEqual(spentOf(folded), spentOf(served)) &&
      overrunOf(folded) === overrunOf(served)
    )
  }
}
