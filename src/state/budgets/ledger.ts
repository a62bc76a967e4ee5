// The accounts of budgets, folded from the partitions of `gateway.budgets.v1` that this process needs. Read only:
// `leases.ts` writes.
import type { Account, Accounts, LeaseRefusal, LeaseVerdict } from '../../domain/budgets/account.ts'
import { AccountBook } from '../../domain/budgets/account-book.ts'
import type { BudgetRow } from '../../domain/budgets/budget.ts'
import { BUDGET_EVENTS, type BudgetEvent } from '../../domain/budgets/budget-events.ts'
import type { WindowBounds } from '../../domain/budgets/budget-window.ts'
import { sleep } from '../../lib/event-loop/sleep.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { type TSchema, type TypeCheck, TypeCompiler } from '../../lib/schema/schema.ts'
import { type Envelope, readEnvelope } from '../../log/envelope.ts'
import type { EventLog, LogRecord } from '../../log/port.ts'
import { partitionOf, TOPICS } from '../../log/topics.ts'

const BUDGETS = TOPICS.budgets.name
const RETRY_MS = 500
/**
 * Accounts are stated every hour: a reader begins so far back, and reads the whole partition where that is not enough.
 */
const RECENT_MS = 9_000_000
const STATED_WITHIN_MS = 3_900_000

/** A folded record and its effect. */
export interface FoldedRecord {
  readonly partition: number
  readonly tenantId: string
  readonly envelope: Envelope
  readonly event: BudgetEvent
  readonly changed: readonly Account[]
  readonly verdict: LeaseVerdict | null
}

export interface LedgerDeps {
  readonly log: EventLog
  /** As the chain records it. */
  partitions(): number
  readonly diagnostics: Diagnostics
  nowMs(): number
  onFolded(record: FoldedRecord): void
}

const checks = new Map<string, TypeCheck<TSchema>>(
  Object.entries(BUDGET_EVENTS).map(([type, schema]) => [type, TypeCompiler.Compile(schema as TSchema)]),
)

class Partition {
  readonly books = new Map<string, AccountBook>()
  /** Running maximum of append times. */
  logAtMs = 0
  /** The first offset of the partition, and where reading began. */
  start = 0
  from = 0
  next = 0
  /** All records up to the end at the start of reading have been folded. */
  caughtUp = false
  readonly whenCaughtUp = Promise.withResolvers<void>()
  /** Log time of the first record that was read. */
  firstAtMs: number | null = null
  /**
   * A writer has stated accounts long enough after the first record: all accounts with holders were stated in between.
   */
  #isStated = false
  /** Accounts that were opened before this log time may have expired unread. Null: none has. */
  expiredBeforeMs: number | null = null
  unreadable = 0

  begin(offset: number): void {
    this.books.clear()
    this.from = offset
    this.next = offset
    this.logAtMs = 0
    this.firstAtMs = null
    this.#isStated = false
  }

  /** A record was folded. */
  noteStatements(book: AccountBook): void {
    if (book.isStated && book.statedMs - this.firstAtMs! >= STATED_WITHIN_MS) this.#isStated = true
  }

  /** Whether accounts without a record are certainly new. */
  get isWhole(): boolean {
    return this.from === 0 || (this.#isStated && [...this.books.values()].every(({ isComplete }) => isComplete))
  }
}

export class BudgetLedger {
  readonly #partitions = new Map<number, Partition>()
  readonly #closing = new AbortController()
  /** How far this clock runs ahead of the log's, as last observed. */
  #aheadMs = 0
  readonly #work: Promise<void>[] = []

  constructor(private readonly deps: LedgerDeps) {}

  partitionOf(tenantId: string): number {
    return partitionOf(tenantId, this.deps.partitions())
  }

  /** Begins to read the partition of a tenant; resolves once its records up to the present end are folded. */
  follow(tenantId: string): Promise<void> {
    return this.#of(tenantId).whenCaughtUp.promise
  }

  /**
   * Begins to read all partitions with accounts of any tenant; resolves once their records up to the present end are
   * folded. Throws what the log throws.
   */
  async followAll(): Promise<void> {
    const numbers = Array.from({ length: this.deps.partitions() }, (_, number) => number)
    await Promise.all(
      numbers.map(async (number) => {
        if (this.#partitions.has(number) || (await this.#holdsRecords(number)))
          await this.#ofPartition(number).whenCaughtUp.promise
      }),
    )
  }

  /** Null until the tenant's records are read. */
  accounts(tenantId: string): Accounts | null {
    const partition = this.#of(tenantId)
    return partition.caughtUp ? (partition.books.get(tenantId) ?? NO_ACCOUNTS) : null
  }

  account(tenantId: string, id: string): Account | undefined {
    return this.accounts(tenantId)?.get(id)
  }

  isCaughtUp(partition: number): boolean {
    return this.#partitions.get(partition)?.caughtUp === true
  }

  /** Whether the spending of this budget in a window that began then may have expired from the log unread. */
  mayHaveExpired(tenantId: string, { created_at }: Pick<BudgetRow, 'created_at'>, windowStartMs: number): boolean {
    const { expiredBeforeMs } = this.#of(tenantId)
    return expiredBeforeMs !== null && Math.max(Date.parse(created_at), windowStartMs) < expiredBeforeMs
  }

  /** The later of this clock and log time: windows end at the same time for all instances. */
  nowMs(tenantId: string): number {
    return Math.max(this.trusted(this.deps.nowMs()), this.#of(tenantId).logAtMs)
  }

  /** A moment of this clock, corrected by the observed lead over the log's. */
  trusted(atMs: number): number {
    return atMs - this.#aheadMs
  }

  /**
   * A lease was refused for its window: a moment in the window that the request falls into instead. Null: there was
   * another reason.
   */
  retryMoment(tenantId: string, reason: LeaseRefusal, { startMs, endMs }: WindowBounds): number | null {
    if (reason !== 'early' && reason !== 'ended') return null
    const { logAtMs } = this.#of(tenantId)
    // The refusing record has just been folded: log time is current.
    if (reason === 'early' || this.#aheadMs > 0) this.#aheadMs = Math.max(0, this.deps.nowMs() - logAtMs)
    if (reason === 'early') {
      this.deps.diagnostics.warn('clock_ahead', { ahead_ms: this.#aheadMs })
      return Math.min(logAtMs, startMs - 1)
    }
    return Math.max(this.nowMs(tenantId), endMs ?? 0)
  }

  /** Log time of a tenant's partition, and the offset that is folded next. */
  place(tenantId: string): { readonly logAtMs: number; readonly next: number } {
    const { logAtMs, next } = this.#of(tenantId)
    return { logAtMs, next }
  }

  /** Tenants with accounts whose last statement is older than this log time. */
  *statedBefore(atMs: number): Iterable<string> {
    for (const { books, caughtUp } of this.#partitions.values())
      if (caughtUp) for (const [tenantId, book] of books) if (book.size > 0 && book.statedMs < atMs) yield tenantId
  }

  /** Every tenant whose accounts are read. */
  *tenants(): Iterable<string> {
    for (const { books, caughtUp } of this.#partitions.values()) if (caughtUp) yield* books.keys()
  }

  forget(tenantId: string): void {
    const { books, logAtMs } = this.#of(tenantId)
    books.get(tenantId)?.dropEnded(logAtMs)
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  async close(): Promise<void> {
    this.#closing.abort()
    for (const { whenCaughtUp } of this.#partitions.values()) whenCaughtUp.resolve()
    await Promise.all(this.#work)
  }

  #of(tenantId: string): Partition {
    return this.#ofPartition(this.partitionOf(tenantId))
  }

  async #holdsRecords(number: number): Promise<boolean> {
    const { log } = this.deps
    const end = await log.end(BUDGETS, number)
    return end > 0 && (await log.since(BUDGETS, number, 0)) < end
  }

  #ofPartition(number: number): Partition {
    const known = this.#partitions.get(number)
    if (known !== undefined) return known
    const partition = new Partition()
    this.#partitions.set(number, partition)
    this.#work.push(this.#read(number, partition))
    return partition
  }

  async #read(number: number, partition: Partition): Promise<void> {
    const { diagnostics } = this.deps
    const { signal } = this.#closing
    let end: number | null = null
    while (!signal.aborted) {
      try {
        end ??= await this.#begin(number, partition)
        await this.#follow(number, partition, end, signal)
      } catch (error) {
        // A log that was replaced or cut as a whole shows in the control topic, which stops the start; here the reader
        // only waits.
        if (!signal.aborted) diagnostics.warn('budgets_read_failed', { partition: number, error })
        // The records to read may have expired meanwhile.
        if (!partition.caughtUp) end = null
      }
      await sleep(RETRY_MS, signal)
    }
  }

  /** Sets where reading begins; returns the present end. */
  async #begin(number: number, partition: Partition): Promise<number> {
    const { log, nowMs } = this.deps
    const end = await log.end(BUDGETS, number)
    partition.start = Math.min(end, await log.since(BUDGETS, number, 0))
    partition.begin(Math.min(end, Math.max(partition.start, await log.since(BUDGETS, number, nowMs() - RECENT_MS))))
    return end
  }

  async #follow(number: number, partition: Partition, end: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      this.#mind(number, partition, end)
      const { from } = partition
      for await (const batch of this.deps.log.read(BUDGETS, number, partition.next, signal)) {
        for (const record of batch) this.#fold(number, partition, record)
        this.#mind(number, partition, end)
        if (partition.from !== from) break // again, from further back
      }
      if (partition.from === from) return
    }
  }

  #mind(number: number, partition: Partition, end: number): void {
    if (partition.caughtUp || partition.next < end) return
    if (!partition.isWhole && partition.from > partition.start) {
      partition.begin(partition.start)
      if (partition.next < end) return
    }
    partition.caughtUp = true
    if (!partition.isWhole) {
      partition.expiredBeforeMs = partition.firstAtMs ?? this.deps.nowMs()
      this.deps.diagnostics.warn('budgets_not_stated', { partition: number, start: partition.start, end })
    }
    for (const book of partition.books.values()) book.isComplete = true
    partition.whenCaughtUp.resolve()
  }

  #fold(number: number, partition: Partition, { offset, atMs, value }: LogRecord): void {
    partition.next = offset + 1
    partition.logAtMs = Math.max(partition.logAtMs, atMs)
    partition.firstAtMs ??= partition.logAtMs
    const envelope = value === null ? null : readEnvelope(value)
    if (envelope === null || checks.get(envelope.type)?.Check(envelope.data) !== true) {
      // A newer build may write more: an unreadable record changes nothing here, and is counted.
      partition.unreadable++
      this.deps.diagnostics.warn('budget_record_unreadable', { partition: number, offset, type: envelope?.type })
      return
    }
    const tenantId = envelope.subject
    let book = partition.books.get(tenantId)
    if (book === undefined) {
      book = new AccountBook(partition.caughtUp || partition.from === 0, partition.from)
      partition.books.set(tenantId, book)
    }
    const event = { type: envelope.type, data: envelope.data } as BudgetEvent
    const writer = `${envelope.instance}.${envelope.epoch}`
    const { accounts, verdict } = book.take(offset, event, partition.logAtMs, writer)
    if (!partition.caughtUp) partition.noteStatements(book)
    this.deps.onFolded({ partition: number, tenantId, envelope, event, changed: accounts, verdict })
  }
}

const NO_ACCOUNTS: Accounts = {
  get: () => undefined,
  ofBudget: () => [],
  all: () => [],
}
