// Retires instances that hold a part of budgets and are dead: after a day of silence, or when an operator has given
// them up. Every instance finds that a retirement is due; the first record counts, and contains what the requests topic
// has as spent and not reported.

import { isNothing } from '../../domain/budgets/amount.ts'
import type { InstanceRetired } from '../../domain/budgets/budget-events.ts'
import { type Holder, openHolders, silentSince } from '../../domain/budgets/holder.ts'
import type { RetirementRow } from '../../domain/budgets/retirement.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { type EventLog, IndefiniteAppend, LogUnavailable } from '../../log/port.ts'
import { type BudgetLedger, BudgetWriter, LEASE_MS, statementOf } from '../../state/budgets/budgets.ts'
import { partsOf } from './retirement-parts.ts'
import { beyondReported, sumKey, unsettledOf } from './unsettled-spending.ts'

const EVERY_MS = 5_000
/** An instance that was silent for so long and holds leases is dead. */
const SILENCE_MS = 86_400_000
/**
 * An instance whose last record is younger may still spend: its lease, and the difference between the clocks of
 * brokers.
 */
export const ACTIVE_MS = LEASE_MS + 30_000
/** Requests that began so long before the last record of an instance are over. */
const OLDEST_REQUEST_MS = 7_200_000
/** Not all instances read the requests topic for the same retirement. */
const SPREAD_MS = 10_000
/** A retirement that failed is tried again after this: each try reads outcomes of hours. */
const AGAIN_MS = 60_000

export interface RetirementDeps {
  readonly log: EventLog
  readonly ledger: BudgetLedger
  readonly instance: string
  /** The instances that operators gave up. */
  retirements(): Iterable<RetirementRow>
  /** Whether all instances understand a retirement in several records. */
  inParts(): boolean
  nowMs(): number
  newEpoch(): string
  readonly random: () => number
  readonly diagnostics: Diagnostics
  readonly silenceMs?: number
  readonly everyMs?: number
}

export interface Retirement {
  /** Checks now, besides every few seconds. Resolves when it has written what was due. */
  look(): Promise<void>
  stop(): Promise<void>
}

export const startRetirement = (deps: RetirementDeps): Retirement => {
  const retiring = new Retiring(deps)
  const look = () => retiring.run()
  const timer = setInterval(() => void look(), deps.everyMs ?? EVERY_MS)
  timer.unref()
  return {
    look,
    async stop() {
      clearInterval(timer)
      await retiring.stop()
    },
  }
}

interface Due {
  readonly instance: string
  readonly beforeMs: number
  readonly reason: InstanceRetired['reason']
}

class Retiring {
  readonly #writer: BudgetWriter
  readonly #stopping = new AbortController()
  /** When the retirement that was first found due is handled here, by tenant and instance. */
  readonly #whenMs = new Map<string, number>()
  #running: Promise<void> | null = null

  constructor(private readonly deps: RetirementDeps) {
    this.#writer = new BudgetWriter(deps, deps.newEpoch())
  }

  run(): Promise<void> {
    this.#running ??= this.#all().finally(() => {
      this.#running = null
    })
    return this.#running
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  async #all(): Promise<void> {
    const { ledger, diagnostics } = this.deps
    const seen = new Set<string>()
    for (const tenantId of [...ledger.tenants()]) {
      if (this.#stopping.signal.aborted) return
      try {
        for (const due of await this.#dueIn(tenantId)) {
          const name = `${tenantId} ${due.instance}`
          seen.add(name)
          if (this.#isTime(name)) await this.#retire(tenantId, due)
        }
      } catch (error) {
        // Due again with the next round, and harmless twice.
        if (!(error instanceof LogUnavailable || error instanceof IndefiniteAppend || this.#stopping.signal.aborted))
          diagnostics.warn('instances_not_retired', { tenant_id: tenantId, error })
      }
    }
    for (const name of this.#whenMs.keys()) if (!seen.has(name)) this.#whenMs.delete(name)
  }

  #isTime(name: string): boolean {
    const nowMs = this.deps.nowMs()
    const whenMs = this.#whenMs.get(name) ?? nowMs + this.deps.random() * SPREAD_MS
    this.#whenMs.set(name, whenMs)
    return nowMs >= whenMs
  }

  async #dueIn(tenantId: string): Promise<Due[]> {
    const { ledger, retirements, instance: own, silenceMs = SILENCE_MS } = this.deps
    const accounts = [...(ledger.accounts(tenantId)?.all() ?? [])]
    const { logAtMs } = ledger.place(tenantId)
    const due = new Map<string, Due>()
    let isStale = false
    for (const { id, at_ms } of retirements()) {
      const beforeMs = Math.min(at_ms, logAtMs - ACTIVE_MS)
      for (const account of accounts)
        for (const { at_ms: lastMs } of openHolders(account, id)) {
          if (lastMs < beforeMs) due.set(id, { instance: id, beforeMs, reason: 'operator' })
          else isStale ||= lastMs < at_ms && this.deps.nowMs() - lastMs > ACTIVE_MS
        }
    }
    // Without writes log time stands still: a statement moves it.
    if (isStale) await this.#writer.append(tenantId, statementOf(ledger, tenantId), ledger)
    const beforeMs = logAtMs - silenceMs
    for (const account of accounts)
      for (const instance of silentSince(account, beforeMs))
        if (!due.has(instance)) due.set(instance, { instance, beforeMs, reason: 'silence' })
    due.delete(own)
    return [...due.values()]
  }

  async #retire(tenantId: string, { instance, beforeMs, reason }: Due): Promise<void> {
    const { ledger, log, diagnostics } = this.deps
    const holders: { account: string; holder: Holder }[] = []
    for (const account of ledger.accounts(tenantId)?.all() ?? [])
      for (const holder of openHolders(account, instance))
        if (holder.at_ms < beforeMs) holders.push({ account: account.account, holder })
    if (holders.length === 0) return
    const sinceMs = Math.min(...holders.map(({ holder }) => holder.at_ms)) - OLDEST_REQUEST_MS
    const sums = await unsettledOf(log, { tenantId, instance, sinceMs }, this.#stopping.signal)
    const orphaned = holders.flatMap(({ account, holder }) => {
      const known = sums.get(sumKey(account, holder.holder))
      const spent = known === undefined ? null : beyondReported(known, holder)
      return spent === null || isNothing(spent) ? [] : [{ account, holder: holder.holder, spent, lastMs: holder.at_ms }]
    })
    const parts = partsOf(orphaned, beforeMs)
    if (parts === null || (parts.length > 1 && !this.deps.inParts())) {
      diagnostics.error('instance_not_retired', { instance, tenant_id: tenantId, open: orphaned.length })
      this.#whenMs.set(`${tenantId} ${instance}`, this.deps.nowMs() + AGAIN_MS)
      return
    }
    const events = parts.map((part) => {
      const data = { instance, reason, ...part }
      return { type: 'instance.retired', data } as const
    })
    await this.#writer.append(tenantId, events, ledger)
    diagnostics.warn('instance_retired', { instance, tenant_id: tenantId, reason, open: orphaned.length })
  }
}
