// Writes the records of budgets beside the leases: alerts, statements, retirements, spending of dead processes. Repeats
// of them are harmless.
import { statedIn } from '../../domain/budgets/account-book.ts'
import type { BudgetEvent } from '../../domain/budgets/budget-events.ts'
import { writeEnvelope } from '../../log/envelope.ts'
import type { EventLog, NewRecord } from '../../log/port.ts'
import { TOPICS } from '../../log/topics.ts'
import type { BudgetLedger } from './ledger.ts'

const MOST_RECORDS = 200
const MOST_BYTES = 192 * 1024
const APPEND_MS = 2_000

/** All accounts of a tenant at present, to be written in one append: a reader may begin there. */
export const statementOf = (ledger: BudgetLedger, tenantId: string): BudgetEvent[] => {
  ledger.forget(tenantId)
  const accounts = [...(ledger.accounts(tenantId)?.all() ?? [])]
  const { next } = ledger.place(tenantId)
  return statedIn(accounts, next).map((data) => ({ type: 'account.stated', data }))
}

export interface BudgetWriterDeps {
  readonly log: EventLog
  readonly instance: string
  nowMs(): number
}

/** Records of one writer in one topic. */
export class BudgetWriter {
  readonly #encoder = new TextEncoder()
  #sequence = 0

  constructor(
    private readonly deps: BudgetWriterDeps,
    /** An epoch of its own: records are told apart by (instance, epoch, sequence). */
    private readonly epoch: string,
  ) {}

  record(tenantId: string, { type, data }: BudgetEvent): NewRecord {
    const { instance, nowMs } = this.deps
    const origin = { instance, epoch: this.epoch, sequence: this.#sequence++ }
    const text = writeEnvelope(origin, type, tenantId, nowMs(), JSON.stringify(data))
    return { key: tenantId, value: this.#encoder.encode(text) }
  }

  /** Throws LogUnavailable, or IndefiniteAppend: a part of the records may be written. */
  async append(tenantId: string, events: readonly BudgetEvent[], ledger: BudgetLedger): Promise<void> {
    let records: NewRecord[] = []
    let bytes = 0
    const send = async () => {
      if (records.length === 0) return
      const partition = ledger.partitionOf(tenantId)
      await this.deps.log.append(TOPICS.budgets.name, partition, records, AbortSignal.timeout(APPEND_MS))
      records = []
      bytes = 0
    }
    for (const event of events) {
      const record = this.record(tenantId, event)
      if (records.length >= MOST_RECORDS || bytes + record.value!.length > MOST_BYTES) await send()
      records.push(record)
      bytes += record.value!.length
    }
    await send()
  }
}
